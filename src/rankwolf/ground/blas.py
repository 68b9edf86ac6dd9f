"""The threads of BLAS: tiles are the unit of parallel work, so BLAS keeps to one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from rankwolf.ground.counted import Counted


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries of this process; looked up once, because a look takes a millisecond."""
    found: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return found


# How many threads each library had before this package first changed that, or since then whenever it had several.
_ORIGINAL: dict[str, int] = {}


@contextmanager
def _limited() -> Iterator[None]:
    """One thread inside the block, then the original number.

    A number that was restored a moment ago by another thread may still read as 1 (OpenBLAS), so a 1 that follows a
    larger number is not taken for the original.
    """
    for library in _libraries():
        now = library.get_num_threads()
        _ORIGINAL[library.filepath] = max(now, _ORIGINAL.get(library.filepath, 1)) if now == 1 else now
        library.set_num_threads(1)
    try:
        yield
    finally:
        for library in _libraries():
            library.set_num_threads(_ORIGINAL[library.filepath])


one_blas_thread = Counted(_limited)
"""``with one_blas_thread(): ...``: BLAS keeps to one thread until the last such block of the process has ended.

Two OpenBLAS threads took ten times longer than one for a Cholesky factorisation of 3000 rows, and a hundred times for
the eigenvalues of 100.
"""
