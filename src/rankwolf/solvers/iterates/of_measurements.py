"""The Frank-Wolfe iterate on measurements: S is an array, and the images A[L] and A[S] are kept beside the pair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from rankwolf.data.measurements import Measurements
from rankwolf.ground.arrays import Array, inner
from rankwolf.oracles import l1
from rankwolf.problem import SmoothProblem
from rankwolf.solvers.base import MeasuredSolution
from rankwolf.solvers.iterates.atoms import Atoms
from rankwolf.solvers.iterates.base import AtomicPair, Oracle, ShrinkingPair, Vertex
from rankwolf.solvers.iterates.nuclear_oracle import NuclearOracle


@dataclass(frozen=True)
class MeasuredVertex(Vertex):
    """A vertex for measurements: u and v, the place and sign of the largest entry, A[V_L] and A[V_S]."""

    left: Array = None  # type: ignore[assignment]
    right: Array = None  # type: ignore[assignment]
    place: tuple[int, int] = (0, 0)
    sign: float = 0.0
    image_L: Any = 0.0
    image_S: Any = 0.0


@dataclass(kw_only=True)
class MeasuredIterate(AtomicPair[Measurements, MeasuredVertex], ShrinkingPair[Measurements, MeasuredVertex]):
    """L as atoms, S dense, their images under A, r = b − A[L + S], and G = A*r, minus the gradient.

    ``dual`` is the residual that gave the best lower bound so far, ``best_bound``.
    """

    sparse: Array
    image_L: Array
    image_S: Array
    residual: Array
    gradient: Array
    oracle: NuclearOracle
    dual: Array
    best_bound: float = 0.0

    @classmethod
    def start(cls, data: Measurements, rng: np.random.Generator) -> Self:
        """L = S = 0: the residual is b."""
        gradient = data.adjoint(data.b)
        return cls(
            atoms=Atoms(data.shape, gradient.dtype),
            sparse=np.zeros(data.shape, gradient.dtype),
            image_L=np.zeros_like(data.b),
            image_S=np.zeros_like(data.b),
            residual=data.b.copy(),
            gradient=gradient,
            oracle=NuclearOracle(data.shape, rng, gradient.dtype),
            dual=data.b,
        )

    @property
    def misfit_squared(self) -> float:
        """‖r‖²."""
        return inner(self.residual, self.residual)

    @property
    def nonzeros(self) -> int:
        """How many entries of S are not zero."""
        return int(np.count_nonzero(self.sparse))

    def misfit_sums(self, data: Measurements) -> tuple[float, float]:
        """Re⟨r, b⟩ and ‖r‖²."""
        return inner(self.residual, data.b), self.misfit_squared

    def ask_oracles(self, data: Measurements, tol: float, products: int) -> MeasuredVertex:
        """The leading singular pair of G by products, and its largest entry by one look at the array."""
        pair = self.oracle.leading_pair(data, self.residual, self.gradient, tol, products)
        place, sign = l1.minimize_linear(-self.gradient)
        magnitude = abs(self.gradient[place])
        return MeasuredVertex(
            pair.value, pair.upper, float(magnitude), left=pair.left, right=pair.right, place=place, sign=sign
        )

    def find_vertex(
        self, problem: SmoothProblem, data: Measurements, bound: float, oracle: Oracle
    ) -> MeasuredVertex:
        """The vertex with A[V_L] and A[V_S]: a product with A on a matrix of rank one for each that is not 0."""
        residual = self.residual
        vertex = super().find_vertex(problem, data, bound, oracle)
        if self.lower_bound > self.best_bound:
            self.best_bound, self.dual = self.lower_bound, residual
        if vertex.t_L:
            image = data.apply_factors(vertex.left[:, None], vertex.right[:, None])
            vertex = replace(vertex, image_L=vertex.t_L * image)
        if vertex.t_S:
            entry = tuple(np.zeros((side, 1)) for side in data.shape)
            entry[0][vertex.place[0]] = entry[1][vertex.place[1]] = 1.0
            vertex = replace(vertex, image_S=(vertex.t_S * vertex.sign) * data.apply_factors(*entry))
        return vertex

    def line(self, data: Measurements, vertex: MeasuredVertex) -> tuple[float, float]:
        """From A[L], A[S] and the images of the vertex; no product."""
        direction = vertex.image_L + vertex.image_S - self.image_L - self.image_S
        return inner(self.residual, direction), inner(direction, direction)

    def directions(self, data: Measurements, vertex: MeasuredVertex) -> tuple[Array, Array]:
        """From A[L], A[S] and the images of the vertex; no product."""
        a, b, r = vertex.image_L - self.image_L, vertex.image_S - self.image_S, self.residual
        a_dot_b = inner(a, b)
        quadratic = np.array([[inner(a, a), a_dot_b], [a_dot_b, inner(b, b)]])
        return quadratic, np.array([-inner(r, a), -inner(r, b)])

    def move(self, data: Measurements, vertex: MeasuredVertex, gamma: float) -> None:
        """x ← x + γ(v − x), by the images that are known; one product with A* for the new gradient."""
        self._move(data, vertex, gamma, gamma)
        self.gradient = data.adjoint(self.residual)

    def move_and_shrink(
        self, problem: SmoothProblem, data: Measurements, vertex: MeasuredVertex, alpha: float, beta: float
    ) -> None:
        """Move both parts, then a proximal step on S of length 1/‖A‖²: A*A ≼ ‖A‖²·I in place of the paper's P_Q ≼ I.

        Two products with A*, one with A.
        """
        self._move(data, vertex, alpha, beta)
        step = 1.0 / data.norm**2
        target = self.sparse + step * data.adjoint(self.residual)
        threshold = problem.threshold_S(step, lambda radius: l1.projection_threshold(target, radius))
        self.sparse = l1.soft_threshold(target, threshold)
        self.t_S = l1.norm(self.sparse)
        self.image_S = data.apply(self.sparse)
        self.residual = data.b - self.image_L - self.image_S
        self.gradient = data.adjoint(self.residual)

    def solution(self, problem: SmoothProblem, data: Measurements) -> MeasuredSolution:
        """L from its atoms; S as it is."""
        return MeasuredSolution(self.atoms.to_low_rank(), self.sparse, self.dual)

    def _move(self, data: Measurements, vertex: MeasuredVertex, alpha: float, beta: float) -> None:
        """Move both parts, their images and the residual, but not the gradient."""
        self.atoms.blend(1.0 - alpha, alpha * vertex.t_L, vertex.left[:, None], vertex.right)
        self.image_L = (1.0 - alpha) * self.image_L + alpha * vertex.image_L
        self.t_L += alpha * (vertex.t_L - self.t_L)
        self.sparse = (1.0 - beta) * self.sparse
        self.sparse[vertex.place] += beta * vertex.t_S * vertex.sign
        self.image_S = (1.0 - beta) * self.image_S + beta * vertex.image_S
        self.t_S += beta * (vertex.t_S - self.t_S)
        self.residual = data.b - self.image_L - self.image_S
        self.iteration += 1
        self.step_size, self.sparse_step_size = alpha, beta
