"""How kernels are compiled: by Numba, without the interpreter's lock, with sums in any order, and with NaN as data."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core.event import Listener, register

# After so many entries of a row, sums in the tile's type are carried to float64.
CHUNK = 512
# Everything of fastmath but "no NaN" and "no infinity": a NaN is data here.
_REORDER = {"reassoc", "contract", "nsz", "arcp"}

F = TypeVar("F", bound=Callable[..., Any])


_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": _REORDER, "error_model": "numpy"}


class _Compiling(Listener):
    """Says once that kernels are compiled, for the first call waits for that: at a terminal, or where ``always``."""

    said = always = False

    def on_start(self, event: Any) -> None:
        """Numba begins to compile a function that it has found in no cache."""
        function = getattr((event.data or {}).get("dispatcher"), "py_func", None)
        if self.said or not getattr(function, "__module__", "").startswith("rankwolf."):
            return
        if sys.stderr is not None and (self.always or sys.stderr.isatty()):
            self.said = True
            sys.stderr.write("rankwolf: compiling, once on this machine: some seconds ...\n")

    def on_end(self, event: Any) -> None:
        """Numba has compiled a function."""


COMPILING = _Compiling()
register("numba:compile", COMPILING)  # type: ignore[no-untyped-call]


def compiled(function: F) -> F:
    """Compile with a cache on disk, or without one where no folder can be written.

    Numba keeps it beside the package, or where that is read-only in the user's own folder for caches.
    """
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
