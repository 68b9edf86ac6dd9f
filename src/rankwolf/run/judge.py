"""The judge: evaluates the pair that a solver hands in afresh, certifies it, and turns it as the user's matrix lies.

It is one function, :func:`assess`, with an implementation for each kind of data: entries and measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from math import inf
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.data import Source
from rankwolf.data.bounded import MeasureFar
from rankwolf.data.measurements import Measurements
from rankwolf.ground.arrays import inner, namespace
from rankwolf.ground.low_rank import LowRank
from rankwolf.oracles.l1 import magnitudes, shrunk_by
from rankwolf.passes import ClippedSums, evaluate, misfit_of_pair
from rankwolf.problem import Constrained, Problem
from rankwolf.result.sparse_part import OnDevice, SparsePart, StoredSparse, sparse_part_of
from rankwolf.solvers.base import Certificate, MeasuredSolution, Solution, group_axis
from rankwolf.solvers.certificate import certify, certify_measured, norm_of_dense

# Radii are met with this share to spare where S is computed again later, by other products.
ROUNDING_SHARE = 1e-7


@dataclass(frozen=True)
class Assessment:
    """L and S as the user's matrix lies, their misfit, their objective, and a certified bound on the optimum."""

    low_rank: LowRank
    sparse: SparsePart
    misfit_squared: float
    objective: float
    certificate: Certificate
    far: float = 0.0
    """What S pays for entries out of scale, which runs see as the bound (:mod:`rankwolf.data.bounded`)."""


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
    if solution.explicit is not None:
        return _assess_explicit(source, problem, solution, rng, quick)
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
    if isinstance(problem, Constrained) and solution.sparse is None and not solution.explicit:
        solution, sums = _inside(source, problem, solution, sums)
    squared, objective, nonzeros = _evaluate(problem, source, solution, sums)
    low_rank = source.as_user_sees(solution.low_rank)
    sparse: SparsePart
    if solution.sparse is None:
        sparse = sparse_part_of(source, low_rank, solution.threshold, nonzeros, shrinks=solution.shrinks)
    else:
        sparse = StoredSparse(solution.sparse.T.tocsr() if source.transposed else solution.sparse)
    return Assessment(low_rank, sparse, squared, objective, certificate, _far(source, problem))


def _inside(
    source: Source, problem: Constrained, solution: Solution, sums: ClippedSums
) -> tuple[Solution, ClippedSums]:
    """The pair moved by rounding into its radii: singular values shortened, the threshold of S raised."""
    low_rank, threshold = solution.low_rank, solution.threshold
    share = min(problem.tau_L / low_rank.nuclear_norm, 1.0) if low_rank.rank else 1.0
    over = sums.s_norm - problem.tau_S * (1.0 - ROUNDING_SHARE)
    if share == 1.0 and (over <= 0.0 or not sums.nonzeros):
        return solution, sums
    low_rank = LowRank(low_rank.u, low_rank.s * (share * (1.0 - 1e-14)), low_rank.vt)
    if over > 0.0 and sums.nonzeros:
        threshold += over / sums.nonzeros
    moved = replace(solution, low_rank=low_rank, threshold=threshold)
    return moved, evaluate(source, low_rank, threshold)


def _far(source: Source, problem: Problem) -> float:
    return problem.penalty(0.0, source.run(MeasureFar(source.bound)).total) if source.bound < inf else 0.0


def _assess_explicit(
    source: Source, problem: Problem, solution: Solution, rng: np.random.Generator, quick: bool
) -> Assessment:
    """Entries in memory as one array, with a dual point that is an array: no pass."""
    term, dual, axis = solution.explicit.term, solution.explicit.dual, solution.explicit.axis
    xp = namespace(dual)
    rest = term.distance((solution.low_rank.u * solution.low_rank.s) @ solution.low_rank.vt)
    sparse = solution.sparse
    if sparse is None:
        sparse = shrunk_by(rest, solution.threshold, axis)
    rest = rest - xp.where(rest != 0.0, sparse, xp.zeros_like(sparse))
    squared, s_norm = inner(rest, rest), float(xp.sum(magnitudes(sparse, axis)))
    objective = problem.objective(squared, solution.low_rank.nuclear_norm, s_norm)
    norm = inner(dual, dual) ** 0.5 if quick else norm_of_dense(dual, rng)[0]
    largest = float(xp.max(magnitudes(dual, axis)))
    bound = problem.lower_bound(term.dot(dual), inner(dual, dual), norm, largest)
    low_rank = source.as_user_sees(solution.low_rank)
    part: SparsePart
    if source.device is not None:
        part = OnDevice(sparse.T if source.transposed else sparse)
    elif solution.sparse is None:
        part = sparse_part_of(source, low_rank, solution.threshold, int(np.count_nonzero(sparse)))
    else:
        stored = scipy.sparse.csr_array(sparse.T if source.transposed else sparse)
        part = StoredSparse(stored, source.frame)
    certificate = Certificate(bound, True, None, bound)
    return Assessment(low_rank, part, squared, objective, certificate, _far(source, problem))


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
    total = (low_rank.u * low_rank.s) @ low_rank.vt
    total += sparse
    residual = data.b - data.apply(total)
    del total
    squared = inner(residual, residual)
    s_norm = float(namespace(sparse).sum(magnitudes(sparse, group_axis(problem, data))))
    objective = problem.objective(squared, low_rank.nuclear_norm, s_norm)
    if quick:
        gradient = data.adjoint(residual)
        certificate = loose_certificate(
            problem,
            inner(residual, data.b),
            squared,
            float(abs(gradient).max()),
            inner(gradient, gradient) ** 0.5,
        )
    else:
        certificate = certify_measured(problem, data, (solution.dual, residual), rng, goal)
    on_host = data.device is None
    part: SparsePart = StoredSparse(scipy.sparse.csr_array(sparse)) if on_host else OnDevice(sparse)
    return Assessment(low_rank, part, squared, objective, certificate)


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
    threshold = problem.threshold_beside(lambda radius: inf, lambda radius: 0.0)
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
