"""A worker's process while tasks run in it: BLAS with one thread, and freed memory that is kept for the next tile.

Dask's nannies start workers with MALLOC_TRIM_THRESHOLD_, so that what is freed goes back to the system at once. With
it, glibc maps every buffer of more than 128 kB anew, and the pages of a tile are asked for one by one in each product:
half of the time of a pass. So the thresholds are higher while tasks run, and Dask's own again when none does.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rankwolf.ground.blas import one_blas_thread
from rankwolf.ground.counted import Counted

# Numbers of mallopt's parameters, in glibc; what they are where nobody set them; and the most that the second takes.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
DEFAULT_THRESHOLD, LARGEST_THRESHOLD = 128 * 1024, 32 * 2**20
TRIM_VARIABLE, MMAP_VARIABLE = "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"


@contextmanager
def _settings() -> Iterator[None]:
    with one_blas_thread(), _freed_memory_kept():
        yield


working = Counted(_settings)
"""Around every task of this package: tasks of several threads share the process."""


@contextmanager
def _freed_memory_kept() -> Iterator[None]:
    """A context in which the process keeps what is freed. Where no threshold was set, glibc finds good ones itself."""
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
    with suppress(AttributeError, OSError, TypeError):  # not glibc
        set_option = ctypes.CDLL(None).mallopt
        set_option(M_TRIM_THRESHOLD, trim)
        set_option(M_MMAP_THRESHOLD, mapped)
