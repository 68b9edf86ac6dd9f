"""The contract of an iterate of ISTA and FISTA on any kind of data: a proximal gradient step, and a lower bound."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from rankwolf.ground.momentum import Momentum
from rankwolf.problem import SmoothProblem
from rankwolf.solvers.base import Report

D = TypeVar("D")


@dataclass(kw_only=True)
class ProximalPair(ABC, Generic[D]):
    """(L, S), the pair before it, and the numbers that a report needs.

    ``step_length`` is 1/L_f. The lower bound is renewed less and less often: after iteration k, the next time is
    ⌊k/``bound_interval``⌋ + 1 iterations later.
    """

    bound_interval: ClassVar[int] = 6

    objective: float
    step_length: float
    momentum: Momentum = field(default_factory=Momentum)
    iteration: int = 0
    lower_bound: float = 0.0
    next_bound: int = 1

    @classmethod
    @abstractmethod
    def start(cls, problem: SmoothProblem, data: D, rng: np.random.Generator) -> Self:
        """L = S = 0."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """The rank of L."""

    @property
    @abstractmethod
    def nonzeros(self) -> int:
        """How many entries of S are not zero."""

    @abstractmethod
    def proximal_step(self, problem: SmoothProblem, data: D, svd_tol: float) -> None:
        """Lines 3 and 4: both parts take a step from the extrapolated pair (L̂, Ŝ). Renews the objective."""

    @abstractmethod
    def find_bound(self, problem: SmoothProblem, data: D) -> float:
        """A lower bound on the optimum from the present point; costs a few passes or products."""

    @abstractmethod
    def solution(self, problem: SmoothProblem, data: D) -> Any:
        """The pair, as the judge takes it for this kind of data."""

    def update_bound(self, problem: SmoothProblem, data: D) -> None:
        """Renew the lower bound if its iteration has come; the best so far is kept."""
        if self.iteration < self.next_bound:
            return
        self.lower_bound = max(self.lower_bound, self.find_bound(problem, data))
        self.next_bound = self.iteration + 1 + self.iteration // self.bound_interval

    def report(self) -> Report:
        """The objective, the last lower bound, rank and nonzeros."""
        return Report(
            objective=self.objective,
            lower_bound=self.lower_bound,
            rank=self.rank,
            nonzeros=self.nonzeros,
            step_size=self.step_length,
            sparse_step_size=self.step_length,
        )
