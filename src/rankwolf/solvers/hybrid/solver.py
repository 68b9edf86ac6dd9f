"""The hybrid as a solver: the contract of :class:`rankwolf.solvers.base.Solver` on top of the step."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from rankwolf.data import Source
from rankwolf.ground.low_rank import LowRank
from rankwolf.ground.momentum import Momentum
from rankwolf.oracles.nuclear import orthonormal_against
from rankwolf.passes import Deflation, evaluate
from rankwolf.problem import Certificate, Constrained, Found, NoiseBounded, Past, Penalized, Problem
from rankwolf.solvers.base import Report, Solution, Start, WithSettings
from rankwolf.solvers.hybrid.end import at_the_end
from rankwolf.solvers.hybrid.pace import Pace
from rankwolf.solvers.hybrid.path import advance, expected_of_proof, margin_of, ritz_bound
from rankwolf.solvers.hybrid.settings import HybridSettings
from rankwolf.solvers.hybrid.start import start, start_from
from rankwolf.solvers.hybrid.state import HybridState, Level, Point
from rankwolf.solvers.hybrid.sweep import HybridSums

# An objective that fell by no more than this share of itself has not changed, but for rounding.
NO_CHANGE = 1e-13


class Hybrid(WithSettings[Problem, HybridState, HybridSettings]):
    """Frank-Wolfe's directions with a local method on the factors of L; :mod:`rankwolf.solvers.hybrid` says how.

    Keywords are fields of :class:`~rankwolf.solvers.hybrid.HybridSettings` that should differ from its defaults, as in
    ``Hybrid(learns=False)``.

    Cost of a step: one pass, rarely two or three (when a bold one overshoots), of 14r + 4k operations an entry for rank
    r and k ≈ r + max(8, r/4) columns in Q. Memory: about (m + n)·(k + 3r) numbers between passes, and m·(k + 2r) more
    in a pass; nothing of the matrix's size.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> rw.decompose(X, delta=0.01, method=rw.solvers.Hybrid(bold_rows=False), rng=0).low_rank.rank
    1
    """

    name = "hybrid"
    solves = (Penalized, Constrained, NoiseBounded)
    takes_start = True
    settings_type = HybridSettings
    states = (HybridState, Level, Past, Found, Penalized, Point, HybridSums, Pace, Momentum)

    def init(self, problem: Problem, source: Source, rng: np.random.Generator) -> HybridState:
        """V from a sample of the rows, or L = 0 at the top of the path: see :mod:`rankwolf.solvers.hybrid.start`."""
        return self._expecting(problem, source, start(problem, source, rng, self.settings))

    def init_at(
        self, problem: Problem, source: Source, rng: np.random.Generator, given: Start
    ) -> HybridState:
        """At an earlier L; if only its V is given, the first pass fits the rows."""
        return self._expecting(problem, source, start_from(given, problem, source, rng, self.settings))

    def _expecting(self, problem: Problem, source: Source, state: HybridState) -> HybridState:
        """``state``, with the first guess of the ratio of a proof's gap to the computed one."""
        settings = self.settings
        complete, with_gaps = settings.following_proof_ratio if problem.follows else settings.proof_ratio
        state.proof_ratio = complete if source.fully_observed else with_gaps
        return state

    def step(self, problem: Problem, source: Source, state: HybridState) -> HybridState:
        """One pass, or two or three where it overshot."""
        advance(problem, source, state, self.settings)
        weights = state.evaluated.weights
        # At the problem's own weights the best objective counts: a new one may differ from it by rounding only.
        state.value = state.best if weights == problem else problem.value(state.found, weights.lambda_S)
        return state

    def report(self, problem: Problem, state: HybridState) -> Report:
        """The objective, a bound from Ritz values on span Q, and the bound to be expected of a proof."""
        found, weights = state.found, state.evaluated.weights
        bound = ritz_bound(problem, state.evaluated)
        # Whether the data have noise is known only from the second level on (see ``end``).
        known = not problem.exact or found.rank == 0 or state.level.before is not None
        settled = known and state.sees_all and problem.price_error(weights, found) < inf
        margin = margin_of(problem, state, self.settings)
        ready = settled and (not problem.follows or problem.allows(weights, found, margin))
        expected = bound
        if ready:
            computed = expected_of_proof(problem, state.evaluated, state.observed)
            expected = max(bound, state.value - state.proof_ratio * (state.value - computed))
        # Before the final weights are reached, the progress of a slow level shows only in that level's own objective.
        improves = weights != problem and state.pace.decrease > NO_CHANGE * state.best
        return Report(
            state.value,
            bound,
            found.rank,
            found.nonzeros,
            1.0,
            expected_bound=expected,
            settled=settled,
            improves=improves,
        )

    def learn(self, problem: Problem, state: HybridState, promised: float, certificate: Certificate) -> None:
        """Correct the ratio of a proof's gap to the computed one; add directions in which Y was too long as probes."""
        if not self.settings.learns:
            return
        computed = expected_of_proof(problem, state.evaluated, state.observed)
        if state.value > computed:
            state.proof_ratio = (state.value - certificate.likely_bound) / (state.value - computed)
        if certificate.witness is not None:
            known = state.basis.astype(np.float64)
            room = state.basis.shape[0] - state.basis.shape[1]
            fresh = orthonormal_against(certificate.witness[:, :room], known, state.rng)
            state.basis = np.hstack([known, fresh]).astype(state.basis.dtype)

    def solution(self, problem: Problem, source: Source, state: HybridState) -> Solution:
        """The best point, made to satisfy the constraints, and the directions in which its G is longer than λ_L."""
        point = state.evaluated
        lambda_L, lambda_S = point.weights.pair
        low_rank, threshold = allowed(problem, source, state, self.settings)
        solution = Solution(low_rank, threshold, clip=threshold if problem.follows else lambda_S)
        if problem.exact:
            end = at_the_end(problem, source, state, low_rank, self.settings)
            solution = Solution(
                end.low_rank, end.limit, clip=lambda_S, dual=low_rank, shrinks=end.limit == 0.0
            )
        if not self.settings.deflates:
            return solution
        squared, vectors = np.linalg.eigh(point.sums.probe_gram)
        values = np.sqrt(np.maximum(squared, 0.0))
        long = values > lambda_L
        directions = (point.basis @ vectors[:, long]).astype(source.dtype)
        excess = 1.0 - lambda_L / values[long]
        return replace(solution, deflation=Deflation(directions, excess))


def allowed(
    problem: Problem, source: Source, state: HybridState, settings: HybridSettings
) -> tuple[LowRank, float]:
    """L and the threshold of S, changed so that the problem's constraints hold.

    Nothing is computed where they hold already, as they always do for given weights. Otherwise each Newton step on the
    threshold takes a pass; one or two are usual.
    """
    point, found, margin = state.evaluated, state.found, margin_of(problem, state, settings)
    threshold, low_rank = point.weights.lambda_S, source.low_rank(point.left, point.right)
    if problem.allows(point.weights, found, margin):
        return low_rank, threshold
    spectrum = problem.allowed_spectrum(low_rank.s, found)
    low_rank = source.leading(low_rank, spectrum.size)
    low_rank = LowRank(low_rank.u, spectrum, low_rank.vt)
    threshold = problem.allowed_threshold(threshold, found, margin)
    for _ in range(settings.allowed_rounds):
        if threshold == 0.0 and not problem.follows:
            break
        sums = evaluate(source, low_rank, threshold)
        found = state.found_by(sums, threshold, low_rank.nuclear_norm, low_rank.rank)
        better = problem.allowed_threshold(threshold, found, margin)
        if better == threshold:
            return low_rank, threshold
        threshold = better
    return low_rank, inf if problem.follows else 0.0
