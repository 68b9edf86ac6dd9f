"""The judge: the pair that a solver hands in, evaluated afresh, certified, and turned the way the user's matrix lies.

One function, with one implementation for each kind of data that the loop of :mod:`rankwolf.solve` can run on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.certificate import Certificate, certify, certify_measured
from rankwolf.lowrank import LowRank
from rankwolf.oracles import l1
from rankwolf.passes import HuberSums, misfit_of_pair
from rankwolf.problem import Penalized, Problem
from rankwolf.result import (
    DistributedResidual,
    SparsePart,
    StoredSparse,
    ThresholdedEntries,
    ThresholdedResidual,
)
from rankwolf.sensing import Measurements
from rankwolf.sensing.checks import inner
from rankwolf.solvers.base import Solution
from rankwolf.solvers.measured import MeasuredSolution
from rankwolf.sources import OnDask, Source, SparseObserved


@dataclass(frozen=True)
class Assessment:
    """L and S as the user sees them, their objective with the true norms, and a lower bound on the optimum."""

    low_rank: LowRank
    sparse: SparsePart
    objective: float
    certificate: Certificate


@singledispatch
def assess(
    data: Any, problem: Problem, solution: Any, rng: np.random.Generator, goal: float | None = None
) -> Assessment:
    """Judge ``solution`` on ``data``, without anything that the solver says about it.

    Who only wants to know whether the lower bound is at least ``goal`` may get a bad one where it is not.
    """
    raise TypeError(f"Nothing is known about solutions on a {type(data).__name__}.")


@assess.register(Source)
def _(
    source: Source, problem: Problem, solution: Solution, rng: np.random.Generator, goal: float | None = None
) -> Assessment:
    """Entry-wise observations: one pass does both where the certificate is exact."""
    certificate, sums = certify(
        problem, source, solution.low_rank, solution.threshold, solution.deflation, rng, goal
    )
    objective, nonzeros = _evaluate(problem, source, solution, sums)
    low_rank = source.as_user_sees(solution.low_rank)
    sparse: SparsePart
    if isinstance(source, SparseObserved):
        sparse = ThresholdedEntries(source, low_rank, solution.threshold, nonzeros)
    elif solution.sparse is None and isinstance(source, OnDask):
        sparse = DistributedResidual(source, low_rank, solution.threshold, nonzeros)
    elif solution.sparse is None:
        sparse = ThresholdedResidual(source, low_rank, solution.threshold, nonzeros)
    else:
        sparse = StoredSparse(solution.sparse.T.tocsr() if source.transposed else solution.sparse)
    return Assessment(low_rank, sparse, objective, certificate)


@assess.register(Measurements)
def _(
    data: Measurements, problem: Problem, solution: MeasuredSolution, rng: np.random.Generator,
    goal: float | None = None,
) -> Assessment:  # fmt: skip
    """Measurements: one product with A to evaluate, two with A* to certify."""
    low_rank, sparse = solution.low_rank, solution.sparse
    residual = data.b - data.apply(np.asarray(low_rank) + sparse)
    squared = inner(residual, residual)
    if isinstance(problem, Penalized):
        objective = problem.objective(squared, low_rank.nuclear_norm, l1.norm(sparse))
    else:
        objective = problem.objective(squared)
    certificate = certify_measured(problem, data, (residual, solution.dual), rng)
    return Assessment(low_rank, StoredSparse(scipy.sparse.csr_array(sparse)), objective, certificate)


def _evaluate(problem: Problem, source: Source, solution: Solution, sums: HuberSums) -> tuple[float, int]:
    """The objective of the pair that is returned, with the true norms, and nnz(S)."""
    low_rank = solution.low_rank
    if solution.sparse is None:
        squared, s_norm, nonzeros = sums.g_squared, sums.s_norm, sums.nonzeros
    else:
        squared = misfit_of_pair(source, low_rank, solution.sparse)
        s_norm, nonzeros = float(np.sum(np.abs(solution.sparse.data))), int(solution.sparse.nnz)
    if isinstance(problem, Penalized):
        return problem.objective(squared, low_rank.nuclear_norm, s_norm), nonzeros
    return problem.objective(squared), nonzeros
