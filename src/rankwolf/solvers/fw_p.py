"""FW-P, Algorithm 4: Frank-Wolfe for the low-rank part, projection for the sparse part."""

from __future__ import annotations

from rankwolf.data import Data
from rankwolf.problem import Constrained
from rankwolf.solvers.fw import FrankWolfeMethod, FrankWolfeState, find_vertex, move, shrink_sparse


class FrankWolfeProjection(FrankWolfeMethod):
    """Algorithm 4: a Frank-Wolfe step on both parts, then S is projected onto ‖S‖₁ ≤ τ_S.

    Cost of an iteration: two products with A*, two with A, of which one is on a matrix of rank one, and those of the
    oracle. Memory: about ten matrices.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> fit = rw.decompose(X, radii=(200.0, 100.0), max_iter=50, method=rw.solvers.FrankWolfeProjection(), rng=0)
    >>> int(np.argmax(np.abs(fit.sparse[3])))
    5
    """

    name = "fw-p"
    solves = (Constrained,)

    def step(self, problem: Constrained, data: Data, state: FrankWolfeState) -> FrankWolfeState:
        """Lines 3 to 9."""
        vertex = find_vertex(problem, state, 0.0, self.oracle)  # lines 3 and 4
        gamma = 2.0 / (state.iteration + 2.0)  # line 5
        move(state, vertex, gamma, gamma)  # lines 6 and 7
        shrink_sparse(problem, state)  # line 8: the projection of S − P_Q[L + S − M]
        return state
