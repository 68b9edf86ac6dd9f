"""Sample consensus: a pixel belongs to the background if its residual M − L has been seen there before.

Waves, leaves and spray differ from L by more than any noise, but they do so all the time and in their own colours. So
each pixel keeps samples of its residual from frames that are spread over the whole video, and borrows those of
neighbours, because what moves there moves here too. A residual that has fewer than a certain number of these samples
within a radius is strange. In strong sensor noise a few samples are always near, so that number grows with the noise.

**Cleaning.** The samples contain objects as well, and an object must not make itself background. A sample is taken for
an object's if it lies far from the median of the pixel's samples, and if residuals like it came in too few *separate
visits*: an object that stands still for a hundred frames comes once, a wave comes again and again. The samples of one
frame that look like objects are then tidied like a mask, so that only coherent pieces are dropped.

Cost: n samples take 2·n·channels bytes a pixel. A pixel of the background takes about as many comparisons as matches
are needed, a pixel of an object up to 3·n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.ndimage
import scipy.special

from rankwolf.ground.arrays import Array
from rankwolf.ground.normal import MEDIAN_OF_NORMAL
from rankwolf.ground.once import computed_once
from rankwolf.kernels.pictures import COUNTS, NO_SAMPLE, add_known, mark_strangers, mark_unsupported
from rankwolf.video.side_by_side import for_bands, for_each
from rankwolf.video.tidy import dilate, growth, tidy

# From the number of a sample to the residual of its frame.
ResidualOf = Callable[[int], Array]


@dataclass(frozen=True)
class ConsensusRule:
    """How samples are taken, cleaned and compared. Distances are Euclidean over three channels, in gray levels.

    With c channels they are multiplied by √(c/3): a change of the light moves all channels alike. ``reach`` is in
    pixels of a picture of 320 × 240, and grows with the square root of its area; ``margin`` does not.
    """

    samples: int = 60
    """How many samples a pixel keeps, each from another frame."""
    borrowed: int = 2
    """Samples that a pixel borrows from neighbours, for each one of its own."""
    reach: float = 2.0
    """How far away those neighbours are, at most."""
    radius: float = 18.0
    """A sample is like a residual that lies within this distance of it."""
    matches: int = 3
    """How many samples must be like a pixel's residual for it to be background."""
    sensitivity: float = 1.5
    """In strong noise more matches are needed: as many samples as noise alone would bring within the radius of a
    residual that lies this many radii from their mean."""
    cleaning: int = 2
    """Rounds of cleaning."""
    near: float = 12.0
    """The radius within which residuals are alike in cleaning; a sample that is so near the median is always kept."""
    near_in_sigmas: float = 2.5
    """``near`` is at least this many standard deviations of all residuals (of one channel, times √3)."""
    visits: int = 6
    """How many separate visits make a residual part of the background."""
    patience: int = 1
    """A visit is not ended by up to this many samples in a row that are not alike."""
    margin: int = 5
    """The side of the square by which objects are widened before their samples are dropped."""
    least_samples: int = 6
    """A pixel that would keep fewer samples gets back those that are nearest to L."""

    def square(self, distance: float, channels: int) -> int:
        """distance²·channels/3, rounded down: the limit for squared distances over ``channels`` channels."""
        return int(distance * distance * channels / 3.0)


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of each pixel's residual while it was background: ``values`` (n, channels, height, width), int16.

    ``offsets`` (borrowed, n, 2): ``offsets[j, k]`` leads, down and right, to the neighbour whose sample k a pixel
    borrows. ``least`` (height, width) says how many matches make a pixel background.
    """

    rule: ConsensusRule
    values: Array
    offsets: Array
    least: Array

    @classmethod
    def learn(
        cls,
        rule: ConsensusRule,
        count: int,
        look: ResidualOf,
        noise: float,
        vote: int,
        least_area: float,
        n_threads: int = 1,
    ) -> Samples:
        """Samples from ``count`` frames; ``look(n)`` gives the residual of the n-th, int16, (height, width, channels).

        It has NO_SAMPLE added where a pixel does not count. ``noise`` is σ of the camera; ``vote`` and ``least_area``
        are those of the mask.
        """
        first = look(0)
        height, width, channels = first.shape
        values = np.empty((height, width, count, channels), np.int16)

        def collect(n: int) -> None:
            values[:, :, n] = look(n)

        for_each(count, collect, n_threads)
        reach = int(rule.reach * growth((height, width)))
        rng = np.random.default_rng(0)
        offsets = rng.integers(-reach, reach + 1, (rule.borrowed, count, 2))
        if rule.cleaning:
            _clean(rule, values, offsets, vote, least_area, n_threads)
        least = _matches_needed(rule, values, noise)
        # Samples in random order, so that the first few that are compared come from all over the video. Pixels of one
        # sample side by side, because neighbouring pixels are compared one after the other.
        planes = np.ascontiguousarray(values[:, :, rng.permutation(count)].transpose(2, 3, 0, 1))
        return cls(rule, planes, offsets, least)

    def strangers(self, residual: Array) -> Array:
        """Where a frame's residual (height, width, channels), int16, has too few matches: bool, (height, width)."""
        strange = np.empty(residual.shape[:2], np.bool_)
        mark_strangers(residual, self.values, self.offsets, self.known, self._square, self.least, strange)
        return strange

    @computed_once
    def known(self) -> Array:
        """Bits (channels, height, width), set for all values near a sample that a pixel has or borrows: ``add_known``.

        A residual whose bits are not set has no match, and needs no look at all the samples.
        """
        known = np.zeros(self.values.shape[1:], np.uint64)
        everywhere = np.ones(known.shape[1:], np.bool_)
        for slot, sample in enumerate(self.values):
            self._add_known(slot, sample, everywhere, known)
        return known

    def replace(self, slots: Array, where: Array, residual: Array) -> None:
        """Overwrite the samples in these slots, at the pixels ``where``, by a frame's residual, int16.

        The bits of the old samples stay set in ``known``, which costs comparisons but changes no mask.
        """
        sample = np.ascontiguousarray(np.moveaxis(residual, -1, 0))
        for slot in slots:
            np.copyto(self.values[slot], sample, where=where)
            self._add_known(slot, sample, where, self.known)

    def _add_known(self, slot: int, sample: Array, where: Array, known: Array) -> None:
        """Set the bits of a sample in ``known``, at its pixels and at those that borrow from them."""
        for offset in (np.zeros(2, self.offsets.dtype), *self.offsets[:, slot]):
            add_known(sample, where, offset, self._square, known)

    @property
    def _square(self) -> int:
        return self.rule.square(self.rule.radius, self.values.shape[1])

    @property
    def spread(self) -> Array:
        """About how far from L a residual may be and still be background: (height, width), in gray levels.

        The largest |sample| of the pixel, a mean over 3 × 3 pixels, plus radius/√3.
        """
        size = np.zeros(self.values.shape[2:], np.int16)
        for sample in self.values:
            np.maximum(size, np.abs(sample).max(axis=0), out=size, where=sample[0] <= COUNTS)
        smooth = scipy.ndimage.uniform_filter(size.astype(np.float32), 3)
        return np.asarray(smooth + self.rule.radius / 3.0**0.5)


def _matches_needed(rule: ConsensusRule, values: Array, noise: float) -> Array:
    """How many matches make a pixel background, (height, width): max(matches, N·P(‖noise − d‖ ≤ r)).

    N is the number of a pixel's samples with the borrowed ones. If they were Gaussian noise alone, N·P of them would
    lie within the radius r of a residual at the distance ‖d‖ = sensitivity·r from their mean.
    """
    height, width, _, channels = values.shape
    radius = rule.radius * (channels / 3.0) ** 0.5
    share = scipy.special.chndtr((radius / noise) ** 2, channels, (rule.sensitivity * radius / noise) ** 2)
    candidates = (1 + rule.borrowed) * np.count_nonzero(values[..., 0] <= COUNTS, axis=2)
    least: Array = np.maximum(rule.matches, np.rint(share * candidates)).astype(np.int32)
    return least.reshape(height, width)


def _clean(
    rule: ConsensusRule,
    values: Array,
    offsets: Array,
    vote: int,
    least_area: float,
    n_threads: int,
) -> None:
    """Add NO_SAMPLE, in place, to the samples that belong to objects."""
    height, width, count, channels = values.shape
    sigma = float(np.median(np.abs(values[::3, ::3][values[::3, ::3, :, 0] <= COUNTS]))) / MEDIAN_OF_NORMAL
    near = max(rule.near, rule.near_in_sigmas * sigma * 3.0**0.5)
    square = rule.square(near, channels)
    usual = _medians(values, n_threads)
    needed = np.full((height, width), rule.visits, np.int32)
    strange = np.empty((count, height, width), np.bool_)
    margin = int(np.abs(offsets).max(initial=0))
    for _ in range(rule.cleaning):

        def mark(rows: slice, usual: Array = usual) -> None:
            low, high = max(rows.start - margin, 0), min(rows.stop + margin, height)
            part = np.empty((count, high - low, width), np.bool_)
            mark_unsupported(
                values[low:high],
                offsets,
                usual[low:high],
                square,
                needed[low:high],
                rule.patience,
                rows.start - low,
                rows.stop - low,
                part,
            )
            strange[:, rows] = part[:, rows.start - low : rows.stop - low]

        def drop(n: int) -> None:
            dropped = dilate(tidy(strange[n], None, vote, True, least_area), rule.margin)
            values[dropped & (values[:, :, n, 0] <= COUNTS), n] += NO_SAMPLE

        for_bands(height, mark, n_threads)
        for_each(count, drop, n_threads)
        usual = _medians(values, n_threads)
    _give_back(values, rule.least_samples)


def _give_back(values: Array, least: int) -> None:
    """Where a pixel has fewer than ``least`` samples, take NO_SAMPLE off its smallest residuals again.

    Residuals that were not observed come back as 0.
    """
    few = np.count_nonzero(values[..., 0] <= COUNTS, axis=2) < least
    if few.any():
        kept = values[few]
        whole = np.where(kept > COUNTS, kept - NO_SAMPLE, kept)
        order = np.argsort(np.square(whole.astype(np.float32)).sum(axis=-1), axis=1)[:, :least]
        rows = np.arange(len(order))[:, None]
        kept[rows, order] = whole[rows, order]
        values[few] = kept


def _medians(values: Array, n_threads: int) -> Array:
    """The lower median of the samples that count, for each pixel and channel; 0 where there are none."""
    medians = np.empty((*values.shape[:2], values.shape[3]), np.int16)

    def find(rows: slice) -> None:
        ordered = np.sort(values[rows], axis=2)
        middle = np.maximum(np.count_nonzero(values[rows, :, :, 0] <= COUNTS, axis=2) - 1, 0) // 2
        medians[rows] = np.take_along_axis(ordered, middle[..., None, None], axis=2)[:, :, 0]

    for_bands(values.shape[0], find, n_threads)
    medians[medians > COUNTS] = 0
    return medians
