"""FW-T for measurements, Algorithm 6: Frank-Wolfe for the low-rank part, thresholding for the sparse part."""

from __future__ import annotations

import numpy as np

from rankwolf.oracles import l1
from rankwolf.problem import Penalized
from rankwolf.sensing import Measurements
from rankwolf.sensing.checks import inner
from rankwolf.solvers.base import Report, Solver
from rankwolf.solvers.fw_t import minimize_on_square
from rankwolf.solvers.measured import atoms
from rankwolf.solvers.measured.atoms import MeasuredState, Vertex
from rankwolf.solvers.measured.base import MeasuredSolution, oracle_tol


class MeasuredFrankWolfeThresholding(Solver[Penalized, MeasuredState]):
    """Algorithm 6 with P_Q replaced by A*A, and the thresholding step by 1/‖A‖².

    Cost of an iteration: two products with A* and one with A on a dense matrix, one or two with A on a matrix of rank
    one, and two or more with Re(A*r) for the oracle.
    """

    name = "fw-t"
    solves = (Penalized,)

    def __init__(self, oracle_tol: float = 1e-2, oracle_products: int = 20) -> None:
        self.oracle_tol, self.oracle_products = oracle_tol, oracle_products

    def init(self, problem: Penalized, source: Measurements, rng: np.random.Generator) -> MeasuredState:
        """Line 2: L⁰ = S⁰ = 0, t_L = t_S = 0."""
        return atoms.start_at_zero(source, rng)

    def step(self, problem: Penalized, source: Measurements, state: MeasuredState) -> MeasuredState:
        """Lines 4 to 9."""
        g = state.objective(problem)
        U_L, U_S = g / problem.lambda_L, g / problem.lambda_S  # lines 8 and 9 of the iteration before
        tol = oracle_tol(self.oracle_tol, g, state.lower_bound)
        vertex = atoms.find_vertex(problem, source, state, U_L, U_S, tol, self.oracle_products)  # line 4
        atoms.update_bounds(problem, source, state, vertex)
        alpha, beta = self._two_steps(problem, state, vertex)  # line 5
        atoms.move(source, state, vertex, alpha, beta)
        # Line 6 with the Lipschitz constant ‖A‖² of the gradient in S.
        sparse = l1.soft_threshold(atoms.gradient_step(source, state), problem.lambda_S / source.norm**2)
        atoms.replace_sparse(source, state, sparse)  # line 7
        state.gradient = source.adjoint(state.residual)
        return state

    def report(self, problem: Penalized, state: MeasuredState) -> Report:
        """g(x), with t_L in place of ‖L‖_*, and the surrogate gap of the iterate before."""
        return state.report(problem)

    def solution(self, problem: Penalized, source: Measurements, state: MeasuredState) -> MeasuredSolution:
        """L from its atoms; S as it is."""
        return state.solution()

    @staticmethod
    def _two_steps(problem: Penalized, state: MeasuredState, vertex: Vertex) -> tuple[float, float]:
        """The quadratic program of line 5, with a = A[V_L − L] and c = A[V_S − S]."""
        a, c, r = vertex.image_L - state.image_L, vertex.image_S - state.image_S, state.residual
        a_dot_c = inner(a, c)
        quadratic = np.array([[inner(a, a), a_dot_c], [a_dot_c, inner(c, c)]])
        linear = np.array([
            problem.lambda_L * (vertex.t_L - state.t_L) - inner(r, a),
            problem.lambda_S * (vertex.t_S - state.t_S) - inner(r, c),
        ])  # fmt: skip
        return minimize_on_square(quadratic, linear)
