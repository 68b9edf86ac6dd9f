"""Statistics of the columns of any source: medians, a robust centre and spread, and sums along rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwolf.data.source import SAMPLE_BYTES, Source
from rankwolf.data.tasks import Sums, Task
from rankwolf.data.tiles import is_sparse, with_entries
from rankwolf.ground.arrays import Array
from rankwolf.ground.normal import MEDIAN_OF_NORMAL

# How many float64 copies of a block of columns are held while its medians are computed.
COPIES = 4
# Where the matrix is not in memory, medians of this many rows are enough as a first guess.
MEDIAN_ROWS = 1000
# Medians of this many rows are good enough to be used as they are: their error is about a hundredth of the spread.
SCALE_ROWS = 20_000


def column_medians(source: Source) -> Array:
    """The median of the observed entries of each of the user's columns, 0 where there are none, in the tiles' type.

    Exact for a matrix in memory; anywhere else, from at most 1000 rows, spread evenly.
    """
    if source.sparse:
        return _medians_of_stored(source.read_user(slice(None)))
    medians = np.zeros(source.user_shape[1], source.dtype)
    for columns, entries in source.user_columns(MEDIAN_ROWS, SAMPLE_BYTES):
        for part in _in_steps(columns, entries.shape[0], SAMPLE_BYTES):
            medians[part] = _medians(_as_lines(entries[:, _within(part, columns)]))
    return medians


def centre_and_scale(source: Source, most_bytes: int) -> tuple[Array, Array]:
    """The median of each of the user's columns and 1.48 times the median absolute deviation from it, in float64.

    The latter estimates the standard deviation of normal entries, and outliers hardly change it. Where it is zero, the
    mean absolute deviation takes its place; where that is zero too, 1. From all rows of a matrix in memory; anywhere
    else from at most 20,000, spread evenly. About ``most_bytes`` bytes are held at a time.
    """
    n = source.user_shape[1]
    centre, scale = np.zeros(n), np.ones(n)
    for columns, entries in source.user_columns(SCALE_ROWS, most_bytes // 2):
        for part in _in_steps(columns, entries.shape[0], most_bytes):
            centre[part], scale[part] = _centre_and_scale(entries[:, _within(part, columns)])
    return centre, scale


def _in_steps(columns: slice, rows: int, most_bytes: int) -> list[slice]:
    """The same columns in smaller slices, so that the copies which medians take fit into ``most_bytes``."""
    step = max(1, most_bytes // (2 * COPIES * 8 * max(1, rows)))
    return [slice(k, min(k + step, columns.stop)) for k in range(columns.start, columns.stop, step)]


def _within(part: slice, columns: slice) -> slice:
    return slice(part.start - columns.start, part.stop - columns.start)


def _as_lines(columns: Array) -> Array:
    """A copy with columns as rows, in float64; infinite entries become NaN, and lines without any number zeros."""
    lines = np.array(columns.T, np.float64, order="C")
    lines[~np.isfinite(lines)] = np.nan  # only in this copy: check_source still refuses it in the data
    lines[np.isnan(lines).all(axis=1)] = 0.0
    return lines


def _centre_and_scale(columns: Array) -> tuple[Array, Array]:
    lines = _as_lines(columns)
    centre = _medians(lines)
    deviations = np.abs(lines - centre[:, None])
    scale = (1.0 / MEDIAN_OF_NORMAL) * _medians(deviations)
    flat = scale == 0.0
    scale[flat] = np.nanmean(deviations[flat], axis=1)
    return centre, np.where(scale > 0.0, scale, 1.0)


def _medians(lines: Array) -> Array:
    """The median of the numbers of each row, which has at least one. NumPy's nanmedian is several times slower."""
    ascending = np.sort(lines, axis=1)  # NaN come last
    counts, numbers = np.count_nonzero(lines == lines, axis=1), np.arange(len(lines))
    return np.asarray((ascending[numbers, (counts - 1) // 2] + ascending[numbers, counts // 2]) / 2.0)


def _medians_of_stored(rows: Any) -> Array:
    """The median of the stored entries of each column of a CSR array, 0 without any. O(k log k) for k entries."""
    medians = np.zeros(rows.shape[1], rows.dtype)
    order = np.lexsort((rows.data, rows.indices))
    values, counts = rows.data[order], np.bincount(rows.indices, minlength=rows.shape[1])
    starts, full = np.cumsum(counts) - counts, counts > 0
    low, high = starts + (counts - 1) // 2, starts + counts // 2
    medians[full] = 0.5 * (values[low[full]] + values[high[full]])
    return medians


@dataclass
class ColumnSums(Sums):
    """For each column of the tiles, the sum over all rows."""

    columns: Array


class SumBothWays(Task[ColumnSums]):
    """Sums of ``measure(tile, *rows)``, an array or a CSR array of the tile's shape, along its rows and its columns.

    Row-aligned arrays: those that ``measure`` takes. Makes the sum of each row.
    """

    makes = ((1, np.float64),)

    def __init__(self, measure: Callable[..., Any], width: int) -> None:
        self.measure, self.width = measure, width

    def start(self) -> ColumnSums:
        """Zeros."""
        return ColumnSums(np.zeros(self.width))

    def visit(self, sums: ColumnSums, tile: Any, *rows: Array) -> tuple[Array]:
        """Measure one tile; add it up along its rows and its columns."""
        measured = self.measure(tile, *rows)
        sums.columns += measured.sum(axis=0, dtype=np.float64)
        return (np.asarray(measured.sum(axis=1, dtype=np.float64)).reshape(-1, 1),)


def line_sums(source: Source, measure: Callable[..., Any], *rows: Any) -> tuple[Array, Array]:
    """(row sums, column sums) of ``measure(tile, *rows)``, for the user's rows and columns. One pass.

    ``measure`` is sent to the workers of a cluster, so it must be a function of a module, or a partial of one.
    """
    sums, made = source.run_with_rows(SumBothWays(measure, source.shape[1]), *rows)
    columns, lines = sums.columns, source.gather(made[0])[:, 0]
    return (columns, lines) if source.transposed else (lines, columns)


def observed_counts(source: Source) -> tuple[Array, Array]:
    """How many entries were observed in each of the user's rows, and in each of the user's columns. One pass."""
    in_rows, in_columns = line_sums(source, _is_observed)
    return in_rows.astype(np.int64), in_columns.astype(np.int64)


def _is_observed(tile: Any) -> Any:
    return with_entries(tile, np.ones(tile.nnz)) if is_sparse(tile) else tile == tile
