"""FW-T, Algorithm 6: Frank-Wolfe for the low-rank part, thresholding for the sparse part."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwolf.data import Data
from rankwolf.ground.arrays import Array
from rankwolf.problem import Penalized
from rankwolf.solvers.base import Report, Solver
from rankwolf.solvers.iterates import SHRINKING, SHRINKING_STATES
from rankwolf.solvers.iterates.base import Oracle, ShrinkingPair


class FrankWolfeThresholding(Solver[Penalized, ShrinkingPair[Any, Any]]):
    """Algorithm 6 exactly as printed: a Frank-Wolfe step on both parts, then S is soft-thresholded.

    On entries S is not stored: line 6 gives S = T_λS(P_Ω(M − L)), a function of L, from the first iteration on. From
    then on no entry of G exceeds λ_S, so that line 4 of Algorithm 5 always answers V_S = 0. Cost of an iteration: one
    read of M and one read and write of D to move; one read of both to align the new atom; one read of D for each
    further Lanczos step of the oracle. Memory: D, and the atoms.

    On measurements P_Q is A*A, and the thresholding step has the length 1/‖A‖². Cost of an iteration: two products with
    A* and one with A on a dense matrix, one or two with A on a matrix of rank one, and those of the oracle.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> fit = rw.decompose(X, delta=0.01, stop="paper", method=rw.solvers.FrankWolfeThresholding(), rng=0)
    >>> int(np.argmax(np.abs(fit.sparse[3])))
    5
    """

    name = "fw-t"
    solves = (Penalized,)
    takes = ("entries", "measurements")
    states = SHRINKING_STATES

    def __init__(self, oracle_tol: float = Oracle.tol, oracle_products: int = Oracle.products) -> None:
        self.oracle_tol, self.oracle_products = oracle_tol, oracle_products

    def init(self, problem: Penalized, data: Data, rng: np.random.Generator) -> ShrinkingPair[Any, Any]:
        """Line 2: L⁰ = S⁰ = 0, t_L = t_S = 0."""
        return SHRINKING[data.kind].start(data, rng)

    def step(self, problem: Penalized, data: Data, state: ShrinkingPair[Any, Any]) -> ShrinkingPair[Any, Any]:
        """Lines 4 to 9."""
        oracle = Oracle(self.oracle_tol, self.oracle_products)
        # Line 4, with U_L = g(x)/λ_L and U_S = g(x)/λ_S of lines 8 and 9 of the iteration before.
        vertex = state.find_vertex(problem, data, state.objective(problem), oracle)
        alpha, beta = minimize_on_square(*state.step_program(problem, data, vertex))  # line 5
        state.move_and_shrink(problem, data, vertex, alpha, beta)  # lines 6 and 7
        return state

    def report(self, problem: Penalized, state: ShrinkingPair[Any, Any]) -> Report:
        """The objective, with t_L in place of ‖L‖_*, and the bounds of the iterate before."""
        return state.report(problem)

    def solution(self, problem: Penalized, data: Data, state: ShrinkingPair[Any, Any]) -> Any:
        """L from its atoms; S is the thresholded residual."""
        return state.solution(problem, data)


def minimize_on_square(quadratic: Array, linear: Array) -> tuple[float, float]:
    """The minimiser (α, β) of ½xᵀQx + cᵀx over [0, 1]², Q positive semidefinite: on the edges or inside."""
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
