"""Sparse matrices: entries that are not stored were not observed (ratings), or are observed zeros (counts).

:class:`SparseObserved` has tiles that are sparse themselves; a pass costs stored entries times rank.
:class:`SparseZeros` makes dense tiles one at a time: every entry is data, so a pass costs m·n times the rank, and the
memory beside the matrix is that of a tile for each thread.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.data.request import Request
from rankwolf.data.source import Source
from rankwolf.data.tiles import dense_with_nan, is_sparse
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad

# Stored entries of a tile, at least: work for some milliseconds, and for more than the n × r factor that a tile reads.
TILE_ENTRIES = 2**19


def ordered_rows(matrix: Any, dtype: np.dtype[Any]) -> scipy.sparse.csr_array:
    """A CSR array in ``dtype`` with sorted indices and one entry for each place; the caller's matrix is not changed.

    Entries that are stored twice are added up, as everywhere in SciPy. Stored zeros stay: they are observed.
    """
    rows = scipy.sparse.csr_array(matrix)
    # A wrong index would crash a product instead of raising, so all indices are checked first.
    rows.check_format(full_check=True)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return scipy.sparse.csr_array(rows.astype(dtype, copy=False))


class SparseObserved(Source):
    """A sparse matrix whose stored entries are the observed ones; NaN among them counts as not observed.

    A tile is a CSR array. Memory: one copy of the matrix where it has to be turned, sorted or converted.
    """

    kind = "sparse entries"
    sparse = True
    in_memory = True

    def __init__(self, matrix: Any, n_threads: int) -> None:
        m, n = (int(side) for side in matrix.shape)
        super().__init__((n, m) if m < n else (m, n), np.dtype(matrix.dtype), m < n, n_threads)
        self._rows = _observed_only(ordered_rows(matrix.T if m < n else matrix, self.dtype))

    def read(self, start: int, stop: int) -> Any:
        """Rows ``start`` to ``stop`` as the solver sees them: a CSR array of views of what is stored."""
        rows = self._rows
        first, last = int(rows.indptr[start]), int(rows.indptr[stop])
        pointers = rows.indptr[start : stop + 1] - first
        parts = (rows.data[first:last], rows.indices[first:last], pointers)
        return scipy.sparse.csr_array(parts, shape=(stop - start, self.shape[1]), copy=False)

    def read_user(self, rows: slice | Array, columns: slice = slice(None)) -> Any:
        """A part of the user's matrix, sparse. Where the matrix is wide, this looks at every stored entry."""
        stored: Any = self._rows
        return stored[columns, rows].T.tocsr() if self.transposed else stored[rows, columns]

    def changed(self, change: Callable[[Any], Any]) -> SparseObserved:
        """The source of ``change(M)``, M lying as the solver sees it; ``change`` keeps the places of the entries."""
        return self._like(change(self._rows), self.shape, self.transposed)

    def use_type(self, dtype: np.dtype[Any]) -> None:
        """Convert the stored entries to this type."""
        super().use_type(dtype)
        self._rows = scipy.sparse.csr_array(self._rows.astype(dtype))

    def densest(self, side: int) -> Array:
        """A dense block with NaN: the ``side`` columns with the most entries, and the ``side`` fullest rows of them."""
        counts = np.bincount(self._rows.indices, minlength=self.shape[1])
        columns = np.sort(np.argsort(counts, kind="stable")[::-1][:side])
        part = self._rows[:, columns]
        rows = np.sort(np.argsort(np.diff(part.indptr), kind="stable")[::-1][:side])
        return dense_with_nan(part[rows])

    def by_columns(self) -> SparseObserved:
        """A source of the transpose, stored by its own rows, for steps over the columns. One copy."""
        return self._like(self._rows.T.tocsr(), self.shape[::-1], not self.transposed)

    def _like(self, rows: Any, shape: tuple[int, int], transposed: bool) -> SparseObserved:
        """A source of a CSR array that is in order already and needs no check."""
        made = object.__new__(SparseObserved)
        Source.__init__(made, shape, rows.dtype, transposed, self.n_threads)
        made._rows = rows
        made.bound = self.bound
        return made

    def tiles(self, depth: int = 0) -> list[tuple[int, int]]:
        """Row ranges with about equally many stored entries."""
        rows = self.shape[0]
        wanted = max(TILE_ENTRIES, 8 * self.shape[1])
        count = max(1, min(rows, -(-int(self._rows.nnz) // wanted)))
        goals = np.linspace(0, self._rows.nnz, count + 1)[1:-1]
        cuts = np.searchsorted(self._rows.indptr, goals)
        bounds = np.unique(np.concatenate([[0], cuts, [rows]])).tolist()
        return list(pairwise(bounds))


class SparseZeros(Source):
    """A sparse matrix whose entries are all observed, those that are not stored as zeros; its tiles are dense."""

    in_memory = True
    implicit_zeros = True

    def __init__(self, matrix: Any, n_threads: int) -> None:
        m, n = (int(side) for side in matrix.shape)
        super().__init__((n, m) if m < n else (m, n), np.dtype(matrix.dtype), m < n, n_threads)
        self._rows = ordered_rows(matrix.T if m < n else matrix, self.dtype)

    def read(self, start: int, stop: int) -> Array:
        """Rows ``start`` to ``stop`` as the solver sees them, made dense."""
        tile: Array = self._rows[start:stop].toarray()
        return tile

    def read_user(self, rows: slice | Array, columns: slice = slice(None)) -> Array:
        """A part of the user's matrix, dense. Where the matrix is wide, this looks at every stored entry."""
        stored: Any = self._rows
        if not self.transposed:
            return np.asarray(stored[rows, columns].toarray())
        return np.ascontiguousarray(stored[columns, rows].toarray().T)

    def use_type(self, dtype: np.dtype[Any]) -> None:
        """Convert the stored entries to this type."""
        super().use_type(dtype)
        self._rows = scipy.sparse.csr_array(self._rows.astype(dtype))


def open_sparse(X: Any, request: Request) -> Source | None:
    """The source of a scipy.sparse matrix or array of any format; None for anything else.

    It is copied where it is wide or not in sorted rows of the tiles' type.
    """
    if not is_sparse(X):
        return None
    request.check_matrix(X.shape, X.dtype)
    if request.observed is not None:
        got, remedy = type(request.observed).__name__, "Its stored entries are the observed ones."
        raise bad("observed", "None for a sparse matrix", got, request.where, remedy)
    try:
        return (SparseObserved if request.implicit == "missing" else SparseZeros)(X, request.n_threads)
    except (ValueError, IndexError) as error:
        got = f"one that is damaged ({error})"
        raise bad("X", "a sparse matrix whose indices are in order", got, request.where) from error


def _observed_only(rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """The same CSR array without the stored entries that are NaN."""
    missing = np.isnan(rows.data)
    if not missing.any():
        return rows
    counts = np.concatenate([[0], np.cumsum(~missing)])
    parts = (rows.data[~missing], rows.indices[~missing], counts[rows.indptr])
    return scipy.sparse.csr_array(parts, shape=rows.shape)
