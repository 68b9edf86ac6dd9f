"""Snapshots of a video through a moving mask (coded aperture compressive temporal imaging)."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import as_numbers, bad, check_whole
from rankwolf.sensing.base import Sensing


class CodedAperture(Sensing):
    """A camera that takes one picture for every B frames: the sum of the frames, each multiplied by its mask.

    ``masks`` are B real or boolean images, shape (B, height, width); every group of B frames passes through the same
    ones. ``snapshots`` is the number of pictures. Masks that change from picture to picture have the shape (snapshots,
    B, height, width). The matrix has B·snapshots rows, one for each frame, and height·width
    columns. b is an array of shape (snapshots, height, width), or the same as a vector.

    A frame's pixel enters one pixel of one picture, so that AA* = diag(Σ_t mask_t²). A product costs mn operations.

    >>> import numpy as np
    >>> from rankwolf.sensing import CodedAperture
    >>> A = CodedAperture(np.array([[[1.0, 0.0]], [[1.0, 1.0]]]), snapshots=2)
    >>> A.apply(np.arange(8.0).reshape(4, 2))
    array([ 2.,  3., 10.,  7.])
    """

    def __init__(self, masks: Any, snapshots: int = 1) -> None:
        given = as_numbers("masks", masks, "CodedAperture")
        if given.ndim not in (3, 4) or given.dtype.kind not in "biuf" or not np.all(np.isfinite(given)):
            got = f"shape {given.shape}, dtype {given.dtype}"
            raise bad(
                "masks",
                "finite real numbers of shape (B, height, width) or (snapshots, B, height, width)",
                got,
                "CodedAperture",
            )
        if not np.any(given):
            raise bad("masks", "open somewhere", "zeros alone", "CodedAperture")
        self.snapshots = check_whole("snapshots", snapshots, 1, "CodedAperture")
        if given.ndim == 4:
            if snapshots not in (1, len(given)):
                raise bad(
                    "snapshots", f"{len(given)}, as many as masks has", repr(snapshots), "CodedAperture"
                )
            self.snapshots = len(given)
        self.frame_shape = (given.shape[-2], given.shape[-1])
        steps, pixels = given.shape[-3], given.shape[-2] * given.shape[-1]
        # (1 or snapshots, B, pixels)
        self._masks = given.reshape(-1, steps, pixels).astype(np.float64)
        super().__init__((steps * self.snapshots, pixels), self.snapshots * pixels)

    def as_vector(self, b: Array) -> Array:
        """The measurements as a vector; ``b`` is one already, or has the shape (snapshots, height, width)."""
        if b.ndim == 1:
            return b
        if b.shape != (self.snapshots, *self.frame_shape):
            rule = f"a vector or pictures of shape {(self.snapshots, *self.frame_shape)}"
            raise bad("b", rule, f"shape {b.shape}", "recover")
        return b.ravel()

    def _like(self, array: Array) -> Array:
        return self._masks.astype(array.real.dtype, copy=False)

    def apply(self, matrix: Array) -> Array:
        """The pictures, one after the other, as a vector."""
        groups = matrix.reshape(self.snapshots, *self._masks.shape[1:])
        masks = np.broadcast_to(self._like(matrix), groups.shape)
        return np.asarray(np.einsum("sbp,sbp->sp", groups, masks)).ravel()

    def adjoint(self, values: Array) -> Array:
        """For every frame, the picture that it is part of times its mask."""
        pictures = values.reshape(self.snapshots, 1, -1)
        return np.asarray(pictures * self._like(values)).reshape(self.shape)

    @property
    def norm(self) -> float:
        """The largest √Σ_t mask_t² of a pixel."""
        return float(np.max(self.row_bound(real=True)) ** 0.5)

    @property
    def semi_orthogonal(self) -> float | None:
        """c = Σ_t mask_t² where that is the same for every pixel, else None."""
        squares = self.row_bound(real=True)
        least, most = float(squares.min()), float(squares.max())
        return most if most - least <= 1e-14 * most else None

    def row_bound(self, real: bool) -> Array:
        """d = Σ_t mask_t² of every pixel of every picture: AA* = diag(d)."""
        squares = np.sum(self._masks**2, axis=1)
        return np.broadcast_to(squares, (self.snapshots, squares.shape[1])).ravel()
