"""Some Fourier coefficients of each frame of a series: with one coil (``PartialFourier``) or several (``Sense``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
import scipy.sparse

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad, check_shape, check_whole
from rankwolf.sensing.axes import AxisOrder, centring_phase
from rankwolf.sensing.base import Products, Sensing
from rankwolf.sensing.masks import random_mask

# Pixels that are transformed at a time, or else one frame: 2 MB of real numbers.
PIECE_ENTRIES = 2**18


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
        self.mask = self._axes.mask(kept, frames)
        self.frames, self.frame_shape = self.mask.shape[0], (self.mask.shape[1], self.mask.shape[2])
        pixels = self.frame_shape[0] * self.frame_shape[1]
        super().__init__((self.frames, pixels), int(self.mask.sum()), np.complex128)
        t, y, x = np.nonzero(self.mask)
        self._places = np.ravel_multi_index((t, y, x), self.mask.shape)
        self._frame_of, self._frequency_of = t, np.ravel_multi_index((y, x), self.frame_shape)
        self._phase = centring_phase(self.frame_shape)[y, x] if centred else None
        self._half_spectrum(t, y, x)
        self._pieces = _pieces(self.mask)

    @classmethod
    def random(cls, size: int, frames: int, frame_shape: Any, seed: int) -> PartialFourier:
        """An operator that keeps ``size`` coefficients, drawn without replacement from all frames."""
        height, width = check_shape(frame_shape, "PartialFourier.random")
        frames = check_whole("frames", frames, 1, "PartialFourier.random")
        return cls(random_mask(size, (frames, height, width), seed), time="first")

    def _half_spectrum(self, t: Array, y: Array, x: Array) -> None:
        """Note where each coefficient, or its mirror image, its conjugate, stands in the half that rfft2 computes."""
        height, width = self.frame_shape
        self._half_shape = (height, width // 2 + 1)
        self._half_size = height * (width // 2 + 1)
        self._mirrored = x > width // 2
        y = np.where(self._mirrored, -y % height, y)
        x = np.where(self._mirrored, width - x, x)
        self._half_places = np.ravel_multi_index((t, y, x), (self.frames, *self._half_shape))
        # irfft2 adds the mirror image of a frequency if that is not in the half itself: such a frequency gets ½.
        alone = (x == 0) | (2 * x == width)
        self._half_weights = np.where(alone, 1.0, 0.5)

    def as_vector(self, b: Array) -> Array:
        """The kept coefficients, of k-space in the mask's shape; a vector as it is."""
        return b if b.ndim == 1 else self._axes.k_space(b, self.frames, self.frame_shape, None)[self.mask]

    def apply(self, matrix: Array) -> Array:
        """The kept coefficients, frame after frame: O(mn·log(n)) operations, memory of a few frames."""
        values = np.empty(self.size, np.result_type(matrix.dtype, np.complex64))
        for frames, samples in self._pieces:
            values[samples] = self._coefficients(matrix[frames], frames, samples)
        return self._turned(values, forward=True)

    def _coefficients(self, rows: Array, frames: slice, samples: slice) -> Array:
        """The kept coefficients of some frames, for an origin at the first pixel."""
        images = rows.reshape(-1, *self.frame_shape)
        if np.iscomplexobj(images):
            spectrum = np.asarray(scipy.fft.fft2(images, norm="ortho")).reshape(-1)
            return np.asarray(spectrum[self._places[samples] - frames.start * self.shape[1]])
        spectrum = np.asarray(scipy.fft.rfft2(images, norm="ortho")).reshape(-1)
        values = spectrum[self._half_places[samples] - frames.start * self._half_size]
        return np.asarray(np.conjugate(values, out=values, where=self._mirrored[samples]))

    def adjoint(self, values: Array) -> Array:
        """The inverse transform of the coefficients with zeros for the others."""
        turned = self._turned(values, forward=False)
        result = np.empty(self.shape, turned.dtype)
        for frames, samples in self._pieces:
            result[frames] = self._images(turned, frames, samples)
        return result

    def _images(self, turned: Array, frames: slice, samples: slice) -> Array:
        """Some frames of A*y, from coefficients for an origin at the first pixel."""
        count = frames.stop - frames.start
        spectrum = np.zeros(count * self.shape[1], turned.dtype)
        spectrum[self._places[samples] - frames.start * self.shape[1]] = turned[samples]
        images = scipy.fft.ifft2(spectrum.reshape(count, *self.frame_shape), norm="ortho", overwrite_x=True)
        return np.asarray(images).reshape(count, -1)

    def real_adjoint(self, values: Array) -> Array:
        """Re(A*y) by the inverse real transform, at half the work."""
        turned = self._turned(values, forward=False)
        result = np.empty(self.shape, turned.real.dtype)
        for frames, samples in self._pieces:
            count, mirrored = frames.stop - frames.start, self._mirrored[samples]
            half = np.zeros(count * self._half_size, turned.dtype)
            places = self._half_places[samples] - frames.start * self._half_size
            share = turned[samples] * self._half_weights[samples].astype(result.dtype)
            np.conjugate(share, out=share, where=mirrored)
            # A place may take a coefficient and its mirror image: two assignments, each without repetition.
            half[places[~mirrored]] = share[~mirrored]
            half[places[mirrored]] += share[mirrored]
            spectrum = half.reshape(count, *self._half_shape)
            images = scipy.fft.irfft2(spectrum, s=self.frame_shape, norm="ortho", overwrite_x=True)
            result[frames] = np.asarray(images).reshape(count, -1)
        return result

    def _turned(self, values: Array, forward: bool) -> Array:
        """Coefficients whose origin is moved from the first pixel to the user's (``forward``), or back.

        The two differ where k-space is centred: by ``centring_phase``.
        """
        if self._phase is None:
            return values.astype(np.result_type(values.dtype, np.complex64), copy=False)
        phase = self._phase.astype(np.result_type(values.dtype, np.complex64))
        return np.asarray(values * (phase if forward else phase.conj()))

    def apply_factors(self, left: Array, right: Array) -> Array:
        """A[left·rightᵀ]: the transform of frame t of u vᵀ is u_t times that of v. r transforms and p·r operations."""
        spectrum = self._transform(right, scipy.fft.fft2)
        values = np.einsum("kr,kr->k", left[self._frame_of], spectrum[self._frequency_of])
        return self._turned(values, forward=True)

    def adjoint_products(self, values: Array) -> Products:
        """Products with G = Re(Y·F̄): Gv = Re(Y·(F̄v)) and Gᵀu = Re(F̄·(Yᵀu)), one transform each."""
        sparse = scipy.sparse.csr_array(
            (self._turned(values, forward=False), (self._frame_of, self._frequency_of)), shape=self.shape
        )
        transposed = sparse.T.tocsr()
        return Products(
            lambda block: np.asarray((sparse @ self._transform(block, scipy.fft.ifft2)).real),
            lambda block: np.asarray(self._transform(transposed @ block, scipy.fft.ifft2).real),
        )

    def _transform(self, block: Array, transform: Any) -> Array:
        """F or F̄ on the columns of ``block``."""
        images = block.reshape(*self.frame_shape, -1)
        return np.asarray(transform(images, axes=(0, 1), norm="ortho")).reshape(block.shape)

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
        mask = self._axes.mask(kept, frames)
        # This mask has its zero frequency first. The one-coil operator expects it in the middle where it is centred.
        turned = np.fft.fftshift(mask, axes=(1, 2)) if centred else mask
        self._coil = PartialFourier(turned, time="first", centred=centred)
        self._maps = self._axes.maps(maps, self._coil.frame_shape).reshape(-1, self._coil.shape[1])
        self.coils = self._maps.shape[0]
        super().__init__(self._coil.shape, self.coils * self._coil.size, np.complex128)

    def as_vector(self, b: Array) -> Array:
        """The kept coefficients, coil after coil, of all of k-space; a vector as it is."""
        if b.ndim == 1:
            return b
        coil = self._coil
        k_space = self._axes.k_space(b, coil.frames, coil.frame_shape, self.coils)
        return np.concatenate([k_space[:, c][coil.mask] for c in range(self.coils)])

    def _maps_like(self, array: Array) -> Array:
        return self._maps.astype(np.result_type(array.dtype, np.complex64), copy=False)

    def apply(self, matrix: Array) -> Array:
        """The kept coefficients of the first coil, then of the second, …"""
        coil, maps = self._coil, self._maps_like(matrix)
        values = np.empty((self.coils, coil.size), maps.dtype)
        for frames, samples in coil._pieces:
            for share, coil_map in zip(values, maps, strict=True):
                share[samples] = coil._coefficients(matrix[frames] * coil_map, frames, samples)
        for share in values:
            share[:] = coil._turned(share, forward=True)
        return values.ravel()

    def adjoint(self, values: Array) -> Array:
        """Σ_c conj(map_c)·F*(y_c)."""
        coil, maps = self._coil, self._maps_like(values)
        turned = np.stack([coil._turned(share, forward=False) for share in values.reshape(self.coils, -1)])
        result = np.zeros(self.shape, maps.dtype)
        for frames, samples in coil._pieces:
            for share, coil_map in zip(turned, maps, strict=True):
                images = coil._images(share, frames, samples)
                images *= coil_map.conj()
                result[frames] += images
        return result

    def apply_factors(self, left: Array, right: Array) -> Array:
        """A[left·rightᵀ]: each coil's coefficients are those of u·(map∘v)ᵀ, summed over the columns u and v."""
        maps = self._maps_like(right)
        return np.concatenate(
            [self._coil.apply_factors(left, coil_map[:, None] * right) for coil_map in maps]
        )

    @property
    def norm(self) -> float:
        """max over the pixels of √Σ_c|map_c|²."""
        return float(np.max(self.column_bound()) ** 0.5)

    def column_bound(self) -> Array:
        """e = Σ_c|map_c|² of each pixel, the same for every frame."""
        return np.broadcast_to(np.sum(np.abs(self._maps) ** 2, axis=0), self.shape)


def _pieces(mask: Array) -> list[tuple[slice, slice]]:
    """(frames, coefficients) of groups of frames with about ``PIECE_ENTRIES`` pixels: slices of frames and of the p."""
    counts = np.concatenate([[0], np.cumsum(mask.sum(axis=(1, 2)))])
    step = max(1, PIECE_ENTRIES // (mask.shape[1] * mask.shape[2]))
    starts = range(0, mask.shape[0], step)
    ends = [min(start + step, mask.shape[0]) for start in starts]
    return [
        (slice(start, end), slice(int(counts[start]), int(counts[end])))
        for start, end in zip(starts, ends, strict=True)
    ]


def check_points(points: Any, where: str) -> Array:
    """k-space positions as an array of shape (frames, samples, 2); an error unless they are finite numbers."""
    given = np.asarray(points)
    if given.ndim < 3 or given.shape[-1] != 2 or given.dtype.kind not in "iuf" or not given.size:
        raise bad(
            "points",
            "k-space positions of shape (frames, …, 2), the row's frequency before the column's",
            f"shape {given.shape}, dtype {given.dtype}",
            where,
        )
    if not np.all(np.isfinite(given)):
        raise bad("points", "finite", "NaN or infinite positions", where)
    return given.reshape(given.shape[0], -1, 2).astype(np.float64)
