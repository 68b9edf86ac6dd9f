"""The centre of a table: the mean of its rows once outliers are clipped and missing entries filled in."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from rankwolf.data import Source
from rankwolf.data.centred import centred
from rankwolf.data.columns import line_sums
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.passes import clip_tile
from rankwolf.result.decomposition import Decomposition
from rankwolf.weights.noise import LIMIT_IN_SIGMAS

# The centre of a refit has settled when it moves by less than this share of the error that noise leaves in it anyway,
# σ/√m in each column. With 0.1 and 8 moves the tables of tests/test_centre.py are hardly better, and some fits take
# five times as long: single cells go in and out of the outliers.
SETTLED, MOST_MOVES = 0.5, 3


def cleaned_mean(source: Source, low_rank: LowRank, limit: float) -> Array:
    """The mean row of L + clip(P_Ω(M − L), ±limit): what is missing is as L has it. One pass, wherever the matrix is.

    L lies as the user's matrix does.
    """
    left, right = source.factors(source.as_solver_sees(low_rank))
    clipped = partial(clip_tile, right_t=np.ascontiguousarray(right.T), limit=limit)
    with source.one_blas_thread():
        in_columns = line_sums(source, clipped, left)[1]
    mean: Array = in_columns / low_rank.shape[0] + mean_row(low_rank)
    return mean


def refit_with_centre(fit: Decomposition, source: Source, mean: Array) -> tuple[Decomposition, Source, Array]:
    """The refit of a ``fit`` of ``source`` less ``mean``, with the centre fitted too; the new source and centre.

    The centre of a convex fit is known up to what λ_L cannot tell from nothing, which may be 2σ in a column, and a
    refit takes it as it is. So L and the centre are fitted in turn: the centre becomes that of the cleaned rows of the
    refit. A centre that makes more outliers, by more than chance, is no better one and is not taken: where columns are
    mostly zeros, it has moved to them. Cost of a move: a pass, and a refit from nearby.
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
