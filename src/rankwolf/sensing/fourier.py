"""Some Fourier coefficients of each frame of a series: with one coil (``PartialFourier``) or several (``Sense``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
import scipy.sparse

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import check_shape, check_whole
from rankwolf.sensing.axes import AxisOrder
from rankwolf.sensing.base import Products, Sensing
from rankwolf.sensing.kept_frequencies import KeptFrequencies
from rankwolf.sensing.masks import random_mask


class PartialFourier(Sensing):
    """Some coefficients of the unitary two-dimensional Fourier transform of each frame; rows of the matrix are frames.

    ``kept`` is a boolean array of shape (frames, height, width), or (height, width, frames) with ``time="last"``, or
    (height, width) for all of ``frames=`` frames. ``centred=True`` means that the zero frequency is in the middle of
    the mask and of k-space (:mod:`rankwolf.sensing.axes`). The matrix is frames × (height·width). b is complex: all
    of k-space in the shape of the mask, of which only the kept places are read, or a vector of the kept coefficients,
    frame after frame.

    AA* = I. A product costs one transform of every frame, and half of that where the matrix is real. With Y the p
    coefficients as a sparse frames × pixels matrix and F the transform of one frame, A*y = Y·F̄, so that multiplying it
    with a vector costs p operations and *one* transform.

    >>> import numpy as np
    >>> from rankwolf.sensing import PartialFourier
    >>> A = PartialFourier(np.ones((3, 4, 5), dtype=bool))
    >>> X = np.arange(60.0).reshape(3, 20)
    >>> bool(np.allclose(A.real_adjoint(A.apply(X)), X))
    True
    """

    def __init__(
        self, kept: Any, *, frames: int | None = None, time: str | None = None, centred: bool = False
    ) -> None:
        self._axes = AxisOrder.checked(time, centred, "PartialFourier")
        self._kept = KeptFrequencies(self._axes.mask(kept, frames), centred)
        self.mask, self.frames, self.frame_shape = self._kept.mask, self._kept.frames, self._kept.frame_shape
        super().__init__((self.frames, self._kept.pixels), self._kept.size, np.complex128)

    @classmethod
    def random(cls, size: int, frames: int, frame_shape: Any, seed: int) -> PartialFourier:
        """An operator that keeps ``size`` coefficients, drawn without replacement from all frames."""
        height, width = check_shape(frame_shape, "PartialFourier.random")
        frames = check_whole("frames", frames, 1, "PartialFourier.random")
        return cls(random_mask(size, (frames, height, width), seed), time="first")

    def as_vector(self, b: Array) -> Array:
        """The kept coefficients, of k-space in the mask's shape; a vector as it is."""
        return b if b.ndim == 1 else self._axes.k_space(b, self.frames, self.frame_shape, None)[self.mask]

    def apply(self, matrix: Array) -> Array:
        """The kept coefficients, frame after frame: O(mn·log(n)) operations, memory of a few frames."""
        values = np.empty(self.size, np.result_type(matrix.dtype, np.complex64))
        for frames, samples in self._kept.pieces:
            values[samples] = self._kept.coefficients(matrix[frames], frames, samples)
        return self._kept.turned(values, forward=True)

    def adjoint(self, values: Array) -> Array:
        """The inverse transform of the coefficients with zeros for the others."""
        turned = self._kept.turned(values, forward=False)
        result = np.empty(self.shape, turned.dtype)
        for frames, samples in self._kept.pieces:
            result[frames] = self._kept.images(turned, frames, samples)
        return result

    def real_adjoint(self, values: Array) -> Array:
        """Re(A*y) by the inverse real transform, at half the work."""
        turned = self._kept.turned(values, forward=False)
        result = np.empty(self.shape, turned.real.dtype)
        for frames, samples in self._kept.pieces:
            result[frames] = self._kept.real_images(turned, frames, samples)
        return result

    def apply_factors(self, left: Array, right: Array) -> Array:
        """A[left·rightᵀ]: the transform of frame t of u vᵀ is u_t times that of v. r transforms and p·r operations."""
        return self._kept.turned(self._kept.coefficients_of_factors(left, right), forward=True)

    def adjoint_products(self, values: Array) -> Products:
        """Products with G = Re(Y·F̄): Gv = Re(Y·(F̄v)) and Gᵀu = Re(F̄·(Yᵀu)), one transform each."""
        kept = self._kept
        sparse = scipy.sparse.csr_array(
            (kept.turned(values, forward=False), (kept.frame_of, kept.frequency_of)), shape=self.shape
        )
        transposed = sparse.T.tocsr()
        return Products(
            lambda block: np.asarray((sparse @ kept.transformed(block, scipy.fft.ifft2)).real),
            lambda block: np.asarray(kept.transformed(transposed @ block, scipy.fft.ifft2).real),
        )

    def groups(self, real: bool) -> Array | None:
        """The two mirror images of a frequency, for real matrices."""
        return self._kept.places(True) if real else None

    @property
    def semi_orthogonal(self) -> float:
        """c = 1: AA* = I."""
        return 1.0

    def row_bound(self, real: bool) -> Array | float:
        """1; with ``real``, ½ for a coefficient whose mirror image was not measured.

        In the spectrum of a real matrix, a frequency and its mirror image have half of their common energy each.
        """
        if not real:
            return 1.0
        _, height, width = self.mask.shape
        y, x = -np.arange(height) % height, -np.arange(width) % width
        mirror = self.mask[:, y][:, :, x]
        self_mirrored = (y == np.arange(height))[:, None] & (x == np.arange(width))
        return np.where((mirror | self_mirrored)[self.mask], 1.0, 0.5)


class Sense(Sensing):
    """Parallel imaging with known coil sensitivities: some Fourier coefficients of map_c·frame_t for every coil c.

    ``kept`` has shape (frames, height, width), ``maps`` (coils, height, width) and b, all of k-space, (frames, coils,
    height, width); with ``time="last"``, (height, width, frames), (height, width, coils) and (height, width, frames,
    coils). ``frames=`` and ``centred=`` are those of :class:`PartialFourier`. b may also be a vector: the kept
    coefficients of the first coil, then those of the second, … L and S are complex unless ``recover`` is told
    ``dtype=float``.

    ‖A‖ is at most the largest √Σ_c|map_c|² of a pixel: 1 for normalised maps. A product costs one transform of the
    series for each coil; its memory is that of a few frames beside the result, for any number of coils.

    >>> import numpy as np
    >>> from rankwolf.sensing import Sense
    >>> maps = np.full((4, 6, 5), 0.5)
    >>> A = Sense(np.ones((3, 6, 5), dtype=bool), maps)
    >>> A.size, A.norm
    (360, 1.0)
    """

    complex_unknown = True

    def __init__(
        self,
        kept: Any,
        maps: Any,
        *,
        frames: int | None = None,
        time: str | None = None,
        centred: bool = False,
    ) -> None:
        self._axes = AxisOrder.checked(time, centred, "Sense")
        self._kept = KeptFrequencies(self._axes.mask(kept, frames), centred)
        self._maps = self._axes.maps(maps, self._kept.frame_shape).reshape(-1, self._kept.pixels)
        self.coils = self._maps.shape[0]
        super().__init__((self._kept.frames, self._kept.pixels), self.coils * self._kept.size, np.complex128)

    def as_vector(self, b: Array) -> Array:
        """The kept coefficients, coil after coil, of all of k-space; a vector as it is."""
        if b.ndim == 1:
            return b
        k_space = self._axes.k_space(b, self._kept.frames, self._kept.frame_shape, self.coils)
        return np.concatenate([k_space[:, c][self._kept.mask] for c in range(self.coils)])

    def _maps_like(self, array: Array) -> Array:
        return self._maps.astype(np.result_type(array.dtype, np.complex64), copy=False)

    def apply(self, matrix: Array) -> Array:
        """The kept coefficients of the first coil, then of the second, …"""
        kept, maps = self._kept, self._maps_like(matrix)
        values = np.empty((self.coils, kept.size), maps.dtype)
        for frames, samples in kept.pieces:
            for share, coil_map in zip(values, maps, strict=True):
                share[samples] = kept.coefficients(matrix[frames] * coil_map, frames, samples)
        for share in values:
            share[:] = kept.turned(share, forward=True)
        return values.ravel()

    def adjoint(self, values: Array) -> Array:
        """Σ_c conj(map_c)·F*(y_c)."""
        kept, maps = self._kept, self._maps_like(values)
        turned = np.stack([kept.turned(share, forward=False) for share in values.reshape(self.coils, -1)])
        result = np.zeros(self.shape, maps.dtype)
        for frames, samples in kept.pieces:
            for share, coil_map in zip(turned, maps, strict=True):
                images = kept.images(share, frames, samples)
                images *= coil_map.conj()
                result[frames] += images
        return result

    def apply_factors(self, left: Array, right: Array) -> Array:
        """A[left·rightᵀ]: each coil's coefficients are those of u·(map∘v)ᵀ, summed over the columns u and v."""
        kept, maps = self._kept, self._maps_like(right)
        values = [kept.coefficients_of_factors(left, coil_map[:, None] * right) for coil_map in maps]
        return np.concatenate([kept.turned(share, forward=True) for share in values])

    def groups(self, real: bool) -> Array:
        """All coils at one place of k-space."""
        return np.tile(self._kept.places(real), self.coils)

    @property
    def norm(self) -> float:
        """max over the pixels of √Σ_c|map_c|²."""
        return float(np.max(self.column_bound()) ** 0.5)

    def column_bound(self) -> Array:
        """e = Σ_c|map_c|² of each pixel, the same for every frame."""
        return np.broadcast_to(np.sum(np.abs(self._maps) ** 2, axis=0), self.shape)
