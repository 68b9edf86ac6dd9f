"""Work by several threads on frames, or on rows of a picture; faster only where the work releases Python's lock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

# Rows of a picture that are worked on together.
BAND = 16


def for_each(count: int, work: Callable[[int], object], n_threads: int) -> None:
    """Call ``work`` with 0, 1, …, count − 1, in any order; what it does must not depend on the order.

    >>> found = set()
    >>> for_each(3, found.add, 2)
    >>> found
    {0, 1, 2}
    """
    if n_threads == 1:
        for number in range(count):
            work(number)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        for _ in pool.map(work, range(count)):
            pass


def for_bands(height: int, work: Callable[[slice], object], n_threads: int) -> None:
    """Call ``work`` with slices of BAND rows, in any order, that together are all ``height`` rows of a picture."""
    bands = -(-height // BAND)
    for_each(bands, lambda k: work(slice(k * BAND, min((k + 1) * BAND, height))), n_threads)


def finish(futures: list[Future[None]]) -> None:
    """Wait for all futures in their order; the error of the first that failed is raised.

    They are taken out of the list, so that an error does not keep them alive: its traceback holds the list, and futures
    hold files that are still open.
    """
    while futures:
        futures.pop(0).result()
