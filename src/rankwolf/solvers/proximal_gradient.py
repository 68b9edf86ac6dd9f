"""ISTA and FISTA, Algorithms 7 and 8: proximal gradient steps on both parts at once."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from rankwolf.data import Data
from rankwolf.ground.momentum import Momentum
from rankwolf.problem import SmoothProblem
from rankwolf.solvers.base import Report, Solver
from rankwolf.solvers.iterates import PROXIMAL, PROXIMAL_STATES
from rankwolf.solvers.iterates.proximal import ProximalPair

State = ProximalPair[Any]


class ProximalGradient(Solver[SmoothProblem, State]):
    """What ISTA and FISTA share: everything but the momentum. With radii, the proximal maps are projections.

    The step is 1/L_f with L_f = 2 (2‖A‖² for measurements). ``svd_tol``: an iterative partial SVD ends when singular
    values change by no more than this share; it does not matter where a dense matrix is decomposed, which is exact.

    ``bounds=False`` saves the time that lower bounds take, for runs that do not stop on the gap.

    Cost of an iteration on entries: some passes, see :class:`~rankwolf.solvers.iterates.ProximalEntries`; on
    measurements: one product with A, one with A*, and one partial SVD of a dense matrix, mn·min(m, n).
    """

    solves = (SmoothProblem,)
    takes = ("entries", "measurements")
    states = PROXIMAL_STATES

    def __init__(self, svd_tol: float = 1e-3, bounds: bool = True) -> None:
        self.svd_tol, self.bounds = svd_tol, bounds

    def init(self, problem: SmoothProblem, data: Data, rng: np.random.Generator) -> State:
        """L⁰ = S⁰ = 0."""
        return PROXIMAL[data.kind].start(problem, data, rng)

    def step(self, problem: SmoothProblem, data: Data, state: State) -> State:
        """Lines 3 and 4; for FISTA lines 5 to 7 as well."""
        before = state.objective
        state.proximal_step(problem, data, self.svd_tol)
        state.iteration += 1
        state.momentum = self.next_momentum(state.momentum, grew=state.objective > before)
        if self.bounds:
            state.update_bound(problem, data)
        return state

    @abstractmethod
    def next_momentum(self, momentum: Momentum, grew: bool) -> Momentum:
        """Lines 5 to 7 of Algorithm 8; ``grew`` says whether the objective has grown."""

    def report(self, problem: SmoothProblem, state: State) -> Report:
        """The objective of (L, S), and the best lower bound so far."""
        return state.report()

    def solution(self, problem: SmoothProblem, data: Data, state: State) -> Any:
        """The pair (L, S); on entries S is replaced by the best one for this L."""
        return state.solution(problem, data)


class Ista(ProximalGradient):
    """Algorithm 7: a proximal gradient step on (L, S), of length ½ (1/(2‖A‖²) for measurements).

    Cost of an iteration on entries: one pass for the step; for the partial SVD, one pass and an n × n eigenproblem, or
    two or more passes; and up to six passes where the lower bound is renewed. On measurements: one product with A, one
    with A*, and one partial SVD of a dense matrix, mn·min(m, n).

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> rw.decompose(X, delta=0.01, method=rw.solvers.Ista(), tol=1e-2, rng=0).low_rank.rank
    1
    """

    name = "ista"

    def next_momentum(self, momentum: Momentum, grew: bool) -> Momentum:
        """The same momentum again: ISTA has none."""
        return momentum


class Fista(ProximalGradient):
    """Algorithm 8: ISTA with Nesterov's momentum.

    ``restart`` drops the momentum whenever the objective grew (O'Donoghue and Candès, 2015). ``restart=False`` is
    Algorithm 8 as printed. Cost of an iteration: that of :class:`Ista`.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> rw.decompose(X, delta=0.01, method=rw.solvers.Fista(restart=False), rng=0).low_rank.rank
    1
    """

    name = "fista"

    def __init__(self, restart: bool = True, svd_tol: float = 1e-3, bounds: bool = True) -> None:
        super().__init__(svd_tol, bounds)
        self.restart = restart

    def next_momentum(self, momentum: Momentum, grew: bool) -> Momentum:
        """The next element of Nesterov's sequence, or its start after an objective that grew."""
        return Momentum() if self.restart and grew else momentum.next()
