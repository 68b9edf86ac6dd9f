"""FW-T, Algorithm 6: Frank-Wolfe for the low-rank part, thresholding for the sparse part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwolf.passes import FindLargest
from rankwolf.problem import Penalized
from rankwolf.solvers.atoms import (
    ATOMIC_STATES,
    Atom,
    AtomicState,
    leading_atom,
    move,
    start_at_zero,
)
from rankwolf.solvers.base import Report, Solution, Solver
from rankwolf.sources import Array, Source


class FrankWolfeThresholding(Solver[Penalized, AtomicState]):
    """Algorithm 6 exactly as printed.

    S is not stored. Line 6 gives S = T_λS(P_Ω(M − L)), a function of L, from the first iteration on; then |G| ≤ λ_S,
    so that line 4 of Algorithm 5 always answers V_S = 0: the second direction of the quadratic program shrinks S.

    Cost of an iteration: one read of M and one read and write of D to move; one read of both to align the new atom; one
    read of D for each further Lanczos step (``oracle_tol``, ``oracle_products``). Memory: D, and the atoms.
    """

    name = "fw-t"
    solves = (Penalized,)
    states = ATOMIC_STATES

    def __init__(self, oracle_tol: float = 3e-3, oracle_products: int = 20) -> None:
        self.oracle_tol, self.oracle_products = oracle_tol, oracle_products

    def init(self, problem: Penalized, source: Source, rng: np.random.Generator) -> AtomicState:
        """Line 2: L⁰ = S⁰ = 0, t_L = t_S = 0."""
        return start_at_zero(source, rng)

    def step(self, problem: Penalized, source: Source, state: AtomicState) -> AtomicState:
        """Lines 4 to 9."""
        g = self._objective(problem, state)
        atom = leading_atom(source, state, state.oracle_tol(self.oracle_tol, g), self.oracle_products)
        U_L, U_S = g / problem.lambda_L, g / problem.lambda_S  # lines 8 and 9 of the iteration before
        # Lines 3-14 of Algorithm 5: V_L = U_L·u vᵀ or 0.
        V_tL = U_L if atom.pair.value > problem.lambda_L else 0.0
        spike = sparse_vertex(problem, source, state, U_S)
        self._update_bounds(problem, state, atom, V_tL, spike)
        # Line 5: the quadratic program over the two segments.
        alpha, beta = minimize_on_square(*step_program(problem, source, state, atom, V_tL, spike))
        # Lines 6 and 7: the thresholding step is the clip at λ_S, made while D moves.
        move(source, state, alpha, V_tL, atom.right, problem.lambda_S)
        state.sparse_step_size = beta
        state.t_L = (1.0 - alpha) * state.t_L + alpha * V_tL
        state.t_S = state.sums.s_norm
        return state

    def report(self, problem: Penalized, state: AtomicState) -> Report:
        """g(x), with t_L in place of ‖L‖_*, and the surrogate gap of the iterate before."""
        return Report(
            self._objective(problem, state), state.lower_bound, state.atoms.count, state.sums.nonzeros,
            state.step_size, state.sparse_step_size, state.surrogate_gap,
        )  # fmt: skip

    def solution(self, problem: Penalized, source: Source, state: AtomicState) -> Solution:
        """L from its atoms; S is the thresholded residual."""
        return Solution(state.atoms.to_low_rank(source), threshold=problem.lambda_S)

    @staticmethod
    def _objective(problem: Penalized, state: AtomicState) -> float:
        return problem.objective(state.sums.g_squared, state.t_L, state.t_S)

    @staticmethod
    def _update_bounds(problem: Penalized, state: AtomicState, atom: Atom, V_tL: float, spike: Spike) -> None:
        """The dual certificate and the surrogate gap d(x), both of the iterate that the oracle was asked about."""
        sums = state.sums
        if state.iteration > 0:
            state.lower_bound = problem.dual_value(sums.g_dot_m, sums.g_squared, atom.pair.upper)
        # ⟨G, S⟩ = λ_S·t_S cancels λ_S·t_S: G = ±λ_S wherever S is not zero.
        state.surrogate_gap = (
            problem.lambda_L * state.t_L - sums.g_dot_l
            + V_tL * (atom.pair.upper - problem.lambda_L) + spike.weight * (spike.magnitude - problem.lambda_S)
        )  # fmt: skip


@dataclass(frozen=True)
class Spike:
    """V_S = weight·sign·e_row e_columnᵀ, the answer of the ℓ1 ball's oracle, and |G| there."""

    weight: float = 0.0
    magnitude: float = 0.0
    sign: float = 0.0
    row: int = 0
    column: int = 0


def sparse_vertex(problem: Penalized, source: Source, state: AtomicState, U_S: float) -> Spike:
    """Line 4 of Algorithm 5. Only at the first iterate, S⁰ = 0, can an entry of G be above λ_S."""
    if state.iteration > 0:
        return Spike()
    entry = source.run(FindLargest(), state.residual, source.row_numbers())
    if abs(entry.value) <= problem.lambda_S:
        return Spike()
    return Spike(U_S, abs(entry.value), float(np.sign(entry.value)), entry.row, entry.column)


def step_program(
    problem: Penalized, source: Source, state: AtomicState, atom: Atom, V_tL: float, spike: Spike
) -> tuple[Array, Array]:
    """The quadratic program of line 5 as ½xᵀQx + cᵀx in x = (α, β), with A = V_L − L and B = V_S − S on Ω, R = −G."""
    sums = state.sums
    meeting = 0.0
    if spike.weight:
        there = source.row(state.left, spike.row)[0] * atom.right[spike.column]
        meeting = float(there) * spike.sign * spike.weight
    a_squared = V_tL**2 * atom.squared - 2.0 * V_tL * atom.dot_l + sums.l_squared
    b_squared = spike.weight**2 + sums.s_squared
    a_dot_b = V_tL * (meeting - atom.dot_s) + sums.s_dot_l
    slope_alpha = sums.g_dot_l - V_tL * atom.pair.value + problem.lambda_L * (V_tL - state.t_L)
    slope_beta = spike.weight * (problem.lambda_S - spike.magnitude)  # ⟨G, S⟩ = λ_S·t_S cancels
    return np.array([[a_squared, a_dot_b], [a_dot_b, b_squared]]), np.array([slope_alpha, slope_beta])


def minimize_on_square(quadratic: Array, linear: Array) -> tuple[float, float]:
    """The minimiser of ½xᵀQx + cᵀx over [0, 1]², Q positive semidefinite: the inside, then the four edges."""
    (a, b), (_, c) = ((float(x) for x in row) for row in quadratic)
    p, q = (float(x) for x in linear)

    def value(x: float, y: float) -> float:
        return 0.5 * (a * x * x + 2.0 * b * x * y + c * y * y) + p * x + q * y

    def on_segment(curvature: float, slope: float) -> float:
        if curvature > 0.0:
            return min(max(-slope / curvature, 0.0), 1.0)
        return 0.0 if slope >= 0.0 else 1.0

    candidates = [(on_segment(a, p + b * y), y) for y in (0.0, 1.0)]
    candidates += [(x, on_segment(c, q + b * x)) for x in (0.0, 1.0)]
    determinant = a * c - b * b
    if determinant > 1e-14 * a * c:
        x, y = (b * q - c * p) / determinant, (b * p - a * q) / determinant
        if 0.0 <= x <= 1.0 and 0.0 <= y <= 1.0:
            candidates.append((x, y))
    return min(candidates, key=lambda point: value(*point))
