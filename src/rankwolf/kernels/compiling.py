"""How kernels are compiled: by Numba, without the interpreter's lock, with sums in any order, and with NaN as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

# After so many entries of a row, sums in the tile's type are carried to float64.
CHUNK = 512
# Everything of fastmath but "no NaN" and "no infinity": a NaN is data here.
_REORDER = {"reassoc", "contract", "nsz", "arcp"}

F = TypeVar("F", bound=Callable[..., Any])


_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": _REORDER, "error_model": "numpy"}


def compiled(function: F) -> F:
    """Compile with a cache on disk, or without one where no folder can be written."""
    try:
        return numba.njit(cache=True, **_OPTIONS)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # "no locator available": a read-only install without a home folder
        return numba.njit(**_OPTIONS)(function)  # type: ignore[no-any-return]


def inlined(function: F) -> F:
    """Compile into each of its callers and not by itself, so that the first call of a process has less to wait for."""
    return numba.njit(inline="always", **_OPTIONS)(function)  # type: ignore[no-any-return]


@compiled
def must(fits: bool) -> None:
    """Refuse arrays that do not belong together: a compiled loop would read and write beyond their ends.

    Arrays that solvers make always fit; those of a checkpoint that somebody else has written may not.
    """
    if not fits:
        raise ValueError("arrays of different shapes")
