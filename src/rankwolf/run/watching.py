"""``verbose=True``: a table on the terminal, a live bar in a notebook."""

from __future__ import annotations

import html
import sys
import time
from typing import TYPE_CHECKING, Any

from rankwolf.ground.complaints import bad
from rankwolf.ground.extras import needed
from rankwolf.kernels.compiling import COMPILING
from rankwolf.run.callbacks import LogTable, ProgressBar, WithIterate, combine, describe

if TYPE_CHECKING:
    from rankwolf.result.decomposition import Decomposition, Record

# Seconds between two pictures of a bar.
REFRESH = 0.1


class Watch:
    """``callback`` is the user's, together with one that shows the run where ``verbose`` asks for it.

    It is None where there is neither.
    """

    def __init__(self, callback: Any, verbose: Any, tol: float, where: str) -> None:
        if verbose not in (True, False):
            raise bad("verbose", "True or False", repr(verbose), where)
        self.callback, self._bar = callback, None
        if not verbose:
            return
        COMPILING.always = True
        self._bar = NotebookBar(tol) if in_notebook() else None
        show = self._bar or LogTable()
        if isinstance(callback, WithIterate):
            self.callback = callback.after(show)
        else:
            self.callback = show if callback is None else combine(show, callback)

    def end(self, fit: Decomposition) -> Decomposition:
        """The result as it is, after the bar of a notebook has been drawn for its last record."""
        if self._bar is not None and fit.history:
            self._bar.draw(fit.history[-1])
        return fit


def in_notebook() -> bool:
    """Whether this code runs in a notebook; IPython is asked only where it has been imported already."""
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


class NotebookBar:
    """A bar under the cell that fills as the gap falls to ``tol``, on a logarithmic scale; drawn ten times a second."""

    def __init__(self, tol: float) -> None:
        self._bar = ProgressBar(tol)
        self._place: Any = None
        self._drawn = 0.0

    def __call__(self, record: Record) -> None:
        """Draw the bar for this record, if a tenth of a second has gone since the last time."""
        if time.monotonic() > self._drawn + REFRESH:
            self.draw(record)

    def draw(self, record: Record) -> None:
        """Draw the bar for this record."""
        display = needed("IPython.display")  # every notebook has it
        picture = display.HTML(self.page(self._bar.share(record), describe(record), record.seconds))
        if self._place is None:
            self._place = display.display(picture, display_id=True)
        else:
            self._place.update(picture)
        self._drawn = time.monotonic()

    @staticmethod
    def page(share: float, words: str, seconds: float) -> str:
        """The bar as HTML."""
        return (
            f'<div><progress value="{share:.4f}" max="1" style="width: 12em; vertical-align: middle"></progress> '
            f"{html.escape(words)}, {seconds:.1f} s</div>"
        )
