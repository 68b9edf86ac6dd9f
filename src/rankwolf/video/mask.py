"""What moves: a threshold on |M − L|, a vote among neighbours, holes filled, specks removed.

**The threshold.** S is soft-thresholded: S = T_λS(M − L), so |S| > t means |M − L| > t + λ_S, and a pixel whose S is
not zero differs from the background by more than λ_S, which is two to three standard deviations of the noise: far too
little for a mask. The mask therefore looks at the residual M − L itself. A pixel is suspicious where |M − L| is above
both of these, in any of its channels:

- a twelfth of the contrast of the video, about 18 gray levels where it is well lit: shadows, reflections, leaves and
  what a codec leaves behind differ from the background too, by an amount that grows with the light and has little to do
  with the noise;
- 2σ, with σ = 1.4826 · median |M − L|. That alone would let through every twentieth pixel of noise, but not the vote:
  by chance, five of nine neighbours agree in one place of 40,000, and thirteen of 25 nowhere.

**The vote.** A pixel moves when most of its observed neighbours in a square are suspicious. Without missing pixels this
is a median filter; with them it still works, and it fills what ``--sample`` left out. The square has a side of 3, 5 or
7, about a fiftieth of the shorter side of the picture.

**Holes and specks.** What is enclosed by moving pixels moves too; what covers less than a thousandth of the picture
is taken for noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class MaskRule:
    """How a residual becomes a mask.

    ``threshold`` is in gray levels, or None: ``tolerance`` times the contrast, but not below ``sigmas`` times the
    residual's noise. ``vote`` is the side of the square in which neighbours vote, or None: by the size of the picture;
    1 is no vote. ``least_area`` is a share of it.
    """

    threshold: float | None = None
    tolerance: float = 1.0 / 12.0
    sigmas: float = 2.0
    vote: int | None = None
    fill_holes: bool = True
    least_area: float = 0.001

    def level(self, noise: float, contrast: float) -> float:
        """The threshold in gray levels."""
        return (
            max(self.sigmas * noise, self.tolerance * contrast) if self.threshold is None else self.threshold
        )

    def side(self, height: int, width: int) -> int:
        """The side of the square of neighbours."""
        return min(7, 2 * max(1, round(min(height, width) / 100)) + 1) if self.vote is None else self.vote


def moving(distance: Array, observed: Array | None, level: float, rule: MaskRule) -> Array:
    """The mask of one frame. ``distance`` is |M − L|, (height, width); ``observed`` is False where it means nothing."""
    suspicious = distance > level
    if observed is not None:
        suspicious &= observed
    side = rule.side(*distance.shape)
    mask = suspicious if side < 2 else majority(suspicious, observed, side)
    if not mask.any():
        return mask
    if rule.fill_holes:
        mask = fill_holes(mask)
    return drop_small(mask, rule.least_area * mask.size)


def majority(suspicious: Array, observed: Array | None, size: int) -> Array:
    """True where more than half of the observed pixels in a square of side ``size`` are suspicious."""
    votes = _box_sum(suspicious, size)
    voters = size * size if observed is None else _box_sum(observed, size)
    result: Array = votes > voters // 2
    return result


def _box_sum(mask: Array, size: int) -> Array:
    """How many of a pixel's neighbours are True; the border is repeated outwards.

    Shifted copies are added, as bytes while the counts fit: for the usual sizes eight times as fast as a filter.
    """
    height, width = mask.shape
    padded = np.pad(mask, size // 2, "edge").astype(np.uint8 if size < 16 else np.uint32)
    down: Array = padded[:height].copy()
    for k in range(1, size):
        down += padded[k : k + height]
    across: Array = down[:, :width].copy()
    for k in range(1, size):
        across += down[:, k : k + width]
    return across


def fill_holes(mask: Array) -> Array:
    """Make True what is enclosed: the parts of the rest that do not touch the border of the picture."""
    rest, (height, width) = Runs.of(~mask), mask.shape
    row, column = rest.first // width, rest.first % width
    at_border = (row == 0) | (row == height - 1) | (column == 0) | (column + rest.length == width)
    outside = np.zeros(rest.parts, np.bool_)
    outside[rest.part[at_border]] = True
    return rest.painted(mask, ~outside[rest.part], True)


def drop_small(mask: Array, least: float) -> Array:
    """Without connected parts of fewer than ``least`` pixels."""
    runs = Runs.of(mask)
    area = np.bincount(runs.part, runs.length, minlength=runs.parts)
    return runs.painted(mask, area[runs.part] < least, False)


@dataclass(frozen=True, eq=False)
class Runs:
    """The True pixels of a mask as runs along its rows, and which connected part each belongs to.

    A mask of a few objects has some thousand runs and half a million pixels, so looking at runs is much faster than
    labelling pixels. Pixels are connected to the four beside them. ``first`` counts pixels from the first of the mask.
    """

    first: Array
    length: Array
    part: Array
    parts: int

    @classmethod
    def of(cls, mask: Array) -> Runs:
        """Find the runs, and join those of neighbouring rows that touch."""
        height, width = mask.shape
        # A column of False between rows, so that a run ends where its row does.
        line = np.zeros((height, width + 1), np.bool_)
        line[:, :width] = mask
        changes = np.flatnonzero(np.diff(line.ravel(), prepend=False))
        begin, end = changes[::2], changes[1::2]
        # Below run i lie the runs from ``low[i]`` to before ``high[i]``: the rows of a sparse matrix.
        low = np.searchsorted(end, begin + (width + 1), "right")
        high = np.searchsorted(begin, end + (width + 1), "left")
        pointers = np.concatenate([[0], np.cumsum(high - low)])
        below = spread(low, high - low)
        touching = scipy.sparse.csr_array((np.ones(below.size, np.int8), below, pointers), (begin.size,) * 2)
        parts, part = scipy.sparse.csgraph.connected_components(touching, directed=False)
        return cls(begin - begin // (width + 1), end - begin, part, int(parts))

    def painted(self, mask: Array, which: Array, value: bool) -> Array:
        """A copy of the mask in which the runs that are ``which`` have this value."""
        result = mask.copy()
        result.reshape(-1)[spread(self.first[which], self.length[which])] = value
        return result


def spread(first: Array, length: Array) -> Array:
    """first[0], first[0] + 1, …, as many as length[0]; then the same for first[1]; and so on.

    >>> import numpy as np
    >>> spread(np.array([5, 20]), np.array([3, 2]))
    array([ 5,  6,  7, 20, 21])
    """
    before = np.cumsum(length) - length
    numbers: Array = np.arange(int(length.sum())) + np.repeat(first - before, length)
    return numbers
