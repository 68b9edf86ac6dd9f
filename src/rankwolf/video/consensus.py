"""Sample consensus: a pixel belongs to the background if its residual M − L has been seen there before.

Waves, leaves and spray differ from L by more than any noise, but they do so all the time and in their own colours. So
each pixel keeps samples of its residual from frames that are spread over the whole video, and borrows those of
neighbours, because what moves there moves here too. A residual that has too few of these samples within a radius is
strange. The radius follows the noise: fog and night have little of it, and hide little.

**Cleaning.** The samples contain objects as well, and an object must not make itself background. A sample is taken for
an object's if it lies far from the median of the pixel's samples, and if residuals like it came in too few *separate
visits*: an object that stands still for a hundred frames comes once, a wave comes again and again. The samples of one
frame that look like objects are then tidied like a mask, so that only coherent pieces are dropped.

Cost: n samples take 2·n·channels bytes a pixel. A pixel of the background takes about as many comparisons as matches
are needed, a pixel of an object up to 3·n; cleaning takes 6·n² of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.ndimage

from rankwolf.ground.arrays import Array
from rankwolf.kernels.pictures import COUNTS, NO_SAMPLE, count_visits, mark_strangers
from rankwolf.video.rule import MaskRule
from rankwolf.video.side_by_side import for_bands, for_each
from rankwolf.video.tidy import dilate, tidy

# From the number of a sample to the residual of its frame.
ResidualOf = Callable[[int], Array]
# For each sample of its own, a pixel borrows one of each of so many neighbours, at most so many pixels away.
BORROWED, REACH = 2, 2
# How often samples are cleaned.
ROUNDS = 2


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of each pixel's residual while it was background: ``values`` (n, channels, height, width), int16.

    ``offsets`` (BORROWED, n, 2): ``offsets[j, k]`` leads, down and right, to the neighbour whose sample k a pixel
    borrows. ``square`` is the squared radius, over all channels.
    """

    rule: MaskRule
    values: Array
    offsets: Array
    square: int

    @classmethod
    def learn(cls, rule: MaskRule, count: int, look: ResidualOf, noise: float, n_threads: int = 1) -> Samples:
        """Samples from ``count`` frames; ``look(n)`` gives the residual of the n-th, int16, (height, width, channels).

        It has NO_SAMPLE added where a pixel does not count. ``noise`` is σ of the camera.
        """
        first = look(0)
        values = np.empty((count, first.shape[2], *first.shape[:2]), np.int16)

        def collect(n: int) -> None:
            values[n] = look(n).transpose(2, 0, 1)

        for_each(count, collect, n_threads)
        rng = np.random.default_rng(0)
        offsets = rng.integers(-REACH, REACH + 1, (BORROWED, count, 2))
        square = round(values.shape[1] * (rule.radius * noise) ** 2)
        for _ in range(ROUNDS):
            _clean(rule, values, offsets, square, n_threads)
        # In random order, so that the first few that are compared come from all over the video.
        return cls(rule, values[rng.permutation(count)], offsets, square)

    def strangers(self, residual: Array, where: Array | None = None) -> Array:
        """Where a frame's residual (height, width, channels), int16, has too few matches: bool, (height, width).

        With ``where``, only there is looked.
        """
        strange = np.empty(residual.shape[:2], np.bool_)
        where = np.ones_like(strange) if where is None else where
        mark_strangers(residual, self.values, self.offsets, self.square, self.rule.matches, where, strange)
        return strange

    def replace(self, slots: Array, where: Array, residual: Array) -> None:
        """Overwrite the samples in these slots, at the pixels ``where``, by a frame's residual, int16."""
        for slot in slots:
            np.copyto(self.values[slot], np.moveaxis(residual, -1, 0), where=where)

    @property
    def spread(self) -> Array:
        """About how far from L a residual may be and still be background: (height, width), in gray levels.

        The largest |sample| of the pixel, a mean over 3 × 3 pixels, plus the radius.
        """
        size = np.where(self.values[:, 0] <= COUNTS, np.abs(self.values).max(axis=1), 0).max(axis=0)
        smooth = scipy.ndimage.uniform_filter(size.astype(np.float32), 3)
        return np.asarray(smooth + (self.square / self.values.shape[1]) ** 0.5)


def _clean(rule: MaskRule, values: Array, offsets: Array, square: int, n_threads: int) -> None:
    """Add NO_SAMPLE, in place, to the samples that belong to objects."""
    usual = _medians(values, n_threads)
    dropped = np.empty((len(values), *values.shape[2:]), np.bool_)

    def judge(n: int) -> None:
        visits = np.zeros(values.shape[2:], np.int32)
        away = np.square(values[n].astype(np.int32) - usual).sum(axis=0) > square
        away &= values[n, 0] <= COUNTS
        for offset in (np.zeros(2, np.int64), *offsets[:, n]):
            count_visits(values, n, offset, square, away & (visits < rule.visits), visits)
        strange = away & (visits < rule.visits)
        dropped[n] = dilate(tidy(strange, None, rule.side, rule.least_area), rule.side)

    for_each(len(values), judge, n_threads)
    values += np.where(dropped & (values[:, 0] <= COUNTS), np.int16(NO_SAMPLE), np.int16(0))[:, None]


def _medians(values: Array, n_threads: int) -> Array:
    """The lower median of the samples that count, for each pixel and channel; 0 where there are none."""
    medians = np.empty(values.shape[1:], np.int16)

    def find(rows: slice) -> None:
        ordered = np.sort(values[:, :, rows], axis=0)
        middle = np.maximum(np.count_nonzero(values[:, 0, rows] <= COUNTS, axis=0) - 1, 0) // 2
        medians[:, rows] = np.take_along_axis(ordered, middle[None, None], axis=0)[0]

    for_bands(values.shape[2], find, n_threads)
    medians[medians > COUNTS] = 0
    return medians
