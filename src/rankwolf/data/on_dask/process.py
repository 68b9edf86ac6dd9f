"""A worker's process while tasks run in it: BLAS with one thread, and freed memory that is kept for the next tile.

Dask's nannies start workers with MALLOC_TRIM_THRESHOLD_ set, so that freed memory goes back to the system at once. Then
glibc maps every buffer of more than 128 kB anew, and each product asks the system for the pages of its tile one by one,
which takes half of the time of a pass. So the thresholds are higher while tasks run, and Dask's own when none does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from rankwolf.ground.blas import one_blas_thread
from rankwolf.ground.counted import Counted
from rankwolf.platform import set_allocator

# The numbers of two parameters of glibc's mallopt, the default of both, and the largest value of the second.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
DEFAULT_THRESHOLD, LARGEST_THRESHOLD = 128 * 1024, 32 * 2**20
TRIM_VARIABLE, MMAP_VARIABLE = "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"


@contextmanager
def _settings() -> Iterator[None]:
    with one_blas_thread(), _freed_memory_kept():
        yield


working = Counted(_settings)
"""``with working(): ...`` is around every task on a worker. It is counted, because threads of a worker share it."""


@contextmanager
def _freed_memory_kept() -> Iterator[None]:
    """A context in which the process keeps freed memory; nothing to do without thresholds, as glibc adapts its own."""
    if TRIM_VARIABLE not in os.environ:
        yield
        return
    _set_thresholds(2 * LARGEST_THRESHOLD, LARGEST_THRESHOLD)
    try:
        yield
    finally:
        _set_thresholds(_threshold(TRIM_VARIABLE), _threshold(MMAP_VARIABLE))


def _threshold(variable: str) -> int:
    """The threshold that glibc has read from an environment variable; its default where that is no number."""
    try:
        return int(os.environ[variable], 0)
    except (KeyError, ValueError):
        return DEFAULT_THRESHOLD


def _set_thresholds(trim: int, mapped: int) -> None:
    set_allocator(M_TRIM_THRESHOLD, trim)
    set_allocator(M_MMAP_THRESHOLD, mapped)
