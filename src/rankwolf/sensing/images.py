"""Fourier samples on a grid for images of any number of dimensions, in the array API: NumPy, torch, CuPy."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array, is_complex, is_on_device, like, namespace, to_numpy
from rankwolf.ground.complaints import bad
from rankwolf.sensing.base import Sensing


class GridFourier(Sensing):
    """Unitary Fourier transforms of (frames, …image), seen by coils, at the places that ``kept`` has.

    ``kept`` is a boolean array (frames, …image), zero frequency first. ``maps`` have the shape (coils, …image), or
    (frames, coils, …image) where they change in time. With ``sets`` they have one axis more, before that of the coils:
    several maps for each coil, as ESPIRiT gives; a frame then holds ``sets`` images, one after the other, whose k-space
    is added up. b has the shape (frames, coils, …image) or, without maps, (frames, …image).

    All of it stays on the device of b where ``kept`` or ``maps`` are tensors. A product costs a transform for each
    frame, coil and set.

    >>> import numpy as np
    >>> from rankwolf.sensing import GridFourier
    >>> A = GridFourier(np.ones((4, 2, 3, 5), bool), np.ones((8, 2, 3, 5)))
    >>> A.shape, A.size
    ((4, 30), 960)
    """

    takes_tensors = True

    def __init__(self, kept: Any, maps: Any = None, *, sets: int = 1) -> None:
        mask = to_numpy(kept)
        if mask.dtype != np.bool_ or mask.ndim < 2 or not mask.any():
            got = f"shape {mask.shape}, dtype {mask.dtype}"
            raise bad("kept", "a boolean array (frames, …image) with at least one True", got, "GridFourier")
        frames, image = mask.shape[0], mask.shape[1:]
        self._maps = _checked_maps(
            np.ones((1, *image)) if maps is None else to_numpy(maps), frames, image, sets
        )
        self.image_shape, self.sets, self.coils = image, sets, self._maps.shape[2]
        self.complex_unknown, self._has_coils = maps is not None, maps is not None
        self._mask = np.repeat(mask[:, None], self.coils, axis=1)
        size = int(np.count_nonzero(self._mask))
        super().__init__((frames, sets * prod(image)), size, np.complex128)
        self._places = np.flatnonzero(self._mask)
        self._on_device: dict[Any, tuple[Any, Any]] = {}

    def _parts(self, array: Any) -> tuple[Any, Any]:
        """Maps and places where ``array`` is, copied once."""
        if not is_on_device(array):
            return self._maps, self._places
        key = str(array.device)
        if key not in self._on_device:
            self._on_device[key] = like(self._maps, array), like(self._places, array)
        return self._on_device[key]

    def _axes(self) -> tuple[int, ...]:
        return tuple(range(-len(self.image_shape), 0))

    def apply(self, matrix: Any) -> Any:
        """The kept coefficients: frame after frame, in each coil after coil."""
        maps, places = self._parts(matrix)
        xp = namespace(matrix)
        images = matrix.reshape((self.shape[0], self.sets, 1, *self.image_shape)) * maps
        spectrum = xp.fft.fftn(xp.sum(images, axis=1), axes=self._axes(), norm="ortho")
        return xp.take(spectrum.reshape(-1), places)

    def adjoint(self, values: Any) -> Any:
        """Σ over coils of conj(map)·F*(y)."""
        maps, places = self._parts(values)
        xp = namespace(values)
        kind = values.dtype if is_complex(values) else xp.complex128
        where = {} if isinstance(values, np.ndarray) else {"device": values.device}
        spectrum = xp.zeros(self._mask.size, dtype=kind, **where)
        spectrum[places] = values
        spectrum = spectrum.reshape((self.shape[0], 1, self.coils, *self.image_shape))
        images = xp.fft.ifftn(spectrum, axes=self._axes(), norm="ortho")
        return xp.sum(xp.conj(maps) * images, axis=2).reshape(self.shape)

    def groups(self, real: bool) -> Array:
        """All coils at one place of a frame."""
        frame, _, *place = np.unravel_index(self._places, self._mask.shape)
        flat = np.ravel_multi_index((frame, *place), (self.shape[0], *self.image_shape))
        return np.unique(flat, return_inverse=True)[1]

    def as_vector(self, b: Array) -> Array:
        """The kept coefficients, of all of k-space; a vector as it is."""
        if b.ndim == 1:
            return b
        wanted = self._mask.shape if self._has_coils else (self.shape[0], *self.image_shape)
        if b.shape != wanted:
            raise bad("b", f"a vector or k-space of shape {wanted}", f"shape {b.shape}", "recover")
        return b.reshape(-1)[self._places]

    @property
    def norm(self) -> float:
        """max over the pixels of √Σ_c|map_c|², over the sets added up."""
        return float(np.max(np.sum(np.abs(self._maps) ** 2, axis=(1, 2))) ** 0.5)

    @property
    def semi_orthogonal(self) -> float | None:
        """c = 1 for one coil without maps."""
        return None if self._has_coils else 1.0


def _checked_maps(maps: Array, frames: int, image: tuple[int, ...], sets: int) -> Array:
    """Maps of shape (1 or frames, sets, coils, …image)."""
    lead = maps.ndim - len(image)
    order = "(coils, …image)" if sets == 1 else "(sets, coils, …image)"
    least = 1 if sets == 1 else 2
    timed = lead == least + 1
    found = maps if timed else maps[None]
    if sets == 1:
        found = found[:, None] if lead in (1, 2) else found
    good = lead in (least, least + 1) and found.shape[3:] == image and found.shape[1] == sets
    if not good or found.shape[0] not in (1, frames) or not np.all(np.isfinite(found)):
        rule = f"finite numbers of shape {order} for images of shape {image}, or that with frames first"
        raise bad("maps", rule, f"shape {maps.shape}", "GridFourier")
    return np.ascontiguousarray(found, np.result_type(found.dtype, np.complex64))
