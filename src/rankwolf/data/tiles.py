"""Tiles: which float type holds the stored numbers, and how rows in any type and order become a tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from rankwolf import kernels
from rankwolf.ground.arrays import Array

# Integers up to 16 bits are exact in float32.
SINGLE = {np.dtype(name) for name in ("bool", "uint8", "int8", "uint16", "int16", "float16", "float32")}


def tile_type(stored: np.dtype[Any]) -> np.dtype[Any]:
    """float32 where it holds every number of the stored type, else float64."""
    return np.dtype(np.float32 if stored.newbyteorder("=") in SINGLE else np.float64)


def make_tile(data: Array, observed: Array | None, dtype: np.dtype[Any]) -> Array:
    """Rows in any order and type as a tile: C-contiguous, in ``dtype``, NaN where ``observed`` is False.

    The rows themselves, without a copy, where they are like that already.
    """
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


def is_sparse(tile: Any) -> bool:
    """``scipy.sparse.issparse`` with a return type that does not hide the attributes of ``tile`` from mypy."""
    return bool(scipy.sparse.issparse(tile))


def dense_with_nan(rows: scipy.sparse.csr_array) -> Array:
    """A CSR array as a dense one, NaN where nothing is stored."""
    dense = np.full(rows.shape, np.nan, rows.dtype)
    dense[row_numbers(rows), rows.indices] = rows.data
    return dense


def row_numbers(rows: scipy.sparse.csr_array) -> Array:
    """The row of each stored entry of a CSR array."""
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


def with_entries(rows: scipy.sparse.csr_array, entries: Array) -> scipy.sparse.csr_array:
    """Other numbers at the places of a CSR array; the places are shared, not copied."""
    return scipy.sparse.csr_array((entries, rows.indices, rows.indptr), shape=rows.shape, copy=False)
