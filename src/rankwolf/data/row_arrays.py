"""Row-aligned arrays: one row for each row of the matrix that the solver sees, kept beside the data.

The factor U and a residual are such arrays. ``allocate`` makes them, tasks read and write them, and outside of passes a
solver works on them by the methods here only. Where the data is in another process, they are handles, not arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rankwolf.data.workspace import Workspace
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank, pieces_of


class RowArrays:
    """What a :class:`~rankwolf.data.source.Source` can do with row-aligned arrays; here they are in a workspace."""

    def __init__(
        self, shape: tuple[int, int], dtype: np.dtype[Any], workspace: Workspace | None = None
    ) -> None:
        self.shape, self.dtype = shape, dtype
        self.workspace = Workspace() if workspace is None else workspace

    def allocate(self, width: int, dtype: Any = None) -> Any:
        """A new array of zeros with ``width`` columns, in the tiles' type unless told."""
        return self.workspace.zeros((self.shape[0], width), self.dtype if dtype is None else dtype)

    def gather(self, rows: Any) -> Array:
        """A row-aligned array as a plain one in this process, for a checkpoint, say."""
        return np.asarray(rows)

    def spread(self, array: Array) -> Any:
        """A new row-aligned array with the numbers of a plain one: the inverse of :meth:`gather`."""
        rows = self.allocate(array.shape[1], array.dtype)
        rows[...] = array
        return rows

    def map(self, function: Callable[..., Array], *rows: Any) -> Any:
        """A new row-aligned array whose rows are ``function`` of the same rows of ``rows``; no pass.

        ``function`` may get a few rows at a time, and must accept none.
        """
        if not self.workspace.is_limited:
            return function(*rows)
        kind = function(*(array[:0] for array in rows))
        made = self.allocate(kind.shape[1], kind.dtype)
        for start, stop in pieces_of(self.shape[0]):
            made[start:stop] = function(*(array[start:stop] for array in rows))
            self.workspace.give_back(start, stop)
        return made

    def row_numbers(self) -> Any:
        """0, 1, 2, … as a row-aligned array of one column."""
        return np.arange(self.shape[0])[:, None]

    def low_rank(self, left: Any, right: Array) -> LowRank:
        """The singular value decomposition of left·rightᵀ; ``left`` and ``u`` are row-aligned. O((m + n)·r²)."""
        if not self.workspace.is_limited:
            return LowRank.from_factors(left, right)
        return LowRank.from_factors(left, right, self.workspace.zeros, self.workspace.give_back)

    def leading(self, low_rank: LowRank, count: int) -> LowRank:
        """L with its ``count`` largest singular values alone, ``u`` row-aligned; no copy where ``u`` is an array."""
        left: Any = low_rank.u
        if count >= low_rank.rank:
            return low_rank
        if isinstance(left, np.ndarray):
            return low_rank.first(count)
        return LowRank(self.map(partial(_columns, count), left), low_rank.s[:count], low_rank.vt[:count])

    def factors(self, low_rank: LowRank) -> tuple[Any, Array]:
        """(U, V) with L = U Vᵀ, as tasks take them: U row-aligned, both in the tiles' type, ‖U‖² = ‖V‖² = ‖L‖_*.

        ``low_rank`` lies as the solver sees the matrix, see :meth:`rankwolf.data.source.Source.as_solver_sees`.
        """
        scale = partial(_times_columns, np.sqrt(low_rank.s), self.dtype)
        return self.map(scale, low_rank.u), scale(low_rank.vt.T)


def _columns(count: int, columns: Array) -> Array:
    return np.ascontiguousarray(columns[:, :count])


def _times_columns(weights: Array, dtype: Any, columns: Array) -> Array:
    return np.ascontiguousarray(columns * weights.astype(columns.dtype), dtype)
