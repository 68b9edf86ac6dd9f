"""Singular value thresholding from a warm start: a step or two of subspace iteration in place of a whole SVD."""

from __future__ import annotations

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.oracles import nuclear

# Spare columns beyond the rank, at least and as a share of it, for directions that are about to pass the threshold.
SPARE, SPARE_SHARE = 6, 0.2
# The space has settled when the shrunk singular values of Y and of B differ by at most this share of the threshold.
SETTLED = 3e-3
MOST_STEPS = 6
# Where the block is wider than this share of the shorter side, eigenvectors of the Gram matrix are cheaper.
NARROW = 0.25
# Below this length of the shorter side all singular values are as cheap.
LONG_SIDE = 256


class WarmThreshold:
    """D_τ(X) for matrices X that change little from call to call; the singular vectors of the last one are kept.

    A step is Y = X^H·Q, P = orth(Y), B = X·P and the SVD of B, for a block Q on the shorter side with a few more
    columns than the rank: 4·mn operations a column. The singular values of Y and of B are lower bounds on those of X;
    when they agree, the space has settled. Where the rank is not small, or the space does not settle,
    :func:`nuclear.singular_value_threshold` gives the answer.
    """

    def __init__(self, shape: tuple[int, int], rng: np.random.Generator) -> None:
        self._side, self._rng = min(shape), rng
        self._block: Array = np.zeros((self._side, 0))
        self._rank = 0

    def threshold(self, x: Array, weight: float) -> tuple[Array, LowRank]:
        """D_weight(X) as an array and as factors: from the warm space where the shorter side is long."""
        if self._side < LONG_SIDE or not isinstance(x, np.ndarray):
            return nuclear.shrink_singular_values(x, lambda singular: weight)
        low_rank = self(x, weight)
        return (low_rank.u * low_rank.s) @ low_rank.vt, low_rank

    def __call__(self, x: Array, weight: float) -> LowRank:
        """D_weight(X) as factors."""
        if x.shape[0] > x.shape[1]:
            return self(x.T, weight).T
        for _ in range(MOST_STEPS):
            width = self._rank + max(SPARE, int(SPARE_SHARE * self._rank))
            if width > NARROW * self._side:
                break
            result, settled = self._step(x, width, weight)
            crowded, self._rank = result.rank + SPARE // 2 > width, result.rank
            if crowded:
                self._rank *= 2
            elif settled:
                return result
        return self._by_gram(x, weight)

    def _step(self, x: Array, width: int, weight: float) -> tuple[LowRank, bool]:
        """One step of subspace iteration: D_weight(X) from it, and whether the values above ``weight`` have settled."""
        fresh = width - self._block.shape[1]
        block = self._block[:, :width]
        if fresh > 0:
            more = nuclear.orthonormal_against(
                self._rng.standard_normal((self._side, fresh)),
                block.astype(np.result_type(block, np.float64)),
                self._rng,
            )
            block = np.hstack([block, more]).astype(x.dtype)
        y = x.conj().T @ block
        # P = Y·turn is orthonormal, and B = X·P. In double precision, because Y^H·Y squares the singular values.
        wide = y.astype(np.result_type(y.dtype, np.float64), copy=False)
        squares, vectors = np.linalg.eigh(wide.conj().T @ wide)
        used = squares > 1e-13 * max(float(squares[-1]), 1e-300)
        turn = vectors[:, used] / np.sqrt(squares[used])
        u, s, wt = np.linalg.svd((x @ y) @ turn, full_matrices=False)
        self._block = u.astype(x.dtype, copy=False)
        before = np.zeros_like(s)
        before[: np.count_nonzero(used)] = np.sqrt(squares[used])[::-1]
        change = np.abs(np.maximum(s - weight, 0.0) - np.maximum(before - weight, 0.0))
        settled = bool(
            np.max(change, initial=0.0) <= SETTLED * max(weight, SETTLED * float(s[0]) if s.size else 0.0)
        )
        above = int(np.count_nonzero(s > weight))
        vt = (wide @ (turn @ wt[:above].conj().T)).conj().T
        return LowRank(
            self._block[:, :above], (s[:above] - weight).astype(np.float64), vt.astype(x.dtype, copy=False)
        ), settled

    def _by_gram(self, x: Array, weight: float) -> LowRank:
        """D_weight(X) by eigenvectors of X·X^H: a few more are computed at first than exceeded the threshold before."""
        result, self._rank = nuclear.singular_value_threshold(x, weight, self._rank + SPARE)
        self._block = np.ascontiguousarray(result.u)
        return result
