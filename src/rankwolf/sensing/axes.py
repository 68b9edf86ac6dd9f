"""Shapes in which people keep masks, k-space and coil maps, turned into the ones that the operators work with.

Inside, time comes first: masks are (frames, height, width), k-space of several coils is (frames, coils, height, width),
maps are (coils, height, width), and the zero frequency is the first. ``time`` and ``centred`` say what was given. A
mask that may well have its frames last, because its first two axes are equally long or its last one is the shortest,
is refused until ``time`` says which:

===================  ========================================  =======================================
                     ``time="first"`` (the default)            ``time="last"``
===================  ========================================  =======================================
mask                 (frames, height, width)                   (height, width, frames)
k-space, one coil    (frames, height, width)                   (height, width, frames)
k-space, coils       (frames, coils, height, width)            (height, width, frames, coils)
coil maps            (coils, height, width)                    (height, width, coils)
===================  ========================================  =======================================

A mask of two dimensions serves every frame; ``frames`` is then their number. ``centred=True``: the zero frequency is in
the middle of the mask and of k-space, and the origin in the middle of the images, as scanners store them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import as_numbers, bad, check_choice, check_whole


@dataclass(frozen=True)
class AxisOrder:
    """The order of axes in the user's masks, k-space and maps. ``where`` names the operator in errors."""

    time: str
    centred: bool
    where: str
    guessed: bool = False
    """Whether ``time`` is the default, because the user did not say it."""

    @classmethod
    def checked(cls, time: Any, centred: Any, where: str) -> AxisOrder:
        """The order that the user's ``time`` and ``centred`` say; an error where one is not among its choices."""
        if not isinstance(centred, bool):
            raise bad("centred", "True or False", repr(centred), where)
        if time is None:
            return cls("first", centred, where, guessed=True)
        return cls(check_choice("time", time, ("first", "last"), where), centred, where)

    def mask(self, kept: Any, frames: Any) -> Array:
        """The user's mask as (frames, height, width), zero frequency first."""
        given = as_numbers("kept", kept, self.where)
        if given.dtype != np.bool_ or given.ndim not in (2, 3) or not given.any():
            raise bad(
                "kept",
                "a boolean array of 3 dimensions (or 2, with frames=) with at least one True",
                f"shape {given.shape}, dtype {given.dtype}",
                self.where,
                "A mask of zeros and ones is made boolean by mask != 0.",
            )
        if given.ndim == 2:
            if frames is None:
                raise bad("frames", "their number where one mask serves all of them", "None", self.where)
            mask = np.broadcast_to(given, (check_whole("frames", frames, 1, self.where), *given.shape))
        else:
            if self.guessed and frames is None and _may_be_last(given.shape):
                raise bad(
                    "time",
                    f"'first' or 'last' for a mask of shape {given.shape}, which may be either",
                    "None",
                    self.where,
                    "Or give frames=.",
                )
            mask = given if self.time == "first" else np.moveaxis(given, 2, 0)
            if frames is not None and frames != mask.shape[0]:
                raise bad(
                    "frames",
                    f"{mask.shape[0]}, the length of the mask's {self.time} axis",
                    repr(frames),
                    self.where,
                    "time='first' or time='last' says where the frames are.",
                )
        return np.fft.ifftshift(mask, axes=(1, 2)) if self.centred else np.ascontiguousarray(mask)

    def maps(self, maps: Any, frame_shape: tuple[int, int]) -> Array:
        """The user's coil maps as (coils, height, width)."""
        given = as_numbers("maps", maps, self.where)
        order = "(coils, height, width)" if self.time == "first" else "(height, width, coils)"
        if given.dtype.kind not in "biufc" or given.ndim != 3 or not np.all(np.isfinite(given)):
            raise bad("maps", f"finite numbers of shape {order}", f"shape {given.shape}", self.where)
        stacked = given if self.time == "first" else np.moveaxis(given, 2, 0)
        if stacked.shape[1:] != frame_shape:
            rule = f"of shape {order}, {frame_shape[0]} × {frame_shape[1]} as the mask"
            raise bad("maps", rule, f"shape {given.shape}", self.where, "See time=.")
        return np.ascontiguousarray(stacked, np.result_type(stacked.dtype, np.complex64))

    def k_space(self, b: Array, frames: int, frame_shape: tuple[int, int], coils: int | None) -> Array:
        """The user's k-space as (frames, height, width), or (frames, coils, height, width); zero frequency first."""
        inner = (frames,) if coils is None else (frames, coils)
        wanted = (*inner, *frame_shape) if self.time == "first" else (*frame_shape, *inner)
        if b.shape != wanted:
            raise bad(
                "b",
                f"k-space of shape {wanted} (time={self.time!r}), or a vector",
                f"shape {b.shape}",
                "recover",
            )
        ordered = b if self.time == "first" else np.moveaxis(b, (0, 1), (-2, -1))
        return np.fft.ifftshift(ordered, axes=(-2, -1)) if self.centred else ordered


def _may_be_last(shape: tuple[int, ...]) -> bool:
    """Whether frames may be the last axis: the first two are equally long (square frames), or the last is shortest."""
    first, second, third = shape
    return first == second or third < min(first, second)


def centring_phase(frame_shape: tuple[int, int]) -> Array:
    """The factors by which Fourier coefficients change when the origin moves to the middle of the image."""
    phases = [np.exp(2j * np.pi * (np.arange(side) * (side // 2) % side) / side) for side in frame_shape]
    return np.asarray(np.multiply.outer(*phases))
