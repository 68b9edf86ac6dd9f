"""Noise, pursuit and radii on data of any size: a search for the weights, around a solver of weights.

Each form is the problem with weights at weights that have to be found: its Lagrange multipliers. A run is one walk of
the hybrid (:mod:`rankwolf.solvers.hybrid`) whose weights change when it has settled at those that were asked. The next
weights are

- *pursuit*, L + S = M: a quarter of the last ones, down to where the misfit no longer matters. Data without noise end
  there with an exact fit.
- *noise*, ‖P_Ω(L + S − M)‖ ≤ ε: a multiple μ of (1, λ). The misfit grows with μ, at most in proportion, so every
  settled point bounds μ from one side. The next μ is extrapolated from the last two points, and is the middle of the
  bounds where that leaves them.
- *radii*: the weights that maximise the concave dual function D(λ) = min ½‖P_Ω(L + S − M)‖² + λ_L(‖L‖_* − τ_L) +
  λ_S(‖S‖₁ − τ_S). Every pair (L, S) gives a plane above D, and every certificate a value below it. The next weights are
  the nearest ones at which the planes allow half of what may be left to gain (a bundle method with levels).

A point has settled when its own gap is a small share of what its wrong weights cost. It is believed only as far as a
certificate says: a dual point Y with a gap g has ‖Y − Y*‖² ≤ 2g, so that the misfit at these weights is known to
within √(2g). Every point also gives a feasible pair for the form itself, and every certificate a lower bound on its
optimum; a run ends when these two meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from math import inf, log

import numpy as np

from rankwolf.data import InMemory, Source
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.ground.momentum import Momentum
from rankwolf.oracles import l1
from rankwolf.oracles.nuclear import orthonormal_against
from rankwolf.passes import ClippedSums, evaluate, threshold_for_radius
from rankwolf.problem import Constrained, NoiseBounded, Penalized, Problem
from rankwolf.solvers.base import Certificate, Report, Solution, Start, WithSettings
from rankwolf.solvers.certificate import certify
from rankwolf.solvers.data_terms import intervals
from rankwolf.solvers.exact_end import exact_end
from rankwolf.solvers.hybrid import (
    Hybrid,
    HybridSettings,
    HybridState,
    HybridSums,
    Point,
    advance,
    at_zero,
    deflated_bound,
    ritz_bound,
)
from rankwolf.solvers.refit import RefitSettings, refit
from rankwolf.weights.noise import freedom_of

# The bundle keeps so many planes: with more, corners would cost more than passes, and old planes say little.
KEPT_PLANES = 16


@dataclass(frozen=True)
class PathSettings:
    """When a point has settled, and when the exact end of a pursuit is tried."""

    # A point has settled when its gap is at most this share of the cost of its wrong weights, and of its objective.
    share: float = 0.3
    path_gap: float = 0.02
    # Where the weights of a given start are not known, λ_L is this share of ‖P_Ω M‖_F; noise below ``least_noise`` of
    # the data is walked to from there.
    start_share: float = 1e-3
    least_noise: float = 1e-4
    # The level of the bundle method: this share of the way from the best value to what the planes allow. No weight
    # changes by more than the factor ``reach`` at once.
    level: float = 0.5
    reach: float = 4.0
    # The end of a pursuit is tried when λ_S has fallen by ``end_fall`` since the last level while at most the share
    # ``end_lost`` of the entries has left ±λ_S. A singular value this many times (``end_gap``) as large as the next one
    # is taken for the last of L. S leaves out entries closer to L than this many rounding errors of the largest entry.
    end_fall: float = 2.0
    end_lost: float = 0.01
    end_gap: float = 10.0
    end_rounding: float = 1e4
    # Up to so many entries in memory, that fit is made on all of them at once instead of by passes.
    dense_entries: int = 2**23
    # Newton steps, a pass each, to a pair that satisfies the constraints.
    newton_steps: int = 20


@dataclass
class Settled:
    """Weights at which a point has settled: norms, misfit and nonzeros there, and its certified gap (0: not asked)."""

    weights: Penalized
    nuclear_norm: float
    l1_norm: float
    misfit: float
    nonzeros: int
    gap: float = 0.0


@dataclass
class PathState:
    """The walk of the hybrid, the weights that are asked for now, and what the settled points say.

    ``low`` and ``high`` bound λ_L of a noise search. ``low_rank``, ``threshold`` is the best feasible pair so far and
    ``value`` its objective; ``bound`` the best proved lower bound, from the point ``dual``.
    """

    walk: HybridState
    aim: Penalized
    points: list[Settled] = field(default_factory=list)
    low: float = 0.0
    high: float = inf
    dual_value: float = -inf
    bound: float = 0.0
    value: float = inf
    low_rank: LowRank | None = None
    threshold: float = 0.0
    exact: LowRank | None = None
    exact_limit: float = 0.0
    exact_tried: bool = False


class Path(WithSettings[Problem, PathState, PathSettings]):
    """The search for weights that the module describes, for noise, pursuit and radii on data of any size.

    Cost of a step: one pass of the hybrid, and one or two more where a point has settled. Memory: as the hybrid's.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> fit = rw.decompose(X, noise=0.0, method="path", rng=0)
    >>> fit.low_rank.rank, bool(abs(fit.sparse[3][5] - 100.0) < 1e-9)
    (1, True)
    """

    name = "path"
    solves = (NoiseBounded, Constrained)
    takes_start = True
    settings_type = PathSettings

    def init(self, problem: Problem, source: Source, rng: np.random.Generator) -> PathState:
        """From a sample of the rows, solved the same way; where rows are few, from L = 0."""
        settings, walk_settings = self.settings, HybridSettings()
        most = source.workspace.most_bytes
        room = inf if most is None else most / source.dtype.itemsize
        (m, n), count = source.shape, walk_settings.samples(source.shape, room)
        if count is None:
            aim = first_weights(problem, source, settings)
            return PathState(at_zero(aim, source, rng, walk_settings), aim)
        sample = InMemory(source.sample(count, rng), None, source.n_threads, transposed=False)
        noise = (count**0.5 + n**0.5) / (m**0.5 + n**0.5)
        norm = sample.summary.norm / source.summary.norm if source.summary.norm > 0.0 else 1.0
        rows = count / m
        if isinstance(problem, Constrained):  # τ_L goes with the norm of the data, λ_L = ‖G‖₂ with √rows
            rough: Problem = Constrained(norm * problem.tau_L, rows * problem.tau_S)
            grown = rows**-0.5
        else:
            rough = NoiseBounded(problem.pair[0] / noise, rows**0.5 * problem.pair[1])
            grown = 1.0 / noise
        aim = first_weights(rough, sample, settings)
        with_probes = replace(walk_settings, probe_share=walk_settings.sample_probe_share)
        small = PathState(at_zero(aim, sample, rng, with_probes), aim)
        for _ in range(walk_settings.sample_passes):
            advance_path(rough, sample, small, settings, with_probes)
            report = self.report(rough, small)
            if report.objective - report.lower_bound <= walk_settings.sample_gap * report.objective:
                break
        found = small.walk
        aim = Penalized(grown * small.aim.lambda_L, small.aim.lambda_S)
        right = (found.right * (m / count) ** 0.25).astype(source.dtype)
        walk = HybridState.at(source, aim, right, found.basis.astype(source.dtype), rng)
        walk.proof_ratio = found.proof_ratio
        return PathState(walk, aim)

    def init_at(self, problem: Problem, source: Source, rng: np.random.Generator, given: Start) -> PathState:
        """At an earlier L, at the weights at which it was optimal, or at those that are likely for this problem."""
        aim = first_weights(problem, source, self.settings)
        known = given.lambda_L or self.settings.start_share * (source.summary.norm or 1.0)
        if isinstance(problem, NoiseBounded) and problem.epsilon == 0.0:
            aim = Penalized(known, known * problem.weight)
        return PathState(Hybrid().init_at(aim, source, rng, given), aim)

    def step(self, problem: Problem, source: Source, state: PathState) -> PathState:
        """One pass; new weights where the point has settled."""
        advance_path(problem, source, state, self.settings, HybridSettings())
        return state

    def report(self, problem: Problem, state: PathState) -> Report:
        """The better of the best feasible pair and an estimate of what the present point gives, and the best bound."""
        point = state.walk.evaluated
        bound = max(state.bound, ritz_bound(problem, point))
        value, expected, settled = (
            state.value,
            state.bound,
            bool(state.points) or state.walk.weights == state.aim,
        )
        if isinstance(problem, NoiseBounded):
            value = min(value, _value_within(problem, state.walk))
            # Whether the data have noise is known only from the second level on (see ``at_the_end``).
            known = problem.epsilon > 0.0 or point.right.shape[1] == 0 or bool(state.points)
            settled = known and state.walk.sees_all
            if settled:
                computed = deflated_bound(problem, state.walk)
                expected = max(bound, value - state.walk.proof_ratio * (value - computed))
        elif value == inf:  # no pair yet: what the misfit is without any
            value = 0.5 * point.sums.g_squared + point.weights.penalty(point.nuclear_norm, point.sums.s_norm)
        return Report(
            objective=value,
            lower_bound=min(bound, value),
            rank=point.right.shape[1],
            nonzeros=point.sums.nonzeros,
            step_size=1.0,
            expected_bound=expected,
            settled=settled,
            improves=state.walk.decrease > 1e-13 * abs(state.walk.best),
        )

    def learn(self, problem: Problem, state: PathState, promised: float, certificate: Certificate) -> None:
        """As the hybrid learns: the ratio of a proof's gap to the expected one, and directions that were missed."""
        walk = state.walk
        state.bound = max(state.bound, certificate.lower_bound)
        if isinstance(problem, NoiseBounded):
            value, computed = _value_within(problem, walk), deflated_bound(problem, walk)
            if value > computed:
                walk.proof_ratio = (value - certificate.likely_bound) / (value - computed)
        if certificate.witness is not None:
            known = walk.basis.astype(np.float64)
            room = walk.basis.shape[0] - walk.basis.shape[1]
            fresh = orthonormal_against(certificate.witness[:, :room], known, walk.rng)
            walk.basis = np.hstack([known, fresh]).astype(walk.basis.dtype)

    def solution(self, problem: Problem, source: Source, state: PathState) -> Solution:
        """The best feasible pair: of a settled point, of the present one, or the exact end of a pursuit."""
        here = Hybrid().solution(state.walk.evaluated.weights, source, state.walk)
        clip = state.walk.evaluated.weights.lambda_S
        if isinstance(problem, NoiseBounded) and problem.epsilon == 0.0:
            at_the_end(problem, source, state, here.low_rank, self.settings)
            if state.exact is not None:
                limit = state.exact_limit
                return Solution(state.exact, limit, clip=clip, dual=here.low_rank, shrinks=limit == 0.0)
            return replace(here, threshold=0.0)
        low_rank, threshold, value = feasible(problem, source, here.low_rank, clip, self.settings)
        if state.low_rank is not None and state.value <= value:
            low_rank, threshold = state.low_rank, state.threshold
        return Solution(low_rank, threshold, clip=clip, dual=here.low_rank, deflation=here.deflation)


Path.states = (PathState, Settled, HybridState, Penalized, Point, HybridSums, Momentum, LowRank)


def first_weights(problem: Problem, source: Source, settings: PathSettings) -> Penalized:
    """The weights that are likely to belong to the form, rather too large.

    For noise λ_L = ε(1/√m + 1/√n), the norm of noise of that size; where that is far below the data, and for radii, a
    share of the data's norm. λ_S is λ·λ_L, or λ_L/√max(m, n) for radii.
    """
    (m, n), norm = source.shape, source.summary.norm or 1.0
    if isinstance(problem, NoiseBounded):
        likely = problem.epsilon * (m**-0.5 + n**-0.5)
        lambda_L = likely if likely >= settings.least_noise * norm else settings.start_share * 10.0 * norm
        return Penalized(lambda_L, lambda_L * problem.weight)
    lambda_L = settings.start_share * 10.0 * norm
    return Penalized(lambda_L, lambda_L / max(m, n) ** 0.5)


def advance_path(
    problem: Problem, source: Source, state: PathState, settings: PathSettings, walk_settings: HybridSettings
) -> None:
    """One pass at the weights that are asked for, or on the way to them; new ones where the point has settled."""
    walk = state.walk
    if walk.point is not None and walk.weights == state.aim and walk.point.weights == state.aim:
        here, gap = _here(walk), walk.point.objective - ritz_bound(state.aim, walk.point)
        cost = _cost_of_weights(problem, here)
        if gap <= settings.share * cost and gap <= settings.path_gap * walk.point.objective:
            settle(problem, source, state, here, settings)
            state.aim = next_weights(problem, state, here, settings)
            if state.aim != walk.weights:
                walk.enter(state.aim, walk_settings.path_step)
    advance(state.aim, source, walk, walk_settings)


def _here(walk: HybridState) -> Settled:
    point, sums = walk.evaluated, walk.evaluated.sums
    return Settled(point.weights, point.nuclear_norm, sums.s_norm, sums.g_squared**0.5, sums.nonzeros)


def _cost_of_weights(problem: Problem, here: Settled) -> float:
    """The part of the form's gap that is due to wrong weights, in units of the objective with weights."""
    if isinstance(problem, Constrained):
        lambda_L, lambda_S = here.weights.pair
        return lambda_L * abs(here.nuclear_norm - problem.tau_L) + lambda_S * abs(
            here.l1_norm - problem.tau_S
        )
    return here.misfit * abs(problem.pair[1] - here.misfit)


def settle(problem: Problem, source: Source, state: PathState, here: Settled, settings: PathSettings) -> None:
    """Remember a settled point; except on a pursuit, certify it and make a feasible pair of it."""
    state.points.append(here)
    if isinstance(problem, NoiseBounded) and problem.epsilon == 0.0:
        return
    walk = state.walk
    found = Hybrid().solution(here.weights, source, walk)
    certificate, sums = certify(
        here.weights, source, found.low_rank, here.weights.lambda_S, found.deflation, walk.rng
    )
    here.gap = max(walk.evaluated.objective - certificate.lower_bound, 0.0)
    if isinstance(problem, Constrained):
        dual = certificate.lower_bound - here.weights.penalty(problem.tau_L, problem.tau_S)
        state.bound = max(state.bound, dual)
        state.dual_value = max(state.dual_value, dual)
    else:
        norm = certificate.norm
        state.bound = max(
            state.bound, problem.lower_bound(sums.y_dot_m, sums.y_squared, norm, here.weights.lambda_S)
        )
    low_rank, threshold, value = feasible(problem, source, found.low_rank, here.weights.lambda_S, settings)
    if value < state.value:
        state.low_rank, state.threshold, state.value = low_rank, threshold, value


def next_weights(problem: Problem, state: PathState, here: Settled, settings: PathSettings) -> Penalized:
    """The weights to ask for after the point ``here`` has settled."""
    if isinstance(problem, Constrained):
        return best_of_bundle(problem, state, here, settings)
    assert isinstance(problem, NoiseBounded)
    mu, epsilon = here.weights.lambda_L, problem.epsilon
    if epsilon == 0.0:
        aim = mu / settings.reach
    elif here.misfit == 0.0:
        aim = 2.0 * mu
    else:
        slack = (2.0 * here.gap) ** 0.5
        if here.misfit - slack > epsilon:
            state.high = min(state.high, mu)
        elif here.misfit + slack < epsilon:
            state.low = max(state.low, mu)
        response = 1.0
        if len(state.points) > 1 and state.points[-2].misfit > 0.0:
            before = state.points[-2]
            change, grown = log(mu / before.weights.lambda_L), log(here.misfit / before.misfit)
            response = min(max(grown / change, 0.1), 1.0) if change else 1.0
        wanted = epsilon - 0.1 * abs(here.misfit - epsilon)
        aim = mu * max(wanted / here.misfit, 1e-3) ** (1.0 / response)
        if not state.low < aim < state.high:
            middle = (state.low * state.high) ** 0.5
            aim = middle if 0.0 < middle < inf else min(max(aim, 0.5 * state.low), 2.0 * state.high)
    return Penalized(aim, aim * problem.weight)


def best_of_bundle(
    problem: Constrained, state: PathState, here: Settled, settings: PathSettings
) -> Penalized:
    """The nearest weights at which the planes of all settled points allow the level.

    In the units μ = (λ_Lτ_L, λ_Sτ_S) a point's plane is ½‖misfit‖² + μ_L(‖L‖_*/τ_L − 1) + μ_S(‖S‖₁/τ_S − 1). Two
    numbers are sought, so the nearest point is the present one, its projection on a line, or where two lines meet.
    """
    unit = np.array([max(tau, 1e-300) for tau in problem.pair])
    now = np.array(here.weights.pair) * unit
    planes = np.array(
        [
            [0.5 * p.misfit**2, p.nuclear_norm / unit[0] - 1.0, p.l1_norm / unit[1] - 1.0]
            for p in state.points[-KEPT_PLANES:]
        ]
    )
    least, most = now / settings.reach, now * settings.reach
    box = np.array([[-least[0], 1, 0], [-least[1], 0, 1], [most[0], -1, 0], [most[1], 0, -1]], float)

    def allowed(points: Array, level: float) -> Array:
        above = planes[:, :1] + planes[:, 1:] @ points.T >= level - 1e-12 * abs(level)
        inside = box[:, :1] + box[:, 1:] @ points.T >= -1e-12 * now.max()
        return np.asarray(above.all(axis=0) & inside.all(axis=0))

    # The top of the planes inside the box: at a corner of three constraints in (μ, value).
    lines = np.vstack([np.hstack([planes, -np.ones((len(planes), 1))]), np.hstack([box, np.zeros((4, 1))])])
    top = -inf
    for three in combinations(range(len(lines)), 3):
        chosen = lines[list(three)]
        with np.errstate(all="ignore"):
            if abs(np.linalg.det(chosen[:, 1:])) < 1e-14:
                continue
            corner = np.linalg.solve(chosen[:, 1:], -chosen[:, 0])
        if allowed(corner[None, :2], corner[2])[0]:
            top = max(top, float(corner[2]))
    level = state.dual_value + settings.level * max(top - state.dual_value, 0.0)
    edges = np.vstack([planes - np.array([level, 0, 0]), box])
    candidates = [now]
    for c, *slope in edges:
        size = float(np.dot(slope, slope))
        if size > 0.0:
            candidates.append(now - (c + np.dot(slope, now)) / size * np.array(slope))
    for one, two in combinations(edges, 2):
        matrix = np.array([one[1:], two[1:]])
        if abs(np.linalg.det(matrix)) > 1e-14:
            candidates.append(np.linalg.solve(matrix, [-one[0], -two[0]]))
    points = np.array(candidates)
    good = points[allowed(points, level)]
    if not len(good):
        return here.weights
    nearest = good[np.argmin(np.sum((good - now) ** 2, axis=1))]
    return Penalized(*(max(float(x), 1e-300) for x in nearest / unit))


def feasible(
    problem: Problem, source: Source, low_rank: LowRank, threshold: float, settings: PathSettings
) -> tuple[LowRank, float, float]:
    """(L, θ, objective) of a pair near this one that satisfies the constraints; S = T_θ(P_Ω(M − L)).

    Radii: the singular values are projected onto ‖L‖_* ≤ τ_L, and θ is that of ‖S‖₁ = τ_S. Noise: θ is lowered until
    the misfit is ε. Newton steps, a pass each.
    """
    if isinstance(problem, Constrained):
        cut = l1.projection_threshold(low_rank.s, problem.tau_L)
        count = int(np.count_nonzero(low_rank.s > cut))
        low_rank = source.leading(low_rank, count)
        low_rank = LowRank(low_rank.u, (low_rank.s - cut) * (1.0 - 1e-14), low_rank.vt)
        left, right = source.factors(low_rank)
        threshold = threshold_for_radius(source, left, right, problem.tau_S, threshold)
        threshold *= 1.0 + 1e-14
        sums: ClippedSums = evaluate(source, low_rank, threshold)
        return low_rank, threshold, problem.objective(sums.g_squared, low_rank.nuclear_norm, sums.s_norm)
    epsilon = problem.pair[1]
    sums = evaluate(source, low_rank, threshold)
    for _ in range(settings.newton_steps):
        over = sums.g_squared - epsilon**2
        if over <= 0.0 or threshold == 0.0:
            break
        threshold = _smaller_threshold(threshold, over, sums, epsilon)
        sums = evaluate(source, low_rank, threshold)
    else:
        threshold = 0.0
        sums = evaluate(source, low_rank, threshold)
    return low_rank, threshold, problem.objective(0.0, low_rank.nuclear_norm, sums.s_norm)


def _smaller_threshold(threshold: float, over: float, sums: ClippedSums, epsilon: float) -> float:
    """θ after a Newton step towards ‖G‖ = ε.

    ‖G‖² is concave in θ², with the slope ‖S‖₀. A Newton step from above therefore lands at or below the root; it is
    long where few entries exceed θ, and infinite where none does. Two other candidates are the root of the chord from
    0, which lies above the root, and θ²/2. The smaller of these two is taken, or Newton's if that is larger.
    """
    share = min(epsilon**2 / sums.g_squared, 0.5)
    if sums.nonzeros:
        share = max(share, 1.0 - (1.0 + 1e-12) * over / sums.nonzeros / threshold**2)
    return float(threshold * share**0.5)


def _value_within(problem: NoiseBounded, walk: HybridState) -> float:
    """An upper bound on ‖L‖_* + λ‖S + (1 − c)G‖₁, where c ≤ 1 makes the misfit c‖G‖ at most ε."""
    here = _here(walk)
    c = min(1.0, problem.epsilon / here.misfit) if here.misfit > 0.0 else 1.0
    level, entries = here.weights.lambda_S, walk.observed
    # ‖G‖₁ is at most ``level`` for each entry of S, and Cauchy-Schwarz for the others.
    rest = max(here.misfit**2 - here.nonzeros * level**2, 0.0)
    clipped = here.nonzeros * level + (rest * max(entries - here.nonzeros, 0)) ** 0.5
    return problem.penalty(here.nuclear_norm, here.l1_norm + (1.0 - c) * clipped)


# ------------------------------------------------------------ the end of a pursuit


def at_the_end(
    problem: NoiseBounded, source: Source, state: PathState, low_rank: LowRank, settings: PathSettings
) -> None:
    """The limit of L as the weights go to 0, for data without noise; tried once, about ten passes.

    Down the path L(μ) ≈ L* − μW: the error falls with the weights, and where outliers are many L(μ) has further
    directions of the size of μ beside those of L*. Once the entries that L matches within λ_S stay the same while λ_S
    falls, they are those without an outlier, and only the rank of L* and a least-squares fit to these entries are left
    to find. Its L is taken if its objective, with S = M − L, is lower; the lower bound remains that of the point on the
    path. On data with noise, fewer entries are within λ_S as λ_S falls, and no fit is tried.
    """
    if state.exact_tried or not looks_exact(source, state, low_rank.s, settings):
        return
    state.exact_tried = True
    value = partial(_exact_value, problem, source)
    rounding = settings.end_rounding * float(np.finfo(source.dtype).eps) * source.summary.largest
    if source.in_memory and source.shape[0] * source.shape[1] <= settings.dense_entries:
        low, high = intervals(source)
        seen = np.isfinite(low) & np.isfinite(high)
        live = seen & (np.abs(low - np.asarray(low_rank)) <= state.walk.evaluated.weights.lambda_S)
        near = exact_end(low, seen, live, low_rank, by_entries=True)
        if near is not None and value(near[0]) < value(low_rank):
            state.exact, state.exact_limit = near[0], rounding
            return
    # Rows are near the truth by now, so that distance alone tells their outliers, even where entries are few.
    rounds = RefitSettings(most_rounds=25, exact=1e-13, few_entries=0.0)
    found = refit(source, low_rank, settings=rounds)
    if found.settled and value(found.low_rank) < value(low_rank):
        state.exact = found.low_rank
        state.exact_limit = found.limit if found.limit <= rounding else 0.0


def _exact_value(problem: NoiseBounded, source: Source, low_rank: LowRank) -> float:
    """The objective of L and S = M − L; a pass."""
    return problem.objective(0.0, low_rank.nuclear_norm, evaluate(source, low_rank, 0.0).s_norm)


def looks_exact(source: Source, state: PathState, singular: Array, settings: PathSettings) -> bool:
    """Whether about as many entries are within λ_S as on the level before, and twice as many as any L* could match.

    The rank of L* is guessed: the number of singular values before the steepest fall, if that is steep enough.
    """
    if not state.points:
        return False
    before, now, observed = state.points[-1], _here(state.walk), state.walk.observed
    fallen = before.weights.lambda_S >= settings.end_fall * now.weights.lambda_S
    lost = (now.nonzeros - before.nonzeros) / observed
    falls = singular[:-1] / np.maximum(singular[1:], np.finfo(np.float64).tiny)
    steep = falls.size > 0 and float(falls.max()) > settings.end_gap
    rank = int(falls.argmax()) + 1 if steep else singular.size
    live, freedom = 1.0 - now.nonzeros / observed, freedom_of(rank, source.shape, observed)
    return fallen and lost <= settings.end_lost and live > 2.0 * freedom
