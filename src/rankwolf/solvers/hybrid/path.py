"""The path: coming down from large weights, so that the rank grows from below and few entries are clipped.

A level is the problem with both weights times a factor. Far above the weights L = 0 is optimal; the path starts where
the first directions come in, and the factor falls by a constant share each time that the level has settled, until it
is 1. So the number of levels grows with the logarithm of 1/δ, and a level takes two or three passes.

A level has settled when its own relative gap, by the Ritz bound, is small. This decides whether the next level is easy:
where the weights fall before L has followed, nearly every entry of M − L is larger than λ_S, the gradient says little
more than signs, and steps of the length λ_S have a long way to go. The relative gap of such a point is near 1, and the
path waits.

Every level gives a pair for the problem itself: L, and S = T(P_Ω(M − L)) with the level's threshold. Its objective and
a lower bound, with G scaled down to the problem's own weights, are what a run reports on the way.
"""

from __future__ import annotations

from math import floor, inf, log10

import numpy as np

from rankwolf.data import Source
from rankwolf.ground.deadline import TimeUp
from rankwolf.problem import Penalized, Problem
from rankwolf.solvers.hybrid.settings import HybridSettings
from rankwolf.solvers.hybrid.state import HybridState, Point
from rankwolf.solvers.hybrid.step import step


def begin(
    problem: Problem, source: Source, rng: np.random.Generator, settings: HybridSettings
) -> HybridState:
    """L = 0 at the top of the path; no pass yet."""
    n = source.shape[1]
    probes = rng.standard_normal((n, min(settings.least_probes, n)))
    basis = np.linalg.qr(probes)[0].astype(source.dtype)
    top = problem.top(settings.path_start * source.summary.norm, max(source.shape))
    return HybridState.at(source, top, np.zeros((n, 0), source.dtype), basis, rng)


def advance(problem: Problem, source: Source, state: HybridState, settings: HybridSettings) -> None:
    """One step at the present level, or at the next one if the present level has settled."""
    level = state.level
    if state.point is not None:
        if problem.follows:
            relative = relative_gap(problem, state)
            value = problem.value(state.found, state.point.weights.lambda_S)
            level.wait(relative * value, relative, settings.smaller_gap)
        problem = problem.inside(state.point.weights, margin_of(problem, state, settings))
        aim = None if problem.follows else next_weights(problem, state, settings)
        if aim is not None:
            state.enter(aim, settings.predicts)
    try:
        step(problem, source, state, settings)
    except TimeUp:
        state.stay()
        raise
    if level.passes == 0:  # this pass has made U of the point at which the last level ended
        level.rows, level.right = state.previous_rows, state.previous
    level.passes += 1


def next_weights(problem: Problem, state: HybridState, settings: HybridSettings) -> Penalized | None:
    """The weights of the next level; None where the present level has not settled, or is the last.

    A level has settled when its gap is a small share of its objective and of the ``price_error`` of its weights.
    """
    level, point, found = state.level, state.evaluated, state.found
    off = problem.price_error(level.weights, found)
    if off == 0.0:
        return None
    gap = point.objective - ritz_bound(level.weights, point)
    small = min(settings.path_gap * point.objective, settings.path_share * off)
    # On the way to given weights (``off`` is ∞) a slow level may be left early: the last level is solved anyway.
    patience = settings.path_passes if off == inf else inf
    if gap > small and level.passes < patience:
        return None
    aim = problem.prices(level.weights, found, level.past)
    weights = level.weights.towards(aim, settings.path_step)
    return None if weights == level.weights else weights


def ritz_bound(problem: Problem, point: Point) -> float:
    """A lower bound on the optimum of ``problem`` from G at ``point``.

    It rests on the Ritz values of G on span Q, which are never above ‖G‖₂ but for rounding: a promise, not a proof.
    """
    squared = float(np.linalg.eigvalsh(point.sums.probe_gram)[-1])
    spectral_norm = max(squared, 0.0) ** 0.5
    sums = point.sums
    return problem.lower_bound(sums.g_dot_m, sums.g_squared, spectral_norm, point.weights.lambda_S)


def deflated_bound(problem: Problem, point: Point, entries: int) -> float:
    """The lower bound of Y = G − E, where E takes out of G what is longer than λ_L on span Q; no proof.

    E = Σ(σᵢ − λ_L)uᵢvᵢᵀ over the Ritz values σᵢ > λ_L, as the proof takes it out. Then the proof clips Y again, so that
    of ⟨E, S⟩ only the entries count where both have the same sign. For independent signs this is about
    φ(0)·(‖E‖_F/√entries)·‖S‖₁ with φ(0) = 0.4. What clipping adds to ‖Y‖₂ is left out: the gap of the proof is larger,
    by a factor that changes little in a run. Cost: k³ operations for k columns in Q.
    """
    sums, (lambda_L, lambda_S) = point.sums, point.weights.pair
    overlap = point.right.T.astype(np.float64) @ point.basis
    low_rank_basis = overlap.T @ sums.left_basis  # (LQ)ᵀB, with B = LQ + s·GQ
    low_rank_clipped = (low_rank_basis - overlap.T @ sums.left_gram @ overlap) / point.length
    squared, vectors = np.linalg.eigh(sums.probe_gram)
    long = squared > lambda_L**2
    squared, vectors = squared[long], vectors[:, long]
    excess = np.sqrt(squared) - lambda_L
    along = np.einsum("ij,ik,kj->j", vectors, low_rank_clipped, vectors)
    from_sparse = 0.4 * (float(excess @ excess) / entries) ** 0.5 * sums.s_norm
    taken = float((excess / np.sqrt(squared)) @ (along + squared)) + from_sparse
    shorter = float(np.sum(squared - lambda_L**2))
    return problem.lower_bound(sums.g_dot_m - taken, sums.g_squared - shorter, lambda_L, lambda_S)


def expected_of_proof(problem: Problem, point: Point, entries: int) -> float:
    """The lower bound from which the gap of a proof is predicted.

    With radii (``follows``) G may have any length, and it is the Ritz bound; else the excess of G is taken out first.
    """
    return ritz_bound(problem, point) if problem.follows else deflated_bound(problem, point, entries)


def relative_gap(problem: Problem, state: HybridState) -> float:
    """The relative gap of ``problem`` itself at the best point, by the Ritz bound."""
    value = problem.value(state.found, state.evaluated.weights.lambda_S)
    return (value - ritz_bound(problem, state.evaluated)) / value if value > 0.0 else 0.0


def margin_of(problem: Problem, state: HybridState, settings: HybridSettings) -> float:
    """By how much the objective may rise to stay inside a constraint: ``margin_share`` of the gap, or less.

    It changes by powers of ten only, because an aim that moved with every pass would never be reached.
    """
    if not problem.follows:
        return 0.0
    value = problem.value(state.found, state.evaluated.weights.lambda_S)
    gap = relative_gap(problem, state)
    power = floor(log10(max(gap, 1e-12))) if gap < 1e-2 else -3
    return settings.margin_share * value * 10.0 ** min(power, -3)
