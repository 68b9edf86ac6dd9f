"""A table of samples in whatever form it came: the few things that an estimator asks of it, a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.lowrank import Array, LowRank
from rankwolf.oracles import l1
from rankwolf.passes import clip_tile, sampled_residual, with_entries
from rankwolf.sources import Source, Stored, Sums, Task, is_dask_array
from rankwolf.sources.in_memory import tile_type
from rankwolf.sources.sparse import dense_with_nan, is_sparse
from rankwolf.sources.stored import Scaled

BLOCK_ENTRIES = 2**22
# Rows whose medians stand for those of all rows, where the table is not in memory.
MEDIAN_ROWS = 1000
# Of wide tables fewer, so that what is brought here stays small.
SAMPLE_BYTES, LEAST_ROWS = 2**27, 51


@dataclass(frozen=True)
class Table:
    """Rows are samples. ``data``: an array with NaN for missing, a CSR array, a matrix on the disk, or a dask.array.

    ``implicit``: what a CSR array does not store is ``"missing"`` or ``"zeros"``.
    """

    data: Any
    implicit: str = "missing"

    @property
    def shape(self) -> tuple[int, int]:
        """(samples, features)."""
        return int(self.data.shape[0]), int(self.data.shape[1])

    @property
    def stores_observed(self) -> bool:
        """Whether it is sparse, and the stored entries are the observed ones."""
        return is_sparse(self.data) and self.implicit == "missing"

    @property
    def is_lazy(self) -> bool:
        """Whether it stays where it is, and rows come here when they are asked for."""
        return isinstance(self.data, Stored) or is_dask_array(self.data)

    def rows(self, numbers: Array) -> Table:
        """Some of the rows, in ascending order."""
        if isinstance(self.data, Stored):
            return replace(self, data=self.data.rows(numbers))
        return replace(self, data=np.asarray(self.data[numbers]) if self.is_lazy else self.data[numbers])

    def spread_rows(self, count: int) -> Array:
        """The numbers of about ``count`` rows, spread evenly; of fewer where they are wide and have to come here."""
        if self.is_lazy:
            count = min(count, max(LEAST_ROWS, SAMPLE_BYTES // (8 * self.shape[1])))
        return np.unique(np.linspace(0, self.shape[0] - 1, count).astype(int))

    def minus(self, centre: Array) -> Table:
        """With ``centre`` subtracted from each row; of a sparse table, at the stored entries."""
        if not centre.any():
            return self
        if self.stores_observed:
            return replace(self, data=with_entries(self.data, self.data.data - centre[self.data.indices]))
        if isinstance(self.data, Stored):
            return replace(self, data=Scaled(self.data, centre))
        if self.is_lazy:  # in the type of the data, not in that of the centre: it is as large as the data
            dtype = tile_type(self.data.dtype)
            return replace(self, data=self.data.astype(dtype) - centre.astype(dtype))
        return replace(self, data=self.data - centre)

    def medians(self) -> Array:
        """The median of what was observed in each column, 0 where nothing was; of rows spread evenly, if it is lazy."""
        if self.stores_observed:
            return _medians_of_stored(self.data)
        if self.is_lazy:
            sample = self.rows(self.spread_rows(MEDIAN_ROWS)).data
            return Table(sample.astype(tile_type(sample.dtype), copy=False)).medians()
        unseen = np.isnan(self.data).all(axis=0)
        medians: Array = np.nanmedian(np.where(unseen, 0, self.data) if unseen.any() else self.data, axis=0)
        return medians.astype(self.data.dtype, copy=False)

    def blocks(self) -> Iterator[Any]:
        """From top to bottom: arrays of some rows, or all sparse rows at once where only stored entries count."""
        if self.stores_observed:
            yield scipy.sparse.csr_array(self.data)
            return
        step = max(1, BLOCK_ENTRIES // max(1, self.shape[1]))
        for first in range(0, self.shape[0], step):
            rows = self.data[first : first + step]
            yield rows.toarray() if is_sparse(rows) else np.asarray(rows)

    def dense(self) -> Array:
        """All of it as an array, NaN where something is missing."""
        if self.is_lazy:
            rows = np.vstack(list(self.blocks()))
            return rows.astype(tile_type(rows.dtype), copy=False)
        if not is_sparse(self.data):
            return np.asarray(self.data)
        return dense_with_nan(self.data) if self.stores_observed else np.asarray(self.data.toarray())

    def residuals(self, low_rank: LowRank) -> Iterator[Any]:
        """What L leaves over, in the same blocks; sparse where they are."""
        first = 0
        for block in self.blocks():
            part = LowRank(low_rank.u[first : first + block.shape[0]], low_rank.s, low_rank.vt)
            if is_sparse(block):
                left, right = (np.ascontiguousarray(factor, block.dtype) for factor in part.factors())
                yield with_entries(block, sampled_residual(block, left, right))
            else:
                yield block - np.asarray(part)
            first += block.shape[0]

    def observed_residual(self, low_rank: LowRank) -> Array:
        """The same as one list of the observed entries."""
        parts = [(x.data if is_sparse(x) else x).ravel() for x in self.residuals(low_rank)]
        entries = np.concatenate(parts)
        return np.asarray(entries[~np.isnan(entries)])

    def cleaned_mean(self, low_rank: LowRank, limit: float) -> Array:
        """The mean row of L + clip(M − L, ±limit), what is missing being as L has it."""
        total = np.zeros(self.shape[1])
        for residual in self.residuals(low_rank):
            if is_sparse(residual):
                entries = np.nan_to_num(np.clip(residual.data, -limit, limit))
                total += np.bincount(residual.indices, entries, minlength=self.shape[1])
            else:
                total += np.nan_to_num(np.clip(residual, -limit, limit)).sum(axis=0, dtype=np.float64)
        return total / self.shape[0] + _mean_row(low_rank)

    def outliers(self, low_rank: LowRank, limit: float) -> scipy.sparse.csr_array:
        """S = T_limit(M − L)."""
        parts = []
        for residual in self.residuals(low_rank):
            if is_sparse(residual):
                sparse = with_entries(residual, np.nan_to_num(l1.soft_threshold(residual.data, limit)))
                sparse = sparse.copy()  # places are shared with the data
                sparse.eliminate_zeros()
            else:
                sparse = scipy.sparse.csr_array(np.nan_to_num(l1.soft_threshold(residual, limit)))
            parts.append(sparse)
        return scipy.sparse.csr_array(scipy.sparse.vstack(parts, format="csr"))


@dataclass
class ColumnSums(Sums):
    """Of each column."""

    columns: Array


class SumClipped(Task[ColumnSums]):
    """G = clip(P_Ω(M − U Vᵀ), ±limit), added up along columns. Rows: U; one column, for what the rows add up to."""

    def __init__(self, right: Array, limit: float) -> None:
        self.right_t, self.limit = np.ascontiguousarray(right.T), limit

    def start(self) -> ColumnSums:
        """Zeros."""
        return ColumnSums(np.zeros(self.right_t.shape[1]))

    def visit(self, sums: ColumnSums, tile: Array, *rows: Array) -> None:
        """Both ways."""
        left, across = rows
        clipped = clip_tile(tile, left, self.right_t, self.limit)
        sums.columns += clipped.sum(axis=0, dtype=np.float64)
        across[:, 0] = clipped.sum(axis=1, dtype=np.float64)


def cleaned_mean(source: Source, low_rank: LowRank, limit: float) -> Array:
    """What :meth:`Table.cleaned_mean` gives, by one pass, wherever the matrix is."""
    left, right = source.factors(low_rank.T if source.transposed else low_rank)
    across = source.allocate(1, np.float64)
    sums = source.run(SumClipped(right, limit), left, across)
    total = source.gather(across)[:, 0] if source.transposed else sums.columns
    return total / low_rank.shape[0] + _mean_row(low_rank)


def _mean_row(low_rank: LowRank) -> Array:
    scores = np.asarray(low_rank.u).mean(axis=0, dtype=np.float64) * low_rank.s
    mean: Array = scores @ np.asarray(low_rank.vt)
    return mean


def _medians_of_stored(data: Any) -> Array:
    columns = data.tocsc()
    medians = np.zeros(data.shape[1], data.dtype)
    order = np.lexsort((columns.data, np.repeat(np.arange(data.shape[1]), np.diff(columns.indptr))))
    values, starts = columns.data[order], columns.indptr[:-1]
    # NaN sorts last, and is as good as not stored.
    counts = np.diff(np.concatenate([[0], np.cumsum(~np.isnan(values))])[columns.indptr])
    full = counts > 0
    low, high = starts + (counts - 1) // 2, starts + counts // 2
    medians[full] = 0.5 * (values[low[full]] + values[high[full]])
    return medians
