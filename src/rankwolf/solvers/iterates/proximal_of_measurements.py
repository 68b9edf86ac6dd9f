"""ISTA's and FISTA's iterate on measurements: S is an array, and L is made dense in each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from rankwolf.data.measurements import Measurements
from rankwolf.ground.arrays import Array, inner
from rankwolf.ground.low_rank import LowRank
from rankwolf.oracles import l1, nuclear
from rankwolf.problem import SmoothProblem
from rankwolf.solvers.base import MeasuredSolution
from rankwolf.solvers.iterates.base import BOUND_ORACLE
from rankwolf.solvers.iterates.nuclear_oracle import NuclearOracle
from rankwolf.solvers.iterates.proximal import ProximalPair


@dataclass
class MeasuredPair:
    """(L, S) and A[L + S]."""

    low_rank: LowRank
    sparse: Array
    image: Array


@dataclass(kw_only=True)
class ProximalMeasured(ProximalPair[Measurements]):
    """The pair and the one before it; ``dual`` is the residual that gave the best lower bound.

    A[L̂ + Ŝ] is a combination of images that are known, so that a step costs one product with A and one with A*.
    ``residual`` and ``gradient`` are b − A[L̂ + Ŝ] and its A*.
    """

    point: MeasuredPair
    previous: MeasuredPair
    residual: Array
    gradient: Array
    oracle: NuclearOracle
    dual: Array
    count: int | None = None

    @classmethod
    def start(cls, problem: SmoothProblem, data: Measurements, rng: np.random.Generator) -> Self:
        """L⁰ = S⁰ = 0."""
        gradient = data.adjoint(data.b)
        dtype = gradient.dtype
        zero = MeasuredPair(
            LowRank.zeros(data.shape, dtype), np.zeros(data.shape, dtype), np.zeros_like(data.b)
        )
        return cls(
            objective=0.5 * data.summary.norm**2,
            step_length=0.5 / data.norm**2,
            point=zero,
            previous=zero,
            residual=data.b,
            gradient=gradient,
            oracle=NuclearOracle(data.shape, rng, dtype),
            dual=data.b,
        )

    @property
    def rank(self) -> int:
        """The rank of L."""
        return self.point.low_rank.rank

    @property
    def nonzeros(self) -> int:
        """How many entries of S are not zero."""
        return int(np.count_nonzero(self.point.sparse))

    def proximal_step(self, problem: SmoothProblem, data: Measurements, svd_tol: float) -> None:
        """Lines 3 and 4 from (L̂, Ŝ) = (L, S) + β((L, S) − (L, S)₋)."""
        new, old, beta = self.point, self.previous, self.momentum.factor
        self.residual = data.b - new.image - beta * (new.image - old.image)  # b − A[L̂ + Ŝ]
        self.gradient = data.adjoint(self.residual)
        step = self.step_length * self.gradient
        low_rank = self._shrink_L(problem, _extrapolated(new.low_rank, old.low_rank, beta) + step)
        target = new.sparse + beta * (new.sparse - old.sparse) + step
        threshold = problem.threshold_S(
            self.step_length, lambda radius: l1.projection_threshold(target, radius)
        )
        sparse = l1.soft_threshold(target, threshold)
        image = data.apply(np.asarray(low_rank) + sparse)
        self.previous, self.point = new, MeasuredPair(low_rank, sparse, image)
        misfit = data.b - image
        self.objective = problem.objective(inner(misfit, misfit), low_rank.nuclear_norm, l1.norm(sparse))

    def find_bound(self, problem: SmoothProblem, data: Measurements) -> float:
        """The lower bound from the residual r at (L̂, Ŝ), whose A*r is known; products with G for its norm."""
        r, G = self.residual, self.gradient
        tol = BOUND_ORACLE.tol_at(self.objective, self.lower_bound)
        pair = self.oracle.leading_pair(data, r, G, tol, BOUND_ORACLE.products)
        bound = problem.lower_bound(inner(r, data.b), inner(r, r), pair.upper, float(np.max(np.abs(G))))
        if bound > self.lower_bound:
            self.dual = r
        return bound

    def solution(self, problem: SmoothProblem, data: Measurements) -> MeasuredSolution:
        """The present pair, and the y of the best lower bound."""
        return MeasuredSolution(self.point.low_rank, self.point.sparse, self.dual)

    def _shrink_L(self, problem: SmoothProblem, X: Array) -> LowRank:
        """Line 3: D_{λ_L/L_f}[X], or with radii the projection of X onto the nuclear ball."""
        projected: list[LowRank] = []

        def find(radius: float) -> float:
            projected.append(nuclear.project(X, radius))
            return 0.0

        cut = problem.threshold_L(self.step_length, find)
        if projected:
            return projected[0]
        result, found = nuclear.singular_value_threshold(X, cut, self.count)
        most = min(X.shape)
        self.count = nuclear.next_count(self.count or most // 10, found, most)
        return result


def _extrapolated(new: LowRank, old: LowRank, beta: float) -> Array:
    """L + β(L − L₋), dense."""
    return np.asarray(new) if beta == 0.0 else (1.0 + beta) * np.asarray(new) - beta * np.asarray(old)
