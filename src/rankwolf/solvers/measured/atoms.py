"""What the Frank-Wolfe methods for measurements share: the iterate, and how it moves along a segment."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import numpy as np

from rankwolf.certificate import dual_bound
from rankwolf.oracles import l1
from rankwolf.problem import Penalized, Problem
from rankwolf.sensing import Measurements
from rankwolf.sensing.base import Array
from rankwolf.sensing.checks import inner
from rankwolf.solvers.atoms import Atoms
from rankwolf.solvers.base import Report
from rankwolf.solvers.measured.base import MeasuredSolution, NuclearOracle, Pair


@dataclass
class MeasuredState:
    """An iterate: L as atoms, S dense, what A makes of both, r = b − A[L + S], and G = Re(A*r), minus the gradient."""

    atoms: Atoms
    sparse: Array
    image_L: Array
    image_S: Array
    residual: Array
    gradient: Array
    oracle: NuclearOracle
    dual: Array
    iteration: int = 0
    t_L: float = 0.0
    t_S: float = 0.0
    lower_bound: float = 0.0
    step_size: float = nan
    sparse_step_size: float = nan
    surrogate_gap: float = nan

    def objective(self, problem: Problem) -> float:
        """g(x), with t_L and t_S in place of the norms; l(x) for radii."""
        squared = inner(self.residual, self.residual)
        if isinstance(problem, Penalized):
            return problem.objective(squared, self.t_L, self.t_S)
        return problem.objective(squared)

    def report(self, problem: Problem) -> Report:
        """What every Frank-Wolfe method reports."""
        return Report(
            self.objective(problem), self.lower_bound, self.atoms.count, int(np.count_nonzero(self.sparse)),
            self.step_size, self.sparse_step_size, self.surrogate_gap,
        )  # fmt: skip

    def solution(self) -> MeasuredSolution:
        """L from its atoms; S as it is."""
        return MeasuredSolution(self.atoms.to_low_rank(), self.sparse, self.dual)


@dataclass(frozen=True)
class Vertex:
    """The oracles' answers V_L = t_L·u vᵀ and V_S = t_S·sign·e_i e_jᵀ, and what A makes of them."""

    pair: Pair
    t_L: float
    image_L: Array
    place: tuple[int, int]
    sign: float
    magnitude: float
    t_S: float
    image_S: Array


def start_at_zero(data: Measurements, rng: np.random.Generator) -> MeasuredState:
    """L = S = 0: the residual is b."""
    zero = np.zeros_like(data.b)
    return MeasuredState(
        Atoms(data.shape, np.dtype(np.float64)), np.zeros(data.shape), zero, zero, data.b.copy(),
        data.adjoint(data.b), NuclearOracle(data.shape, rng), data.b,
    )  # fmt: skip


def find_vertex(
    problem: Problem, data: Measurements, state: MeasuredState, U_L: float, U_S: float, tol: float, most: int
) -> Vertex:
    """Lines 3 and 4 of Algorithms 3 and 4 (radii), lines 3 to 14 of Algorithm 5 (weights)."""
    pair = state.oracle.leading_pair(data, state.residual, state.gradient, tol, most)
    place, value = l1.minimize_linear(-state.gradient)
    magnitude = abs(float(state.gradient[place]))
    if isinstance(problem, Penalized):
        U_L = U_L if pair.value > problem.lambda_L else 0.0
        # Where A*A is a projection, thresholding leaves |G| = λ_S exactly but for rounding.
        U_S = U_S if magnitude > problem.lambda_S * (1.0 + 1e-12) else 0.0
    nothing = np.zeros_like(data.b)
    image_L = U_L * data.apply_factors(pair.left[:, None], pair.right[:, None]) if U_L else nothing
    image_S = (U_S * value) * _image_of_entry(data, place) if U_S else nothing
    return Vertex(pair, U_L, image_L, place, value, magnitude, U_S, image_S)


def _image_of_entry(data: Measurements, place: tuple[int, int]) -> Array:
    left, right = np.zeros((data.shape[0], 1)), np.zeros((data.shape[1], 1))
    left[place[0]] = right[place[1]] = 1.0
    return data.apply_factors(left, right)


def update_bounds(problem: Problem, data: Measurements, state: MeasuredState, vertex: Vertex) -> None:
    """The dual certificate and the surrogate gap d(x) = ⟨x − v, ∇⟩ of the iterate that the oracles were asked about."""
    spectral_norm, largest = vertex.pair.upper, vertex.magnitude
    bound = dual_bound(problem, data.b, state.residual, spectral_norm, largest)
    if bound > state.lower_bound:
        state.lower_bound, state.dual = bound, state.residual
    r_dot_x = inner(state.residual, state.image_L + state.image_S)
    gap = vertex.t_L * spectral_norm + vertex.t_S * largest - r_dot_x
    if isinstance(problem, Penalized):
        gap += problem.lambda_L * (state.t_L - vertex.t_L) + problem.lambda_S * (state.t_S - vertex.t_S)
    state.surrogate_gap = gap


def move(data: Measurements, state: MeasuredState, vertex: Vertex, alpha: float, beta: float) -> None:
    """L ← L + α(V_L − L) and S ← S + β(V_S − S), with their images, t_L, t_S and the residual; not yet the gradient."""
    state.atoms.blend(1.0 - alpha, alpha * vertex.t_L, vertex.pair.left[:, None], vertex.pair.right)
    state.image_L = (1.0 - alpha) * state.image_L + alpha * vertex.image_L
    state.t_L += alpha * (vertex.t_L - state.t_L)
    state.sparse = (1.0 - beta) * state.sparse
    state.sparse[vertex.place] += beta * vertex.t_S * vertex.sign
    state.image_S = (1.0 - beta) * state.image_S + beta * vertex.image_S
    state.t_S += beta * (vertex.t_S - state.t_S)
    state.residual = data.b - state.image_L - state.image_S
    state.iteration += 1
    state.step_size, state.sparse_step_size = alpha, beta


def gradient_step(data: Measurements, state: MeasuredState) -> Array:
    """S + Re(A*r)/‖A‖²: with A*A ≼ ‖A‖²·I the paper's majorising function needs ‖A‖²/2‖S − S^k‖² in place of ½‖·‖²."""
    return state.sparse + data.adjoint(state.residual) / data.norm**2


def replace_sparse(data: Measurements, state: MeasuredState, sparse: Array) -> None:
    """Take the new S, with its image, its norm and the residual."""
    state.sparse, state.t_S = sparse, l1.norm(sparse)
    state.image_S = data.apply(sparse)
    state.residual = data.b - state.image_L - state.image_S
