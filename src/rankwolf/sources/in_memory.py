"""A matrix in memory: any real dtype, either memory order, an optional mask; never a float copy of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwolf import kernels
from rankwolf.sources.base import Array, Source

# Integers up to 16 bits are exact in float32.
SINGLE = {np.dtype(name) for name in ("bool", "uint8", "int8", "uint16", "int16", "float16", "float32")}
# Outside this range squares of float32 numbers over- or underflow.
_SAFE_SINGLE = (1e-15, 1e15)


class InMemory(Source):
    """An ndarray (or memory map) with an optional boolean mask of what was observed.

    Tiles are views where the data is float, C-contiguous along the tiled side and unmasked; otherwise one tile at a
    time is converted.
    """

    def __init__(
        self, data: Array, observed: Array | None, n_threads: int, transposed: bool | None = None
    ) -> None:
        transposed = data.shape[0] < data.shape[1] if transposed is None else transposed
        dtype = tile_type(data.dtype)
        shape = (data.shape[1], data.shape[0]) if transposed else (data.shape[0], data.shape[1])
        super().__init__(shape, dtype, transposed, n_threads)
        self.converts = observed is not None or data.dtype != dtype
        self._user_data, self._user_observed = data, observed
        self._data = data.T if transposed else data
        self._observed = None if observed is None else (observed.T if transposed else observed)
        self.dtype = safe_type(self, data.dtype)

    def read(self, start: int, stop: int) -> Array:
        """A tile of the long side."""
        return make_tile(self._data[start:stop], None if self._observed is None else self._observed[start:stop],
                         self.dtype)  # fmt: skip

    def read_user_rows(self, start: int, stop: int) -> Array:
        """Rows as the user counts them."""
        observed = self._user_observed
        return make_tile(
            self._user_data[start:stop], None if observed is None else observed[start:stop], self.dtype
        )


def tile_type(stored: np.dtype[Any]) -> np.dtype[Any]:
    """float32 where it holds every number of the stored type, else float64."""
    return np.dtype(np.float32 if stored.newbyteorder("=") in SINGLE else np.float64)


def safe_type(source: Source, stored: np.dtype[Any]) -> np.dtype[Any]:
    """The type that tiles should have: float64 for float32 numbers whose squares float32 cannot hold."""
    if source.dtype == np.float32 and stored.newbyteorder("=") == np.float32:
        scale = source.summary.largest
        if scale and not _SAFE_SINGLE[0] < scale < _SAFE_SINGLE[1]:
            return np.dtype(np.float64)
    return source.dtype


def make_tile(data: Array, observed: Array | None, dtype: np.dtype[Any]) -> Array:
    """Rows in any order and type as a tile: C-contiguous, NaN where nothing was observed."""
    if data.flags.c_contiguous or data.shape[0] == 1 or data.shape[1] == 1:
        tile = np.ascontiguousarray(data).astype(dtype, copy=observed is not None)
    elif data.strides[0] <= data.strides[1] and data.dtype.isnative and data.dtype.char not in "eg":
        # Neither half nor extended precision: Numba has no such types.
        tile = np.empty(data.shape, dtype)
        kernels.cast_transposed(data.T, tile)
    else:
        tile = data.astype(dtype, order="C")
    if observed is not None:
        tile[~observed] = np.nan
    return tile
