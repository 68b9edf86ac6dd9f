"""FW-P, Algorithm 4: Frank-Wolfe for the low-rank part, projection for the sparse part."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwolf.data import Data
from rankwolf.problem import Constrained
from rankwolf.solvers.base import Report, Solver
from rankwolf.solvers.iterates import SHRINKING, SHRINKING_STATES
from rankwolf.solvers.iterates.base import Oracle, ShrinkingPair


class FrankWolfeProjection(Solver[Constrained, ShrinkingPair[Any, Any]]):
    """Algorithm 4: a Frank-Wolfe step on both parts, then S is projected onto ‖S‖₁ ≤ τ_S.

    On entries S is not stored: line 8 projects S^{k+½} − P_Ω(L + S^{k+½} − M) = P_Ω(M − L), so S = T_θ(P_Ω(M − L)) with
    the θ that meets the radius, whatever S^{k+½} was. Cost of an iteration: as FW-T, three or four more reads of D to
    find θ, and one more pass over M and D with it. On measurements: as FW-T.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> fit = rw.decompose(X, radii=(200.0, 100.0), max_iter=50, method=rw.solvers.FrankWolfeProjection(), rng=0)
    >>> int(np.argmax(np.abs(fit.sparse[3])))
    5
    """

    name = "fw-p"
    solves = (Constrained,)
    takes = ("entries", "measurements")
    states = SHRINKING_STATES

    def __init__(self, oracle_tol: float = Oracle.tol, oracle_products: int = Oracle.products) -> None:
        self.oracle_tol, self.oracle_products = oracle_tol, oracle_products

    def init(self, problem: Constrained, data: Data, rng: np.random.Generator) -> ShrinkingPair[Any, Any]:
        """Line 1: L⁰ = S⁰ = 0."""
        return SHRINKING[data.kind].start(data, rng)

    def step(
        self, problem: Constrained, data: Data, state: ShrinkingPair[Any, Any]
    ) -> ShrinkingPair[Any, Any]:
        """Lines 3 to 9."""
        oracle = Oracle(self.oracle_tol, self.oracle_products)
        vertex = state.find_vertex(problem, data, 0.0, oracle)  # lines 3 and 4
        gamma = 2.0 / (state.iteration + 2.0)  # line 5
        state.move_and_shrink(problem, data, vertex, gamma, gamma)  # lines 6 to 8
        return state

    def report(self, problem: Constrained, state: ShrinkingPair[Any, Any]) -> Report:
        """The misfit ½‖R‖², and the bounds of the iterate before."""
        return state.report(problem)

    def solution(self, problem: Constrained, data: Data, state: ShrinkingPair[Any, Any]) -> Any:
        """L from its atoms; S is the projected residual."""
        return state.solution(problem, data)
