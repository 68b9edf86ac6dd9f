"""FW-P, Algorithm 4: Frank-Wolfe for the low-rank part, projection for the sparse part."""

from __future__ import annotations

import numpy as np

from rankwolf.passes import projection_threshold
from rankwolf.problem import Constrained
from rankwolf.solvers.atoms import (
    ATOMIC_STATES,
    AtomicState,
    clip_at,
    leading_atom,
    move,
    start_at_zero,
)
from rankwolf.solvers.base import Report, Solution, Solver
from rankwolf.sources import Source


class FrankWolfeProjection(Solver[Constrained, AtomicState]):
    """Algorithm 4.

    S is not stored: line 8 projects S^{k+½} − P_Ω(L + S^{k+½} − M) = P_Ω(M − L), so S = T_θ(P_Ω(M − L)) with the θ that
    meets the radius, whatever S^{k+½} was; and the gradient's largest entry is θ. Cost of an iteration: as FW-T, and
    three or four more reads of D to find θ.
    """

    name = "fw-p"
    solves = (Constrained,)
    states = ATOMIC_STATES

    def __init__(self, oracle_tol: float = 1e-2, oracle_products: int = 20) -> None:
        self.oracle_tol, self.oracle_products = oracle_tol, oracle_products

    def init(self, problem: Constrained, source: Source, rng: np.random.Generator) -> AtomicState:
        """Line 1: L⁰ = S⁰ = 0."""
        return start_at_zero(source, rng)

    def step(self, problem: Constrained, source: Source, state: AtomicState) -> AtomicState:
        """Lines 3 to 9."""
        objective = problem.objective(state.sums.g_squared)
        atom = leading_atom(
            source, state, state.oracle_tol(self.oracle_tol, objective), self.oracle_products
        )  # line 3
        if state.iteration > 0:
            self._update_bounds(problem, state, atom.pair.upper)
        gamma = 2.0 / (state.iteration + 2.0)  # line 5
        move(source, state, gamma, problem.tau_L, atom.right, state.limit)  # line 6
        # Line 8: find the threshold, and clip there.
        guess = state.limit if np.isfinite(state.limit) else 0.0
        clip_at(source, state, projection_threshold(source, state.residual, problem.tau_S, guess))
        return state

    def report(self, problem: Constrained, state: AtomicState) -> Report:
        """l(x) and the surrogate gap of the iterate before."""
        return Report(
            problem.objective(state.sums.g_squared), state.lower_bound, state.atoms.count, state.sums.nonzeros,
            state.step_size, surrogate_gap=state.surrogate_gap,
        )  # fmt: skip

    def solution(self, problem: Constrained, source: Source, state: AtomicState) -> Solution:
        """L from its atoms; S is the residual thresholded at θ."""
        return Solution(state.atoms.to_low_rank(source), threshold=state.limit)

    @staticmethod
    def _update_bounds(problem: Constrained, state: AtomicState, spectral_norm: float) -> None:
        """d(x) = τ_L‖G‖₂ + τ_S·max|G| − ⟨G, L + S⟩, with L + S = M − G on Ω."""
        sums = state.sums
        state.surrogate_gap = problem.surrogate_gap(sums.g_dot_m - sums.g_squared, spectral_norm, state.limit)
        state.lower_bound = max(problem.objective(sums.g_squared) - state.surrogate_gap, 0.0)
