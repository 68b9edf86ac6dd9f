"""FW-T, Algorithm 6: Frank-Wolfe for the low-rank part, thresholding for the sparse part."""

from __future__ import annotations

import numpy as np

from rankwolf.data import Data
from rankwolf.ground.arrays import Array, inner
from rankwolf.problem import Penalized
from rankwolf.solvers.fw import FrankWolfeMethod, FrankWolfeState, Vertex, find_vertex, move, shrink_sparse


class FrankWolfeThresholding(FrankWolfeMethod):
    """Algorithm 6 exactly as printed: a Frank-Wolfe step on both parts, then S is soft-thresholded.

    On measurements P_Q is A*A, and the thresholding step has the length 1/‖A‖². Cost of an iteration: as FW-P.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> fit = rw.decompose(X, delta=0.01, stop="paper", method=rw.solvers.FrankWolfeThresholding(), rng=0)
    >>> int(np.argmax(np.abs(fit.sparse[3])))
    5
    """

    name = "fw-t"
    solves = (Penalized,)

    def step(self, problem: Penalized, data: Data, state: FrankWolfeState) -> FrankWolfeState:
        """Lines 4 to 9."""
        # Line 4, with U_L = g(x)/λ_L and U_S = g(x)/λ_S of lines 8 and 9 of the iteration before.
        vertex = find_vertex(problem, state, state.objective(problem), self.oracle)
        alpha, beta = best_steps(problem, state, vertex)  # line 5
        move(state, vertex, alpha, beta)  # line 6
        shrink_sparse(problem, state)  # line 7: T[S − P_Q[L + S − M]]; and t_S = ‖S‖₁
        return state


def best_steps(problem: Penalized, state: FrankWolfeState, vertex: Vertex) -> tuple[float, float]:
    """The α and β in [0, 1] that minimise ½‖r − αA[V_L − L] − βA[V_S − S]‖² + λ_L·t_L + λ_S·t_S on the way."""
    a, b, r = vertex.image_L - state.image_L, vertex.image_S - state.image_S, state.residual
    across = inner(a, b)
    quadratic = np.array([[inner(a, a), across], [across, inner(b, b)]])
    slope_L = problem.penalty(vertex.t_L, 0.0) - problem.penalty(state.t_L, 0.0) - inner(r, a)
    slope_S = problem.penalty(0.0, vertex.t_S) - problem.penalty(0.0, state.t_S) - inner(r, b)
    return minimize_on_square(quadratic, np.array([slope_L, slope_S]))


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
