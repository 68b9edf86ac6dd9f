"""The records of a run, its clock, and the rules by which it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from math import inf, isfinite
from typing import Any

import numpy as np

from rankwolf.ground.deadline import Deadline
from rankwolf.result import Record, Status
from rankwolf.solvers.base import Report

Callback = Callable[[Record], object]

PAPER_ROWS = 5  # the paper: "for five consecutive iterations"
# A run ends after so many rows without progress, and half as many more as it has rows. Fewer would end slow methods,
# whose gap stands still for a while; more let a run that can gain nothing more go on for longer. No experiment is on
# record.
STALL_ROWS = 100
# No proof in float64 reaches a relative gap below this: a run that is asked for less and is near it soon stops.
OUT_OF_REACH = 1e-12
CENTURY = 3.2e9  # seconds


@dataclass(frozen=True)
class Stopping:
    """When a run ends, after ``max_iter`` iterations at the latest.

    ``kind`` is ``"gap"`` (the relative gap is proved to be at most ``tol``), ``"paper"`` (the objective changed by at
    most ``tol``, relatively, in five iterations in a row) or ``"prediction"`` (after ``max_iter`` iterations).
    The limit on time is a :class:`rankwolf.ground.deadline.Deadline`.
    """

    kind: str = "gap"
    tol: float = 1e-3
    max_iter: int = 1000


class Progress:
    """The records so far, and what the stopping rules ask about them. The clock stands still during callbacks.

    ``start`` is the size of the objective for this data (``Problem.size``). A solver's lower bounds are only promised:
    they rest on Ritz values, and a bound is too high where these missed a direction. The best promised bound counts
    until a proof has been tried; from then on, bounds that were proved and those promised later.
    """

    _NOT_KEPT = frozenset({"stopping", "history", "deadline", "_floor", "_start"})

    def __init__(self, stopping: Stopping, start: float, deadline: Deadline) -> None:
        self.stopping, self.history, self.deadline = stopping, list[Record](), deadline
        # The least objective that a gap is divided by: that of an exact fit may be zero.
        self._floor = np.finfo(np.float64).eps * start
        self._start, self._promised, self._proved = start, 0.0, 0.0
        self._quiet_rows = self._stalled_rows = 0
        self._best_objective, self._best_gap = inf, inf
        self.next_proof = 0

    @property
    def seconds(self) -> float:
        """Time since the call that started the run, without callbacks."""
        return self.deadline.elapsed

    def snapshot(self) -> dict[str, Any]:
        """Everything but the limits and the clock, as numbers, for a checkpoint."""
        kept = {name: value for name, value in vars(self).items() if name not in self._NOT_KEPT}
        return {**kept, "history": [asdict(record) for record in self.history], "seconds": self.seconds}

    def resume(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot: the seconds of the earlier run count as elapsed."""
        numbers = dict(snapshot)
        rows, seconds = numbers.pop("history", None), numbers.pop("seconds", None)
        known, own = {field.name for field in fields(Record)}, set(vars(self)) - self._NOT_KEPT
        if (
            not isinstance(rows, list)
            or not all(_are_numbers(row, known) for row in rows)
            or not _are_numbers(numbers, own)
            or not isinstance(seconds, int | float)
            or not 0.0 <= seconds < CENTURY
        ):
            raise ValueError(
                "The checkpoint is damaged: what it says about the run so far does not make sense."
            )
        self.history = [Record(**row) for row in rows]
        self.deadline.already(seconds)
        vars(self).update(numbers)

    def relative(self, gap: float, objective: float) -> float:
        """The gap over the objective, or over ε·``start`` where the objective is smaller; 0 where both are 0."""
        return gap / max(objective, self._floor) if objective > 0.0 or gap > 0.0 else 0.0

    def record(self, report: Report, passes: int, bytes_read: int = 0) -> Record:
        """Append a solver's report to the history as a record, which is returned; count rows for the stopping rules."""
        promised = max(self._promised, report.lower_bound)
        if report.settled:  # on the way there few directions are known, and a promised bound may be too high
            self._promised = promised
        gap = max(report.objective - promised, 0.0)
        record = Record(
            iteration=len(self.history) + 1,
            passes=passes,
            objective=report.objective,
            gap=gap,
            relative_gap=self.relative(gap, report.objective),
            rank=report.rank,
            nonzeros=report.nonzeros,
            step_size=report.step_size,
            sparse_step_size=report.sparse_step_size,
            surrogate_gap=report.surrogate_gap,
            seconds=self.seconds,
            bytes_read=bytes_read,
            stage=report.stage,
        )
        last = self.history[-1].objective if self.history else self._start
        quiet = report.settled and abs(record.objective - last) <= self.stopping.tol * last
        self._quiet_rows = self._quiet_rows + 1 if quiet else 0
        # A gap that is smaller by a tenth is progress: less may be rounding, and even the slowest method gains as much
        # within STALL_ROWS rows.
        closer = gap < 0.9 * self._best_gap
        lower = record.objective < self._best_objective * (1.0 - 1e-13)
        better = closer or lower or report.improves or not report.settled
        self._stalled_rows = 0 if better else self._stalled_rows + 1
        self._best_objective = min(self._best_objective, record.objective)
        self._best_gap = gap if closer else self._best_gap
        self.history.append(record)
        return record

    def worth_proving(self, report: Report, record: Record) -> bool:
        """Whether the gap would be at most ``tol`` if a proof gave the bound that the solver expects."""
        hoped = record.objective - max(self._promised, report.expected_bound)
        small = self.relative(hoped, record.objective) <= self.stopping.tol
        return self.stopping.kind == "gap" and report.settled and small

    def postpone_proof(self, iteration: int, learns: bool) -> None:
        """Set the iteration at which the next proof may be tried, after one that failed at ``iteration``.

        A solver that ``learns`` from failures says itself when a proof is worth trying, so the distance is short. For
        the others it is odd and at least 3: Frank-Wolfe's bounds alternate, and are those of the iterate before.
        """
        self.next_proof = iteration + (1 + iteration // 20 if learns else 3 + 2 * (iteration // 20))

    def prove(self, lower_bound: float) -> float:
        """Note a proved lower bound, forget those only promised, and return the best proved one."""
        self._proved = self._promised = max(self._proved, lower_bound)
        return self._proved

    def call(self, callback: Callback, record: Record) -> bool:
        """Call the callback with a record; returns False if it does, else True. Its time does not count."""
        before = time.perf_counter()
        answer = callback(record)
        self.deadline.leave_out(time.perf_counter() - before)
        return answer is not False

    def status(self, record: Record, worth_proving: bool) -> Status | None:
        """Why to stop now, or None. ``GAP_REACHED`` only proposes it: the loop then tries a proof."""
        stopping = self.stopping
        if not isfinite(record.objective):
            return Status.NOT_FINITE
        if worth_proving:
            return Status.GAP_REACHED
        if stopping.kind == "paper" and self._quiet_rows >= PAPER_ROWS:
            return Status.PAPER_RULE
        return self.limit(record)

    def limit(self, record: Record) -> Status | None:
        """The limit that ends the run now without what was asked for (time, progress or iterations), or None."""
        if self.deadline.passed:
            return Status.TIME_LIMIT
        patience = STALL_ROWS + record.iteration // 2
        if 0.0 < self.stopping.tol < OUT_OF_REACH and record.relative_gap < 100.0 * OUT_OF_REACH:
            patience = STALL_ROWS // 20
        if self._stalled_rows >= patience:
            return Status.NO_PROGRESS
        if self.stopping.kind == "prediction" and record.iteration >= self.stopping.max_iter:
            return Status.PREDICTED
        return Status.ITERATION_LIMIT if record.iteration >= self.stopping.max_iter else None


def _are_numbers(found: object, names: set[str]) -> bool:
    """Whether ``found`` is a dictionary with a number for each of these names, and nothing else."""
    return (
        isinstance(found, dict)
        and set(found) == names
        and all(isinstance(number, int | float) for number in found.values())
    )
