"""Which Fourier coefficients of each frame were measured, and the transforms between frames and those coefficients.

Operators for one coil and for several (:mod:`rankwolf.sensing.fourier`) are made of this.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from rankwolf.ground.arrays import Array
from rankwolf.sensing.axes import centring_phase

# Pixels that are transformed at a time, or else one frame: 2 MB of real numbers.
PIECE_ENTRIES = 2**18


class KeptFrequencies:
    """The p places of k-space where ``mask`` (frames, height, width), zero frequency first, is True.

    With ``centred`` the user's origin is in the middle of the image, and coefficients differ from those for an origin
    at the first pixel by a phase: :meth:`turned`. The other methods know the first pixel as the origin. ``pieces`` are
    (frames, coefficients), slices of the frames and of the p, of groups of frames that are transformed together.
    """

    def __init__(self, mask: Array, centred: bool) -> None:
        self.mask, self.size = mask, int(mask.sum())
        self.frames, self.frame_shape = mask.shape[0], (mask.shape[1], mask.shape[2])
        self.pixels = self.frame_shape[0] * self.frame_shape[1]
        t, y, x = np.nonzero(mask)
        self.frame_of, self.frequency_of = t, np.ravel_multi_index((y, x), self.frame_shape)
        self.pieces = _pieces(mask)
        self._places = np.ravel_multi_index((t, y, x), mask.shape)
        self._phase = centring_phase(self.frame_shape)[y, x] if centred else None
        self._half_spectrum(t, y, x)

    def _half_spectrum(self, t: Array, y: Array, x: Array) -> None:
        """Note where each coefficient, or its mirror image, its conjugate, stands in the half that rfft2 computes."""
        height, width = self.frame_shape
        self._half_shape = (height, width // 2 + 1)
        self._half_size = height * (width // 2 + 1)
        self._mirrored = x > width // 2
        y = np.where(self._mirrored, -y % height, y)
        x = np.where(self._mirrored, width - x, x)
        height_of = np.where((x == 0) | (2 * x == width), np.minimum(y, -y % height), y)
        self._half_pairs = np.ravel_multi_index((t, height_of, x), (self.frames, *self._half_shape))
        self._half_places = np.ravel_multi_index((t, y, x), (self.frames, *self._half_shape))
        # irfft2 adds the mirror image of a frequency if that is not in the half itself: such a frequency gets ½.
        alone = (x == 0) | (2 * x == width)
        self._half_weights = np.where(alone, 1.0, 0.5)

    def places(self, real: bool) -> Array:
        """A number for each coefficient: that of its place; with ``real``, mirror images share theirs."""
        if not real:
            return np.arange(self.size)
        return np.unique(self._half_pairs, return_inverse=True)[1]

    def coefficients(self, rows: Array, frames: slice, samples: slice) -> Array:
        """The kept coefficients of a piece, whose frames are ``rows``."""
        images = rows.reshape(-1, *self.frame_shape)
        if np.iscomplexobj(images):
            spectrum = np.asarray(scipy.fft.fft2(images, norm="ortho")).reshape(-1)
            return np.asarray(spectrum[self._places[samples] - frames.start * self.pixels])
        spectrum = np.asarray(scipy.fft.rfft2(images, norm="ortho")).reshape(-1)
        values = spectrum[self._half_places[samples] - frames.start * self._half_size]
        return np.asarray(np.conjugate(values, out=values, where=self._mirrored[samples]))

    def coefficients_of_factors(self, left: Array, right: Array) -> Array:
        """All p of left·rightᵀ: the transform of frame t of u vᵀ is u_t times that of v."""
        spectrum = self.transformed(right, scipy.fft.fft2)
        return np.asarray(np.einsum("kr,kr->k", left[self.frame_of], spectrum[self.frequency_of]))

    def images(self, values: Array, frames: slice, samples: slice) -> Array:
        """The frames of a piece, one in a row: inverse transforms of ``values``, all p, with zeros for the others."""
        count = frames.stop - frames.start
        spectrum = np.zeros(count * self.pixels, values.dtype)
        spectrum[self._places[samples] - frames.start * self.pixels] = values[samples]
        images = scipy.fft.ifft2(spectrum.reshape(count, *self.frame_shape), norm="ortho", overwrite_x=True)
        return np.asarray(images).reshape(count, -1)

    def real_images(self, values: Array, frames: slice, samples: slice) -> Array:
        """The real part of :meth:`images`, at half the work."""
        count, mirrored = frames.stop - frames.start, self._mirrored[samples]
        half = np.zeros(count * self._half_size, values.dtype)
        places = self._half_places[samples] - frames.start * self._half_size
        share = values[samples] * self._half_weights[samples].astype(values.real.dtype)
        np.conjugate(share, out=share, where=mirrored)
        # A place may take a coefficient and its mirror image: two assignments, each without repetition.
        half[places[~mirrored]] = share[~mirrored]
        half[places[mirrored]] += share[mirrored]
        spectrum = half.reshape(count, *self._half_shape)
        images = scipy.fft.irfft2(spectrum, s=self.frame_shape, norm="ortho", overwrite_x=True)
        return np.asarray(images).reshape(count, -1)

    def turned(self, values: Array, forward: bool) -> Array:
        """Coefficients whose origin is moved from the first pixel to the user's (``forward``), or back.

        The two differ where k-space is centred: by ``centring_phase``.
        """
        if self._phase is None:
            return values.astype(np.result_type(values.dtype, np.complex64), copy=False)
        phase = self._phase.astype(np.result_type(values.dtype, np.complex64))
        return np.asarray(values * (phase if forward else phase.conj()))

    def transformed(self, block: Array, transform: Any) -> Array:
        """F or F̄, by ``transform``, scipy's fft2 or ifft2, on the columns of ``block``, which are images."""
        images = block.reshape(*self.frame_shape, -1)
        return np.asarray(transform(images, axes=(0, 1), norm="ortho")).reshape(block.shape)


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
