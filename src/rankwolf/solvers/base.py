"""The contract of a solver: ``init``, ``step``, ``report``; the loop is in :mod:`rankwolf.run.loop`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, nan
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import scipy.sparse

from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.passes import Deflation
from rankwolf.problem import Certificate, Problem

# For a field of a state that can be made again and is not saved: field(metadata=MADE_AGAIN).
MADE_AGAIN = {"saved": False}


@dataclass(frozen=True)
class Report:
    """What a solver knows after a step without another look at the data.

    ``lower_bound`` may belong to an earlier iterate; the loop keeps the best. It rests on a Ritz value of G and its
    residual: before a run may stop on it, the loop has one proved. A solver may expect more of the proof than it can
    promise: ``expected_bound`` says when one is worth trying. ``settled`` is False while a solver is still on its way
    from easier problems to this one: how little the objective changes means nothing then. ``improves``: it knows of
    progress that neither the objective nor the bound shows. Making one costs nothing.

    >>> from rankwolf.solvers import Report
    >>> Report(objective=2.0, lower_bound=1.5, rank=3, nonzeros=10).settled
    True
    """

    objective: float
    lower_bound: float
    rank: int
    nonzeros: int
    step_size: float = nan
    sparse_step_size: float = nan
    surrogate_gap: float = nan
    expected_bound: float = -inf
    settled: bool = True
    improves: bool = False


@dataclass(frozen=True)
class Solution:
    """L, and S = T_threshold(P_Ω(M − L)) unless it is stored; both lie as the source sees the matrix.

    The certificate clips P_Ω(M − L) at ``clip``, or at ``threshold`` where none is given; ``deflation`` may help it. It
    is made at ``dual`` in place of L, where that is given. Where nothing ``shrinks``, S is M − L itself beyond the
    threshold.

    Memory: (m + n)·r numbers.

    >>> from rankwolf import LowRank
    >>> from rankwolf.solvers import Solution
    >>> Solution(LowRank.zeros((3, 2), float), threshold=1.0).low_rank.rank
    0
    """

    low_rank: LowRank
    threshold: float
    sparse: scipy.sparse.csr_array | None = None
    deflation: Deflation | None = None
    clip: float | None = None
    dual: LowRank | None = None
    shrinks: bool = True


@dataclass(frozen=True)
class MeasuredSolution:
    """L, a dense S, and the y of the best lower bound so far; the judge tries it beside the pair's own residual."""

    low_rank: LowRank
    sparse: Array
    dual: Array


@dataclass(frozen=True)
class Start:
    """Where a run on entries begins: L = U Vᵀ as the source sees it.

    ``left`` is row-aligned; without it, rows are fitted to ``right`` first. ``lambda_L`` is the weight at which that L
    was an optimum, if it was one of weights.
    """

    right: Array
    lambda_L: float | None = None
    left: Any = None

    @property
    def without_rows(self) -> Start:
        """The same without U, which is as long as the data: what is worth keeping."""
        return Start(self.right, self.lambda_L)


P = TypeVar("P", bound=Problem)
State = TypeVar("State")
Settings = TypeVar("Settings")


class Solver(ABC, Generic[P, State]):
    """An algorithm. A subclass is final, has its settings as constructor arguments, and keeps no state of a run.

    ``takes`` names the kinds of data that it runs on (the ``kind`` of a source), ``solves`` the forms of
    the problem. ``states`` are the classes that a state is made of, for checkpoints; a solver without any
    keeps no checkpoints. Cost: a subclass says what a step costs in passes, operations and memory.

    >>> from rankwolf.solvers import SOLVERS
    >>> sorted(SOLVERS)
    ['als', 'fista', 'fw', 'fw-p', 'fw-t', 'hybrid', 'ista', 'primal-dual']
    """

    name: ClassVar[str]
    solves: ClassVar[tuple[type[Problem], ...]]
    takes: ClassVar[tuple[str, ...]] = ("entries",)
    states: ClassVar[tuple[type, ...]] = ()

    @abstractmethod
    def init(self, problem: P, data: Any, rng: np.random.Generator) -> State:
        """The state that the first step begins with, usually at L = S = 0; may make passes."""

    def init_at(self, problem: P, data: Any, rng: np.random.Generator, start: Any) -> State:
        """A point that the user gave, for methods that can begin anywhere: a ``Start``, or (L, S) as arrays."""
        raise ValueError(f"The method {self.name!r} begins at L = S = 0 and takes no start.")

    @property
    def takes_start(self) -> bool:
        """Whether a run on entries may begin at a ``Start``."""
        return type(self).init_at is not Solver.init_at and "measurements" not in self.takes

    @abstractmethod
    def step(self, problem: P, data: Any, state: State) -> State:
        """One iteration. The old state may be overwritten."""

    @abstractmethod
    def report(self, problem: P, state: State) -> Report:
        """Numbers about the iterate; costs nothing."""

    def learn(self, problem: P, state: State, promised: float, certificate: Certificate) -> None:
        """Called after a proof that was not enough, with the bound that was promised and what was proved."""

    def restore(self, problem: P, data: Any, state: State) -> State:
        """A state from a checkpoint, with the fields that were not saved (``MADE_AGAIN``) made again."""
        return state

    @abstractmethod
    def solution(self, problem: P, data: Any, state: State) -> Any:
        """The pair (L, S): a :class:`Solution` for entries, a ``MeasuredSolution`` for measurements."""


class WithSettings(Solver[P, State], Generic[P, State, Settings]):
    """A solver whose constants are the fields of a frozen dataclass, ``settings_type``.

    Keywords of the constructor are the fields that should differ from their defaults. A checkpoint keeps these alone.
    """

    settings_type: type[Settings]

    def __init__(self, **changes: Any) -> None:
        self.changes = changes
        self.settings_type(**changes)  # a name that is not there is a TypeError now, not later

    @property
    def settings(self) -> Settings:
        """The constants of this solver: the defaults, and what was changed."""
        return self.settings_type(**self.changes)
