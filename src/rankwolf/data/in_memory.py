"""A matrix in memory: any real dtype, either memory order, an optional mask; passes make no float copy of all of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rankwolf.data.request import READ_TABLE, Request
from rankwolf.data.source import Source
from rankwolf.data.tiles import make_tile
from rankwolf.files import is_table
from rankwolf.ground.arrays import Array, is_on_device, to_numpy
from rankwolf.ground.complaints import bad


class InMemory(Source):
    """An ndarray with an optional boolean mask of what was observed.

    Tiles are views where the data is float, C-contiguous along the tiled side and unmasked; otherwise one tile at a
    time is converted.
    """

    in_memory = True

    def __init__(
        self, data: Array, observed: Array | None, n_threads: int, transposed: bool | None = None
    ) -> None:
        m, n = data.shape
        transposed = m < n if transposed is None else transposed
        super().__init__((n, m) if transposed else (m, n), data.dtype, transposed, n_threads)
        self.converts = observed is not None or data.dtype != self.dtype
        self._user_data, self._user_observed = data, observed
        self._turn()

    def _turn(self) -> None:
        """Make views of data and mask that lie as the solver sees the matrix."""
        data, observed = self._user_data, self._user_observed
        self._data = data.T if self.transposed else data
        self._observed = observed.T if self.transposed and observed is not None else observed

    not_sent = (*Source.not_sent, "_data", "_observed")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._turn()

    def read(self, start: int, stop: int) -> Array:
        """Rows ``start`` to ``stop`` as the solver sees them; a view where ``make_tile`` can give one."""
        observed = None if self._observed is None else self._observed[start:stop]
        return make_tile(self._data[start:stop], observed, self.dtype)

    def read_user(self, rows: slice | Array, columns: slice = slice(None)) -> Array:
        """A part as the user counts; a view where :func:`rankwolf.data.tiles.make_tile` can give one."""
        observed = None if self._user_observed is None else self._user_observed[rows, columns]
        return make_tile(self._user_data[rows, columns], observed, self.dtype)

    def changed(self, change: Callable[[Array], Array]) -> InMemory:
        """The source of ``change(M)``, M lying as the solver sees it. One copy; passes cost no more than before."""
        made = change(self._data)
        return InMemory(
            made.T if self.transposed else made, self._user_observed, self.n_threads, self.transposed
        )


def open_array(X: Any, request: Request) -> InMemory:
    """Whatever NumPy makes an array of: arrays, masked arrays, nested lists, tensors."""
    data = as_array(X, request)
    request.check_matrix(data.shape, data.dtype)
    observed = request.mask_in_memory(data.shape)
    if isinstance(X, np.ma.MaskedArray):
        present = ~np.ma.getmaskarray(X)
        observed = present if observed is None else observed & present
    source = InMemory(data, observed, request.n_threads)
    source.device = X if is_on_device(X) else None
    return source


def as_array(X: Any, request: Request) -> Array:
    """The numbers of whatever NumPy makes an array of, as they are: no check of the shape or the type."""
    if isinstance(X, str | bytes | os.PathLike):
        remedy = READ_TABLE if is_table(Path(os.fsdecode(X))) else "[path] is a list of one file."
        raise bad("X", "an array", repr(X), request.where, remedy)
    try:
        X = to_numpy(X) if is_on_device(X) else X
    except (TypeError, RuntimeError) as error:  # sparse, or without data
        got = f"one of which NumPy makes no array ({error})"
        raise bad("X", "a dense tensor", got, request.where) from error
    try:
        return np.asarray(X)
    except (TypeError, ValueError) as error:
        got = f"{type(X).__name__} ({error})"
        raise bad("X", "a rectangular array of numbers", got, request.where) from error
