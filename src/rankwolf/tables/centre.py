"""The centre of a table: the mean of its rows once outliers are clipped and missing entries filled in."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from rankwolf.data import Source
from rankwolf.data.centred import centred
from rankwolf.data.column_statistics import line_sums
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.passes import clip_tile
from rankwolf.result.decomposition import Decomposition
from rankwolf.weights.noise import LIMIT_IN_SIGMAS

# The centre of a refit has settled when it would move by at most this share of the error that noise leaves in any mean,
# σ/√m in each column; it moves at most MOST_MOVES times. With 0.1 and 8 moves the tables of tests/test_centre.py come
# out hardly better, and some fits take five times as long, because single cells go in and out of the outliers.
SETTLED, MOST_MOVES = 0.5, 3


def cleaned_mean(source: Source, low_rank: LowRank, limit: float) -> Array:
    """The mean row of L + clip(P_Ω(M − L), ±limit), in which missing entries are those of L. Cost: one pass.

    ``low_rank`` has the orientation of the user's matrix.
    """
    left, right = source.factors(source.as_solver_sees(low_rank))
    clipped = partial(clip_tile, right_t=np.ascontiguousarray(right.T), limit=limit)
    with source.one_blas_thread():
        in_columns = line_sums(source, clipped, left)[1]
    mean: Array = in_columns / low_rank.shape[0] + mean_row(low_rank)
    return mean


def refit_with_centre(fit: Decomposition, source: Source, mean: Array) -> tuple[Decomposition, Source, Array]:
    """(refit, centred source, centre): the refit of ``fit``, which is of ``source`` less ``mean``, and a better centre.

    In a convex fit λ_L hides errors of the centre of up to 2σ in a column, and a refit alone would keep them. So L and
    the centre are fitted in turn: the next centre is the mean of the cleaned rows of the last refit. A move that gives
    clearly more outliers, by more than the square root of their number, is not made: where most entries of a column are
    zero, the centre would go to them. Cost of a move: a pass, and a refit that starts nearby.
    """
    parts, table = fit.refit(), fit.source
    assert table is not None
    (m, n), bound = source.user_shape, table.bound
    for _ in range(MOST_MOVES):
        assert parts.noise_scale is not None
        shift = cleaned_mean(table, parts.low_rank, LIMIT_IN_SIGMAS * parts.noise_scale)
        left_over = float(np.linalg.norm(shift - mean_row(parts.low_rank)))
        if left_over <= SETTLED * parts.noise_scale * (n / m) ** 0.5:
            break
        moved = (mean + shift).astype(mean.dtype)
        other = centred(source, moved)
        if bound < np.inf:
            other.set_bound(bound)
        again = replace(parts, source=other, low_rank=_about_its_mean(parts.low_rank)).refit()
        outliers = parts.sparse.nonzeros
        if again.sparse.nonzeros > outliers + max(outliers, 1) ** 0.5:
            break
        parts, table, mean = again, other, moved
    return parts, table, mean


def mean_row(low_rank: LowRank) -> Array:
    """The mean of the rows of L."""
    scores = np.asarray(low_rank.u).mean(axis=0, dtype=np.float64) * low_rank.s
    row: Array = scores @ np.asarray(low_rank.vt)
    return row


def _about_its_mean(low_rank: LowRank) -> LowRank:
    """L less its mean row."""
    left = np.asarray(low_rank.u) * low_rank.s.astype(low_rank.dtype)
    return LowRank.from_factors(left - left.mean(axis=0), np.asarray(low_rank.vt).T)
