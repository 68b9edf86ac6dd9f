"""The threads of BLAS: tiles are the unit of parallel work, so BLAS keeps to one thread."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from rankwolf.ground.counted import Counted


@cache
def _libraries() -> ThreadpoolController:
    """The BLAS libraries of this process; looked up once, because a look takes a millisecond."""
    return ThreadpoolController()


def _limit() -> AbstractContextManager[Any]:
    limit: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limit


one_blas_thread = Counted(_limit)
"""``with one_blas_thread(): ...``: BLAS keeps to one thread until the last such block of the process has ended.

Two OpenBLAS threads took ten times longer than one for a Cholesky factorisation of 3000 rows, and a hundred times for
the eigenvalues of 100.
"""
