"""The contract of a Frank-Wolfe iterate on any kind of data: find a vertex, move towards it, give bounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import nan
from typing import Any, Generic, Self, TypeVar

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.problem import SmoothProblem
from rankwolf.solvers.base import Report
from rankwolf.solvers.iterates.atoms import Atoms


@dataclass(frozen=True)
class Oracle:
    """The precision of the nuclear ball's oracle.

    ``tol`` is the relative residual, with respect to GᵀG, at which a singular pair is accepted far from the optimum;
    near it, a tenth of the relative gap is asked for. ``products`` is the largest number of further products with GᵀG.
    """

    tol: float = 3e-3
    products: int = 20

    def tol_at(self, objective: float, lower_bound: float) -> float:
        """The relative residual that is asked for: min(``tol``, a tenth of the relative gap)."""
        if objective <= 0.0:
            return self.tol
        return min(self.tol, 0.1 * max(objective - lower_bound, 0.0) / objective)


# How exactly ‖G‖₂ is asked for where a lower bound on the optimum rests on it, and no vertex is needed.
BOUND_ORACLE = Oracle(tol=1e-3, products=20)


@dataclass(frozen=True)
class Vertex:
    """The oracles' answers V_L = t_L·u vᵀ and V_S = t_S·sign·e_i e_jᵀ.

    G is minus the gradient of the misfit. For the pair (u, v), ``value`` ≤ σ₁(G), and ``upper`` is an upper estimate of
    σ₁(G): some singular value lies between them. ``magnitude`` = max|G| is attained at (i, j).
    """

    value: float
    upper: float
    magnitude: float
    t_L: float = 0.0
    t_S: float = 0.0


D = TypeVar("D")
V = TypeVar("V", bound=Vertex)


@dataclass(kw_only=True)
class Iterate(ABC, Generic[D, V]):
    """L as a sum of atoms, S in a subclass, and the numbers that a report needs.

    ``t_L`` bounds ‖L‖_* and ``t_S`` bounds ‖S‖₁, as in the paper's epigraph form. ``lower_bound`` and
    ``surrogate_gap`` belong to the iterate at which the oracles were asked last.
    """

    atoms: Atoms
    iteration: int = 0
    t_L: float = 0.0
    t_S: float = 0.0
    lower_bound: float = 0.0
    step_size: float = nan
    sparse_step_size: float = nan
    surrogate_gap: float = nan

    @classmethod
    @abstractmethod
    def start(cls, data: D, rng: np.random.Generator) -> Self:
        """L = S = 0."""

    @abstractmethod
    def misfit_sums(self, data: D) -> tuple[float, float]:
        """⟨R, M⟩ and ‖R‖² for the misfit R = P_Ω(M − L − S), or R = b − A[L + S] and b in place of M."""

    @property
    @abstractmethod
    def misfit_squared(self) -> float:
        """‖R‖²."""

    @property
    @abstractmethod
    def nonzeros(self) -> int:
        """How many entries of S are not zero."""

    @abstractmethod
    def ask_oracles(self, data: D, tol: float, products: int) -> V:
        """The leading singular pair and the largest entry of G, as a vertex with t_L = t_S = 0."""

    @abstractmethod
    def solution(self, problem: SmoothProblem, data: D) -> Any:
        """The pair (L, S), as the judge takes it for this kind of data."""

    def objective(self, problem: SmoothProblem) -> float:
        """The objective with t_L and t_S in place of the norms."""
        return problem.objective(self.misfit_squared, self.t_L, self.t_S)

    def find_vertex(self, problem: SmoothProblem, data: D, bound: float, oracle: Oracle) -> V:
        """The vertex: lines 3 and 4 of Algorithms 3 and 4, lines 3 to 14 of Algorithm 5; ``bound`` = λ_L·U_L = λ_S·U_S.

        Also renews the lower bound on the optimum and the surrogate gap d(x) = ⟨x − v, ∇⟩ of equation (2.8).
        """
        tol = oracle.tol_at(self.objective(problem), self.lower_bound)
        answers = self.ask_oracles(data, tol, oracle.products)
        t_L, t_S = problem.vertex(bound, answers.value, answers.magnitude)
        dot_m, squared = self.misfit_sums(data)
        self.lower_bound = problem.lower_bound(dot_m, squared, answers.upper, answers.magnitude)
        linear = t_L * answers.upper + t_S * answers.magnitude - (dot_m - squared)  # ⟨R, v⟩ − ⟨R, L + S⟩
        self.surrogate_gap = linear + problem.penalty(self.t_L, self.t_S) - problem.penalty(t_L, t_S)
        return replace(answers, t_L=t_L, t_S=t_S)

    def report(self, problem: SmoothProblem) -> Report:
        """The report of every Frank-Wolfe method; bounds and surrogate gap are those of the iterate before."""
        return Report(
            objective=self.objective(problem),
            lower_bound=self.lower_bound,
            rank=self.atoms.count,
            nonzeros=self.nonzeros,
            step_size=self.step_size,
            sparse_step_size=self.sparse_step_size,
            surrogate_gap=self.surrogate_gap,
        )


class AtomicPair(Iterate[D, V]):
    """An iterate whose S is made of atoms as well: plain Frank-Wolfe."""

    @abstractmethod
    def line(self, data: D, vertex: V) -> tuple[float, float]:
        """(−slope, curvature) of the misfit ½‖R‖² along v − x, where x and v have both parts."""

    @abstractmethod
    def move(self, data: D, vertex: V, gamma: float) -> None:
        """x ← x + γ(v − x)."""

    def line_search(self, problem: SmoothProblem, data: D, vertex: V) -> float:
        """The γ in [0, 1] that minimises the objective along v − x, exactly."""
        slope, curvature = self.line(data, vertex)
        slope -= problem.penalty(vertex.t_L, vertex.t_S) - problem.penalty(self.t_L, self.t_S)
        return min(max(slope / curvature, 0.0), 1.0) if curvature > 0.0 else 0.0


class ShrinkingPair(Iterate[D, V]):
    """An iterate whose S takes a proximal step after each move: FW-P and FW-T."""

    @abstractmethod
    def directions(self, data: D, vertex: V) -> tuple[Array, Array]:
        """Q (2 × 2) and c of the misfit ½‖R − αA − βB‖² = ½‖R‖² + cᵀx + ½xᵀQx, x = (α, β).

        A = V_L − L and B = V_S − S, both on Ω; for measurements, their images.
        """

    @abstractmethod
    def move_and_shrink(self, problem: SmoothProblem, data: D, vertex: V, alpha: float, beta: float) -> None:
        """L ← L + α(V_L − L), S ← S + β(V_S − S), then a proximal step on S: thresholding, or projection."""

    def step_program(self, problem: SmoothProblem, data: D, vertex: V) -> tuple[Array, Array]:
        """The quadratic program of line 5 of Algorithm 6 as ½xᵀQx + cᵀx in x = (α, β)."""
        quadratic, slopes = self.directions(data, vertex)
        slope_alpha = problem.penalty(vertex.t_L, 0.0) - problem.penalty(self.t_L, 0.0)
        slope_beta = problem.penalty(0.0, vertex.t_S) - problem.penalty(0.0, self.t_S)
        return quadratic, slopes + np.array([slope_alpha, slope_beta])
