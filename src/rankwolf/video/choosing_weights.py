"""Weights that come from the data: how strong the noise is, and how much of a video an object may fill.

λ_S = 3σ, where σ is the noise between one frame and the next: what differs by more than that is an outlier to L.

λ_L/λ_S says what is background. Optimality asks for ‖G‖₂ ≤ λ_L, with G = clip(M − L, ±λ_S): an entry that differs from
L by more than λ_S is ±λ_S in G. So an object that covers a share a of the pixels during a share t of the frames, in one
place, has the norm λ_S·√(a·t·m·n) in G, and stays out of L as long as that is below λ_L. The paper's ratio, √max(m, n),
draws this line at a·t = 1/min(m, n), which falls with every frame: of 1700 frames of a road it lets into L whatever
covers a tenth of the picture for ten frames, and slow cars fade into the background. A line that does not depend on
the length of the video is λ_L/λ_S = √(θ·m·n). With θ = 0.5 % a switched lamp, which changes most pixels for much of the
time, is background, and a car that stands for a while is not. Below 1/θ = 200 frames the paper's ratio is the larger
one, and is kept, because it keeps the noise out of L.

Photographs that do not follow each other in time, such as faces under different lights, have no noise between one
frame and the next that could be measured. They are recognised by that: their differences are many times the noise
inside a picture. For them the paper's rule for faces is used, δ = 0.01.
"""

from __future__ import annotations

from math import sqrt
from typing import Protocol

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.normal import MEDIAN_OF_NORMAL

# λ_S/σ. It is 3 and not 2, because the residual of a background pixel is about 1.5 times the noise between frames.
SPARSE_WEIGHT_IN_SIGMAS = 3.0
# θ: the share of a video, pixels times frames, above which what stays in one place is background.
BACKGROUND_SHARE = 0.005
# The least σ, in gray levels. A codec repeats blocks that hardly change, which hides the noise between consecutive
# frames, but not over longer times.
LEAST_NOISE = 1.0
# How many pairs of consecutive frames are compared, and in how many columns.
PAIRS, COLUMNS_OF_PAIRS = 48, 65536
# Video has at most two or three times as much noise between frames as inside them, photographs of faces have thirty.
MOST_VIDEO_RATIO = 6.0
PHOTOGRAPH_DELTA = 0.01


class Frames(Protocol):
    """Frames as rows, or a mask of them, read by slices: an array, or a :class:`rankwolf.video.store.FrameStore`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(frames, columns)."""

    def __getitem__(self, rows: slice, /) -> Array:
        """Consecutive rows."""


def temporal_noise(frames: Frames, present: Frames | None = None) -> float:
    """σ of the noise, from pairs of consecutive frames: median |difference|/(0.6745·√2), at least LEAST_NOISE.

    Objects hardly change a median. Pixels at 0 and 255 are left out, because they cannot show noise. The differences
    are whole numbers, so the median is interpolated inside its bin. ``present`` is not 0 where a pixel was observed.
    Cost: at most 48 pairs of frames, and 65536 columns of each.
    """
    if frames.shape[0] < 2:
        return LEAST_NOISE
    pairs = np.unique(np.linspace(0, frames.shape[0] - 2, PAIRS).astype(int))
    columns = slice(None, None, -(-frames.shape[1] // COLUMNS_OF_PAIRS))
    counts = np.zeros(256, np.int64)
    for first in pairs:
        one, two = frames[first : first + 2][:, columns].astype(np.int16)
        use = (one > 0) & (two > 0) & (one < 255) & (two < 255)
        if present is not None:
            use &= present[first : first + 2][:, columns].all(axis=0)
        counts += np.bincount(np.abs(two - one)[use], minlength=256)
    if not counts.any():
        return LEAST_NOISE
    return max(LEAST_NOISE, grouped_median(counts) / (MEDIAN_OF_NORMAL * sqrt(2.0)))


def spatial_noise(pictures: Array) -> float:
    """σ of the noise inside pictures (count, height, width), uint8: median |N ∗ picture|/(6·0.6745).

    N is the difference of two Laplacians (Immerkær 1996), blind to slopes and to edges along rows and columns; ‖N‖ = 6.
    Texture makes the estimate larger, never smaller. It is at least LEAST_NOISE.
    """
    if min(pictures.shape[1:]) < 3:
        return LEAST_NOISE
    values = pictures.astype(np.int16)
    across = values[:, :, :-2] - 2 * values[:, :, 1:-1] + values[:, :, 2:]
    both = np.abs(across[:, :-2] - 2 * across[:, 1:-1] + across[:, 2:])
    inner = pictures[:, 1:-1, 1:-1]
    counts = np.bincount(both[(inner > 0) & (inner < 255)].astype(np.int64), minlength=1)
    return (
        max(LEAST_NOISE, grouped_median(counts) / (6.0 * MEDIAN_OF_NORMAL)) if counts.any() else LEAST_NOISE
    )


def grouped_median(counts: Array) -> float:
    """The median of |x| for x rounded to whole numbers, k occurring ``counts[k]`` times.

    Bin 0 reaches from 0 to 0.5, bin k from k − 0.5 to k + 0.5.

    >>> import numpy as np
    >>> grouped_median(np.array([0, 10, 0]))
    1.0
    """
    reached = np.cumsum(counts)
    half = 0.5 * float(reached[-1])
    k = int(np.searchsorted(reached, half))
    before = float(reached[k - 1]) if k else 0.0
    low, width = (k - 0.5, 1.0) if k else (0.0, 0.5)
    return low + width * (half - before) / float(counts[k])


def weights_for(sigma: float, shape: tuple[int, int], observed_fraction: float = 1.0) -> tuple[float, float]:
    """(λ_L, λ_S) for m × n data with noise σ, of which a share ρ is observed.

    λ_S = 3σ and λ_L = λ_S·√(ρ·max(m, n)·max(1, θ·min(m, n))), with ρ as in the paper.

    >>> weights_for(1.0, (800, 10000))
    (600.0, 3.0)
    """
    long, short = max(shape), min(shape)
    ratio = (observed_fraction * long * max(1.0, BACKGROUND_SHARE * short)) ** 0.5
    return SPARSE_WEIGHT_IN_SIGMAS * sigma * ratio, SPARSE_WEIGHT_IN_SIGMAS * sigma
