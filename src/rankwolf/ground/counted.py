"""Settings of the whole process that several threads may want at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from rankwolf.platform import around_forks


class Counted:
    """``with setting(): ...``: the first to enter makes the setting, the last to leave undoes it.

    A context for each thread would not do: of two that overlap, the second finds the setting of the first, takes it for
    the original, and "restores" it when both have ended. A fork waits until no thread is just making or undoing the
    setting. In the child only the forking thread goes on, so the other threads no longer count there.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make, self._made = make, ExitStack()
        self._inside: list[int] = []
        self._lock = threading.Lock()
        around_forks(self._lock.acquire, self._lock.release, self._in_child)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """The setting holds inside the block, in all threads."""
        thread = threading.get_ident()
        with self._lock:
            if not self._inside:
                self._made.enter_context(self._make())
            self._inside.append(thread)
        try:
            yield
        finally:
            with self._lock:
                self._inside.remove(thread)
                if not self._inside:
                    self._made.close()

    def _in_child(self) -> None:
        before, here = len(self._inside), threading.get_ident()
        self._inside = [thread for thread in self._inside if thread == here]
        if before and not self._inside:
            self._made.close()
        self._lock.release()
