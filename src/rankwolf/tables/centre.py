"""The centre of a table: the mean of its rows once outliers are clipped and missing entries filled in."""

from __future__ import annotations

from functools import partial

import numpy as np

from rankwolf.data import Source
from rankwolf.data.columns import line_sums
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.passes import clip_tile


def cleaned_mean(source: Source, low_rank: LowRank, limit: float) -> Array:
    """The mean row of L + clip(P_Ω(M − L), ±limit): what is missing is as L has it. One pass, wherever the matrix is.

    L lies as the user's matrix does.
    """
    left, right = source.factors(source.as_solver_sees(low_rank))
    clipped = partial(clip_tile, right_t=np.ascontiguousarray(right.T), limit=limit)
    with source.one_blas_thread():
        in_columns = line_sums(source, clipped, left)[1]
    scores = np.asarray(low_rank.u).mean(axis=0, dtype=np.float64) * low_rank.s
    mean: Array = in_columns / low_rank.shape[0] + scores @ np.asarray(low_rank.vt)
    return mean
