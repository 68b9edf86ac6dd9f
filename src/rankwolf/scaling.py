"""Columns of different units: a robust centre and spread for each, and the way back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwolf.files.writing import Rows
from rankwolf.lowrank import Array
from rankwolf.sources import Stored, as_stored
from rankwolf.sources.memory import Shares
from rankwolf.sources.scratch import mapped_file
from rankwolf.sources.sparse import is_sparse
from rankwolf.sources.stored import MappedArray, Scaled, turned_copy
from rankwolf.storing import Part

# Median of |x − median| of a standard normal x is 1/this.
SIGMAS_OF_MEDIAN_DEVIATION = 1.482602218505602
# Columns that are looked at together, with the copies that medians take.
BLOCK_BYTES, COPIES = 2**29, 4
# Enough for a median within a hundredth of the spread.
MOST_ROWS = 20_000


@dataclass(frozen=True)
class Scaling:
    """``(x − centre) / scale`` for each column; both None: nothing is done.

    The centre is the median, the scale 1.48 times the median absolute deviation: the standard deviation, if half of the
    column or more is normal. Where that is zero, the mean absolute deviation; where that is zero too, 1.
    """

    centre: Array | None
    scale: Array | None

    @classmethod
    def none(cls) -> Scaling:
        """Leave everything as it is."""
        return cls(None, None)

    @classmethod
    def of(cls, data: Array | Stored, max_memory: int | None = None) -> Scaling:
        """From the columns, NaN left out, some columns at a time; on the disk, from at most 20,000 rows."""
        most_bytes, step = BLOCK_BYTES, data.shape[1]
        if isinstance(data, Stored):
            most_bytes = min(Shares.of(max_memory, 0, 8, 1).reading, BLOCK_BYTES)
            data, step = _by_columns(data, most_bytes // 2)
        m, n = data.shape
        centre, scale = np.zeros(n), np.ones(n)
        finer = max(1, most_bytes // (2 * COPIES * 8 * max(1, m)))
        for first in range(0, n if m else 0, max(1, step)):
            last = min(first + step, n)
            columns = data.read(slice(0, m), slice(first, last)) if isinstance(data, Stored) else data
            for start in range(first, last, finer):
                part = slice(start, min(start + finer, last))
                centre[part], scale[part] = _centre_and_scale(columns[:, start - first : part.stop - first])
        return cls(centre, scale)

    def apply(self, data: Any) -> Any:
        """The scaled matrix, float32 where the data is."""
        if self.centre is None or self.scale is None:
            return data
        if isinstance(data, Stored):
            return Scaled(data, self.centre, self.scale)
        dtype = np.float32 if data.dtype.newbyteorder("=") == np.float32 else np.float64
        return ((data - self.centre) / self.scale).astype(dtype, copy=False)

    def restored(self, part: Rows) -> Rows:
        """Rows of a matrix that is like the data (L), back in its units."""
        return part if self.scale is None else _Scaled(part, self.scale, self.centre)

    def stretched(self, part: Rows) -> Rows:
        """Rows of a difference (S), back in its units."""
        return part if self.scale is None else _Scaled(part, self.scale, None)

    def stretched_parts(self, parts: Iterable[Part]) -> Iterator[Part]:
        """The same of blocks."""
        for rows, columns, block in parts:
            yield (
                rows,
                columns,
                block if self.scale is None else (block * self.scale[columns]).astype(block.dtype),
            )

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        if self.centre is None or self.scale is None:
            return {}
        return {"centre": self.centre.tolist(), "scale": self.scale.tolist()}


def _by_columns(data: Stored, most_bytes: int) -> tuple[Stored, int]:
    """At most 20,000 rows of it, and how many columns at a time can be read, with none of it read twice."""
    m, n = data.shape
    if m > MOST_ROWS:
        numbers = np.linspace(0, m - 1, MOST_ROWS).astype(int)
        size = MOST_ROWS * n * data.dtype.itemsize
        file = None if size <= most_bytes else mapped_file(size, "a sample of rows")
        sample = np.empty(MOST_ROWS * n, data.dtype) if file is None else np.frombuffer(file, data.dtype)
        data.rows(numbers, sample.reshape(MOST_ROWS, n), file)
        return _with_step(MappedArray(sample.reshape(MOST_ROWS, n), file), 1, most_bytes)
    grain = data.grain(1)
    if (1.0 + data.overhead) * m * grain * data.dtype.itemsize <= most_bytes:
        return _with_step(data, grain, most_bytes)
    if (2.0 + data.overhead) * data.grain(0) * n * data.dtype.itemsize <= most_bytes:
        return _with_step(turned_copy(data, 1, most_bytes), 1, most_bytes)
    raise ValueError(
        f"There is too little memory to standardize a matrix of shape {data.shape} in chunks of shape "
        f"{(data.grain(0), grain)}. Raise --max-memory, or store the matrix in smaller chunks."
    )


def _with_step(data: Stored, grain: int, most_bytes: int) -> tuple[Stored, int]:
    column_bytes = (1.0 + data.overhead) * max(1, data.shape[0]) * data.dtype.itemsize
    return data, grain * max(1, int(most_bytes / (column_bytes * grain)))


def _centre_and_scale(columns: Array) -> tuple[Array, Array]:
    """Of what is finite; an infinite entry stays one, for the solver to refuse."""
    lines = np.array(columns.T, np.float64, order="C")
    lines[~np.isfinite(lines)] = np.nan
    lines[np.isnan(lines).all(axis=1)] = 0.0
    centre = _medians(lines)
    deviations = np.abs(lines - centre[:, None])
    scale = SIGMAS_OF_MEDIAN_DEVIATION * _medians(deviations)
    flat = scale == 0.0
    scale[flat] = np.nanmean(deviations[flat], axis=1)
    return centre, np.where(scale > 0.0, scale, 1.0)


def _medians(lines: Array) -> Array:
    """Of each row, NaN left out; each has a number. NumPy's nanmedian is several times slower."""
    ascending = np.sort(lines, axis=1)  # NaN come last
    counts, numbers = np.count_nonzero(lines == lines, axis=1), np.arange(len(lines))
    return np.asarray((ascending[numbers, (counts - 1) // 2] + ascending[numbers, counts // 2]) / 2.0)


class _Scaled:
    """Rows of a part, times the scale, plus the centre."""

    def __init__(self, part: Rows, scale: Array, centre: Array | None) -> None:
        self._part, self._scale, self._centre = part, scale, centre
        self.shape, self.dtype = part.shape, part.dtype

    def __getitem__(self, key: slice, /) -> Array:
        rows = self._part[key] * self._scale
        return (rows if self._centre is None else rows + self._centre).astype(self.dtype, copy=False)


def observed_counts(data: Any) -> tuple[Array, Array]:
    """How many entries of each row and of each column are there: not NaN or, of a sparse matrix, stored."""
    if is_sparse(data):
        there = ~np.isnan(data.data)
        numbers = np.repeat(np.arange(data.shape[0]), np.diff(data.indptr))
        return np.bincount(numbers[there], minlength=data.shape[0]), np.bincount(
            data.indices[there], minlength=data.shape[1]
        )
    m, n = data.shape
    if data.dtype.kind != "f":
        return np.full(m, n), np.full(n, m)
    in_rows, in_columns = np.zeros(m, int), np.zeros(n, int)
    stored = as_stored(data) or MappedArray(np.asarray(data))
    for rows, columns in stored.portions():
        there = ~np.isnan(stored.read(rows, columns))
        in_rows[rows] += there.sum(axis=1)
        in_columns[columns] += there.sum(axis=0)
    return in_rows, in_columns
