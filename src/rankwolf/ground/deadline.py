"""A limit on time that everything in a run can ask about, however deep it is.

The loop puts one in force with ``with deadline:``. Passes ask it before they begin, proofs between two tiles, and large
factorisations, which nothing can interrupt, are waited for no longer than it allows (:func:`patiently`). Whoever finds
the time up raises :class:`TimeUp`, and the loop turns that into a result with the best point so far.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar, Token
from math import inf
from typing import Any, TypeVar

T = TypeVar("T")


class TimeUp(Exception):  # noqa: N818 - a signal, not an error
    """Raised when the deadline in force has passed; the loop catches it and returns the best point so far."""


class Deadline:
    """The moment ``seconds`` from now; None for no limit. ``with deadline:`` puts it in force for this thread.

    >>> Deadline(None).passed, Deadline(0.0).passed
    (False, True)
    >>> with Deadline(0.0):
    ...     current().passed
    True
    """

    def __init__(self, seconds: float | None) -> None:
        self._started, self._others = time.perf_counter(), 0.0
        self._end = inf if seconds is None else self._started + seconds
        self._token: Token[Deadline | None] | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since this was made, without those that were left out (:meth:`leave_out`)."""
        return time.perf_counter() - self._started - self._others

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0; infinite without a limit."""
        return max(self._end - time.perf_counter(), 0.0)

    @property
    def passed(self) -> bool:
        """Whether the time is up."""
        return self.left == 0.0

    def check(self) -> None:
        """Raise :class:`TimeUp` when the time is up."""
        if self._end != inf and self.passed:
            raise TimeUp

    def leave_out(self, seconds: float) -> None:
        """Do not count these ``seconds``, which a callback took: the deadline is later by as much."""
        self._others += seconds
        self._end += seconds

    def already(self, seconds: float) -> None:
        """Count ``seconds`` that the run took before it was resumed from a checkpoint."""
        self.leave_out(-seconds)

    def __enter__(self) -> Deadline:
        self._token = _CURRENT.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._token is not None
        _CURRENT.reset(self._token)


PATIENT = "rankwolf-patiently"
_NONE = Deadline(None)
_CURRENT: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def current() -> Deadline:
    """The deadline that is in force in this thread; one without a limit where there is none."""
    return _CURRENT.get() or _NONE


def some_go_on() -> bool:
    """Whether calls by :func:`patiently` are still under way; the end of the process would wait for them."""
    return any(thread.name == PATIENT for thread in threading.enumerate())


def patiently(work: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """What ``work(*arguments, **options)`` returns; :class:`TimeUp` is raised if the deadline in force comes first.

    For functions of LAPACK and BLAS, which cannot be interrupted: after the deadline the call goes on in its thread, on
    arrays that nobody uses any more, and its answer is dropped. The end of the process waits for that thread, because
    OpenBLAS frees its buffers then, and a call that still uses them would crash.
    """
    deadline = current()
    if deadline.left == inf:
        return work(*arguments, **options)
    deadline.check()
    answer: list[T] = []
    failure: list[BaseException] = []

    def call() -> None:
        try:
            answer.append(work(*arguments, **options))
        except BaseException as error:  # raised again below, in the thread that asked
            failure.append(error)

    thread = threading.Thread(target=call, daemon=False, name=PATIENT)
    thread.start()
    thread.join(min(deadline.left, threading.TIMEOUT_MAX))
    if failure:
        raise failure[0]
    if not answer:
        raise TimeUp
    return answer[0]
