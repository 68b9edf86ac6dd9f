"""A camera that trembles: each frame is moved back onto the first, by whole pixels, before anything else looks at it.

The shift of a frame is where the phase correlation with a reference is highest: the inverse Fourier transform of the
phase of their cross spectrum. A window fades the picture out towards its borders. What moves in the picture disturbs
the peak little, as long as most of the picture is background.

**On by itself.** The first frames are looked at before anything is done. The camera is taken for one that trembles if
moving them back makes the background much sharper: the median difference from the reference falls by a fifth or more.
A camera that stands still, or one that pans away, is left as it is.

Cost: two Fourier transforms of each frame in gray, only where the camera trembles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np
import scipy.fft
import scipy.ndimage

from rankwolf.ground.arrays import Array

# So many frames are looked at before the first one is handed on.
LOOK_AT = 30
# A camera trembles by at most this share of the height and width.
MOST = 0.08
# Moving frames back helps if it leaves less than this share of the difference from the reference.
HELPS = 0.8


@dataclass(eq=False)
class Steady:
    """Moves frames onto ``reference`` (height, width), gray; ``shifts`` has (down, right) of each that was moved."""

    reference: Array
    shifts: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        height, width = self.reference.shape
        self._window = np.outer(np.hanning(height), np.hanning(width)).astype(np.float32)
        self._spectrum = np.conj(self._spectrum_of(self.reference))

    @classmethod
    def if_it_helps(cls, frames: list[Array]) -> Steady | None:
        """An object that moves frames onto the first of these, or None where that helps little."""
        if len(frames) < 3 or min(frames[0].shape[:2]) < 32:
            return None
        steady = cls(_gray(frames[0]))
        shifts = [steady.shift_of(frame) for frame in frames[1:]]
        if np.count_nonzero(np.any(shifts, axis=1)) * 4 < len(shifts):
            return None
        before, after = (
            np.mean([_difference(frame, frames[0]) for frame in some])
            for some in (frames[1:], [moved(f, s) for f, s in zip(frames[1:], shifts, strict=True)])
        )
        return steady if after < HELPS * before else None

    def shift_of(self, frame: Array) -> tuple[int, int]:
        """(down, right): how far the frame must be moved to lie on the reference; (0, 0) where that is too far."""
        peaks = scipy.fft.irfft2(self._cross(_gray(frame)), s=self.reference.shape)
        place = np.unravel_index(int(peaks.argmax()), peaks.shape)
        down, right = (
            -(int(k) if k <= side // 2 else int(k) - side) for k, side in zip(place, peaks.shape, strict=True)
        )
        height, width = self.reference.shape
        return (down, right) if abs(down) <= MOST * height and abs(right) <= MOST * width else (0, 0)

    def _cross(self, gray: Array) -> Array:
        cross = self._spectrum_of(gray) * self._spectrum
        return np.asarray(cross / np.maximum(np.abs(cross), 1e-6))

    def _spectrum_of(self, gray: Array) -> Array:
        return np.asarray(scipy.fft.rfft2((gray - gray.mean()) * self._window))

    @property
    def farthest(self) -> int:
        """The largest shift so far, in pixels down or right."""
        return int(np.abs(self.shifts).max(initial=0)) if self.shifts else 0

    def move(self, frame: Array) -> Array:
        """The frame where the reference is; its shift is remembered."""
        self.shifts.append(self.shift_of(frame))
        return moved(frame, self.shifts[-1])


def moved(frame: Array, shift: tuple[int, int]) -> Array:
    """The frame moved down and right by whole pixels; what comes in is False in a mask, else repeats the border."""
    if shift == (0, 0):
        return frame
    places = [np.arange(side) - step for side, step in zip(frame.shape[:2], shift, strict=True)]
    rows, columns = (np.clip(place, 0, len(place) - 1) for place in places)
    result = frame[rows[:, None], columns]
    if frame.dtype == np.bool_:
        result &= np.outer(
            *(place == clipped for place, clipped in zip(places, (rows, columns), strict=True))
        )
    return np.asarray(result)


def steadied(frames: Iterable[Array]) -> tuple[Steady | None, Iterator[Array]]:
    """(what moves the frames onto the first, None where that does not help; the frames, moved)."""
    coming = iter(frames)
    first = list(islice(coming, LOOK_AT))
    steady, every = Steady.if_it_helps(first), chain(first, coming)
    return steady, every if steady is None else map(steady.move, every)


def _gray(frame: Array) -> Array:
    return np.asarray(frame if frame.ndim == 2 else frame.mean(axis=2), np.float32)


def _difference(one: Array, two: Array) -> float:
    """The median absolute difference of the detail of two frames: light, which is smooth, does not count."""
    return float(np.median(np.abs(_detail(one) - _detail(two))))


def _detail(frame: Array) -> Array:
    gray = _gray(frame)
    return np.asarray(scipy.ndimage.uniform_filter(gray, 3) - scipy.ndimage.uniform_filter(gray, 11))
