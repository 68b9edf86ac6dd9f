"""A matrix in memory: any real dtype, either memory order, an optional mask; never a float copy of the whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from rankwolf.data.request import Request
from rankwolf.data.source import Source
from rankwolf.data.tiles import make_tile
from rankwolf.data.workspace import Workspace
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad
from rankwolf.ground.machine import resident_memory


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
        self._data = data.T if transposed else data
        self._observed = None if observed is None else (observed.T if transposed else observed)

    def read(self, start: int, stop: int) -> Array:
        """A tile of the long side."""
        observed = None if self._observed is None else self._observed[start:stop]
        return make_tile(self._data[start:stop], observed, self.dtype)

    def read_user(self, rows: slice | Array, columns: slice = slice(None)) -> Array:
        """A part as the user counts; a view where :func:`rankwolf.data.tiles.make_tile` can give one."""
        observed = None if self._user_observed is None else self._user_observed[rows, columns]
        return make_tile(self._user_data[rows, columns], observed, self.dtype)

    def changed(self, change: Callable[[Array], Array]) -> InMemory:
        """The source of ``change(M)``, M lying as the solver sees it. One copy, so that passes cost what they did."""
        made = change(self._data)
        return InMemory(
            made.T if self.transposed else made, self._user_observed, self.n_threads, self.transposed
        )


def open_array(X: Any, request: Request) -> InMemory:
    """Whatever NumPy makes an array of: arrays, masked arrays, nested lists, pandas and polars frames."""
    data = as_array(X, request)
    request.check_matrix(data.shape, data.dtype)
    observed = request.mask_in_memory(data.shape)
    if isinstance(X, np.ma.MaskedArray):
        present = ~np.ma.getmaskarray(X)
        observed = present if observed is None else observed & present
    source = InMemory(data, observed, request.n_threads)
    if request.max_memory is not None:
        source.workspace = Workspace(max(request.max_memory - resident_memory(), 0) // 2)
    return source


def as_array(X: Any, request: Request) -> Array:
    """The numbers of whatever NumPy makes an array of, as they are: no check of the shape or the type."""
    if isinstance(X, str | bytes | os.PathLike):
        raise bad("X", "an array", repr(X), request.where, "[path] is a list of one file.")
    try:
        return _values_of_frame(X) if _is_frame(X) else np.asarray(X)
    except (TypeError, ValueError) as error:
        got = f"{type(X).__name__} ({error})"
        raise bad("X", "a rectangular array of numbers", got, request.where) from error


def _is_frame(X: Any) -> bool:
    """A pandas or polars frame, told by its module: neither library is imported for it."""
    return type(X).__name__ == "DataFrame" and type(X).__module__.partition(".")[0] in ("pandas", "polars")


def _values_of_frame(X: Any) -> Array:
    """The numbers of a frame; None, NA and null become NaN."""
    values: Array = X.to_numpy()
    if values.dtype == np.object_ and type(X).__module__.startswith("pandas"):
        values = X.to_numpy(dtype=np.float64, na_value=np.nan)
    return values
