"""The hybrid solver: Frank-Wolfe's directions and proof, a factored local method's speed, one pass a step.

With S eliminated the problem is min F(L) = H(L) + λ_L‖L‖_*, H the Huber loss of P_Ω(M − L): smooth, ∇H = −G with
G = clip(P_Ω(M − L), ±λ_S), Lipschitz constant 1. A step starts from L = U Vᵀ and a basis Q ⊇ span V with more columns:

1. *Rows*, local to a tile: u ← u + (G_t V − λ_L u)(w·VᵀV + λ_L I)⁻¹, w the live share of the row.
2. *Directions*, in the same pass: B = X Q and XᵀB for X = L + s·G, one step of subspace iteration on the point X from
   which a proximal gradient step of length s would threshold. The spare columns of Q are probes: outside span V, X is
   s·G, so they turn into the leading singular vectors of G, which are Frank-Wolfe's atoms.
3. *Threshold*, between passes and small: with Ũ an orthonormal basis of B, L⁺ = Ũ·D_sλL(ŨᵀX). Atoms with σ > λ_L come
   in, as many at once as there are; weak ones drop out; the singular vectors that stay below become the next probes.
4. *Momentum* on the factors, as much as the pace of the objective asks for.

An entry is live when it is observed and not clipped: only there does H bend, with curvature 1. On a low-rank direction,
which is spread over all entries, its curvature is therefore about the live share, of a row in step 1 and of the matrix
in step 3, and steps by its inverse are about Newton's. They are bold: w = s = 1 without momentum is what cannot
overshoot, and a pass that raised the objective is taken back and made again so.

Why it descends: with w = s = 1 the rows' step and step 3 both minimise a majorant of F (H has curvature at most 1) over
a set that contains the present L. For step 3: with Q ⊇ span V the best L with rows in span Q is D_λL(XQ)Qᵀ, and its
columns lie in span B, so the minimiser over columns in span B is at least as good. Why the limit is the global optimum:
where σ₁(G) > λ_L on the probes, step 3 lowers F by at least ½(σ₁ − λ_L)², Frank-Wolfe's argument with the step 1 of a
smooth function; the probes are a subspace iteration on G, which does not stop short of σ₁; and where σ₁(G) = λ_L, the
certificate closes.

The start solves the same problem on a sample of the rows, coming down from large weights (both times 64, …, 2, 1), so
that the rank grows from below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from rankwolf.certificate import Certificate
from rankwolf.oracles.nuclear import orthonormal_against, projected_svd
from rankwolf.passes import Deflation, clip_tile, observed_share
from rankwolf.problem import Penalized
from rankwolf.solvers.base import Report, Solution, Solver
from rankwolf.sources import Array, InMemory, Source, Sums, Task

LEAST_PROBES = 8
SAMPLE_ROWS = 1500
SAMPLE_ENTRIES = 2**17
# Clip levels, in λ_S, of the first fit of the rows to a factor that they have not seen.
FIRST_LEVELS = (8.0, 2.0, 1.0)
LEVELS = (1.0,)
# A row with fewer live entries than this share of the observed ones steps as if it had so many.
LEAST_LIVE = 0.25
# The step is shorter than the inverse of the live share by this: some directions have more live entries than most.
CAUTION = 0.8
# Where the momentum's limit is found. Too much of it rings: the objective is flat by then, but G, and with it the
# certificate, swings. Modes that ring lose the share 1 − momentum of the objective in a step; slow ones lose less.
MOMENTUM, MOMENTUM_UP, MOMENTUM_DOWN, MARGIN = (0.6, 0.85), 0.02, 0.04, 0.05
# It is about to ring where the objective falls much faster than its share and the step no longer goes where the factors
# have been going (the cosine; the restart rule of O'Donoghue and Candès asks for its sign): half of it is left then.
# Only where everything was observed: with gaps the same signs came with slow modes that need it.
RINGING_PACE, RINGING_COSINE, LEAST_MOMENTUM = 0.6, 0.85, 0.2
# A proof's gap over the gap of the Ritz bound, as first expected: where entries are missing, deflating G helps less.
PROOF_RATIO = {True: 0.3, False: 0.5}
# Relative errors of an objective that is added up from float32 and float64 tiles, by item size.
ROUNDING = {4: 1e-8, 8: 1e-15}


@dataclass
class HybridSums(Sums):
    """Of one pass, with B = XQ: ‖G‖², ‖S‖₁, nnz(S), ⟨G, M⟩; BᵀB; GᵀB; UᵀB; UᵀU; (GQ)ᵀ(GQ)."""

    values: Array
    gram: Array
    cross: Array
    mixed: Array
    left: Array
    clipped: Array


class HybridPass(Task[HybridSums]):
    """Steps 1 and 2 for one tile.

    ``right`` is V with VᵀV diagonal. Rows in: B of the pass before, U of the pass before; rows out: the observed and
    the live share, B, U before momentum, U. ``turn`` makes U from the old B, ``back`` is what momentum takes from the
    old U.
    """

    def __init__(self, problem: Penalized, plan: Plan, full: bool) -> None:
        dtype = plan.basis.dtype
        self.problem, self.full = problem, full
        self.levels, self.first, self.bold = plan.levels, plan.first, plan.bold
        self.right, self.right_t, self.basis = plan.right, np.ascontiguousarray(plan.right.T), plan.basis
        self.overlap = (plan.right.T @ plan.basis).astype(dtype)
        self.squares = np.sum(np.square(plan.right, dtype=np.float64), axis=0)
        self.turn, self.push, self.back = (x.astype(dtype) for x in (plan.turn, plan.push, plan.back))
        self.depth = plan.basis.shape[1]
        self.length = dtype.type(plan.length)

    def start(self) -> HybridSums:
        """Zeros."""
        (n, k), r = self.basis.shape, self.right.shape[1]
        return HybridSums(
            np.zeros(4),
            np.zeros((k, k)),
            np.zeros((n, k)),
            np.zeros((r, k)),
            np.zeros((r, r)),
            np.zeros((k, k)),
        )

    def visit(self, sums: HybridSums, tile: Array, *rows: Array) -> None:
        """One tile."""
        old_basis, old_left, shares, new_basis, before, left = rows
        if self.first:
            shares[:] = 1.0 if self.full else observed_share(tile)
            left[...] = self._least_squares(tile, shares)
        else:
            np.matmul(old_basis, self.turn, out=before)
            np.matmul(old_basis, self.push, out=left)
            if self.back.size:
                left -= old_left @ self.back
        clipped = self._fit_rows(tile, left, shares, sums.values)
        part = clipped @ self.basis
        sums.clipped += part.T @ part
        part *= self.length
        new_basis[...] = left @ self.overlap + part
        sums.gram += new_basis.T @ new_basis
        sums.cross += clipped.T @ new_basis
        sums.mixed += left.T @ new_basis
        sums.left += left.T @ left

    def _least_squares(self, tile: Array, shares: Array) -> Array:
        """U for clip level ∞, with the Gram matrix of the observed columns taken as w·VᵀV."""
        none = np.zeros((tile.shape[0], self.right.shape[1]), self.right.dtype)
        data = clip_tile(tile, none, self.right_t, inf)
        return np.asarray(data @ self.right) * self._inverse(shares)

    def _inverse(self, shares: Array) -> Array:
        """(w·VᵀV + λ_L I)⁻¹, diagonal, for each row; w = 1 is the majorant that cannot overshoot."""
        weight = shares[:, 1:] if self.bold else np.ones_like(shares[:, 1:])
        return np.asarray(1.0 / (weight * self.squares + self.problem.lambda_L), self.right.dtype)

    def _fit_rows(self, tile: Array, left: Array, shares: Array, values: Array) -> Any:
        """Step 1 at each level, then G and the live shares at the result."""
        limit, lambda_L = self.problem.lambda_S, self.right.dtype.type(self.problem.lambda_L)
        inverse, nonzeros = self._inverse(shares), np.empty(tile.shape[0])
        work = np.empty(tile.shape, self.right.dtype)
        for level in self.levels:
            clipped = clip_tile(tile, left, self.right_t, level * limit, out=work)
            left += (clipped @ self.right - lambda_L * left) * inverse
        clipped = clip_tile(tile, left, self.right_t, limit, values, work, nonzeros)
        observed = shares[:, 0]
        shares[:, 1] = np.maximum(observed - nonzeros / tile.shape[1], LEAST_LIVE * observed)
        return clipped


@dataclass(frozen=True)
class Plan:
    """What the next pass starts from: V, the basis Q, and how U comes from the rows of the last pass."""

    right: Array
    basis: Array
    turn: Array
    push: Array
    back: Array
    levels: tuple[float, ...] = LEVELS
    first: bool = False
    bold: bool = True
    length: float = 1.0


@dataclass
class Point:
    """An evaluated L = left·rightᵀ, its objective, and the sums of the pass that evaluated it."""

    left: Array
    right: Array
    objective: float
    sums: HybridSums
    basis: Array
    length: float


@dataclass
class HybridState:
    """The best point, and what the next pass needs.

    ``thresholded`` is V⁺ of step 3 with U⁺ = B·turn; ``previous`` the V⁺ before it, for momentum.
    """

    shares: Array
    rows: Array
    previous_rows: Array
    turn: Array
    thresholded: Array
    basis: Array
    previous: Array
    rng: np.random.Generator
    point: Point | None = None
    best: float = inf
    first: bool = True
    t: float = 1.0
    momentum: float = 0.0
    most_momentum: float = MOMENTUM[0]
    decrease: float = 0.0
    cosine: float = 1.0
    length: float = 1.0
    bold: bool = True
    proof_ratio: float = 0.5


class Hybrid(Solver[Penalized, HybridState]):
    """Frank-Wolfe meets a factored local method; see the module.

    Cost of a step: one pass, rarely two or three (when a bold one overshoots), of about 6r + 4k operations an entry for
    rank r and k = r + r/4 + 8 columns in Q. State: (m + n)·(k + 2r) numbers. Nothing of the matrix's size.
    """

    name = "hybrid"
    solves = (Penalized,)
    states = (HybridState, Point, HybridSums)

    def init(self, problem: Penalized, source: Source, rng: np.random.Generator) -> HybridState:
        """Solve a sample of the rows, coming down from large weights; all rows where they are few."""
        m, n = source.shape
        count = max(SAMPLE_ROWS, min(n, 2 * SAMPLE_ROWS), SAMPLE_ENTRIES // n)
        if 3 * count > 2 * m:
            return _come_down(problem, source, rng)
        sample = InMemory(source.sample(count, rng), None, source.n_threads, transposed=False)
        scaled = replace(problem, lambda_L=problem.lambda_L * (count / m) ** 0.5)
        small = _come_down(scaled, sample, rng)
        # ‖U_s Vᵀ‖_* grows like the square root of the number of rows, and V takes half of it.
        right = small.thresholded * source.dtype.type((m / count) ** 0.25)
        return _start(source, right.astype(source.dtype), small.basis.astype(source.dtype), rng)

    def step(self, problem: Penalized, source: Source, state: HybridState) -> HybridState:
        """Steps 1 to 4; a pass that did not lower the objective is made again, without what can overshoot."""
        # Rounding may hide the last decreases of the objective; G still improves.
        target = inf if state.point is None else state.best * (1.0 + ROUNDING[source.dtype.itemsize])
        point, rows, before = _advance(problem, source, state, _plan(state, state.momentum, state.bold))
        if point.objective > target and (state.momentum > 0.0 or state.bold):
            state.t = 1.0
            if state.momentum == 0.0:
                state.bold = False
            del point, rows, before  # three of the largest arrays of a run
            point, rows, before = _advance(problem, source, state, _plan(state, 0.0, False))
        if point.objective > target and state.point is not None and state.point.length > 1.0:
            # It was the long step before that overshot: from the best point on without any.
            state.bold = False
            _return_to(state, state.point)
            del point, rows, before
            point, rows, before = _advance(problem, source, state, _plan(state, 0.0, False))
        _threshold(problem, source, state, point, rows, before)
        _pace(source, state, point)
        if point.objective <= target:
            state.point, state.best = point, min(point.objective, state.best)
        return state

    def report(self, problem: Penalized, state: HybridState) -> Report:
        """F(L), a bound from Ritz values on span Q, and what a proof may be expected to give."""
        point = _evaluated(state)
        values, squared = point.sums.values, np.linalg.eigvalsh(point.sums.clipped)[-1]
        bound = problem.dual_value(float(values[3]), float(values[0]), float(max(squared, 0.0)) ** 0.5)
        expected = state.best - state.proof_ratio * (state.best - bound)
        return Report(
            state.best, bound, point.right.shape[1], round(float(values[2])), 1.0, expected_bound=expected
        )

    def learn(self, state: HybridState, promised: float, certificate: Certificate) -> None:
        """How much better or worse the proof was than the Ritz bound; and where Y was too long, as probes."""
        if state.best > promised:
            ratio = (state.best - certificate.likely_bound) / (state.best - promised)
            state.proof_ratio = min(max(ratio, 1e-3), 1.0)
        if certificate.witness is not None:
            known = state.basis.astype(np.float64)
            room = state.basis.shape[0] - state.basis.shape[1]
            fresh = orthonormal_against(certificate.witness[:, :room], known, state.rng)
            state.basis = np.hstack([known, fresh]).astype(state.basis.dtype)

    def solution(self, problem: Penalized, source: Source, state: HybridState) -> Solution:
        """The best point, with the directions in which its G is too long."""
        point = _evaluated(state)
        squared, vectors = np.linalg.eigh(point.sums.clipped)
        values = np.sqrt(np.maximum(squared, 0.0))
        long = values > problem.lambda_L
        directions = (point.basis @ vectors[:, long]).astype(source.dtype)
        low_rank = source.low_rank(point.left, point.right)
        return Solution(
            low_rank, problem.lambda_S, None, Deflation(directions, 1.0 - problem.lambda_L / values[long])
        )


def _evaluated(state: HybridState) -> Point:
    if state.point is None:
        raise RuntimeError("A hybrid state has a point after the first step.")
    return state.point


def _start(source: Source, right: Array, basis: Array, rng: np.random.Generator) -> HybridState:
    """No rows yet: the first pass fits them to ``right``."""
    none = np.zeros((right.shape[1], right.shape[1]), source.dtype)
    empty, no_columns = source.allocate(0), np.zeros((source.shape[1], 0), source.dtype)
    state = HybridState(source.allocate(2), empty, empty, none[:0], right, basis, no_columns, rng)
    state.proof_ratio = PROOF_RATIO[source.fully_observed]
    return state


def _come_down(problem: Penalized, source: Source, rng: np.random.Generator) -> HybridState:
    """The problem with both weights times 64, 32, …, 2, then with its own weights until it moves little."""
    n = source.shape[1]
    basis = np.linalg.qr(rng.standard_normal((n, min(LEAST_PROBES, n))))[0].astype(source.dtype)
    state = _start(source, np.zeros((n, 0), source.dtype), basis, rng)
    factor = 64.0
    for factor in (64.0, 64.0, 32.0, 16.0, 8.0, 4.0, 2.0):
        heavier = Penalized(factor * problem.lambda_L, factor * problem.lambda_S)
        point, rows, before = _advance(heavier, source, state, _plan(state, 0.0, True))
        _threshold(heavier, source, state, point, rows, before)
    solver, last = Hybrid(), inf
    for _ in range(8):
        state = solver.step(problem, source, state)
        if state.best > (1.0 - 1e-2) * last:
            break
        last = state.best
    return state


def _plan(state: HybridState, momentum: float, bold: bool) -> Plan:
    """Step 4: V̂ = V⁺ + momentum·(V⁺ − V⁺ before, turned to match), U with it, turned so that V̂ᵀV̂ is diagonal."""
    right, push = state.thresholded, state.turn
    back = np.zeros((state.previous.shape[1], 0), right.dtype)
    levels = FIRST_LEVELS if state.first else LEVELS
    if momentum > 0.0 and state.previous.shape[1] and right.shape[1]:
        match = _rotation(state.previous, right)
        right = right + momentum * (right - state.previous @ match)
        push, back = (1.0 + momentum) * push, momentum * match
        right, rotation = _diagonalized(right)
        push = push @ rotation
        back = back @ rotation
    basis = _basis_with(right, state.basis, state.rng) if momentum > 0.0 else state.basis
    dtype = state.basis.dtype
    length = state.length if bold else 1.0
    return Plan(
        np.ascontiguousarray(right, dtype), basis, state.turn, push, back, levels, state.first, bold, length
    )


def _rotation(right: Array, target: Array) -> Array:
    """The R with orthonormal columns, or rows, for which V·R comes closest to ``target``."""
    a, _, b = np.linalg.svd(right.T.astype(np.float64) @ target, full_matrices=False)
    return np.asarray(a @ b)


def _diagonalized(right: Array) -> tuple[Array, Array]:
    """V·R with (VR)ᵀ(VR) diagonal, and R."""
    wide = right.astype(np.float64, copy=False)
    rotation = np.linalg.eigh(wide.T @ wide)[1][:, ::-1]
    return wide @ rotation, rotation


def _basis_with(right: Array, basis: Array, rng: np.random.Generator) -> Array:
    """An orthonormal basis of span V and the last columns of ``basis``, as many columns as ``basis``."""
    r = right.shape[1]
    leading = np.linalg.qr(right.astype(np.float64, copy=False))[0]
    rest = orthonormal_against(basis[:, r:], leading, rng) if r < basis.shape[1] else basis[:, :0]
    return np.hstack([leading, rest]).astype(basis.dtype)


def _return_to(state: HybridState, point: Point) -> None:
    """Let the next pass start from this point as it is."""
    state.rows, state.turn = point.left, np.eye(point.right.shape[1])
    state.thresholded, state.basis = point.right, point.basis


def _advance(
    problem: Penalized, source: Source, state: HybridState, plan: Plan
) -> tuple[Point, Array, Array]:
    """One pass: the point that it evaluates, the rows of B, and U before momentum."""
    task = HybridPass(problem, plan, source.fully_observed)
    rows, before, left = (
        source.allocate(plan.basis.shape[1]), source.allocate(plan.turn.shape[1]), source.allocate(plan.right.shape[1])
    )  # fmt: skip
    sums = source.run(task, state.rows, state.previous_rows, state.shares, rows, before, left)
    scaled = sums.left * np.sqrt(np.outer(task.squares, task.squares))
    nuclear_norm = float(np.sum(np.sqrt(np.maximum(np.linalg.eigvalsh(scaled), 0.0))))
    objective = problem.objective(float(sums.values[0]), nuclear_norm, float(sums.values[1]))
    return Point(left, plan.right, objective, sums, plan.basis, plan.length), rows, before


def _threshold(
    problem: Penalized, source: Source, state: HybridState, point: Point, rows: Array, before: Array
) -> None:
    """Step 3: L⁺ = Ũ·D_sλL(ŨᵀX), Ũ an orthonormal basis of B."""
    sums, threshold = point.sums, point.length * problem.lambda_L
    turn, singular, vectors = projected_svd(
        sums.gram, point.right.astype(np.float64) @ sums.mixed + point.length * sums.cross
    )
    rank = int(np.count_nonzero(singular > threshold))
    root = np.sqrt(singular[:rank] - threshold)
    state.previous, state.previous_rows = state.thresholded, before
    state.rows, state.turn = rows, turn[:, :rank] * root
    dtype, new = source.dtype, vectors[:, :rank] * root
    state.cosine = _cosine_of_moves(state.thresholded, point.right, new)
    state.thresholded = np.ascontiguousarray(new.astype(dtype))
    state.basis = _next_basis(vectors, rank, state.rng).astype(dtype)
    state.first = False


def _pace(source: Source, state: HybridState, point: Point) -> None:
    """The next step's length and momentum, from the live share and from how fast the objective falls."""
    m, n = source.shape
    live = source.observed_fraction - float(point.sums.values[2]) / (m * n)
    state.length = max(1.0, CAUTION / max(live, LEAST_LIVE * source.observed_fraction))
    before, state.decrease = state.decrease, state.best - point.objective
    falls = 0.0 < state.decrease < before
    sharply = falls and state.decrease < RINGING_PACE * state.momentum * before
    if source.fully_observed and sharply and state.cosine < RINGING_COSINE:
        state.most_momentum = max(LEAST_MOMENTUM, 0.5 * state.momentum)
    elif falls and state.momentum >= state.most_momentum:
        slow = state.decrease > (state.momentum + MARGIN) * before
        changed = state.most_momentum + (MOMENTUM_UP if slow else -MOMENTUM_DOWN)
        state.most_momentum = min(max(changed, min(MOMENTUM[0], state.most_momentum)), MOMENTUM[1])
    t = (1.0 + (1.0 + 4.0 * state.t**2) ** 0.5) / 2.0
    state.momentum, state.t = min((state.t - 1.0) / t, state.most_momentum), t


def _cosine_of_moves(old: Array, start: Array, new: Array) -> float:
    """Between the move of V from ``old`` to ``new`` and the part of it that the step made, from ``start``."""
    if not (old.shape[1] and start.shape[1] and new.shape[1]):
        return 1.0
    whole, step = new - old @ _rotation(old, new), new - start @ _rotation(start, new)
    return float(
        np.sum(whole * step) / max(np.linalg.norm(whole) * np.linalg.norm(step), np.finfo(float).tiny)
    )


def _next_basis(vectors: Array, rank: int, rng: np.random.Generator) -> Array:
    """The leading vectors: the rank, and probes, a quarter more; random ones where there are too few."""
    n, have = vectors.shape
    want = rank + max(LEAST_PROBES, rank // 4)
    want = min(-(-want // 8) * 8, n)  # BLAS likes multiples of its vectors
    if want <= have:
        return np.ascontiguousarray(vectors[:, :want])
    fresh = orthonormal_against(rng.standard_normal((n, want - have)), vectors, rng)
    return np.hstack([vectors, fresh])
