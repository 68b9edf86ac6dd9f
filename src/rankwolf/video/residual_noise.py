"""M − L after the solve, in a sample: how strong its noise is, and how much contrast the frames have.

For photographs, both give the level of the mask (:mod:`rankwolf.video.mask`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.ground.normal import MEDIAN_OF_NORMAL
from rankwolf.ground.once import computed_once
from rankwolf.video.choosing_weights import LEAST_NOISE, Frames
from rankwolf.video.picture import Picture

# The size of the sample.
FRAMES_OF_SAMPLE, COLUMNS_OF_SAMPLE = 200, 20000


@dataclass(frozen=True, eq=False)
class Residual:
    """M − L (``values``) and M (``levels``) at evenly spaced frames and pixels; only observed entries."""

    values: Array
    levels: Array

    @classmethod
    def sample(cls, frames: Frames, present: Frames | None, low_rank: LowRank, picture: Picture) -> Residual:
        """A sample of at most 200 frames and 20000 columns of a solved clip: some pixels, all channels of each."""
        rows = np.unique(np.linspace(0, frames.shape[0] - 1, FRAMES_OF_SAMPLE).astype(int))
        pixels = np.arange(0, picture.pixels, -(-picture.pixels // (COLUMNS_OF_SAMPLE // picture.channels)))
        columns = (pixels[:, None] * picture.channels + np.arange(picture.channels)).reshape(-1)
        vt = low_rank.vt[:, columns]
        values, levels = [], []
        for row in rows:
            level = frames[row : row + 1][0][columns]
            value = (level - (low_rank.u[row] * low_rank.s) @ vt).astype(np.float32)
            seen = slice(None) if present is None else present[row : row + 1][0][columns] != 0
            values.append(value[seen])
            levels.append(level[seen])
        return cls(np.concatenate(values), np.concatenate(levels))

    @computed_once
    def noise(self) -> float:
        """σ = 1.4826 · median |M − L|, at least LEAST_NOISE. It includes leaves, flicker and errors of a codec."""
        size = np.abs(self.values)
        return max(LEAST_NOISE, float(np.median(size)) / MEDIAN_OF_NORMAL) if size.size else LEAST_NOISE

    @computed_once
    def contrast(self) -> float:
        """The 99th percentile of M less the 1st, in gray levels."""
        return float(np.subtract(*np.percentile(self.levels, (99, 1)))) if self.levels.size else 0.0

    def counts(self) -> Array:
        """How often |M − L|, rounded, was 0, 1, … gray levels."""
        return np.bincount(np.rint(np.abs(self.values)).astype(int), minlength=2)
