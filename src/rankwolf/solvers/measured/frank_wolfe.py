"""Plain Frank-Wolfe for measurements: Algorithm 3 for radii, Algorithm 5 for weights."""

from __future__ import annotations

import numpy as np

from rankwolf.problem import Constrained, Penalized, Problem
from rankwolf.sensing import Measurements
from rankwolf.sensing.checks import inner
from rankwolf.solvers.base import Report, Solver
from rankwolf.solvers.measured import atoms
from rankwolf.solvers.measured.atoms import MeasuredState, Vertex
from rankwolf.solvers.measured.base import MeasuredSolution, oracle_tol


class MeasuredFrankWolfe(Solver[Problem, MeasuredState]):
    """Frank-Wolfe on both parts, S growing by one entry at a time. It needs no bound on ‖A‖.

    ``step``: ``"open-loop"`` is 2/(k + 2); ``"line-search"`` minimises exactly along the segment. Cost of an iteration:
    one product with A* on a dense matrix, two with A on matrices of rank one, and those of the oracle.
    """

    name = "fw"
    solves = (Penalized, Constrained)

    def __init__(self, step: str = "open-loop", oracle_tol: float = 1e-2, oracle_products: int = 20) -> None:
        if step not in ("open-loop", "line-search"):
            raise ValueError(
                "The 'step' parameter of MeasuredFrankWolfe must be 'open-loop' or 'line-search'. "
                f"Got {step!r} instead."
            )
        self.step_rule, self.oracle_tol, self.oracle_products = step, oracle_tol, oracle_products

    def init(self, problem: Problem, source: Measurements, rng: np.random.Generator) -> MeasuredState:
        """Line 1: L⁰ = S⁰ = 0 (t_L = t_S = 0)."""
        return atoms.start_at_zero(source, rng)

    def step(self, problem: Problem, source: Measurements, state: MeasuredState) -> MeasuredState:
        """Lines 3 to 7 of Algorithm 3, lines 3 to 17 of Algorithm 5."""
        tol = oracle_tol(self.oracle_tol, state.objective(problem), state.lower_bound)
        U_L, U_S = self._radii(problem, source)
        vertex = atoms.find_vertex(problem, source, state, U_L, U_S, tol, self.oracle_products)
        atoms.update_bounds(problem, source, state, vertex)
        gamma = 2.0 / (state.iteration + 2.0)
        if self.step_rule == "line-search":
            gamma = self._line_search(problem, state, vertex)
        atoms.move(source, state, vertex, gamma, gamma)
        state.gradient = source.adjoint(state.residual)
        return state

    def report(self, problem: Problem, state: MeasuredState) -> Report:
        """l(x), or g(x) with t_L and t_S in place of the norms."""
        return state.report(problem)

    def solution(self, problem: Problem, source: Measurements, state: MeasuredState) -> MeasuredSolution:
        """L from its atoms; S as it is."""
        return state.solution()

    @staticmethod
    def _radii(problem: Problem, source: Measurements) -> tuple[float, float]:
        """(τ_L, τ_S), or the bounds U_L and U_S of equation (4.8) with ‖b‖ in place of ‖P_Q M‖."""
        if isinstance(problem, Constrained):
            return problem.tau_L, problem.tau_S
        half_norm = 0.5 * source.summary.norm**2
        return half_norm / problem.lambda_L, half_norm / problem.lambda_S

    @staticmethod
    def _line_search(problem: Problem, state: MeasuredState, vertex: Vertex) -> float:
        """The exact minimiser over [0, 1] of the quadratic along v − x."""
        direction = vertex.image_L + vertex.image_S - state.image_L - state.image_S
        slope, curvature = inner(state.residual, direction), inner(direction, direction)
        if isinstance(problem, Penalized):
            slope -= problem.lambda_L * (vertex.t_L - state.t_L) + problem.lambda_S * (vertex.t_S - state.t_S)
        return min(max(slope / curvature, 0.0), 1.0) if curvature > 0.0 else 0.0
