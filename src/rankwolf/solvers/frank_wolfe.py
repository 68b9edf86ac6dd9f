"""Plain Frank-Wolfe: Algorithm 3 for radii, Algorithm 5 for weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwolf.data import Data
from rankwolf.ground.complaints import check_choice
from rankwolf.problem import SmoothProblem
from rankwolf.solvers.base import Report, Solver
from rankwolf.solvers.iterates import ATOMIC, ATOMIC_STATES
from rankwolf.solvers.iterates.base import AtomicPair, Oracle


class FrankWolfe(Solver[SmoothProblem, AtomicPair[Any, Any]]):
    """Frank-Wolfe on both parts, S growing by one entry at a time: simple, and slow where S is not tiny.

    ``step``: ``"open-loop"`` is 2/(k + 2); ``"line-search"`` minimises exactly along the segment. Cost of an iteration
    on entries: as FW-T, and one more read of M and D for the largest entry. On measurements: one product with A*, at
    most two with A on matrices of rank one, and those of the oracle; no bound on ‖A‖ is needed.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> fit = rw.decompose(X, delta=0.01, max_iter=20, method=rw.solvers.FrankWolfe(step="line-search"), rng=0)
    >>> int(np.argmax(np.abs(fit.sparse[3])))
    5
    """

    name = "fw"
    solves = (SmoothProblem,)
    takes = ("entries", "measurements")
    states = ATOMIC_STATES

    def __init__(
        self,
        step: str = "open-loop",
        oracle_tol: float = Oracle.tol,
        oracle_products: int = Oracle.products,
    ) -> None:
        self.step_rule = check_choice("step", step, ("open-loop", "line-search"), "FrankWolfe")
        self.oracle_tol, self.oracle_products = oracle_tol, oracle_products

    def init(self, problem: SmoothProblem, data: Data, rng: np.random.Generator) -> AtomicPair[Any, Any]:
        """Line 1: L⁰ = S⁰ = 0, with t_L = t_S = 0."""
        return ATOMIC[data.kind].start(data, rng)

    def step(self, problem: SmoothProblem, data: Data, state: AtomicPair[Any, Any]) -> AtomicPair[Any, Any]:
        """Lines 3 to 7 of Algorithm 3, lines 3 to 17 of Algorithm 5 with the bounds of equation (4.8)."""
        oracle = Oracle(self.oracle_tol, self.oracle_products)
        vertex = state.find_vertex(problem, data, 0.5 * data.summary.norm**2, oracle)
        gamma = 2.0 / (state.iteration + 2.0)
        if self.step_rule == "line-search":
            gamma = state.line_search(problem, data, vertex)
        state.move(data, vertex, gamma)
        return state

    def report(self, problem: SmoothProblem, state: AtomicPair[Any, Any]) -> Report:
        """The objective, with t_L and t_S in place of the norms; the bounds are those of the iterate before."""
        return state.report(problem)

    def solution(self, problem: SmoothProblem, data: Data, state: AtomicPair[Any, Any]) -> Any:
        """L from its atoms; S from its entries."""
        return state.solution(problem, data)
