"""Progress of a long command on the terminal: one bar for each stage, with the time that is left."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rankwolf.ground.extras import is_installed

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from rankwolf.result.decomposition import Record

STAGES = {
    "read": "Reading",
    "decode": "Decoding",
    "solve": "Solving",
    "refit": "Refitting",
    "model": "Learning",
    "write": "Writing",
}


class Bars:
    """An observer of a run that draws progress bars; it does nothing without ``talks``, or without rich.

    ``tol`` is the gap at which the solver's bar is full; ``unit`` is the word for what the stages count.
    """

    def __init__(self, talks: bool, tol: float, unit: str = "frame", to_stderr: bool = False) -> None:
        self._talks, self._tol, self._unit, self._to_stderr = talks, tol, unit, to_stderr
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._gap: Any = None

    def __enter__(self) -> Self:
        if self._talks and is_installed("rich"):  # a bar is no reason to refuse to work
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            from rankwolf.run.callbacks import ProgressBar

            self._gap = ProgressBar(self._tol)
            # The solver's ``state`` is about 50 characters long; with a bar of 10 the line fits into a terminal of 80.
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=10),
                TextColumn("{task.fields[state]}"),
                TextColumn("{task.fields[clock]}"),
                TimeRemainingColumn(compact=True, elapsed_when_finished=True),
                console=Console(stderr=self._to_stderr),
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Without a task the display was never started, and stopping it would print an empty line.
        if self._progress is not None and self._task is not None:
            self._close()
            self._progress.stop()

    def stage(self, name: str, total: int | None) -> None:
        """Fill the present bar, if any, and begin a new one; ``name`` is a key of STAGES, ``total`` may be unknown."""
        if self._progress is not None:
            if self._task is None:
                self._progress.start()  # not before: an input that cannot be opened should be one line
            self._close()
            self._task = self._progress.add_task(STAGES[name], total=total, state="", clock="left")

    def advance(self, count: int) -> None:
        """Move the bar by so many frames or rows."""
        if self._progress is not None and self._task is not None:
            task = self._progress.tasks[self._task]
            done = int(task.completed) + count
            of = "" if task.total is None else f" of {max(done, int(task.total))}"
            self._progress.update(self._task, advance=count, state=f"{self._unit} {done}{of}")

    def record(self, record: Record) -> object:
        """Move the bar of the solver, on the logarithmic scale of its gap; True, so that the solver goes on."""
        if self._progress is not None and self._task is not None:
            from rankwolf.run.callbacks import describe

            share = self._gap.share(record)
            self._progress.update(self._task, total=1.0, completed=share, state=describe(record))
        return True

    def _close(self) -> None:
        if self._progress is not None and self._task is not None:
            task = self._progress.tasks[self._task]
            done = task.completed or 1.0
            self._progress.update(self._task, total=done, completed=done, clock="in")
