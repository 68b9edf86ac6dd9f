"""The one iteration loop, for all solvers: it has the clock, the stopping rules, the proofs and the callbacks.

A solver's ``init`` may make steps of its own on a sample of the data (the hybrid does, to start well); the first record
counts their time and passes. A refit (:mod:`rankwolf.solvers.refit`) comes after the loop and solves no form.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from rankwolf.data import Data, Source
from rankwolf.data.measurements import Measurements
from rankwolf.ground.deadline import Deadline, TimeUp
from rankwolf.problem import Problem
from rankwolf.result import Decomposition, Record, Status
from rankwolf.run.callbacks import WithIterate
from rankwolf.run.checkpoint import Checkpoint
from rankwolf.run.judge import Assessment, assess, solution_at_zero
from rankwolf.run.progress import Callback, Progress, Stopping
from rankwolf.solvers.base import Report, Solver

# A proof of at most so many operations, about a second's, is made even when the time is up.
PROOF_OPERATIONS = 1e10


@dataclass(frozen=True)
class Runner:
    """What solves a problem, or several in a row: a solver, its stopping rule, and a callback.

    Problems in a row share ``rng`` and ``deadline``: the time limit holds for all of them together, and the seconds of
    each result count from the call that made the deadline.
    """

    solver: Solver[Any, Any]
    stopping: Stopping
    rng: np.random.Generator
    deadline: Deadline
    callback: Callback | None = None

    def solve(
        self, problem: Problem, data: Data, start: Any = None, checkpoint: Checkpoint | None = None
    ) -> Decomposition:
        """The result of one run over ``data``.

        ``start``: where it begins, in the form that the solver takes. A ``checkpoint`` with a saved run goes before it.
        """
        progress = Progress(self.stopping, problem.size(data.summary.norm), self.deadline)
        run = Run(problem, data, self.solver, progress, self.rng, checkpoint, start)
        data.bytes_read = 0  # counted from here on
        with data.one_blas_thread():
            try:
                with self.deadline:
                    return run.to_the_end(self.callback)
            except TimeUp:
                return run.cut_short()


@dataclass
class Run:
    """One run: the problem, its data, the solver and its present state, and the verbs of the loop."""

    problem: Problem
    data: Data
    solver: Solver[Any, Any]
    progress: Progress
    rng: np.random.Generator
    checkpoint: Checkpoint | None
    given: Any = None
    state: Any = None
    method: str = ""
    last: Any = None
    """The pair with which the loop ended. The state is dropped then, so that the proof has its memory."""

    def to_the_end(self, callback: Callback | None) -> Decomposition:
        """Step until there is a reason to stop, then judge the pair; returns the result."""
        self.start()
        status: Status | None = None
        while status is None and len(self.progress.history) < self.progress.stopping.max_iter:
            report, record = self.step()
            status = self.progress.status(record, self.progress.worth_proving(report, record))
            if isinstance(callback, WithIterate):
                callback.solution = self.solver.solution(self.problem, self.data, self.state)
            wants_more = callback is None or self.progress.call(callback, record)
            if status is Status.GAP_REACHED:
                proved = self.try_to_prove(report, record)
                if proved is not None:
                    return proved
                status = self.progress.limit(record)
            if status is None and not wants_more:
                status = Status.CALLBACK
            if status is None:
                self.keep_if_due()
        self.keep()
        with self.blamed():
            self.last, self.state = self.solver.solution(self.problem, self.data, self.state), None
            verdict = assess(self.data, self.problem, self.last, self.rng)
        return self.finish(verdict, status or Status.ITERATION_LIMIT)

    def cut_short(self) -> Decomposition:
        """The result when the time was up in the middle of something: the solver's present pair, or L = 0 if none yet.

        A proof of more than ``PROOF_OPERATIONS`` is not begun any more: the bound is then the one that a pass gives.
        """
        m, n = sorted(self.data.shape, reverse=True)
        quick = m * n * n + n**3 > PROOF_OPERATIONS
        with self.blamed():
            if self.last is not None:
                solution = self.last
            elif self.progress.history:
                solution = self.solver.solution(self.problem, self.data, self.state)
            else:
                solution = solution_at_zero(self.data, self.problem)
            assessment = assess(self.data, self.problem, solution, self.rng, quick=quick)
        return self.finish(assessment, Status.TIME_LIMIT)

    def start(self) -> None:
        """Set the state: from the checkpoint, else at the given start, else the solver's own."""
        self.method = self.solver.name
        if self.checkpoint is not None and self.checkpoint.saved is not None:
            self.state, snapshot = self.checkpoint.restore(
                self.checkpoint.saved, self.problem, self.data, self.solver, self.rng
            )
            self.progress.resume(snapshot)
        elif self.given is not None:
            self.state = self.solver.init_at(self.problem, self.data, self.rng, self.given)
            self.given = None
        else:
            self.state = self.solver.init(self.problem, self.data, self.rng)

    def step(self) -> tuple[Report, Record]:
        """Make one iteration; returns the solver's report and the record of it."""
        with self.blamed():
            self.state = self.solver.step(self.problem, self.data, self.state)
            report = self.solver.report(self.problem, self.state)
            self.method = self.solver.method_name(self.state)
        return report, self.progress.record(report, self.data.passes, self.data.bytes_read)

    def try_to_prove(self, report: Report, record: Record) -> Decomposition | None:
        """The result, if a proof shows a gap of at most ``tol``; else None, and the solver is told what was proved."""
        if record.iteration < self.progress.next_proof:
            return None
        # A little above what is needed, because the objective that the judge finds differs by rounding.
        goal = (1.0 - 0.999 * self.progress.stopping.tol) * record.objective
        assessment = self.assess(goal)
        result = self.finish(assessment, Status.GAP_REACHED)
        if result.relative_gap <= self.progress.stopping.tol:
            self.keep()
            return result
        self.solver.learn(self.problem, self.state, report.lower_bound, assessment.certificate)
        self.progress.postpone_proof(record.iteration, learns=report.expected_bound > -inf)
        return None

    def assess(self, goal: float) -> Assessment:
        """The judge's verdict on the present pair; a lower bound that misses the ``goal`` may be a poor one."""
        with self.blamed():
            solution = self.solver.solution(self.problem, self.data, self.state)
            return assess(self.data, self.problem, solution, self.rng, goal)

    def blamed(self) -> AbstractContextManager[None]:
        """A context whose errors name the checkpoint, if the run was resumed from one (:meth:`Checkpoint.blamed`)."""
        return nullcontext() if self.checkpoint is None else self.checkpoint.blamed()

    def keep(self) -> None:
        """Save the run, if there is a checkpoint."""
        if self.checkpoint is not None:
            snapshot = self.progress.snapshot()
            self.checkpoint.save(self.problem, self.data, self.state, snapshot, self.rng)

    def keep_if_due(self) -> None:
        """Save the run, if there is a checkpoint and it is due by its passes or seconds."""
        if self.checkpoint is not None and self.checkpoint.is_due(self.data.passes):
            self.keep()

    def finish(self, assessment: Assessment, status: Status) -> Decomposition:
        """The result, with the judge's numbers. A run that met a limit has succeeded if its gap is small enough."""
        progress = self.progress
        objective, certificate = assessment.objective, assessment.certificate
        gap = max(objective - progress.prove(certificate.lower_bound), 0.0)
        relative_gap = progress.relative(gap, objective)
        if status.is_limit and progress.stopping.kind == "gap" and relative_gap <= progress.stopping.tol:
            status = Status.GAP_REACHED
        return Decomposition(
            low_rank=assessment.low_rank,
            sparse=assessment.sparse,
            objective=objective + assessment.far,
            gap=gap,
            relative_gap=relative_gap,
            gap_is_proved=certificate.proved,
            status=status,
            iterations=len(progress.history),
            passes=self.data.passes,
            seconds=progress.seconds,
            method=self.method,
            problem=self.problem,
            history=self._history(assessment, gap, relative_gap),
            residual=assessment.misfit_squared**0.5,
            source=self.data if isinstance(self.data, Source) else None,
            measurements=self.data if isinstance(self.data, Measurements) else None,
        )

    def _history(self, assessment: Assessment, gap: float, relative_gap: float) -> tuple[Record, ...]:
        """The records, the last one with the numbers that the judge found."""
        if not self.progress.history:
            return ()
        *before, last = self.progress.history
        judged = replace(
            last,
            objective=assessment.objective,
            gap=gap,
            relative_gap=relative_gap,
            rank=assessment.low_rank.rank,
            nonzeros=assessment.sparse.nonzeros,
            passes=self.data.passes,
            seconds=self.progress.seconds,
            bytes_read=self.data.bytes_read,
        )
        return (*before, judged)
