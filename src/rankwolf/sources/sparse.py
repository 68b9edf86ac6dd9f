"""Sparse matrices: stored entries are the observed ones (ratings), or the others are observed zeros (counts).

:class:`SparseObserved` has tiles that are sparse themselves; a pass costs what is stored, times the rank.
:class:`SparseZeros` makes dense tiles on the fly: every entry is data, so a pass costs m·n, and memory stays a tile.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.sources.base import Array, Source
from rankwolf.sources.in_memory import tile_type

# Stored entries of a tile: work for some milliseconds, and much more than the n × r factor that each tile reads.
TILE_ENTRIES = 2**19


def is_sparse(x: Any) -> bool:
    """scipy.sparse's own question, without its narrowing of the type to one that has no attributes."""
    return bool(scipy.sparse.issparse(x))


def ordered_rows(matrix: Any, dtype: np.dtype[Any]) -> scipy.sparse.csr_array:
    """A CSR array in ``dtype`` with sorted indices and one entry for each place; the caller's matrix is not changed.

    Entries that are stored twice are added up, as everywhere in SciPy. Stored zeros stay: they are observed.
    """
    rows = scipy.sparse.csr_array(matrix)
    # A wrong index is a crash inside a product, not an error: look before.
    rows.check_format(full_check=True)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return scipy.sparse.csr_array(rows.astype(dtype, copy=False))


class SparseObserved(Source):
    """The stored entries of a sparse matrix are the observed ones; NaN among them is not observed either.

    A tile is a CSR array. Memory: one copy of the matrix where it has to be turned, sorted or converted.
    """

    sparse = True

    def __init__(self, matrix: Any, n_threads: int) -> None:
        m, n = (int(side) for side in matrix.shape)
        transposed = m < n
        dtype = tile_type(matrix.dtype)
        super().__init__((n, m) if transposed else (m, n), dtype, transposed, n_threads)
        self._rows = _observed_only(ordered_rows(matrix.T if transposed else matrix, dtype))

    def read(self, start: int, stop: int) -> Any:
        """A tile of the long side: views of what is stored."""
        rows = self._rows
        first, last = int(rows.indptr[start]), int(rows.indptr[stop])
        pointers = rows.indptr[start : stop + 1] - first
        parts = (rows.data[first:last], rows.indices[first:last], pointers)
        return scipy.sparse.csr_array(parts, shape=(stop - start, self.shape[1]), copy=False)

    def read_user_rows(self, start: int, stop: int) -> Array:
        """A few rows made dense, NaN where nothing is stored."""
        return dense_with_nan(self.user_rows(start, stop))

    def user_rows(self, start: int, stop: int) -> scipy.sparse.csr_array:
        """The same rows, sparse."""
        return self._rows[:, start:stop].T.tocsr() if self.transposed else self._rows[start:stop]

    def densest(self, side: int) -> Array:
        """The rows and columns with the most entries, ``side`` of each at most, dense with NaN."""
        counts = np.bincount(self._rows.indices, minlength=self.shape[1])
        columns = np.sort(np.argsort(counts, kind="stable")[::-1][:side])
        part = self._rows[:, columns]
        rows = np.sort(np.argsort(np.diff(part.indptr), kind="stable")[::-1][:side])
        return dense_with_nan(part[rows])

    def by_columns(self) -> SparseObserved:
        """The transpose, stored by its own rows: what a step over the columns reads."""
        turned = object.__new__(SparseObserved)
        Source.__init__(turned, self.shape[::-1], self.dtype, not self.transposed, self.n_threads)
        turned._rows = self._rows.T.tocsr()
        return turned

    def tiles(self, depth: int = 0) -> list[tuple[int, int]]:
        """Row ranges with about as many stored entries each."""
        rows = self.shape[0]
        wanted = max(TILE_ENTRIES, 8 * self.shape[1])
        count = max(1, min(rows, -(-int(self._rows.nnz) // wanted)))
        goals = np.linspace(0, self._rows.nnz, count + 1)[1:-1]
        cuts = np.searchsorted(self._rows.indptr, goals)
        bounds = np.unique(np.concatenate([[0], cuts, [rows]])).tolist()
        return list(pairwise(bounds))


class SparseZeros(Source):
    """A sparse matrix whose other entries are observed zeros: dense tiles, made one at a time."""

    def __init__(self, matrix: Any, n_threads: int) -> None:
        m, n = (int(side) for side in matrix.shape)
        transposed = m < n
        dtype = tile_type(matrix.dtype)
        super().__init__((n, m) if transposed else (m, n), dtype, transposed, n_threads)
        self._rows = ordered_rows(matrix.T if transposed else matrix, dtype)

    def read(self, start: int, stop: int) -> Array:
        """A tile of the long side."""
        tile: Array = self._rows[start:stop].toarray()
        return tile

    def read_user_rows(self, start: int, stop: int) -> Array:
        """Rows as the user counts them."""
        if not self.transposed:
            return self.read(start, stop)
        return np.ascontiguousarray(self._rows[:, start:stop].toarray().T)


def dense_with_nan(rows: scipy.sparse.csr_array) -> Array:
    """NaN where nothing is stored."""
    dense = np.full(rows.shape, np.nan, rows.dtype)
    dense[np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), rows.indices] = rows.data
    return dense


def _observed_only(rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Without entries that are NaN."""
    missing = np.isnan(rows.data)
    if not missing.any():
        return rows
    counts = np.concatenate([[0], np.cumsum(~missing)])
    parts = (rows.data[~missing], rows.indices[~missing], counts[rows.indptr])
    return scipy.sparse.csr_array(parts, shape=rows.shape)
