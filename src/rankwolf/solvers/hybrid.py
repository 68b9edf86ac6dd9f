"""The hybrid solver: Frank-Wolfe's directions and proof, a factored local method's speed, one pass a step.

For weights, on data of any size: nothing of the matrix's size is kept. With S eliminated the problem is
min F(L) = H(L) + λ_L‖L‖_*, H the Huber loss of P_Ω(M − L): smooth, ∇H = −G with G = clip(P_Ω(M − L), ±λ_S), Lipschitz
constant 1. A step starts from L = U Vᵀ and a basis Q ⊇ span V with more columns:

1. *Rows*, local to a tile: u ← u + (G_t V − λ_L u)(w·VᵀV + λ_L I)⁻¹, w the live share of the row.
2. *Directions*, in the same pass: B = X Q and XᵀB for X = L + s·G, one step of subspace iteration on the point X from
   which a proximal gradient step of length s would threshold. The spare columns of Q are probes: outside span V, X is
   s·G, so they turn into the leading singular vectors of G, which are Frank-Wolfe's atoms.
3. *Threshold*, between passes and small: with Ũ an orthonormal basis of B, L⁺ = Ũ·D_sλL(ŨᵀX). All atoms with σ > λ_L
   come in at once; weak ones drop out; the singular vectors that stay below become the next probes. After a step that
   brought some in, three probes are kept for each one that was nearly long enough.
4. *Momentum* on the factors.

An entry is live when it is observed and not clipped: only there does H bend, with curvature 1. On a low-rank direction,
which is spread over all entries, its curvature is therefore about the live share, of a row in step 1 and of the matrix
in step 3, and steps by its inverse are about Newton's. A row steps three times in a pass: after the first, short step
its curvature is measured, and the others are no longer than that allows. All these steps are bold, that is, they may
overshoot. Only w = s = 1 without momentum cannot; a pass that raised the objective is taken back and repeated that way.

Why it descends: with w = s = 1 the rows' step and step 3 both minimise a majorant of F (H has curvature at most 1) over
a set that contains the present L. For step 3: with Q ⊇ span V the best L with rows in span Q is D_λL(XQ)Qᵀ, and its
columns lie in span B, so the minimiser over columns in span B is at least as good. Why the limit is the global optimum:
where σ₁(G) > λ_L on the probes, step 3 lowers F by at least ½(σ₁ − λ_L)², Frank-Wolfe's argument with the step 1 of a
smooth function; the probes are a subspace iteration on G, which does not stop short of σ₁; and where σ₁(G) = λ_L, the
certificate closes.

*The weights come down* from where the first directions come in, so that the rank grows from below and few entries are
clipped: by a constant factor each time that the present level has settled, that is, when its own relative gap is small.
Where the weights fall before L has followed, nearly every entry of M − L is larger than λ_S, the gradient says little
more than signs, and steps of the length λ_S have a long way to go. Where the matrix has many rows, a sample of them is
solved first, and the run begins with its V at the final weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from rankwolf.data import InMemory, Source, Task
from rankwolf.ground.arrays import Array
from rankwolf.ground.deadline import TimeUp
from rankwolf.ground.momentum import Momentum
from rankwolf.oracles.nuclear import orthonormal_against, projected_svd, widened
from rankwolf.passes import CLIPPED_VALUES, ClippedSums, Deflation, clip_tile, observed_share
from rankwolf.problem import Penalized, Problem
from rankwolf.solvers.base import Certificate, Report, Solution, Start, WithSettings

# The steps of the rows in a pass: pairs of a clip level, in units of λ_S, and the largest share of the whole step.
RowSteps = tuple[tuple[float, float], ...]
# The columns of the row-aligned array of shares: of the entries of a row, how many are observed, and live.
OBSERVED, LIVE = 0, 1
# Relative errors of an objective that is added up from float32 and float64 tiles, by item size.
ROUNDING = {4: 1e-8, 8: 1e-15}
# An objective that fell by no more than this share of itself has not changed, but for rounding.
NO_CHANGE = 1e-13


@dataclass(frozen=True)
class HybridSettings:
    """How the hybrid steps, starts and proves; chosen on recorded data, video and faces among them."""

    # Spare columns of the basis Q: this share of the rank, and at least so many. After a step that brought directions
    # into L: this many for each direction that was above ``near`` times λ_L. A flat spectrum has many of these.
    probe_share: float = 0.25
    least_probes: int = 8
    probes_for_each: float = 3.0
    near: float = 0.9
    # Row steps: a short one that shows how curved the row's objective is, then two as long as that allows; and those of
    # a first pass, which fits rows to a given V.
    row_steps: RowSteps = ((1.0, 0.5), (1.0, 1.0), (1.0, 1.0))
    first_row_steps: RowSteps = ((8.0, 1.0), (2.0, 1.0), (1.0, 1.0))
    # The least live share that a step assumes, as a share of the observed entries.
    least_live: float = 0.25
    # The threshold step is shorter than the inverse of the live share by this factor: some directions have more live
    # entries than most.
    caution: float = 0.8
    # The largest momentum, up to which it grows as Nesterov's sequence does.
    momentum: float = 0.6
    # The sample has at least this many rows, this many entries and this share of the rows, if that is at most two
    # thirds of the matrix (``inf``: no sample), and ``sample_copies`` times its size fits. It is solved to this gap of
    # the Ritz bound, in at most so many passes, with this share of the rank as probes: a direction that is just too
    # weak in the sample is often strong enough in the whole matrix.
    sample_rows: float = 1500
    sample_entries: int = 2**17
    sample_share: float = 1 / 16
    sample_copies: float = 8.0
    sample_gap: float = 1e-2
    sample_passes: int = 200
    sample_probe_share: float = 1.0
    # The weights begin where λ_L is this share of ‖P_Ω M‖_F, and fall by ``path_step`` when the relative gap of the
    # level's own Ritz bound is below ``path_gap``, or after ``path_passes`` passes.
    path_start: float = 0.1
    path_step: float = 4.0
    path_gap: float = 0.02
    path_passes: int = 30
    # The first guess of a proof's gap over the gap that is computed before it, for fully observed data and for data
    # with missing entries, where clipping again costs more. Failed proofs correct it.
    proof_ratio: tuple[float, float] = (3.0, 4.0)

    def samples(self, shape: tuple[int, int], most_entries: float = inf) -> int | None:
        """How many rows to solve first; None where that would be more than two thirds of them."""
        m, n = shape
        if self.sample_rows == inf:
            return None
        rows = int(self.sample_rows)
        share = int(min(self.sample_share * m, most_entries / self.sample_copies / n))
        count = max(rows, min(n, 2 * rows), self.sample_entries // n, share)
        return count if 3 * count <= 2 * m else None


@dataclass
class Point:
    """An evaluated L = left·rightᵀ, its objective with the ``weights`` of its pass, and the sums of that pass.

    ``basis`` is Q and ``length`` is s of that pass.
    """

    left: Array
    right: Array
    weights: Penalized
    objective: float
    nuclear_norm: float
    sums: HybridSums
    basis: Array
    length: float


@dataclass(frozen=True)
class Move:
    """One way to make the next pass. The default is the careful one, which cannot raise the objective.

    ``momentum``: the share of the last move that is added to both factors. ``bold``: rows step by the inverse of their
    live share. ``length``: s of the threshold step. ``from_best``: the pass starts at the best point, not the last one.
    """

    momentum: float = 0.0
    bold: bool = False
    length: float = 1.0
    from_best: bool = False


@dataclass
class HybridState:
    """The best point, and what the next pass starts from.

    U itself is not kept: ``rows`` is B of the last pass, and U⁺ = B·``left_map`` belongs to ``right``, V⁺ of step 3.
    ``previous_rows`` and ``previous`` are the U⁺ and V⁺ before these, for momentum. ``basis`` is Q of the next pass.
    ``shares`` are the observed and the live share of each row, ``observed`` is the number of observed entries.

    ``weights`` are those of the present level, at which ``passes`` passes were made; ``weights_before`` those of the
    level before, which ended at ``end_rows``·``end_right``ᵀ. ``best`` is the least objective with these weights.
    """

    shares: Array
    rows: Array
    previous_rows: Array
    left_map: Array
    right: Array
    basis: Array
    previous: Array
    rng: np.random.Generator
    observed: int
    weights: Penalized
    end_rows: Array
    end_right: Array
    weights_before: Penalized | None = None
    passes: int = 0
    point: Point | None = None
    best: float = inf
    proof_ratio: float = 1.0
    momentum: float = 0.0
    sequence: Momentum = field(default_factory=Momentum)
    length: float = 1.0
    bold: bool = True
    decrease: float = 0.0

    @classmethod
    def at(
        cls, source: Source, weights: Penalized, right: Array, basis: Array, rng: np.random.Generator
    ) -> HybridState:
        """A state without U: the first pass, at these weights, fits the rows to ``right``."""
        empty, no_columns = source.allocate(0), np.zeros((source.shape[1], 0), source.dtype)
        return cls(
            shares=source.allocate(2),
            rows=empty,
            previous_rows=empty,
            left_map=np.zeros((0, right.shape[1]), source.dtype),
            right=right,
            basis=basis,
            previous=no_columns,
            rng=rng,
            observed=source.summary.observed,
            weights=weights,
            end_rows=empty,
            end_right=no_columns,
        )

    @property
    def evaluated(self) -> Point:
        """The best point; RuntimeError before the first step."""
        if self.point is None:
            raise RuntimeError("A hybrid state has a point after the first step.")
        return self.point

    @property
    def sees_all(self) -> bool:
        """Whether no direction that the last step brought into L has a singular value above λ_L.

        Such a direction has grown unseen by the probes, and others may have: the Ritz bound is then too optimistic.
        """
        lengths = np.sum(np.square(self.right, dtype=np.float64), axis=0)[self.evaluated.right.shape[1] :]
        return not lengths.size or float(lengths.max()) <= self.weights.lambda_L

    def enter(self, weights: Penalized, path_step: float) -> None:
        """Go to another level, towards ``weights`` by at most the factor ``path_step``; momentum starts anew.

        Along the path L is nearly linear in the weights, L(λ) ≈ L* − λW: singular values are shrunk by λ_L, and
        outliers pull with λ_S. So, if the weights keep their ratio, the first pass starts on the line through the ends
        of the last two levels. For the weights λ⁻ and λ of these and the next ones λ⁺, that is a move with momentum
        (λ − λ⁺)/(λ⁻ − λ).
        """
        now, before = self.weights, self.weights_before
        following = Penalized(
            *(min(max(a, b / path_step), b * path_step) for a, b in zip(weights.pair, now.pair, strict=True))
        )
        change_L, change_S = following.lambda_L / now.lambda_L, following.lambda_S / now.lambda_S
        self.momentum = 0.0
        same = change_L < 1.0 and abs(change_L - change_S) < 1e-6  # but for rounding
        if same and before is not None and before.lambda_L > now.lambda_L:
            self.momentum = (now.lambda_L - following.lambda_L) / (before.lambda_L - now.lambda_L)
            self.previous_rows, self.previous = self.end_rows, self.end_right
        self.weights_before, self.weights, self.passes, self.best = now, following, 0, inf
        self.sequence, self.decrease, self.bold = Momentum(), 0.0, True

    def moves(self) -> Iterator[Move]:
        """The moves to try one after another; the caller asks for the next one if the last one overshot.

        An overshoot without momentum means that bold steps are too long here, and they are given up until the level
        ends. After an overshoot of the careful move the step before had gone too far: the pass starts at the best
        point.
        """
        best_was_long = self.point is not None and self.best < inf and self.point.length > 1.0
        long = self.bold and self.length > 1.0
        yield Move(self.momentum, self.bold, self.length if long else 1.0)
        if self.momentum > 0.0 or self.bold:
            self.sequence = Momentum()
            if self.momentum == 0.0:
                self.bold = False
            yield Move()
        if best_was_long:
            self.bold = False
            yield Move(from_best=True)


class Hybrid(WithSettings[Penalized, HybridState, HybridSettings]):
    """Frank-Wolfe's directions with a local method on the factors of L; :mod:`rankwolf.solvers.hybrid` says how.

    Keywords are fields of :class:`~rankwolf.solvers.hybrid.HybridSettings` that should differ from its defaults, as in
    ``Hybrid(momentum=0.0)``.

    Cost of a step: one pass, rarely two or three (when a bold one overshoots), of 14r + 4k operations an entry for rank
    r and k ≈ r + max(8, r/4) columns in Q. Memory: about (m + n)·(k + 3r) numbers between passes, and m·(k + 2r) more
    in a pass; nothing of the matrix's size.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> rw.decompose(X, delta=0.01, method=rw.solvers.Hybrid(momentum=0.0), rng=0).low_rank.rank
    1
    """

    name = "hybrid"
    solves = (Penalized,)
    takes_start = True
    settings_type = HybridSettings

    def init(self, problem: Penalized, source: Source, rng: np.random.Generator) -> HybridState:
        """V from a sample of the rows; where rows are few, L = 0 where the weights begin to fall."""
        state = from_sample(problem, source, rng, self.settings)
        if state is None:
            state = at_zero(problem, source, rng, self.settings)
        return self._expecting(source, state)

    def init_at(
        self, problem: Penalized, source: Source, rng: np.random.Generator, given: Start
    ) -> HybridState:
        """At an earlier L, one level below the weights at which it was optimal, or at the problem's own."""
        known = (given.lambda_L or 0.0) / self.settings.path_step
        weights = _times(problem, max(1.0, known / problem.lambda_L))
        right, rotation = diagonalized(given.right)
        leading = np.linalg.qr(right)[0]
        n, r = right.shape
        count = min(max(self.settings.least_probes, int(self.settings.probe_share * r)), n - min(r, n))
        fresh = orthonormal_against(rng.standard_normal((n, count)), leading, rng)
        basis = np.hstack([leading, fresh]).astype(source.dtype)
        state = HybridState.at(source, weights, right.astype(source.dtype), basis, rng)
        if given.left is not None:
            state.rows, state.left_map = given.left, rotation.astype(source.dtype)
        return self._expecting(source, state)

    def _expecting(self, source: Source, state: HybridState) -> HybridState:
        complete, with_gaps = self.settings.proof_ratio
        state.proof_ratio = complete if source.fully_observed else with_gaps
        return state

    def step(self, problem: Penalized, source: Source, state: HybridState) -> HybridState:
        """One pass, or two or three where it overshot; at the next level if the present one has settled."""
        advance(problem, source, state, self.settings)
        return state

    def report(self, problem: Penalized, state: HybridState) -> Report:
        """The objective, a bound from Ritz values on span Q, and the bound to be expected of a proof."""
        point, settled = state.evaluated, state.evaluated.weights == problem
        value, bound = self.value(problem, state), ritz_bound(problem, point)
        expected = bound
        if settled and state.sees_all:
            expected = max(bound, value - state.proof_ratio * (value - deflated_bound(problem, state)))
        # Before the final weights are reached, the progress of a slow level shows only in that level's own objective.
        improves = not settled and state.decrease > NO_CHANGE * state.best
        return Report(
            objective=value,
            lower_bound=bound,
            rank=point.right.shape[1],
            nonzeros=point.sums.nonzeros,
            step_size=1.0,
            expected_bound=expected,
            settled=settled and state.sees_all,
            improves=improves,
        )

    @staticmethod
    def value(problem: Penalized, state: HybridState) -> float:
        """The objective of the best point with the problem's weights, and S at its own level's threshold."""
        point = state.evaluated
        if point.weights == problem:  # a new objective may differ from the best one by rounding only
            return state.best
        return problem.objective(point.sums.g_squared, point.nuclear_norm, point.sums.s_norm)

    def learn(
        self, problem: Penalized, state: HybridState, promised: float, certificate: Certificate
    ) -> None:
        """Correct the ratio of a proof's gap to the computed one; add directions in which Y was too long as probes."""
        value, computed = self.value(problem, state), deflated_bound(problem, state)
        if value > computed:
            state.proof_ratio = (value - certificate.likely_bound) / (value - computed)
        if certificate.witness is not None:
            known = state.basis.astype(np.float64)
            room = state.basis.shape[0] - state.basis.shape[1]
            fresh = orthonormal_against(certificate.witness[:, :room], known, state.rng)
            state.basis = np.hstack([known, fresh]).astype(state.basis.dtype)

    def solution(self, problem: Penalized, source: Source, state: HybridState) -> Solution:
        """The best point, and the directions in which its G is longer than λ_L."""
        point = state.evaluated
        lambda_L, lambda_S = point.weights.pair
        squared, vectors = np.linalg.eigh(point.sums.probe_gram)
        values = np.sqrt(np.maximum(squared, 0.0))
        long = values > lambda_L
        deflation = Deflation(
            (point.basis @ vectors[:, long]).astype(source.dtype), 1.0 - lambda_L / values[long]
        )
        low_rank = source.low_rank(point.left, point.right)
        return Solution(low_rank, lambda_S, clip=lambda_S, deflation=deflation)


# ------------------------------------------------------------ where a run begins


def _times(problem: Penalized, factor: float) -> Penalized:
    return replace(problem, lambda_L=factor * problem.lambda_L, lambda_S=factor * problem.lambda_S)


def at_zero(
    problem: Penalized, source: Source, rng: np.random.Generator, settings: HybridSettings
) -> HybridState:
    """L = 0 with this problem's weights times a factor, at which the first directions come in; no pass yet."""
    n = source.shape[1]
    probes = rng.standard_normal((n, min(settings.least_probes, n)))
    basis = np.linalg.qr(probes)[0].astype(source.dtype)
    top = settings.path_start * source.summary.norm
    weights = _times(problem, max(1.0, top / problem.lambda_L))
    return HybridState.at(source, weights, np.zeros((n, 0), source.dtype), basis, rng)


def from_sample(
    problem: Penalized, source: Source, rng: np.random.Generator, settings: HybridSettings
) -> HybridState | None:
    """A state with V from a rough solution on a sample of the rows; None where rows are few.

    Noise of standard deviation σ in m rows and n columns has the norm σ(√m + √n). So λ_L for a sample of c rows is
    smaller by the factor (√c + √n)/(√m + √n), which keeps as much noise out of L. The singular values of L are smaller
    in the sample by √(c/m), a smaller factor: the sample's rank is at most that of the whole. V, which has the square
    roots of the singular values, is multiplied by (m/c)^¼.
    """
    most = source.workspace.most_bytes
    room = inf if most is None else most / source.dtype.itemsize
    (m, n), count = source.shape, settings.samples(source.shape, room)
    if count is None:
        return None
    sample = InMemory(source.sample(count, rng), None, source.n_threads, transposed=False)
    noise = (count**0.5 + n**0.5) / (m**0.5 + n**0.5)
    rough = replace(problem, lambda_L=noise * problem.lambda_L)
    with_probes = replace(settings, probe_share=settings.sample_probe_share)
    small = at_zero(rough, sample, rng, with_probes)
    for _ in range(settings.sample_passes):
        advance(rough, sample, small, with_probes)
        value = Hybrid.value(rough, small)
        if value - ritz_bound(rough, small.evaluated) <= settings.sample_gap * value:
            break
    right = (small.right * (m / count) ** 0.25).astype(source.dtype)
    return HybridState.at(source, problem, right, small.basis.astype(source.dtype), rng)


# ------------------------------------------------------------ a step


def advance(problem: Penalized, source: Source, state: HybridState, settings: HybridSettings) -> None:
    """One step at the present level, or at the next one towards the ``problem`` if the present level has settled."""
    if state.point is not None and state.weights != problem:
        gap = state.point.objective - ritz_bound(state.weights, state.point)
        if gap <= settings.path_gap * state.point.objective or state.passes >= settings.path_passes:
            state.enter(problem, settings.path_step)
    try:
        take_step(source, state, settings)
    except TimeUp:
        if state.best == inf and state.weights_before is not None:  # the best point is of the level before
            state.weights = state.weights_before
        raise
    if state.passes == 0:  # this pass has made U of the point at which the last level ended
        state.end_rows, state.end_right = state.previous_rows, state.previous
    state.passes += 1


def take_step(source: Source, state: HybridState, settings: HybridSettings) -> None:
    """Steps 1 to 4 of the method. Moves are tried until one does not raise the objective; the last is taken anyway."""
    # Rounding may hide the last decreases of the objective; G still improves.
    target = state.best * (1.0 + ROUNDING[source.dtype.itemsize])
    swept: Any = None
    for move in state.moves():
        swept = None  # frees three of the largest arrays of a run
        if move.from_best:
            point = state.evaluated
            state.rows, state.left_map = point.left, np.eye(point.right.shape[1])
            state.right, state.basis = point.right, point.basis
        swept = sweep(source, state, settings, move)
        if swept[0].objective <= target:
            break
    point, rows, before = swept
    del swept
    threshold_step(source, state, settings, point, rows, before)
    m, n = source.shape
    observed = source.observed_fraction
    live = observed - point.sums.nonzeros / (m * n)
    state.length = max(1.0, settings.caution / max(live, settings.least_live * observed))
    state.decrease = state.best - point.objective
    state.sequence = state.sequence.next()
    state.momentum = min(state.sequence.factor, settings.momentum)
    if point.objective <= target:
        state.point, state.best = point, min(point.objective, state.best)


def sweep(
    source: Source, state: HybridState, settings: HybridSettings, move: Move
) -> tuple[Point, Array, Array]:
    """Step 4 and the one pass: the new point with its objective, B, and U before momentum.

    Momentum: V̂ = V⁺ + momentum·(V⁺ − V₋R), and U likewise; then both are rotated so that V̂ᵀV̂ is diagonal. V₋ is the
    V⁺ before, and R the rotation that brings it closest to V⁺.
    """
    right, start_map, basis = state.right, state.left_map, state.basis
    previous_map = np.zeros((state.previous.shape[1], 0), right.dtype)
    if move.momentum > 0.0:
        if state.previous.shape[1] and right.shape[1]:
            match = _rotation(state.previous, right)
            right = right + move.momentum * (right - state.previous @ match)
            right, rotation = diagonalized(right)
            start_map = (1.0 + move.momentum) * start_map @ rotation
            previous_map = move.momentum * match @ rotation
        basis = _basis_with(right, basis, state.rng)
    fresh = state.point is None
    fitted = fresh and not state.left_map.shape[0]
    task = HybridPass(
        np.ascontiguousarray(right, basis.dtype),
        basis,
        (state.left_map, start_map, previous_map),
        state.weights,
        settings.first_row_steps if fitted else settings.row_steps,
        first=fresh,
        full=source.fully_observed,
        bold=move.bold,
        length=move.length,
        least_live=settings.least_live,
    )
    sums, made = source.run_with_rows(task, state.rows, state.previous_rows, state.shares)
    state.shares, rows, before, left = made
    scaled = sums.left_gram * np.sqrt(np.outer(task.squares, task.squares))
    nuclear_norm = float(np.sum(np.sqrt(np.maximum(np.linalg.eigvalsh(scaled), 0.0))))
    objective = state.weights.objective(sums.g_squared, nuclear_norm, sums.s_norm)
    point = Point(left, task.right, state.weights, objective, nuclear_norm, sums, basis, move.length)
    return point, rows, before


def threshold_step(
    source: Source, state: HybridState, settings: HybridSettings, point: Point, rows: Array, before: Array
) -> None:
    """Step 3: L⁺ = Ũ·D_sλL(ŨᵀX), Ũ an orthonormal basis of B; and the basis of the next pass."""
    sums = point.sums
    coordinates, singular, vectors = projected_svd(
        sums.basis_gram,
        point.right.astype(np.float64) @ sums.left_basis + point.length * sums.clipped_basis,
    )
    cut = point.length * state.weights.lambda_L
    rank = int(np.count_nonzero(singular > cut))
    root = np.sqrt(singular[:rank] - cut)
    state.previous, state.previous_rows = state.right, before
    state.rows, state.left_map = rows, coordinates[:, :rank] * root
    state.right = np.ascontiguousarray((vectors[:, :rank] * root).astype(source.dtype))
    waiting = int(np.count_nonzero(singular > settings.near * cut)) - rank
    asked = int(settings.probes_for_each * waiting) if rank > point.right.shape[1] else 0
    want = rank + max(settings.least_probes, int(settings.probe_share * rank), asked)
    want = min(-(-want // 8) * 8, vectors.shape[0])  # BLAS likes multiples of its vectors
    state.basis = widened(vectors, want, state.rng).astype(source.dtype)


def _rotation(right: Array, target: Array) -> Array:
    """The R with orthonormal columns, or rows, that minimises ‖V·R − ``target``‖_F (Procrustes), V = ``right``."""
    a, _, b = np.linalg.svd(right.T.astype(np.float64) @ target, full_matrices=False)
    return np.asarray(a @ b)


def diagonalized(right: Array) -> tuple[Array, Array]:
    """V·R with (VR)ᵀ(VR) diagonal, and R."""
    wide = right.astype(np.float64, copy=False)
    rotation = np.linalg.eigh(wide.T @ wide)[1][:, ::-1]
    return wide @ rotation, rotation


def _basis_with(right: Array, basis: Array, rng: np.random.Generator) -> Array:
    """An orthonormal basis of span V and of the last columns of ``basis``; it has as many columns as ``basis``."""
    r = right.shape[1]
    leading = np.linalg.qr(right.astype(np.float64, copy=False))[0]
    rest = orthonormal_against(basis[:, r:], leading, rng) if r < basis.shape[1] else basis[:, :0]
    return np.hstack([leading, rest]).astype(basis.dtype)


# ------------------------------------------------------------ what the sums of a pass say of the optimum


def ritz_bound(problem: Problem, point: Point) -> float:
    """A lower bound on the optimum of ``problem`` from G at ``point``.

    It rests on the Ritz values of G on span Q, which are never above ‖G‖₂ but for rounding: a promise, not a proof.
    """
    squared = float(np.linalg.eigvalsh(point.sums.probe_gram)[-1])
    sums = point.sums
    return problem.lower_bound(sums.g_dot_m, sums.g_squared, max(squared, 0.0) ** 0.5, point.weights.lambda_S)


def deflated_bound(problem: Problem, state: HybridState) -> float:
    """The lower bound of Y = G − E, where E takes out of G what is longer than λ_L on span Q; no proof.

    E = Σ(σᵢ − λ_L)uᵢvᵢᵀ over the Ritz values σᵢ > λ_L, as the proof takes it out. Then the proof clips Y again, so that
    of ⟨E, S⟩ only the entries count where both have the same sign. For independent signs this is about
    φ(0)·(‖E‖_F/√entries)·‖S‖₁ with φ(0) = 0.4. What clipping adds to ‖Y‖₂ is left out: the gap of the proof is larger,
    by a factor that changes little in a run. Cost: k³ operations for k columns in Q.
    """
    point = state.evaluated
    sums, (lambda_L, lambda_S) = point.sums, point.weights.pair
    overlap = point.right.T.astype(np.float64) @ point.basis
    low_rank_basis = overlap.T @ sums.left_basis  # (LQ)ᵀB, with B = LQ + s·GQ
    low_rank_clipped = (low_rank_basis - overlap.T @ sums.left_gram @ overlap) / point.length
    squared, vectors = np.linalg.eigh(sums.probe_gram)
    long = squared > lambda_L**2
    squared, vectors = squared[long], vectors[:, long]
    excess = np.sqrt(squared) - lambda_L
    along = np.einsum("ij,ik,kj->j", vectors, low_rank_clipped, vectors)
    from_sparse = 0.4 * (float(excess @ excess) / state.observed) ** 0.5 * sums.s_norm
    taken = float((excess / np.sqrt(squared)) @ (along + squared)) + from_sparse
    shorter = float(np.sum(squared - lambda_L**2))
    return problem.lower_bound(sums.g_dot_m - taken, sums.g_squared - shorter, lambda_L, lambda_S)


# ------------------------------------------------------------ the pass


@dataclass
class HybridSums(ClippedSums):
    """The sums of one pass: those of G and S, and these with B = XQ."""

    basis_gram: Array
    """BᵀB."""
    clipped_basis: Array
    """GᵀB."""
    left_basis: Array
    """UᵀB."""
    left_gram: Array
    """UᵀU."""
    probe_gram: Array
    """(GQ)ᵀ(GQ): its eigenvalues are squared Ritz values of G."""


class HybridPass(Task[HybridSums]):
    """Steps 1 and 2 of the method, and the sums of step 3.

    ``right`` is V, with VᵀV diagonal, ``basis`` is Q. With B of the last pass and U₋, the U⁺ before it, ``maps`` =
    (``left_map``, ``start_map``, ``previous_map``): U starts as B·start_map − U₋·previous_map; before momentum it is
    B·left_map. On the ``first`` pass B is the U of a given L; without one, U starts as a least-squares fit to V.

    Rows: B of the pass before, the U⁺ before that, and the observed and the live share. Makes the shares, B, U before
    momentum, U. Cost: (4p + 2)r + 4k operations an entry for p steps of the rows, rank r and k columns in
    Q: 14r + 4k with p = 3.
    """

    def __init__(
        self,
        right: Array,
        basis: Array,
        maps: tuple[Array, Array, Array],
        weights: Penalized,
        row_steps: RowSteps,
        *,
        first: bool,
        full: bool,
        bold: bool,
        length: float,
        least_live: float,
    ) -> None:
        dtype = basis.dtype
        self.right, self.right_t, self.basis = right, np.ascontiguousarray(right.T), basis
        self.left_map, self.start_map, self.previous_map = (x.astype(dtype) for x in maps)
        self.lambda_L, self.lambda_S = weights.pair
        self.row_steps, self.first, self.full, self.bold = row_steps, first, full, bold
        self.least_live = least_live
        self.overlap = (right.T @ basis).astype(dtype)
        self.squares = np.sum(np.square(right, dtype=np.float64), axis=0)
        self.depth, self.length = basis.shape[1], dtype.type(length)
        widths = 2, basis.shape[1], self.left_map.shape[1], right.shape[1]
        self.makes = tuple((width, dtype) for width in widths)

    def start(self) -> HybridSums:
        """Zeros."""
        (n, k), r = self.basis.shape, self.right.shape[1]
        shapes = (CLIPPED_VALUES,), (k, k), (n, k), (r, k), (r, r), (k, k)
        return HybridSums(*map(np.zeros, shapes))

    def visit(self, sums: HybridSums, tile: Array, *rows: Array) -> tuple[Array, ...]:
        """Move the rows of U that belong to one tile, make B there, and add the sums."""
        old_basis, old_left, shares = rows
        shares, before = shares.copy(), old_basis @ self.left_map
        if self.first:
            shares[:] = 1.0 if self.full else observed_share(tile)
        if self.first and not self.left_map.shape[0]:
            # Least squares without clipping, the Gram matrix of each row's observed columns taken as w·VᵀV.
            none = np.zeros((tile.shape[0], self.right.shape[1]), self.right.dtype)
            left = (clip_tile(tile, none, self.right_t, inf) @ self.right) * self._inverse(shares)
        else:
            left = old_basis @ self.start_map
            if self.previous_map.size:
                left -= old_left @ self.previous_map
        clipped = self._fit_rows(tile, left, shares, sums)
        part = clipped @ self.basis
        sums.probe_gram += part.T @ part
        part *= self.length
        new_basis = left @ self.overlap + part
        sums.basis_gram += new_basis.T @ new_basis
        sums.clipped_basis += clipped.T @ new_basis
        sums.left_basis += left.T @ new_basis
        sums.left_gram += left.T @ left
        return shares, new_basis, before, left

    def _inverse(self, shares: Array) -> Array:
        """(w·VᵀV + λ_L I)⁻¹, diagonal, for each row; w = 1 is the majorant that cannot overshoot."""
        live = shares[:, [LIVE]]
        weight = live if self.bold else np.ones_like(live)
        return np.asarray(1.0 / (weight * self.squares + self.lambda_L), self.right.dtype)

    def _fit_rows(self, tile: Array, left: Array, shares: Array, sums: HybridSums) -> Any:
        """The row steps, then G at the result, which is returned, and the live shares.

        A move p of a row, by the share t of the whole step, changes the descent direction from g to g⁺. This shows the
        curvature c = ⟨p, g − g⁺⟩/(t⟨p, g⟩), and the next step is at most 1/c of the whole one.
        """
        dtype, limit = self.right.dtype, self.lambda_S
        inverse, nonzeros = self._inverse(shares), np.empty(tile.shape[0])
        work, descent, moved = np.empty(tile.shape, dtype), np.empty_like(left), np.empty_like(left)
        longest = reach = np.zeros((tile.shape[0], 1), dtype)
        for number, (level, most) in enumerate(self.row_steps):
            share = most if self.bold else min(most, 1.0)
            clipped = clip_tile(tile, left, self.right_t, level * limit, out=work)
            np.matmul(clipped, self.right, out=descent)
            descent -= dtype.type(self.lambda_L) * left
            allowed = np.full_like(longest, share)
            if number > 0:
                curved = reach - _row_dots(moved, descent)
                np.divide(longest * reach, curved, out=allowed, where=share * curved > longest * reach)
            longest = allowed
            np.multiply(longest, inverse, out=moved)
            moved *= descent
            reach = _row_dots(moved, descent)
            left += moved
        clipped = clip_tile(tile, left, self.right_t, limit, sums.values, work, nonzeros)
        observed = shares[:, OBSERVED]
        shares[:, LIVE] = np.maximum(observed - nonzeros / tile.shape[1], self.least_live * observed)
        return clipped


def _row_dots(a: Array, b: Array) -> Array:
    """The inner products of the rows of ``a`` with those of ``b``, as a column."""
    return np.asarray(np.einsum("ij,ij->i", a, b)[:, None])


Hybrid.states = (HybridState, Penalized, Point, HybridSums, Momentum)
