"""The contract of a solver: ``init``, ``step``, ``report``, ``solution``; :mod:`rankwolf.run.loop` calls them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from math import inf, nan
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from rankwolf.data import Source
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.oracles import l1
from rankwolf.oracles.nuclear import shrink_singular_values
from rankwolf.oracles.subspace import WarmThreshold
from rankwolf.passes import Deflation
from rankwolf.problem import Problem

# Marks a field of a state that a checkpoint leaves out because it can be made again: field(metadata=MADE_AGAIN).
MADE_AGAIN = {"saved": False}


@dataclass(frozen=True)
class Report:
    """What a solver knows after a step without another look at the data.

    ``lower_bound`` may belong to an earlier iterate; the loop keeps the best. It is no proof, because ‖G‖₂ is only
    estimated, by a Ritz value: before a run stops on the gap, the loop proves a bound. ``expected_bound`` is the bound
    that the solver expects of that proof; it says when a proof is worth trying. ``settled`` is False while a solver is
    still on its way from easier problems to this one, so that a small change of the objective means nothing.
    ``improves`` says that there is progress which neither the objective nor the bound shows. ``stage`` counts the
    solvers that a run has changed to. A report costs nothing.

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
    stage: int = 0


@dataclass(frozen=True)
class Solution:
    """L, and S = T_threshold(P_Ω(M − L)) unless ``sparse`` is given; both lie as the source sees the matrix.

    With ``shrinks=False``, S is M − L itself where that exceeds the threshold. For the certificate: ``clip`` is the
    level at which P_Ω(M − L) is clipped (``threshold`` where it is None), ``dual`` the L at which the dual point is
    made (``low_rank`` where it is None), and ``deflation`` a hint. ``explicit``: the dual point itself, with
    the data term (:class:`rankwolf.solvers.splitting.Explicit`).

    Memory: (m + n)·r numbers.

    >>> from rankwolf import LowRank
    >>> from rankwolf.solvers import Solution
    >>> Solution(LowRank.zeros((3, 2), float), threshold=1.0).low_rank.rank
    0
    """

    low_rank: LowRank
    threshold: float
    sparse: Any = None
    deflation: Deflation | None = None
    clip: float | None = None
    dual: LowRank | None = None
    shrinks: bool = True
    explicit: Any = None


@dataclass(frozen=True)
class Certificate:
    """A lower bound on the optimal value from a dual point Y, whose ‖Y‖₂ is at most ``norm``.

    ``proved``: ‖Y‖₂ was bounded by proof, not only by a converged Ritz pair. ``witness``: the leading right singular
    vectors of Y, which tell a solver why the bound is low. ``likely_bound``: what a finished proof would give; where
    a proof was given up, ``lower_bound`` may be far below.
    """

    lower_bound: float
    proved: bool
    witness: Array | None
    likely_bound: float
    norm: float = inf


@dataclass(frozen=True)
class MeasuredSolution:
    """L, a dense S, and ``dual``, the y of the best lower bound so far, which the judge tries beside the residual."""

    low_rank: LowRank
    sparse: Array
    dual: Array


@dataclass(frozen=True)
class Start:
    """Where a run on entries begins: L = U Vᵀ as the source sees it.

    ``left`` is U, a row-aligned array; without it, rows are fitted to V = ``right`` first. ``lambda_L`` is the weight
    at which L was optimal, if it is the solution of a problem with weights.
    """

    right: Array
    lambda_L: float | None = None
    left: Any = None

    @property
    def without_rows(self) -> Start:
        """The same without U, which has as many rows as the data: small enough to keep."""
        return Start(self.right, self.lambda_L)


def group_axis(problem: Problem, data: Any) -> int | None:
    """The axis along which norms of S are taken, as the solver sees the matrix; None where S is sparse by entries."""
    if problem.sparse == "entries":
        return None
    turned = isinstance(data, Source) and data.transposed
    return int((problem.sparse == "rows") != turned)


def proximal_L(problem: Problem, X: Array, step: float, warm: WarmThreshold) -> tuple[Array, LowRank]:
    """The proximal step of ‖L‖_* from X, as an array and as factors: thresholding, from ``warm``, or projection."""
    if problem.dual_radii is None:  # all singular values are needed to project them
        return shrink_singular_values(
            X, lambda singular: problem.threshold_L(step, partial(l1.projection_threshold, singular))
        )
    return warm.threshold(X, problem.threshold_L(step, lambda radius: 0.0))


P = TypeVar("P", bound=Problem)
State = TypeVar("State")
Settings = TypeVar("Settings")


class Solver(ABC, Generic[P, State]):
    """An algorithm. A subclass is final, has its settings as constructor arguments, and keeps no state of a run.

    ``takes`` names the kinds of data that it runs on (the ``kind`` of a source), ``solves`` the forms of the problem.
    ``states`` are the classes that a state is made of, for checkpoints; without any there are no checkpoints.
    ``takes_start``: a run may begin at a given point (:meth:`init_at`). ``any_data_term``: takes
    ``limits``, and an S that is sparse by rows or columns. Cost: each subclass says what a step
    costs in passes, operations and memory.

    >>> from rankwolf.solvers import SOLVERS
    >>> SOLVERS["fw-t"].takes
    ('entries', 'measurements')
    """

    name: ClassVar[str]
    solves: ClassVar[tuple[type[Problem], ...]]
    takes: ClassVar[tuple[str, ...]] = ("entries",)
    states: ClassVar[tuple[type, ...]] = ()
    takes_start: ClassVar[bool] = False
    any_data_term: ClassVar[bool] = False

    def method_name(self, state: State) -> str:
        """What a result says of how it was found."""
        return self.name

    @abstractmethod
    def init(self, problem: P, data: Any, rng: np.random.Generator) -> State:
        """The state that the first step begins with, usually at L = S = 0; may make passes."""

    def init_at(self, problem: P, data: Any, rng: np.random.Generator, start: Any) -> State:
        """The state at a given point, with ``takes_start``: at a ``Start`` (entries) or at (L, S) (measurements)."""
        raise NotImplementedError

    @abstractmethod
    def step(self, problem: P, data: Any, state: State) -> State:
        """One iteration. The old state may be overwritten."""

    @abstractmethod
    def report(self, problem: P, state: State) -> Report:
        """Objective, bounds, rank and nonzeros of the iterate, from numbers that the state has: no pass."""

    def learn(self, problem: P, state: State, promised: float, certificate: Certificate) -> None:
        """Called after a proof that did not reach the tolerance: ``promised`` is the bound that was expected of it."""

    def restore(self, problem: P, data: Any, state: State) -> State:
        """A state from a checkpoint, with the fields that were not saved (``MADE_AGAIN``) made again."""
        return state

    @abstractmethod
    def solution(self, problem: P, data: Any, state: State) -> Any:
        """The pair (L, S): a :class:`Solution` for entries, a ``MeasuredSolution`` for measurements."""


class WithSettings(Solver[P, State], Generic[P, State, Settings]):
    """A solver whose constants are the fields of a frozen dataclass, ``settings_type``.

    Keywords of the constructor are the fields that differ from their defaults. A checkpoint stores only these.
    """

    settings_type: type[Settings]

    def __init__(self, **changes: Any) -> None:
        self.changes = changes
        self.settings_type(**changes)  # an unknown name is a TypeError here, not later

    @property
    def settings(self) -> Settings:
        """The constants of this solver: the defaults with the ``changes``."""
        return self.settings_type(**self.changes)
