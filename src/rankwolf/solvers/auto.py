"""``method="auto"`` on entries: a solver of passes and splitting, by what each is expected to cost.

Seconds = iterations × seconds of an iteration, for m × n entries with the shorter side k and the observed share ρ; for
weights δ = λ_L/(ρ‖P_Ω M‖_F):

=========  ==============================  =================================================================
method     seconds of an iteration         iterations
=========  ==============================  =================================================================
hybrid     8e-4 + 20e-9·mn                 weights 16·(1e-3/δ)^0.5/ρ^1.3
path       the same                        pursuit 30/ρ, noise 40/ρ, radii 120/ρ
splitting  4e-4 + (12 + 0.1·k)·1e-9·mn     weights 27·(1e-3/δ)^0.2/ρ^0.5, pursuit 80/ρ^0.5, noise and radii
           + 0.28e-9·k³ (to k = 256)       40/ρ^0.5
=========  ==============================  =================================================================

Splitting keeps ten arrays of the matrix's size in double precision; where they do not fit into half of the available
memory or into ``max_memory``, or where the matrix is on workers, its cost is infinite.
The exponents and constants are rounded from runs on one machine, on faces, videos and
panels, and no script checks them; only ratios matter, and near the border both methods take about the same time.

The model may be wrong about a matrix. So a run of passes that has cost as much as splitting was expected to cost goes
on as splitting, from its L and the residual there: in all, never more than about twice the better of the two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from rankwolf.data import Source
from rankwolf.platform import available_memory
from rankwolf.problem import Constrained, NoiseBounded, Problem
from rankwolf.solvers.base import Certificate, Report, Solver, Start
from rankwolf.solvers.data_terms import SPLITTING_BYTES
from rankwolf.solvers.hybrid import Hybrid
from rankwolf.solvers.path import Path
from rankwolf.solvers.splitting import Splitting

# A run of passes is not given up before this many times the expected iterations.
PATIENCE = 2.0


def passes_cost(problem: Problem, source: Source) -> tuple[float, float]:
    """(iterations, seconds of one) that the hybrid, or the path around it, is expected to take."""
    m, n = source.shape
    rho = max(source.observed_fraction, 1e-12)
    if isinstance(problem, NoiseBounded):
        iterations = (30.0 if problem.epsilon == 0.0 else 40.0) / rho
    elif isinstance(problem, Constrained):
        iterations = 120.0 / rho
    else:
        iterations = 16.0 * (1e-3 / _delta(problem, source)) ** 0.5 / rho**1.3
    return max(iterations, 4.0), 8e-4 + 20e-9 * m * n


def splitting_cost(problem: Problem, source: Source) -> float:
    """The seconds that splitting is expected to take; infinite where its arrays have no room in this process.

    They may take half of the free memory, or what ``max_memory`` leaves; a dask.array stays where it is.
    """
    (m, n), most = source.shape, source.workspace.most_bytes
    room = available_memory() // 2 if most is None else min(most, available_memory() // 2)
    if source.maps_lazily or SPLITTING_BYTES * m * n > room:
        return inf
    rho, side = max(source.observed_fraction, 1e-12), min(m, n)
    if isinstance(problem, NoiseBounded | Constrained):
        iterations = (80.0 if problem.pair[1] == 0.0 else 40.0) / rho**0.5
    else:
        iterations = 27.0 * (1e-3 / _delta(problem, source)) ** 0.2 / rho**0.5
    seconds = 4e-4 + (12.0 + 0.1 * side) * 1e-9 * m * n + 0.28e-9 * min(side, 256) ** 3
    return float(max(iterations, 4.0) * seconds)


def _delta(problem: Problem, source: Source) -> float:
    lambda_L = problem.dual_radii[0] if problem.dual_radii is not None else inf
    return float(lambda_L / (max(source.observed_fraction, 1e-12) * (source.summary.norm or 1.0)))


@dataclass
class AutoState:
    """The solver at work and its state. ``limit``: after so many iterations it is given up for splitting."""

    at_work: str
    inner: Any
    limit: float
    iteration: int = 0
    changed: bool = False


WORKERS: dict[str, Solver[Any, Any]] = {solver.name: solver for solver in (Hybrid(), Path(), Splitting())}


class Auto(Solver[Problem, AutoState]):
    """The solver that is expected to cost less, with a change to splitting where passes stall (see the module).

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> rw.decompose(X, delta=0.01, rng=0).method, rw.decompose(X, delta=1e-5, rng=0).method
    ('hybrid', 'splitting')
    """

    name = "auto"
    takes = ("entries",)
    solves = (Problem,)
    takes_start = True
    any_data_term = True

    def method_name(self, state: AutoState) -> str:
        """The name of the solver at work, and of the one that it followed."""
        return f"{state.at_work} after a stall" if state.changed else state.at_work

    def init(self, problem: Problem, data: Source, rng: np.random.Generator) -> AutoState:
        """The first state of the solver that is expected to cost less."""
        name, limit = choice(problem, data)
        return AutoState(name, WORKERS[name].init(problem, data, rng), limit)

    def init_at(self, problem: Problem, data: Source, rng: np.random.Generator, start: Start) -> AutoState:
        """The state of that solver at a given L."""
        name, limit = choice(problem, data)
        return AutoState(name, WORKERS[name].init_at(problem, data, rng, start), limit)

    def restore(self, problem: Problem, data: Source, state: AutoState) -> AutoState:
        """What the solver at work makes again."""
        state.inner = WORKERS[state.at_work].restore(problem, data, state.inner)
        return state

    def step(self, problem: Problem, data: Source, state: AutoState) -> AutoState:
        """A step of the solver at work; before it, the change to splitting where the limit is reached."""
        if state.iteration >= state.limit and not state.changed:
            found = WORKERS[state.at_work].solution(problem, data, state.inner).low_rank
            left, right = data.factors(found)
            splitting = WORKERS[Splitting.name]
            state.inner = splitting.init_at(problem, data, np.random.default_rng(0), Start(right, None, left))
            state.at_work, state.changed = Splitting.name, True
        state.inner = WORKERS[state.at_work].step(problem, data, state.inner)
        state.iteration += 1
        return state

    def report(self, problem: Problem, state: AutoState) -> Report:
        """That of the solver at work; ``stage`` is 1 after a change."""
        return replace(WORKERS[state.at_work].report(problem, state.inner), stage=int(state.changed))

    def learn(self, problem: Problem, state: AutoState, promised: float, certificate: Certificate) -> None:
        """Passed on."""
        WORKERS[state.at_work].learn(problem, state.inner, promised, certificate)

    def solution(self, problem: Problem, data: Source, state: AutoState) -> Any:
        """That of the solver at work."""
        return WORKERS[state.at_work].solution(problem, data, state.inner)


def choice(problem: Problem, source: Source) -> tuple[str, float]:
    """(name, limit) of the solver that a run begins with; infinite where there is no other one."""
    special = source.device is not None or source.limits is not None or problem.sparse != "entries"
    passes = next(
        (name for name in (Hybrid.name, Path.name) if isinstance(problem, WORKERS[name].solves)), None
    )
    if special or passes is None:
        return Splitting.name, inf
    iterations, seconds = passes_cost(problem, source)
    other = splitting_cost(problem, source)
    if iterations * seconds > other:
        return Splitting.name, inf
    return passes, max(other / seconds, PATIENCE * iterations)


Auto.states = (AutoState, *Hybrid.states, *Path.states, *Splitting.states)
