"""The contract of a solver: ``init``, ``step``, ``report``; the loop is in :mod:`rankwolf.solve`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, nan
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import scipy.sparse

from rankwolf.certificate import Certificate
from rankwolf.lowrank import LowRank
from rankwolf.passes import Deflation
from rankwolf.problem import Constrained, Penalized, Problem


@dataclass(frozen=True)
class Report:
    """What a solver knows after a step without another look at the data.

    ``lower_bound`` may belong to an earlier iterate; the loop keeps the best. It rests on a Ritz value of G and its
    residual: before a run may stop on it, the loop asks :mod:`rankwolf.certificate` for one that is proved. A solver
    may expect more of the proof than it can promise: ``expected_bound`` says when one is worth trying.
    """

    objective: float
    lower_bound: float
    rank: int
    nonzeros: int
    step_size: float = nan
    sparse_step_size: float = nan
    surrogate_gap: float = nan
    expected_bound: float = -inf


@dataclass(frozen=True)
class Solution:
    """L, and S = T_threshold(P_Ω(M − L)) unless it is stored. As the source sees the matrix.

    The certificate clips P_Ω(M − L) at ``threshold`` in either case; ``deflation`` may help it.
    """

    low_rank: LowRank
    threshold: float
    sparse: scipy.sparse.csr_array | None = None
    deflation: Deflation | None = None


P = TypeVar("P", bound=Problem)
State = TypeVar("State")


class Solver(ABC, Generic[P, State]):
    """An algorithm. A subclass is final, has its settings as constructor arguments, and keeps no state of a run.

    ``source`` is what the subclass says: a Source for entry-wise solvers, Measurements for those of
    :mod:`rankwolf.solvers.measured`. ``states``: the classes that a state is made of, for checkpoints; none, and there
    are no checkpoints.
    """

    name: ClassVar[str]
    solves: ClassVar[tuple[type[Penalized] | type[Constrained], ...]]
    takes_sparse: ClassVar[bool] = False
    states: ClassVar[tuple[type, ...]] = ()

    @abstractmethod
    def init(self, problem: P, source: Any, rng: np.random.Generator) -> State:
        """The starting point."""

    @abstractmethod
    def step(self, problem: P, source: Any, state: State) -> State:
        """One iteration. The old state may be overwritten."""

    @abstractmethod
    def report(self, problem: P, state: State) -> Report:
        """Numbers about the iterate; costs nothing."""

    def learn(self, state: State, promised: float, certificate: Certificate) -> None:
        """Called after a proof that was not enough, with the bound that was promised and what was proved."""

    def restore(self, problem: P, source: Any, state: State) -> State:
        """A state from a checkpoint, with what was not saved (``packing.MADE_AGAIN``) made again."""
        return state

    @abstractmethod
    def solution(self, problem: P, source: Any, state: State) -> Any:
        """The pair (L, S) of the iterate, in the form that :mod:`rankwolf.assess` takes for this kind of data."""
