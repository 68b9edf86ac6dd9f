"""The exact end of a pursuit, L + S = M, for data without noise in memory.

Near the optimum the entries without an outlier are known: those where S is zero, or those close to L. What is left is a
least-squares fit of the rank that the spectrum shows to these entries, by alternating regressions. Where that fits them
to rounding it is the limit that the iteration would reach after very many steps.
"""

from __future__ import annotations

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank

# A singular value this many times as large as the next one is taken for the last of L.
STEEP = 10.0
# Rounds of the regressions, and operations of a round at most.
ROUNDS, MOST_OPERATIONS = 80, 5e9
# A residual of so many rounding errors of the largest entry counts as none; entries further from L than this many times
# the median residual are outliers.
ROUNDING, FAR = 1e4, 20.0


def exact_end(
    M: Array, seen: Array, live: Array, low_rank: LowRank, by_entries: bool
) -> tuple[LowRank, Array] | None:
    """(L, S) with L of low rank and S = 0 where M is fitted; None where no such pair is near.

    ``seen``: what was observed; ``live``: where S is zero as yet; ``low_rank``: L as it is. ``by_entries``: outliers
    are single entries, so that every row has some entries without.
    """
    (m, n), s = M.shape, low_rank.s
    if s.size == 0:
        return None
    falls = s[:-1] / np.maximum(s[1:], 1e-300)
    rank = int(falls.argmax()) + 1 if falls.size and falls.max() > STEEP else s.size
    freedom = rank * (m + n - rank)
    if (
        m * n * rank * rank > MOST_OPERATIONS
        or rank >= min(m, n)
        or not (seen.any(0).all() and seen.any(1).all())
    ):
        return None
    M = np.where(seen, M, 0.0)
    rounding = ROUNDING * np.finfo(np.float64).eps * float(np.max(np.abs(M)))
    left, right = low_rank.u[:, :rank] * s[:rank], low_rank.vt[:rank].T
    fitted = left @ right.T
    for _ in range(ROUNDS):
        if np.count_nonzero(live) < 1.2 * freedom:
            return None
        weights, before = live.astype(np.float64), fitted
        try:
            right = np.linalg.qr(_regress(weights.T, M.T, left, right))[0]
            left = _regress(weights, M, right, left)
        except np.linalg.LinAlgError:  # the entries that are left do not determine it
            return None
        fitted = left @ right.T
        rest = np.where(seen, M - fitted, 0.0)
        sizes = np.abs(rest[live])
        settled = np.linalg.norm(fitted - before) <= 1e-14 * np.linalg.norm(fitted)
        if settled and float(sizes.max()) <= rounding:
            return _with_dead_lines(LowRank.from_factors(left, right), low_rank, live, M, seen, rounding)
        live = seen & (np.abs(rest) <= max(FAR * float(np.median(sizes)), rounding))
        if by_entries:  # a row or column that is not fitted yet keeps its better half
            for axis in (0, 1):
                half = np.nanmedian(np.where(seen, np.abs(rest), np.nan), axis=axis, keepdims=True)
                live |= seen & (np.abs(rest) <= half)
    return None


def _with_dead_lines(
    fitted: LowRank, before: LowRank, live: Array, M: Array, seen: Array, rounding: float
) -> tuple[LowRank, Array]:
    """(L, S), where rows and columns without a live entry have what L was ``before`` on the fitted spaces."""
    dead_rows, dead_columns = ~live.any(axis=1), ~live.any(axis=0)
    if dead_rows.any() or dead_columns.any():
        old = (before.u * before.s) @ before.vt
        L = (fitted.u * fitted.s) @ fitted.vt
        L[:, dead_columns] = fitted.u @ (fitted.u.T @ old[:, dead_columns])
        L[dead_rows] = (old[dead_rows] @ fitted.vt.T) @ fitted.vt
        u, s, vt = np.linalg.svd(L, full_matrices=False)
        rank = fitted.rank
        fitted = LowRank(u[:, :rank], s[:rank], vt[:rank])
    rest = np.where(seen, M - (fitted.u * fitted.s) @ fitted.vt, 0.0)
    return fitted, np.where(np.abs(rest) <= 10.0 * rounding, 0.0, rest)


def _regress(weights: Array, M: Array, known: Array, old: Array) -> Array:
    """Each row of M on ``known``, with 0/1 weights; rows with too few entries keep their ``old`` coefficients."""
    rank = known.shape[1]
    pairs = (known[:, :, None] * known[:, None, :]).reshape(len(known), rank * rank)
    grams = (weights @ pairs).reshape(-1, rank, rank)
    sides = (weights * M) @ known
    grams += 1e-14 * np.trace(grams, axis1=1, axis2=2)[:, None, None] * np.eye(rank)
    enough = weights.sum(axis=1) >= rank
    grams[~enough] = np.eye(rank)
    found = np.linalg.solve(grams, sides[:, :, None])[:, :, 0]
    return np.where(enough[:, None], found, old)
