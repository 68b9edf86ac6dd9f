"""Passes at an L that is given by its factors: the sums of the objective there, and the misfit of a stored pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from rankwolf.data import Source, Sums, Task
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.passes.sums import CLIPPED_VALUES, ClippedSums
from rankwolf.passes.tile_steps import clip_tile


class EvaluateFactors(Task[ClippedSums]):
    """G, S and their sums for L = left·rightᵀ. Rows: left. 2r operations an entry for rank r."""

    def __init__(self, right: Array, limit: float) -> None:
        self.right, self.limit = np.ascontiguousarray(right.T), limit

    def start(self) -> ClippedSums:
        """Zeros."""
        return ClippedSums(np.zeros(CLIPPED_VALUES))

    def visit(self, sums: ClippedSums, tile: Array, *rows: Array) -> None:
        """Clip one tile, and add its sums."""
        clip_tile(tile, rows[0], self.right, self.limit, sums.values)


def evaluate(source: Source, low_rank: LowRank, limit: float) -> ClippedSums:
    """The sums of G and S at ``low_rank``, which lies as the source sees the matrix (maybe transposed). One pass."""
    left, right = source.factors(low_rank)
    return source.run(EvaluateFactors(right, limit), left)


@dataclass
class MisfitSums(Sums):
    """‖P_Ω(L + S − M)‖²."""

    squared: float = 0.0


class MisfitOfPair(Task[MisfitSums]):
    """The misfit of L = left·rightᵀ and a stored S. Rows: left, row numbers."""

    def __init__(self, right: Array, sparse: scipy.sparse.csr_array) -> None:
        self.right, self.sparse = np.ascontiguousarray(right.T), sparse

    def start(self) -> MisfitSums:
        """Zero."""
        return MisfitSums()

    def visit(self, sums: MisfitSums, tile: Array, *rows: Array) -> None:
        """Add the misfit of one tile."""
        left, numbers = rows
        sparse = self.sparse[int(numbers[0, 0]) : int(numbers[-1, 0]) + 1].toarray()
        misfit = np.nan_to_num(tile - left @ self.right - sparse, copy=False, nan=0.0)
        sums.squared += float(np.sum(np.square(misfit), dtype=np.float64))


def misfit_of_pair(source: Source, low_rank: LowRank, sparse: scipy.sparse.csr_array) -> float:
    """‖P_Ω(L + S − M)‖² for a stored S. One pass."""
    left, right = source.factors(low_rank)
    return source.run(MisfitOfPair(right, sparse), left, source.row_numbers()).squared


def threshold_for_radius(source: Source, left: Array, right: Array, radius: float, guess: float) -> float:
    """θ with ‖T_θ(D)‖₁ = radius for D = P_Ω(M − left·rightᵀ); 0 where ‖D‖₁ ≤ radius. A pass for each step.

    Newton's method on the convex piecewise-linear function Σ max(|D| − θ, 0) − radius of θ. From a warm guess three or
    four steps are enough. A step from the left of the root never passes it; one from the right may lead below 0, and
    then goes on from 0.
    """
    rounding = float(np.finfo(right.dtype).eps)
    if radius <= 0.0:
        return np.inf
    theta = max(guess, 0.0)
    for _ in range(100):
        sums = source.run(EvaluateFactors(right, theta), left)
        total, count = sums.s_norm, sums.nonzeros
        if total <= radius and theta == 0.0:
            return 0.0
        step = (total - radius) / count if count else -theta
        if abs(step) <= 1e-15 * theta or (step == 0.0 and theta > 0.0):
            break
        # Sums over float32 tiles have relative errors of 1e-7: a step as small as that is the last one.
        if theta > 0.0 and abs(step) < 4.0 * rounding * theta:
            theta = max(theta + step, 0.0)
            break
        theta = max(theta + step, 0.0)
    return theta
