"""What the paper's algorithms ask of b = A[M]: of measurements, and of a matrix with entries Ω, where A = P_Ω.

:class:`~rankwolf.data.measurements.Measurements` answers it for operators, :class:`Observed` for entries.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.data import Data, Source
from rankwolf.ground.arrays import Array
from rankwolf.ground.deadline import current
from rankwolf.ground.low_rank import LowRank
from rankwolf.oracles import l1
from rankwolf.problem import SmoothProblem
from rankwolf.sensing.base import Products
from rankwolf.solvers.base import MeasuredSolution, Solution
from rankwolf.solvers.data_terms import check_room, intervals

# What a run keeps at most: b, L, S, their images, r and temporary arrays.
MATRICES = 12


class Observed:
    """The entries Ω of a matrix as measurements in its place: b = P_Ω M, A = P_Ω, ‖A‖ = 1. Memory: b and a mask.

    >>> import numpy as np
    >>> from rankwolf.data.open import open_source
    >>> Observed(open_source(np.array([[1.0, np.nan], [3.0, 4.0]]), None, 1)).b
    array([[1., 0.],
           [3., 4.]])
    """

    norm = 1.0

    def __init__(self, source: Source) -> None:
        self.source, self.shape, self.dtype = source, source.shape, source.dtype
        check_room(source, MATRICES * source.dtype.itemsize, "A method of the paper")
        low, high = intervals(source, source.dtype)
        self.seen = None if low is high else np.isfinite(low)
        self.b = low if self.seen is None else np.where(self.seen, low, low.dtype.type(0))

    def apply(self, matrix: Array) -> Array:
        """P_Ω X."""
        current().check()
        self.source.passes += 1
        seen: Array = matrix if self.seen is None else matrix * self.seen
        return seen

    def apply_factors(self, left: Array, right: Array) -> Array:
        """P_Ω(left·rightᵀ)."""
        return self.apply(left @ right.T)

    def adjoint(self, values: Array) -> Array:
        """A*y = y."""
        return values

    def products(self, values: Array, dense: Array) -> Products:
        """Products with A*y, which is ``dense``."""
        return Products(lambda block: dense @ block, lambda block: dense.T @ block)


def measured(data: Data) -> Any:
    """``data`` as measurements."""
    return Observed(data) if isinstance(data, Source) else data


def dual_point(problem: SmoothProblem, data: Any, low_rank: Array, residual: Array) -> Array:
    """A y that proves much: the residual; for entries that at L with its best S, which keeps to |y| ≤ λ_S."""
    if not isinstance(data, Observed):
        return residual
    rest = data.b - data.apply(low_rank)
    theta = problem.threshold_S(1.0, partial(l1.projection_threshold, rest))
    clipped: Array = np.clip(rest, -theta, theta)
    return clipped


def solution(
    problem: SmoothProblem, data: Any, low_rank: LowRank, sparse: Array, dual: Array, keeps_S: bool = False
) -> Solution | MeasuredSolution:
    """The pair as the judge takes it. For entries the best S for this L takes the place of S, unless ``keeps_S``."""
    if not isinstance(data, Observed):
        return MeasuredSolution(low_rank, sparse, dual)
    rest = data.b - data.apply(np.asarray(low_rank))
    theta = problem.threshold_S(1.0, partial(l1.projection_threshold, rest))
    if not keeps_S:
        return Solution(low_rank, theta)
    largest = problem.threshold_S(1.0, lambda radius: float(np.max(np.abs(rest - sparse))))
    return Solution(low_rank, largest, scipy.sparse.csr_array(sparse))
