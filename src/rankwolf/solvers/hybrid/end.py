"""The end of the path, for data without noise: the limit L* of L as the weights go to 0.

Down the path L(μ) ≈ L* − μW: the error falls with the weights, and where outliers are many L(μ) has further directions
of the size of μ beside those of L*. Once the entries that L matches within λ_S stay the same while λ_S falls, they are
those without an outlier, and only the rank of L* and a least-squares fit to these entries are left to find: a refit
(:mod:`rankwolf.solvers.refit`). Its L is taken if its objective, with S = M − L, is lower; the lower bound remains
that of the point on the path. On data with noise, fewer entries are within λ_S as λ_S falls, and no refit is tried.
"""

from __future__ import annotations

import numpy as np

from rankwolf.data import Source
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.passes import evaluate
from rankwolf.problem import Problem
from rankwolf.solvers.hybrid.settings import HybridSettings
from rankwolf.solvers.hybrid.state import End, HybridState
from rankwolf.solvers.refit import RefitSettings, refit
from rankwolf.weights.noise import freedom_of


def at_the_end(
    problem: Problem, source: Source, state: HybridState, low_rank: LowRank, settings: HybridSettings
) -> End:
    """L at the end of the path, or ``low_rank``, the point on it, if that is better. Tried once: about ten passes."""
    if not state.end_tried and looks_exact(source, state, low_rank.s, settings):
        state.end_tried = True
        rounding = settings.end_rounding * float(np.finfo(source.dtype).eps) * source.summary.largest
        # Rows are near the truth by now, so that distance alone tells their outliers, even where entries are few.
        rounds = RefitSettings(most_rounds=settings.end_rounds, exact=settings.end_exact, few_entries=0.0)
        found = refit(source, low_rank, settings=rounds)
        refitted, on_the_path = (_value(problem, source, L) for L in (found.low_rank, low_rank))
        if found.settled and refitted < on_the_path:
            state.end = End(found.low_rank, found.limit if found.limit <= rounding else 0.0)
    return End(low_rank, 0.0) if state.end is None else state.end


def looks_exact(source: Source, state: HybridState, singular: Array, settings: HybridSettings) -> bool:
    """Whether about as many entries are within λ_S as on the level before, and twice as many as any L* could match.

    The rank of L* is guessed: the number of singular values before the steepest fall, if that is steep enough.
    """
    before, now = state.level.past, state.found
    if before.found is None or before.weights is None:
        return False
    fallen = before.weights.lambda_S >= settings.end_fall * state.level.weights.lambda_S
    lost = (now.nonzeros - before.found.nonzeros) / now.observed
    falls = singular[:-1] / np.maximum(singular[1:], np.finfo(np.float64).tiny)
    steep = falls.size > 0 and float(falls.max()) > settings.end_gap
    rank = int(falls.argmax()) + 1 if steep else singular.size
    live, freedom = 1.0 - now.nonzeros / now.observed, freedom_of(rank, source.shape, now.observed)
    return fallen and lost <= settings.end_lost and live > 2.0 * freedom


def _value(problem: Problem, source: Source, low_rank: LowRank) -> float:
    """The objective of L and S = M − L; a pass."""
    return problem.objective(0.0, low_rank.nuclear_norm, evaluate(source, low_rank, 0.0).s_norm)
