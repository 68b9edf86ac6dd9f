"""A step: one pass, repeated where it overshot, then the threshold step and the pace of the next pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf

import numpy as np

from rankwolf.data import Source
from rankwolf.ground.arrays import Array
from rankwolf.oracles.l1 import projection_threshold
from rankwolf.oracles.nuclear import orthonormal_against, projected_svd, widened
from rankwolf.problem import Penalized, Problem
from rankwolf.solvers.hybrid.pace import Move
from rankwolf.solvers.hybrid.settings import HybridSettings, RowSteps
from rankwolf.solvers.hybrid.state import HybridState, Point
from rankwolf.solvers.hybrid.sweep import HybridPass, Plan

# Relative errors of an objective that is added up from float32 and float64 tiles, by item size.
ROUNDING = {4: 1e-8, 8: 1e-15}


@dataclass
class Swept:
    """The result of a pass: the point that it evaluated, the rows of B, and U before momentum."""

    point: Point
    rows: Array
    before: Array


def step(problem: Problem, source: Source, state: HybridState, settings: HybridSettings) -> None:
    """Steps 1 to 4 of the method. Moves are tried until one does not raise the objective; the last is taken anyway."""
    weights = state.level.weights
    # Rounding may hide the last decreases of the objective; G still improves.
    target = state.best * (1.0 + ROUNDING[source.dtype.itemsize])
    best_was_long = state.point is not None and state.best < inf and state.point.length > 1.0
    row_steps = settings.following_row_steps if problem.follows else settings.row_steps
    if not state.has_rows:
        row_steps = settings.first_row_steps
    swept: Swept | None = None
    for move in state.pace.moves(settings, best_was_long):
        swept = None  # frees three of the largest arrays of a run
        if move.from_best:
            state.return_to_best()
        swept = sweep(weights, source, state, settings, move, row_steps)
        if swept.point.objective <= target:
            break
    assert swept is not None
    point = swept.point
    price = threshold(problem, weights, source, state, settings, swept)
    m, n = source.shape
    observed = source.observed_fraction
    live = observed - point.sums.nonzeros / (m * n)
    state.pace.update(settings, live, observed, state.best - point.objective)
    if point.objective <= target:
        state.point, state.best = point, min(point.objective, state.best)
    found = state.found_at(point)
    following = problem.prices_after(weights, price, found, settings.path_step)
    part = min(1.0, settings.price_patience / max(state.level.waited, 1))
    state.follow(weights.part_way(following, part) if part < 1.0 else following, settings.comparable_prices)


def sweep(
    problem: Penalized,
    source: Source,
    state: HybridState,
    settings: HybridSettings,
    move: Move,
    row_steps: RowSteps,
) -> Swept:
    """One pass that starts as ``move`` says: the new point with its objective, B, and U before momentum."""
    plan = _plan(problem, state, settings, move, row_steps)
    task = HybridPass(plan, source.fully_observed)
    rows = source.allocate(plan.basis.shape[1])
    before = source.allocate(plan.left_map.shape[1])
    left = source.allocate(plan.right.shape[1])
    sums = source.run(task, state.rows, state.previous_rows, state.shares, rows, before, left)
    scaled = sums.left_gram * np.sqrt(np.outer(task.squares, task.squares))
    nuclear_norm = float(np.sum(np.sqrt(np.maximum(np.linalg.eigvalsh(scaled), 0.0))))
    objective = problem.objective(sums.g_squared, nuclear_norm, sums.s_norm)
    point = Point(left, plan.right, problem, objective, nuclear_norm, sums, plan.basis, plan.length)
    return Swept(point, rows, before)


def _plan(
    problem: Penalized, state: HybridState, settings: HybridSettings, move: Move, row_steps: RowSteps
) -> Plan:
    """Step 4: V̂ = V⁺ + momentum·(V⁺ − V₋R), and U likewise; then both are rotated so that V̂ᵀV̂ is diagonal.

    V₋ is the V⁺ before, and R the rotation that brings it closest to V⁺.
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
    return Plan(
        right=np.ascontiguousarray(right, basis.dtype),
        basis=basis,
        left_map=state.left_map,
        start_map=start_map,
        previous_map=previous_map,
        lambda_L=problem.lambda_L,
        lambda_S=problem.lambda_S,
        row_steps=row_steps,
        measures_rows=settings.measures_rows,
        first=state.first,
        bold=move.bold,
        length=move.length,
        least_live=settings.least_live,
    )


def threshold(
    problem: Problem,
    weights: Penalized,
    source: Source,
    state: HybridState,
    settings: HybridSettings,
    swept: Swept,
) -> float:
    """Step 3: L⁺ = Ũ·D_sλL(ŨᵀX), Ũ an orthonormal basis of B; and the basis of the next pass. Returns λ_L.

    Where ‖L‖_* is prescribed, λ_L is chosen so that ‖L⁺‖_* has that value.
    """
    point, sums = swept.point, swept.point.sums
    coordinates, singular, vectors = projected_svd(
        sums.basis_gram,
        point.right.astype(np.float64) @ sums.left_basis + point.length * sums.clipped_basis,
    )
    price = problem.price_of_step(weights, point.length, partial(projection_threshold, singular))
    most = settings.path_step
    price = min(max(price, weights.lambda_L / most), weights.lambda_L * most)
    cut = point.length * price
    rank = int(np.count_nonzero(singular > cut))
    root = np.sqrt(singular[:rank] - cut)
    state.previous, state.previous_rows = state.right, swept.before
    state.rows, state.left_map = swept.rows, coordinates[:, :rank] * root
    dtype, new = source.dtype, vectors[:, :rank] * root
    state.right = np.ascontiguousarray(new.astype(dtype))
    waiting = int(np.count_nonzero(singular > settings.near * cut)) - rank
    asked = settings.probes_for_each * waiting if rank > point.right.shape[1] else 0.0
    state.basis = _next_basis(vectors, rank, int(asked), settings, state.rng).astype(dtype)
    state.first = False
    return price


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


def _next_basis(
    vectors: Array, rank: int, asked: int, settings: HybridSettings, rng: np.random.Generator
) -> Array:
    """Q of the next pass: ``rank`` leading vectors and at least ``asked`` probes; random ones where too few."""
    n = vectors.shape[0]
    want = rank + max(settings.least_probes, int(settings.probe_share * rank), asked)
    want = min(-(-want // 8) * 8, n)  # BLAS likes multiples of its vectors
    return widened(vectors, want, rng)
