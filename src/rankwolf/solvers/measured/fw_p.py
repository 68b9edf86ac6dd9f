"""FW-P for measurements, Algorithm 4: Frank-Wolfe for the low-rank part, projection for the sparse part."""

from __future__ import annotations

import numpy as np

from rankwolf.oracles import l1
from rankwolf.problem import Constrained
from rankwolf.sensing import Measurements
from rankwolf.solvers.base import Report, Solver
from rankwolf.solvers.measured import atoms
from rankwolf.solvers.measured.atoms import MeasuredState
from rankwolf.solvers.measured.base import MeasuredSolution, oracle_tol


class MeasuredFrankWolfeProjection(Solver[Constrained, MeasuredState]):
    """Algorithm 4 with P_Q replaced by A*A, and the projected gradient step by 1/‖A‖². Cost: as FW-T."""

    name = "fw-p"
    solves = (Constrained,)

    def __init__(self, oracle_tol: float = 1e-2, oracle_products: int = 20) -> None:
        self.oracle_tol, self.oracle_products = oracle_tol, oracle_products

    def init(self, problem: Constrained, source: Measurements, rng: np.random.Generator) -> MeasuredState:
        """Line 1: L⁰ = S⁰ = 0."""
        return atoms.start_at_zero(source, rng)

    def step(self, problem: Constrained, source: Measurements, state: MeasuredState) -> MeasuredState:
        """Lines 3 to 9."""
        tol = oracle_tol(self.oracle_tol, state.objective(problem), state.lower_bound)
        vertex = atoms.find_vertex(
            problem, source, state, problem.tau_L, problem.tau_S, tol, self.oracle_products
        )  # lines 3 and 4
        atoms.update_bounds(problem, source, state, vertex)
        gamma = 2.0 / (state.iteration + 2.0)  # line 5
        atoms.move(source, state, vertex, gamma, gamma)  # lines 6 and 7
        # Line 8 with the Lipschitz constant ‖A‖² of the gradient in S.
        atoms.replace_sparse(source, state, l1.project(atoms.gradient_step(source, state), problem.tau_S))
        state.gradient = source.adjoint(state.residual)
        return state

    def report(self, problem: Constrained, state: MeasuredState) -> Report:
        """l(x), and the surrogate gap of the iterate before."""
        return state.report(problem)

    def solution(self, problem: Constrained, source: Measurements, state: MeasuredState) -> MeasuredSolution:
        """L from its atoms; S as it is."""
        return state.solution()
