"""Progress of a long command on the terminal: one bar for each stage, with the time that is left."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from rankwolf.ground.extras import is_installed

if TYPE_CHECKING:
    from rankwolf.result.decomposition import Record
    from rankwolf.run.callbacks import ProgressBar

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
        self._unit = unit
        self._bar: ProgressBar | None = None
        if talks and is_installed("rich"):  # a bar is no reason to refuse to work
            from rich.console import Console

            from rankwolf.run.callbacks import ProgressBar

            # It is drawn from the first stage on, not before: an input that cannot be opened should be one line.
            self._bar = ProgressBar(tol, console=Console(stderr=to_stderr))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.__exit__(kind, error, trace)

    def stage(self, name: str, total: int | None) -> None:
        """Fill the present bar, if any, and begin a new one; ``name`` is a key of STAGES, ``total`` may be unknown."""
        if self._bar is not None:
            self._bar.stage(STAGES[name], total)

    def advance(self, count: int) -> None:
        """Move the bar by so many frames or rows."""
        if self._bar is not None:
            self._bar.advance(count, self._unit)

    def record(self, record: Record) -> object:
        """Move the bar of the solver, on the logarithmic scale of its gap; True, so that the solver goes on."""
        if self._bar is not None:
            self._bar(record)
        return True
