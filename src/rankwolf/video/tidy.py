"""From suspicious pixels to objects: a vote among neighbours, holes filled, specks removed.

**The vote.** A pixel moves when most of the observed pixels in a square around it are suspicious. Without missing
pixels this is a median filter; with them it still works, and gives an answer for pixels that ``--sample`` left out.

**Holes and specks.** A hole that is enclosed by moving pixels moves too; a part of only a few pixels is noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.kernels.pictures import connect_runs, count_in_squares


def tidy(suspicious: Array, observed: Array | None, side: int, least_area: int) -> Array:
    """The mask of one frame from its suspicious pixels: vote in squares of ``side``, fill holes, drop small parts."""
    mask = majority(suspicious, observed, side)
    return drop_small(fill_holes(mask), least_area) if mask.any() else mask


def counts_in_squares(mask: Array, side: int) -> Array:
    """How many pixels of a bool mask are True in a square around each; the border is repeated outwards."""
    counts = np.empty(mask.shape, np.int32)
    count_in_squares(np.ascontiguousarray(mask), side, counts)
    return counts


def majority(suspicious: Array, observed: Array | None, side: int) -> Array:
    """True where more than half of the observed pixels in a square of this side are suspicious."""
    voters = side * side if observed is None else counts_in_squares(observed, side)
    result: Array = counts_in_squares(suspicious, side) > voters // 2
    return result


def dilate(mask: Array, side: int) -> Array:
    """True where any pixel is True in the square of this side around it."""
    result: Array = counts_in_squares(mask, side) > 0
    return result


def fill_holes(mask: Array) -> Array:
    """The mask with its holes filled: connected parts of False that do not touch the border of the picture."""
    rest, (height, width) = Runs.of(~mask), mask.shape
    row, column = rest.first // width, rest.first % width
    at_border = (row == 0) | (row == height - 1) | (column == 0) | (column + rest.length == width)
    outside = np.zeros(rest.parts, np.bool_)
    outside[rest.part[at_border]] = True
    return rest.painted(mask, ~outside[rest.part], True)


def drop_small(mask: Array, least: float) -> Array:
    """The mask without connected parts of fewer than ``least`` pixels."""
    runs = Runs.of(mask)
    return runs.painted(mask, runs.areas[runs.part] < least, False)


@dataclass(frozen=True, eq=False)
class Runs:
    """The True pixels of a mask as runs along its rows, and which connected part each belongs to.

    A mask of a few objects has some thousand runs and half a million pixels, so looking at runs is much faster than
    labelling pixels. Pixels are connected to the four beside them. For each run, ``first`` is the place of its first
    pixel in the flattened mask, ``length`` its number of pixels, and ``part`` its connected part, from 0 to parts − 1.
    """

    first: Array
    length: Array
    part: Array
    parts: int

    @classmethod
    def of(cls, mask: Array) -> Runs:
        """Find the runs, and join those of neighbouring rows that touch."""
        height, width = mask.shape
        # A column of False is added, so that a run ends where its row does.
        line = np.zeros((height, width + 1), np.bool_)
        line[:, :width] = mask
        changes = np.flatnonzero(np.diff(line.ravel(), prepend=False))
        begin, end = changes[::2], changes[1::2]
        part = np.empty(begin.size, np.int64)
        parts = connect_runs(begin, end, width + 1, part)
        return cls(begin - begin // (width + 1), end - begin, part, parts)

    @property
    def areas(self) -> Array:
        """How many pixels each part has."""
        return np.bincount(self.part, self.length, minlength=self.parts)

    def masks(self, mask: Array, which: Array) -> list[Array]:
        """One mask for each of the parts whose numbers are in ``which``."""
        empty = np.zeros_like(mask)
        return [self.painted(empty, self.part == part, True) for part in which]

    def painted(self, mask: Array, which: Array, value: bool) -> Array:
        """A copy of the mask that has this value in the runs where ``which``, one bool for each run, is True."""
        result = mask.copy()
        result.reshape(-1)[spread(self.first[which], self.length[which])] = value
        return result


def spread(first: Array, length: Array) -> Array:
    """The places in all runs, one run after the other: first[k], first[k] + 1, …, length[k] places for run k.

    >>> import numpy as np
    >>> spread(np.array([5, 20]), np.array([3, 2]))
    array([ 5,  6,  7, 20, 21])
    """
    before = np.cumsum(length) - length
    numbers: Array = np.arange(int(length.sum())) + np.repeat(first - before, length)
    return numbers
