"""Ready-made callbacks for ``decompose(..., callback=...)``.

A callback is called with a :class:`~rankwolf.Record` after each iteration, and the clock of the run stands still
meanwhile; returning False stops the run. The relative gap of a record is the solver's own; before a run stops on it,
the certificate is computed afresh, and :attr:`Decomposition.relative_gap` is that one.

Apart from the command line, nothing prints unless it is asked to, by one of these callbacks or by ``verbose=True``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import isfinite, log
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from rankwolf.ground.extras import needed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from rankwolf.result.decomposition import Record

__all__ = ["LogTable", "ProgressBar", "WithIterate", "combine", "describe"]


def __dir__() -> list[str]:
    return sorted(__all__)


class LogTable:
    """A table in the manner of FrankWolfe.jl: the header once, then one row for each iteration.

    ``file`` is any text stream; by default what ``sys.stdout`` is at the time of the call. A table may serve several
    runs one after the other: it prints its header again when the iterations start anew. A row costs a few microseconds,
    during which the clock of the run stands still.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(30.0), np.ones(20))
    >>> X[3, 5] = 99.0
    >>> fit = rw.decompose(X, delta=0.01, callback=rw.callbacks.LogTable())  # doctest: +ELLIPSIS
    ------...
     Iteration   Passes      Objective           Gap   Relative gap   Rank    Nonzeros       Step    Seconds
    ------...
    """

    HEADER = (
        f"{'Iteration':>10} {'Passes':>8} {'Objective':>14} {'Gap':>13} {'Relative gap':>14} {'Rank':>6} "
        f"{'Nonzeros':>11} {'Step':>10} {'Seconds':>10}"
    )

    def __init__(self, file: TextIO | None = None) -> None:
        self._file, self._last = file, sys.maxsize

    def __call__(self, record: Record) -> None:
        """Print one row, after the header where a run begins."""
        if record.iteration <= self._last:
            line = "-" * len(self.HEADER)
            self._write(line, self.HEADER, line)
        self._last = record.iteration
        self._write(self.row(record))

    @staticmethod
    def row(record: Record) -> str:
        """One row, as wide as the header; a dash where there is no number yet."""
        return (
            f"{record.iteration:>10} {record.passes:>8} {record.objective:>14.6e} {_known(record.gap, '.3e'):>13} "
            f"{_known(record.relative_gap, '.3e'):>14} {record.rank:>6} {record.nonzeros:>11} "
            f"{_known(record.step_size, '.2e'):>10} {record.seconds:>10.3f}"
        )

    def _write(self, *lines: str) -> None:
        stream = sys.stdout if self._file is None else self._file
        stream.write("".join(f"{line}\n" for line in lines))
        stream.flush()


class ProgressBar:
    """A progress bar: passes, objective or speed of reading, gap, rank, time left; needs rich (extra ``report``).

    With ``tol`` the bar fills as the gap falls to it, on a logarithmic scale; without it the bar only shows that work
    goes on, and for how long so far. It is drawn inside a ``with`` block, at whose end it stops::

        with ProgressBar(tol=1e-3) as bar:
            fit = rw.decompose(X, tol=1e-3, callback=bar)

    The clock of the run stands still while it draws, at most ten times a second.

    >>> import io, numpy as np, rankwolf as rw
    >>> from rich.console import Console
    >>> with rw.callbacks.ProgressBar(tol=1e-3, console=Console(file=io.StringIO())) as bar:
    ...     fit = rw.decompose(np.eye(30) + 1.0, delta=0.05, tol=1e-3, callback=bar, rng=0)
    """

    def __init__(
        self, tol: float | None = None, label: str = "Solving", console: Console | None = None
    ) -> None:
        self._tol, self._label, self._console = tol, label, console
        self._first_gap: float | None = None
        self._progress: Progress | None = None

    def __enter__(self) -> Self:
        self.stage(self._label, None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:  # else nothing was drawn
            self._fill()
            self._progress.stop()
            self._progress = None

    def __call__(self, record: Record) -> None:
        """Move the bar to the gap of this record, and show its numbers."""
        if self._progress is None:
            raise RuntimeError(
                "A ProgressBar is drawn inside a 'with' block: with ProgressBar() as bar: decompose(X, callback=bar)."
            )
        total = None if self._tol is None else 1.0
        self._progress.update(self._task, state=describe(record), total=total, completed=self.share(record))

    def stage(self, label: str, total: int | None) -> None:
        """Fill the present bar, if any, and begin a new one; what it counts may be of unknown ``total``."""
        if self._progress is None:
            rich = needed("rich.progress")
            left = rich.TimeRemainingColumn(compact=True, elapsed_when_finished=True)
            clock = (rich.TextColumn("{task.fields[clock]}"), left)
            self._progress = rich.Progress(  # all of it in 80 characters
                rich.TextColumn("{task.description}"),
                rich.BarColumn(bar_width=8),
                rich.TextColumn("{task.fields[state]}"),
                *((rich.TimeElapsedColumn(),) if self._tol is None else clock),
                console=self._console,
            )
            self._progress.start()
        else:
            self._fill()
        self._first_gap = None
        self._task = self._progress.add_task(label, total=total, state="", clock="left")

    def advance(self, count: int, unit: str) -> None:
        """Move the bar by so many of what it counts."""
        if self._progress is not None:
            task = self._progress.tasks[self._task]
            done = int(task.completed) + count
            of = "" if task.total is None else f" of {max(done, int(task.total))}"
            self._progress.update(self._task, advance=count, state=f"{unit} {done}{of}")

    def _fill(self) -> None:
        assert self._progress is not None
        if self._tol is not None:
            done = self._progress.tasks[self._task].completed or 1.0
            self._progress.update(self._task, total=done, completed=done, clock="in")

    def share(self, record: Record) -> float:
        """How much of the way from the first gap to ``tol`` is done, from 0 to 1, on a logarithmic scale."""
        if self._tol is None or not isfinite(record.relative_gap):
            return 0.0
        if record.relative_gap <= self._tol:
            return 1.0
        if self._first_gap is None:
            self._first_gap = record.relative_gap
        if self._tol == 0.0 or self._first_gap <= record.relative_gap:
            return 0.0
        return log(self._first_gap / record.relative_gap) / log(self._first_gap / self._tol)


class WithIterate:
    """A callback that sees the pair of the iteration: ``function(record, solution)``; returning False stops the run.

    ``solution.low_rank`` is L. For measurements ``solution.sparse`` is S, an array that the run goes on with: look at
    it, copy it, but do not change it. For entries S is mostly not stored; then S = T_θ(P_Ω(M − L)) with the threshold
    θ = ``solution.threshold``. Making L costs (m + n)·r² operations in every iteration.

    >>> import numpy as np, rankwolf as rw
    >>> from rankwolf.sensing import PartialDCT
    >>> A, ranks = PartialDCT.random(60, (8, 9), seed=0), []
    >>> X = np.outer(np.ones(8), np.arange(9.0))
    >>> X[2, 3] = 40.0
    >>> watch = rw.callbacks.WithIterate(lambda record, pair: ranks.append(pair.low_rank.rank))
    >>> fit = rw.recover(A.apply(X), A, delta=0.1, callback=watch, rng=0)
    >>> len(ranks) == fit.iterations
    True
    """

    def __init__(self, function: Callable[[Record, Any], object]) -> None:
        self._function = function
        self.solution: Any = None

    def after(self, other: Callable[[Record], object]) -> WithIterate:
        """A callback like this one that calls ``other`` first each time; what ``other`` returns does not count."""

        def both(record: Record, solution: Any) -> object:
            other(record)
            return self._function(record, solution)

        return WithIterate(both)

    def __call__(self, record: Record) -> object:
        """Call the function with the record and the pair."""
        solution, self.solution = self.solution, None
        return self._function(record, solution)


def describe(record: Record) -> str:
    """One record in about 50 characters; where data is read from the disk, the speed replaces the objective."""
    gap = f"{record.relative_gap:.2%}" if isfinite(record.relative_gap) else "unknown"
    if record.bytes_read and record.seconds > 0.0:
        speed = record.bytes_read / record.seconds / 1e6
        return f"pass {record.passes}, gap {gap}, rank {record.rank}, {speed:,.0f} MB/s"
    return f"pass {record.passes}, objective {record.objective:.5g}, gap {gap}, rank {record.rank}"


def combine(*callbacks: Callable[[Record], object]) -> Callable[[Record], bool]:
    """One callback from several: each is called every time, in this order; the run stops when one returns False.

    >>> from rankwolf import callbacks
    >>> stop = callbacks.combine(print, lambda record: False)
    >>> stop("a record")
    a record
    False
    """

    def call_all(record: Record) -> bool:
        answers = [callback(record) for callback in callbacks]
        return not any(answer is False for answer in answers)

    return call_all


def _known(number: float, form: str) -> str:
    return format(number, form) if isfinite(number) else "-"
