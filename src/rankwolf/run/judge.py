"""The judge: evaluates the pair that a solver hands in afresh, certifies it, and turns it as the user's matrix lies.

It is one function, :func:`assess`, with an implementation for each kind of data: entries and measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from math import inf
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.data import Source
from rankwolf.data.measurements import Measurements
from rankwolf.ground.arrays import inner
from rankwolf.ground.low_rank import LowRank
from rankwolf.oracles import l1
from rankwolf.passes import ClippedSums, evaluate, misfit_of_pair
from rankwolf.problem import Certificate, Problem
from rankwolf.result.sparse_part import SparsePart, StoredSparse, sparse_part_of
from rankwolf.run.certificate import certify, certify_measured
from rankwolf.solvers.base import MeasuredSolution, Solution


@dataclass(frozen=True)
class Assessment:
    """L and S as the user's matrix lies, their misfit, their objective, and a certified bound on the optimum."""

    low_rank: LowRank
    sparse: SparsePart
    misfit_squared: float
    objective: float
    certificate: Certificate


@singledispatch
def assess(
    data: Any,
    problem: Problem,
    solution: Any,
    rng: np.random.Generator,
    goal: float | None = None,
    *,
    quick: bool = False,
) -> Assessment:
    """Judge the pair ``solution`` on ``data``, without using any number that the solver says about it.

    With a ``goal``, a lower bound that does not reach it may be far from the best one. ``quick``: no proof of ‖Y‖₂; the
    bound is the one that follows from ‖Y‖₂ ≤ ‖Y‖_F.
    """
    raise TypeError(f"Nothing is known about solutions on a {type(data).__name__}.")


@assess.register(Source)
def _(
    source: Source,
    problem: Problem,
    solution: Solution,
    rng: np.random.Generator,
    goal: float | None = None,
    *,
    quick: bool = False,
) -> Assessment:
    """Entries: one pass evaluates and certifies, where the proof is by factorisation and at the pair's own L and θ."""
    clip = solution.threshold if solution.clip is None else solution.clip
    sums: ClippedSums
    dual = solution.low_rank if solution.dual is None else solution.dual
    if quick:
        sums = evaluate(source, dual, clip)
        certificate = loose_certificate(problem, sums.g_dot_m, sums.g_squared, clip)
    else:
        certificate, sums = certify(problem, source, dual, clip, solution.deflation, rng, goal)
    if clip != solution.threshold or dual is not solution.low_rank:
        sums = evaluate(source, solution.low_rank, solution.threshold)
    squared, objective, nonzeros = _evaluate(problem, source, solution, sums)
    low_rank = source.as_user_sees(solution.low_rank)
    sparse: SparsePart
    if solution.sparse is None:
        sparse = sparse_part_of(source, low_rank, solution.threshold, nonzeros, shrinks=solution.shrinks)
    else:
        sparse = StoredSparse(solution.sparse.T.tocsr() if source.transposed else solution.sparse)
    return Assessment(low_rank, sparse, squared, objective, certificate)


@assess.register(Measurements)
def _(
    data: Measurements,
    problem: Problem,
    solution: MeasuredSolution,
    rng: np.random.Generator,
    goal: float | None = None,
    *,
    quick: bool = False,
) -> Assessment:
    """Measurements: one product with A to evaluate, one or two with A* to certify."""
    low_rank, sparse = solution.low_rank, solution.sparse
    total = np.asarray(low_rank)
    total += sparse
    residual = data.b - data.apply(total)
    del total
    squared = inner(residual, residual)
    objective = problem.objective(squared, low_rank.nuclear_norm, l1.norm(sparse))
    if quick:
        gradient = data.adjoint(residual)
        certificate = loose_certificate(
            problem,
            inner(residual, data.b),
            squared,
            float(np.max(np.abs(gradient))),
            np.linalg.norm(gradient),
        )
    else:
        certificate = certify_measured(problem, data, (solution.dual, residual), rng, goal)
    return Assessment(low_rank, StoredSparse(scipy.sparse.csr_array(sparse)), squared, objective, certificate)


def loose_certificate(
    problem: Problem, dot_m: float, squared: float, largest: float, frobenius: Any = None
) -> Certificate:
    """The certificate of Y by ‖Y‖₂ ≤ ‖Y‖_F alone; ``squared`` is ‖Y‖_F². For measurements, ‖y‖² and ‖A*y‖_F."""
    norm = squared**0.5 if frobenius is None else float(frobenius)
    bound = problem.lower_bound(dot_m, squared, norm, largest)
    return Certificate(bound, True, None, bound)


def solution_at_zero(data: Any, problem: Problem) -> Any:
    """The pair of a run that had no time for a step: L = 0, with S = T(M) for entries and S = 0 for measurements."""
    if isinstance(data, Measurements):
        zero = LowRank.zeros(data.shape, data.dtype)
        return MeasuredSolution(zero, np.zeros(data.shape, data.dtype), np.zeros_like(data.b))
    zero = LowRank.zeros(data.shape, data.dtype)
    threshold = problem.threshold_at_zero
    return Solution(zero, threshold, clip=threshold or inf)


def _evaluate(
    problem: Problem, source: Source, solution: Solution, sums: ClippedSums
) -> tuple[float, float, int]:
    """(‖P_Ω(L + S − M)‖², objective, ‖S‖₀) of the pair; ``sums`` are those at its L and threshold."""
    low_rank = solution.low_rank
    if solution.sparse is None:
        squared, s_norm, nonzeros = sums.g_squared, sums.s_norm, sums.nonzeros
        if not solution.shrinks:
            squared = max(squared - nonzeros * solution.threshold**2, 0.0)
            s_norm += nonzeros * solution.threshold
    else:
        squared = misfit_of_pair(source, low_rank, solution.sparse)
        s_norm, nonzeros = float(np.sum(np.abs(solution.sparse.data))), int(solution.sparse.nnz)
    return squared, problem.objective(squared, low_rank.nuclear_norm, s_norm), nonzeros
