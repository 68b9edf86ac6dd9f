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


class Hybrid(WithSettings[Problem, HybridState, HybridSettings]):
    """Frank-Wolfe meets a factored local method; :mod:`rankwolf.solvers.hybrid` says how.

    Keywords are fields of :class:`~rankwolf.solvers.hybrid.HybridSettings` that should differ from its defaults, as in
    ``Hybrid(learns=False)``.

    Cost of a step: one pass, rarely two or three (when a bold one overshoots), of about 6r + 4k operations an entry for
    rank r and k = r + r/4 + 8 columns in Q. State: (m + n)·(k + 2r) numbers. Nothing of the matrix's size.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> rw.decompose(X, delta=0.01, method=rw.solvers.Hybrid(bold_rows=False), rng=0).low_rank.rank
    1
    """

    name = "hybrid"
    solves = (Penalized, Constrained, NoiseBounded)
    settings_type = HybridSettings
    states = (HybridState, Level, Past, Found, Penalized, Point, HybridSums, Pace, Momentum)

    def init(self, problem: Problem, source: Source, rng: np.random.Generator) -> HybridState:
        """A point on the way: see :mod:`rankwolf.solvers.hybrid.start`."""
        return self._expecting(problem, source, start(problem, source, rng, self.settings))

    def init_at(
        self, problem: Problem, source: Source, rng: np.random.Generator, given: Start
    ) -> HybridState:
        """At V of an earlier L, to which the first pass fits the rows."""
        return self._expecting(problem, source, start_from(given, problem, source, rng, self.settings))

    def _expecting(self, problem: Problem, source: Source, state: HybridState) -> HybridState:
        """``state``, with what is expected of the first proof."""
        settings = self.settings
        ratios = settings.following_proof_ratio if problem.follows else settings.proof_ratio
        state.proof_ratio = ratios[0 if source.fully_observed else 1]
        return state

    def step(self, problem: Problem, source: Source, state: HybridState) -> HybridState:
        """One pass, or a few where it overshot."""
        advance(problem, source, state, self.settings)
        weights = state.evaluated.weights
        # At the weights themselves, rounding may hide that a point is as good as the best.
        state.value = state.best if weights == problem else problem.value(state.found, weights.lambda_S)
        return state

    def report(self, problem: Problem, state: HybridState) -> Report:
        """The objective, a bound from Ritz values on span Q, and what a proof may be expected to give."""
        found, weights = state.found, state.evaluated.weights
        bound = ritz_bound(problem, state.evaluated)
        # Whether there is noise shows when the weights fall (``end``): not before the second level.
        known = not problem.exact or found.rank == 0 or state.level.before is not None
        settled = known and state.sees_all and problem.price_error(weights, found) < inf
        margin = margin_of(problem, state, self.settings)
        ready = settled and (not problem.follows or problem.allows(weights, found, margin))
        expected = bound
        if ready:
            computed = expected_of_proof(problem, state.evaluated, state.observed)
            expected = max(bound, state.value - state.proof_ratio * (state.value - computed))
        # Where the weights are looked for, a level that settles slowly shows in its own objective alone.
        improves = weights != problem and state.pace.decrease > 1e-13 * state.best
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
        """How much better or worse the proof was than was computed before; and where Y was too long, as probes."""
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
        """The best point, made allowed where it is not, with the directions in which its G is too long."""
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
    """L and the threshold of S, such that the problem's constraints hold.

    Where they hold already, and for weights, nothing is computed. Else a pass for each Newton step, one or two.
    """
    point, found, margin = state.evaluated, state.found, margin_of(problem, state, settings)
    threshold, low_rank = point.weights.lambda_S, source.low_rank(point.left, point.right)
    if problem.allows(point.weights, found, margin):
        return low_rank, threshold
    spectrum = problem.allowed_spectrum(low_rank.s, found)
    low_rank = source.leading(low_rank, spectrum.size)
    low_rank = LowRank(low_rank.u, spectrum, low_rank.vt)
    threshold = problem.allowed_threshold(threshold, found, margin)
    for _ in range(20):
        if threshold == 0.0 and not problem.follows:
            break
        sums = evaluate(source, low_rank, threshold)
        found = state.found_by(sums, threshold, low_rank.nuclear_norm, low_rank.rank)
        better = problem.allowed_threshold(threshold, found, margin)
        if better == threshold:
            return low_rank, threshold
        threshold = better
    return low_rank, inf if problem.follows else 0.0
