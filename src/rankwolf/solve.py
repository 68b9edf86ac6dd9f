"""The one iteration loop: clock, stopping, callbacks, status. Every solver runs in it; none has a loop of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import Any

import numpy as np

from rankwolf.assess import Assessment, assess
from rankwolf.checkpoint import Checkpoint
from rankwolf.problem import Data, Penalized, Problem
from rankwolf.result import Decomposition, Record, Status
from rankwolf.solvers.base import Report, Solver

Callback = Callable[[Record], object]

PAPER_ROWS = 5  # "for five consecutive iterations"
STALL_ROWS = 100


@dataclass(frozen=True)
class StopRule:
    """When a run ends; ``kind`` is ``"gap"`` or ``"paper"``."""

    kind: str = "gap"
    tol: float = 1e-3
    max_iter: int = 1000
    max_seconds: float | None = None


class Progress:
    """The records so far, and what the stopping rules ask about them. The clock stands still during callbacks.

    ``start`` is the objective at L = S = 0. A solver's lower bounds are promises: they rest on Ritz values, and one
    that missed a direction is too high. The best promise counts until a proof fails; then only what was proved does.
    """

    _NOT_KEPT = frozenset({"rule", "history", "_floor", "_start", "_started", "_paused"})

    def __init__(self, rule: StopRule, start: float) -> None:
        self.rule, self.history = rule, list[Record]()
        # A relative gap needs something to be relative to; an objective of exactly zero is compared with the data.
        self._floor = np.finfo(np.float64).eps * start
        self._start, self._promised, self._proved = start, 0.0, 0.0
        self._started, self._paused = time.perf_counter(), 0.0
        self._quiet_rows = self._stalled_rows = 0
        self._best_objective, self._best_gap = inf, inf
        self.next_proof = 0

    @property
    def seconds(self) -> float:
        """Time spent solving."""
        return time.perf_counter() - self._started - self._paused

    def snapshot(self) -> dict[str, Any]:
        """Everything but the rule and the clock, as numbers, for a checkpoint."""
        kept = {name: value for name, value in vars(self).items() if name not in self._NOT_KEPT}
        return {**kept, "history": [asdict(record) for record in self.history], "seconds": self.seconds}

    def resume(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot; the clock as well."""
        numbers = dict(snapshot)
        self.history = [Record(**record) for record in numbers.pop("history")]
        self._started = time.perf_counter() - numbers.pop("seconds")
        vars(self).update(numbers)

    def relative(self, gap: float, objective: float) -> float:
        """gap / objective."""
        return gap / max(objective, self._floor) if objective > 0.0 or gap > 0.0 else 0.0

    def record(self, report: Report, iteration: int, passes: int, bytes_read: int = 0) -> Record:
        """Turn a solver's report into a record and count rows for the rules."""
        self._promised = max(self._promised, report.lower_bound)
        gap = max(report.objective - self._promised, 0.0)
        record = Record(
            iteration, passes, report.objective, gap, self.relative(gap, report.objective), report.rank,
            report.nonzeros, report.step_size, report.sparse_step_size, report.surrogate_gap, self.seconds, bytes_read,
        )  # fmt: skip
        last = self.history[-1].objective if self.history else self._start
        quiet = abs(record.objective - last) <= self.rule.tol * last
        self._quiet_rows = self._quiet_rows + 1 if quiet else 0
        # A tenth of the gap, which even the slowest method gains in so many rows: less may be luck with rounding.
        closer = gap < 0.9 * self._best_gap
        better = closer or record.objective < self._best_objective * (1.0 - 1e-13)
        self._stalled_rows = 0 if better else self._stalled_rows + 1
        self._best_objective = min(self._best_objective, record.objective)
        self._best_gap = gap if closer else self._best_gap
        self.history.append(record)
        return record

    def worth_proving(self, report: Report, record: Record) -> bool:
        """Whether the run may stop on the gap if a proof gives what the solver expects."""
        hoped = record.objective - max(self._promised, report.expected_bound)
        return self.rule.kind == "gap" and self.relative(hoped, record.objective) <= self.rule.tol

    def prove(self, lower_bound: float) -> float:
        """Take in a proved bound, forget what was only promised, and return the best bound that is proved."""
        self._proved = self._promised = max(self._proved, lower_bound)
        return self._proved

    def call(self, callback: Callback, record: Record) -> bool:
        """Whether the callback wants to go on."""
        before = time.perf_counter()
        answer = callback(record)
        self._paused += time.perf_counter() - before
        return answer is not False

    def status(self, record: Record, worth_proving: bool) -> Status | None:
        """Why to stop, or None. ``GAP_REACHED`` is a proposal: the loop has it proved first."""
        rule = self.rule
        if not isfinite(record.objective):
            return Status.NOT_FINITE
        if worth_proving:
            return Status.GAP_REACHED
        if rule.kind == "paper" and self._quiet_rows >= PAPER_ROWS:
            return Status.PAPER_RULE
        return self.limit(record)

    def limit(self, record: Record) -> Status | None:
        """The endings that nobody hopes for."""
        if self.rule.max_seconds is not None and record.seconds >= self.rule.max_seconds:
            return Status.TIME_LIMIT
        if self._stalled_rows >= STALL_ROWS + record.iteration // 2:
            return Status.NO_PROGRESS
        return Status.ITERATION_LIMIT if record.iteration >= self.rule.max_iter else None


def solve(
    problem: Problem, source: Data, solver: Solver[Any, Any], rule: StopRule, callback: Callback | None,
    rng: np.random.Generator, checkpoint: Checkpoint | None = None,
) -> Decomposition:  # fmt: skip
    """Run ``solver`` on ``problem`` over ``source`` until ``rule`` says stop; from a ``checkpoint``, if it has one."""
    progress = Progress(rule, 0.5 * source.summary.norm**2)
    status: Status | None = None
    source.bytes_read = 0  # from here on, so that it goes with the clock

    def keep() -> None:
        if checkpoint is not None:
            checkpoint.save(problem, source, solver, state, progress.snapshot(), rng)

    with source.one_blas_thread():
        if checkpoint is not None and checkpoint.saved is not None:
            state, snapshot = checkpoint.restore(checkpoint.saved, problem, source, solver, rng)
            progress.resume(snapshot)
        else:
            state = solver.init(problem, source, rng)
        for iteration in range(len(progress.history) + 1, rule.max_iter + 1):
            state = solver.step(problem, source, state)
            report = solver.report(problem, state)
            record = progress.record(report, iteration, source.passes, source.bytes_read)
            status = progress.status(record, progress.worth_proving(report, record))
            wants_more = callback is None or progress.call(callback, record)
            if status is Status.GAP_REACHED:
                if iteration >= progress.next_proof:
                    goal = (1.0 - 0.999 * rule.tol) * record.objective  # whose last digits will be others
                    assessment = assess(source, problem, solver.solution(problem, source, state), rng, goal)
                    result = finish(problem, source, solver, assessment, progress, status)
                    if result.relative_gap <= rule.tol:
                        keep()
                        return result
                    solver.learn(state, report.lower_bound, assessment.certificate)
                    # A solver that learns says itself when to try again. For the others odd and at least 3:
                    # Frank-Wolfe's bounds alternate, and a promise is about the iterate before.
                    learns = report.expected_bound > -inf
                    progress.next_proof = iteration + (
                        1 + iteration // 20 if learns else 3 + 2 * (iteration // 20)
                    )
                status = progress.limit(record)
            if status is None and not wants_more:
                status = Status.CALLBACK
            if status is not None:
                break
            if checkpoint is not None and checkpoint.is_due(source.passes):
                keep()
        keep()
        assessment = assess(source, problem, solver.solution(problem, source, state), rng)
        return finish(problem, source, solver, assessment, progress, status or Status.ITERATION_LIMIT)


def finish(
    problem: Problem, source: Data, solver: Solver[Any, Any], assessment: Assessment, progress: Progress, status: Status
) -> Decomposition:  # fmt: skip
    """Wrap up what the run was."""
    objective, certificate = assessment.objective, assessment.certificate
    gap = max(objective - progress.prove(certificate.lower_bound), 0.0)
    relative_gap = progress.relative(gap, objective)
    # A limit was met, and the proof turns out to be better than what the solver promised.
    if status.is_limit and progress.rule.kind == "gap" and relative_gap <= progress.rule.tol:
        status = Status.GAP_REACHED
    return Decomposition(
        low_rank=assessment.low_rank, sparse=assessment.sparse, objective=objective, gap=gap,
        relative_gap=relative_gap, gap_is_proved=certificate.proved, status=status,
        n_iter=len(progress.history), passes=source.passes, seconds=progress.seconds, method=solver.name,
        lambdas=(problem.lambda_L, problem.lambda_S) if isinstance(problem, Penalized) else None,
        radii=None if isinstance(problem, Penalized) else (problem.tau_L, problem.tau_S),
        history=tuple(progress.history),
    )  # fmt: skip
