"""Plain Frank-Wolfe: Algorithm 3 for radii, Algorithm 5 for weights; and what FW-P and FW-T share with it.

All of the algorithms minimise ½‖A[L + S] − b‖² with L and S kept small; for entries A = P_Ω (:mod:`.observed`). With
r = b − A[L + S], the gradient in L and in S is −G, G = A*r.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan
from typing import Any, ClassVar

import numpy as np

from rankwolf.data import Data
from rankwolf.ground.arrays import Array, inner
from rankwolf.ground.complaints import check_choice
from rankwolf.oracles import l1, nuclear
from rankwolf.problem import SmoothProblem
from rankwolf.solvers.atoms import Atoms
from rankwolf.solvers.base import MADE_AGAIN, Report, Solver
from rankwolf.solvers.observed import measured, solution

# The nuclear ball's oracle accepts a singular pair at this relative residual, and near the optimum at a tenth of the
# relative gap; it makes at most so many products with GᵀG.
ORACLE_TOL, ORACLE_PRODUCTS = 1e-4, 20


@dataclass(kw_only=True)
class FrankWolfeState:
    """L as atoms, S, A[L], A[S], r and G. ``t_L`` and ``t_S`` bound ‖L‖_* and ‖S‖₁, as in the epigraph form.

    ``lower_bound`` and ``surrogate_gap`` belong to the iterate before. ``warm`` are singular vectors of the last G,
    ``best_dual`` is the r that gave the best lower bound.
    """

    atoms: Atoms
    sparse: Array
    image_L: Array
    image_S: Array
    residual: Array
    gradient: Array
    best_dual: Array
    warm: Array
    rng: np.random.Generator
    t_L: float = 0.0
    t_S: float = 0.0
    iteration: int = 0
    best_bound: float = 0.0
    lower_bound: float = 0.0
    surrogate_gap: float = nan
    step_size: float = nan
    sparse_step_size: float = nan
    data: Any = field(default=None, metadata=MADE_AGAIN)

    def objective(self, problem: SmoothProblem) -> float:
        """The objective with t_L and t_S in place of the norms."""
        return problem.objective(inner(self.residual, self.residual), self.t_L, self.t_S)


@dataclass(frozen=True)
class Vertex:
    """V_L = t_L·u vᵀ and V_S = t_S·sign·e_i e_jᵀ, with their images under A."""

    u: Array
    v: Array
    t_L: float
    t_S: float
    place: tuple[int, int]
    sign: Any
    image_L: Any
    image_S: Any


def at_zero(data: Data, rng: np.random.Generator) -> FrankWolfeState:
    """L⁰ = S⁰ = 0, t_L = t_S = 0: r is b."""
    measurements = measured(data)
    b = measurements.b
    gradient = measurements.adjoint(b)
    count = min(4, *data.shape)
    return FrankWolfeState(
        atoms=Atoms(data.shape),
        sparse=np.zeros(data.shape, gradient.dtype),
        image_L=np.zeros_like(b),
        image_S=np.zeros_like(b),
        residual=b.copy(),
        gradient=gradient,
        best_dual=b,
        warm=rng.standard_normal((min(data.shape), count)).astype(gradient.dtype),
        rng=rng,
        data=measurements,
    )


def find_vertex(
    problem: SmoothProblem, state: FrankWolfeState, bound: float, oracle: tuple[float, int]
) -> Vertex:
    """Lines 3 and 4 of Algorithms 3 and 4, lines 3 to 14 of Algorithm 5; ``bound`` = λ_L·U_L = λ_S·U_S.

    Also renews the lower bound on the optimum and the surrogate gap d(x) = ⟨x − v, ∇⟩ of equation (2.8).
    """
    data, r, G = state.data, state.residual, state.gradient
    value = state.objective(problem)
    gap = 0.1 * max(value - state.lower_bound, 0.0) / value if value > 0.0 else oracle[0]
    sigma, upper, u, v = leading_singular_pair(state, min(oracle[0], gap), oracle[1])
    place, sign = l1.minimize_linear(-G)
    largest = float(abs(G[place]))
    t_L, t_S = problem.vertex(bound, sigma, largest)
    dot_b, squared = inner(r, data.b), inner(r, r)
    state.lower_bound = problem.lower_bound(dot_b, squared, upper, largest)
    if state.lower_bound > state.best_bound:
        state.best_bound, state.best_dual = state.lower_bound, r
    along = t_L * upper + t_S * largest - (dot_b - squared)  # ⟨r, A[v]⟩ − ⟨r, A[x]⟩
    state.surrogate_gap = along + problem.penalty(state.t_L, state.t_S) - problem.penalty(t_L, t_S)
    image_L = data.apply_factors((t_L * u)[:, None], v[:, None]) if t_L else 0.0
    image_S: Any = 0.0
    if t_S:
        entry = np.zeros_like(G)
        entry[place] = t_S * sign
        image_S = data.apply(entry)
    return Vertex(u, v, t_L, t_S, place, sign, image_L, image_S)


def leading_singular_pair(
    state: FrankWolfeState, tol: float, products: int
) -> tuple[float, float, Array, Array]:
    """(σ, upper, u, v) with G ≈ σ·u vᵀ and σ₁(G) in [σ, upper], by Lanczos steps on the shorter side of G."""
    G, dtype = state.gradient, state.gradient.dtype
    product = state.data.products(state.residual, G)
    times, back = product.times, product.transposed_times
    if G.shape[0] < G.shape[1]:
        times, back = back, times
    found = nuclear.leading_pair(
        lambda block: back(times(block.astype(dtype))), state.warm, tol, products, state.rng, 3
    )
    # A random vector beside the last answers, so that none can be missed for good.
    fresh = state.rng.standard_normal((state.warm.shape[0], 1))
    state.warm = np.hstack([found.leading[:, : state.warm.shape[1] - 1], fresh]).astype(dtype)
    other = times(found.right[:, None].astype(dtype))[:, 0]
    sigma = float(np.linalg.norm(other))
    other = other / (sigma or 1.0)
    left, right = (found.right, other) if G.shape[0] < G.shape[1] else (other, found.right)
    # G ≈ σ·u·v^H, and an atom is u·vᵀ: so v is conjugated.
    return sigma, max(found.upper, sigma), left.astype(dtype), right.conj().astype(dtype)


def move(state: FrankWolfeState, vertex: Vertex, alpha: float, beta: float) -> None:
    """L ← L + α(V_L − L) and S ← S + β(V_S − S), with their images, t_L and t_S; r and G follow."""
    state.atoms.blend(1.0 - alpha, alpha * vertex.t_L, vertex.u, vertex.v)
    state.image_L *= 1.0 - alpha
    state.image_L += alpha * vertex.image_L
    state.t_L += alpha * (vertex.t_L - state.t_L)
    if state.image_S is not state.sparse:  # of a whole matrix, A[S] is S
        state.image_S = (1.0 - beta) * state.image_S + beta * vertex.image_S
    state.sparse *= 1.0 - beta
    state.sparse[vertex.place] += beta * vertex.t_S * vertex.sign
    state.t_S += beta * (vertex.t_S - state.t_S)
    state.iteration += 1
    state.step_size, state.sparse_step_size = alpha, beta
    state.residual = state.data.b - state.image_L
    state.residual -= state.image_S


def shrink_sparse(problem: SmoothProblem, state: FrankWolfeState) -> None:
    """S ← the proximal step S + A*r/‖A‖², thresholded or projected; A*A ≼ ‖A‖²·I takes the place of P_Q ≼ I."""
    data, step = state.data, 1.0 / state.data.norm**2
    target = step * data.adjoint(state.residual)
    target += state.sparse
    threshold = problem.threshold_S(step, lambda radius: l1.projection_threshold(target, radius))
    state.sparse = l1.soft_threshold(target, threshold)
    state.t_S = l1.norm(state.sparse)
    state.image_S = data.apply(state.sparse)
    state.residual = data.b - state.image_L
    state.residual -= state.image_S
    state.gradient = data.adjoint(state.residual)


class FrankWolfeMethod(Solver[Any, FrankWolfeState]):
    """What FW, FW-P and FW-T share: where they begin, what they report and return; each has its own ``step``."""

    takes = ("entries", "measurements")
    states = (FrankWolfeState, Atoms)
    keeps_sparse: ClassVar[bool] = False
    """Whether S is returned as it is; else, for entries, the best S for L."""

    def __init__(self, oracle_tol: float = ORACLE_TOL, oracle_products: int = ORACLE_PRODUCTS) -> None:
        self.oracle_tol, self.oracle_products = oracle_tol, oracle_products

    @property
    def oracle(self) -> tuple[float, int]:
        """The precision of the nuclear ball's oracle."""
        return self.oracle_tol, self.oracle_products

    def init(self, problem: SmoothProblem, data: Data, rng: np.random.Generator) -> FrankWolfeState:
        """Lines 1 and 2: L⁰ = S⁰ = 0, t_L = t_S = 0."""
        return at_zero(data, rng)

    def restore(self, problem: SmoothProblem, data: Data, state: FrankWolfeState) -> FrankWolfeState:
        """The data is read again."""
        state.data = measured(data)
        return state

    def report(self, problem: SmoothProblem, state: FrankWolfeState) -> Report:
        """The objective with t_L and t_S in place of the norms; the bounds are those of the iterate before."""
        return Report(
            objective=state.objective(problem),
            lower_bound=state.lower_bound,
            rank=state.atoms.rank,
            nonzeros=int(np.count_nonzero(state.sparse)),
            step_size=state.step_size,
            sparse_step_size=state.sparse_step_size,
            surrogate_gap=state.surrogate_gap,
        )

    def solution(self, problem: SmoothProblem, data: Data, state: FrankWolfeState) -> Any:
        """L from its atoms, and S."""
        low_rank = state.atoms.low_rank(state.sparse.dtype)
        return solution(
            problem, state.data, low_rank, state.sparse, state.best_dual, keeps_S=self.keeps_sparse
        )


class FrankWolfe(FrankWolfeMethod):
    """Frank-Wolfe on both parts, S growing by one entry at a time: simple, and slow where S is not tiny.

    ``step``: ``"open-loop"`` is 2/(k + 2); ``"line-search"`` minimises exactly along the segment. Cost of an iteration:
    one product with A*, two with A on matrices of rank one, and those of the oracle, 2mn operations for each vector.
    Memory: about ten matrices. No bound on ‖A‖ is needed.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> fit = rw.decompose(X, delta=0.01, max_iter=20, method=rw.solvers.FrankWolfe(step="line-search"), rng=0)
    >>> int(np.argmax(np.abs(fit.sparse[3])))
    5
    """

    name = "fw"
    solves = (SmoothProblem,)
    keeps_sparse = True

    def __init__(
        self,
        step: str = "open-loop",
        oracle_tol: float = ORACLE_TOL,
        oracle_products: int = ORACLE_PRODUCTS,
    ) -> None:
        super().__init__(oracle_tol, oracle_products)
        self.step_rule = check_choice("step", step, ("open-loop", "line-search"), "FrankWolfe")

    def step(self, problem: SmoothProblem, data: Data, state: FrankWolfeState) -> FrankWolfeState:
        """Lines 3 to 7 of Algorithm 3, lines 3 to 17 of Algorithm 5 with the bounds of equation (4.8)."""
        vertex = find_vertex(problem, state, 0.5 * data.summary.norm**2, self.oracle)
        gamma = 2.0 / (state.iteration + 2.0)
        if self.step_rule == "line-search":
            direction = vertex.image_L + vertex.image_S - state.image_L - state.image_S
            slope = inner(state.residual, direction)
            slope -= problem.penalty(vertex.t_L, vertex.t_S) - problem.penalty(state.t_L, state.t_S)
            curvature = inner(direction, direction)
            gamma = min(max(slope / curvature, 0.0), 1.0) if curvature > 0.0 else 0.0
        move(state, vertex, gamma, gamma)
        state.gradient = state.data.adjoint(state.residual)
        return state
