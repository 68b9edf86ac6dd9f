"""A matrix on disk: slabs of it are read ahead by a thread, once per pass, and cut into tiles.

A *slab* is some lines of the longer side, whole chunks of the storage, in the stored type: uint8 stays uint8 until it
is a tile. The matrix and its chunks alone decide which tiles there are and in which groups their sums are added (sums
of tasks with large ones apart, which have one group for each thread). ``max_memory`` decides how long slabs are, how
many are read ahead and how many threads work. So it changes the speed of a pass, and its result at most in rounding.

Where the chunks lie across (one frame per chunk, and all frames of a few pixels are wanted), each slab would have to
decode every chunk. Then the matrix is turned once, into a file without a name in TMPDIR, or in the folder that the
storage names (``Stored.scratch``).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from typing import Any

import numpy as np

from rankwolf.data.in_memory import as_array
from rankwolf.data.reading_plan import Layout, ReadingPlan, lay_out
from rankwolf.data.request import Request
from rankwolf.data.scratch_files import mapped_file
from rankwolf.data.source import PART_ENTRIES, Source
from rankwolf.data.storage_kinds import as_stored
from rankwolf.data.stored import MappedArray, Stored, turned_copy
from rankwolf.data.tiles import make_tile
from rankwolf.data.workspace import Workspace
from rankwolf.ground.arrays import Array
from rankwolf.ground.once import computed_once

Slab = tuple[Array, Array | None]


class OnDisk(Source):
    """A :class:`~rankwolf.data.stored.Stored` matrix, with an optional mask that may be stored as well.

    Memory: ``2·n_threads`` slabs; each thread cuts one of them into tiles while others are read.
    """

    def __init__(
        self, data: Stored, observed: Stored | None, n_threads: int, max_memory: int | None = None
    ) -> None:
        m, n = data.shape
        super().__init__((n, m) if m < n else (m, n), data.dtype, m < n, n_threads)
        self.converts = observed is not None or data.dtype != self.dtype
        self._axis, self._max_memory = int(m < n), max_memory
        self._user_data, self._user_observed = data, observed

    def _equip(self) -> None:
        super()._equip()
        self._counting = threading.Lock()

    not_sent = (*Source.not_sent, "_counting", "_reader", "_layout")

    @computed_once
    def _layout(self) -> Layout:
        itemsize, limit = self.dtype.itemsize, self._max_memory
        layout = lay_out(self._user_data, self._user_observed, self._axis, self.n_threads, itemsize, limit)
        self.n_threads, self.workspace = layout.plan.n_threads, Workspace(layout.shares.rows)
        return layout

    @property
    def plan(self) -> ReadingPlan:
        """Size and number of the slabs in which passes read the matrix."""
        return self._layout.plan

    def prepare(self) -> None:
        """Plan how to read, and make the turned copy where chunks lie across."""
        _ = self._layout

    def read(self, start: int, stop: int) -> Array:
        """Rows ``start`` to ``stop``, read without reading ahead."""
        return self._tile(self._read_slab(start, stop))

    def read_user(self, rows: slice | Array, columns: slice = slice(None)) -> Array:
        """A part, read from the user's storage and not from a turned copy: a frame is cheap where frames are chunks."""
        parts = (self._user_data, self._user_observed)
        data, observed = (None if part is None else _part(part, rows, columns) for part in parts)
        assert data is not None
        return make_tile(data, observed, self.dtype)

    def user_columns(self, most_rows: int, most_bytes: int) -> Iterator[tuple[slice, Array]]:
        """As in :meth:`Source.user_columns`; nothing is read twice, and without a mask entries have the stored type."""
        n = self.user_shape[1]
        data, step = _by_columns(self._user_data, most_rows, most_bytes)
        observed = None
        if self._user_observed is not None:
            observed, mask_step = _by_columns(self._user_observed, most_rows, most_bytes)
            step = min(step, mask_step)
        for start in range(0, n, step):
            columns = slice(start, min(start + step, n))
            entries = data.read(slice(0, data.shape[0]), columns)
            if observed is not None:
                entries = make_tile(entries, observed.read(slice(0, data.shape[0]), columns), self.dtype)
            yield columns, entries

    def read_runs(self, runs: list[tuple[int, int]]) -> Iterator[Array]:
        """The tile of each run. Whole chunks are read, and chunks that hold several runs are decoded once."""
        grain, first, last = self.plan.grain, 0, 0
        slab: Slab = (np.empty((0, 0)), None)
        for start, stop in runs:
            if not first <= start <= stop <= last:
                first, last = start // grain * grain, min(-(-stop // grain) * grain, self.shape[0])
                slab = self._read_slab(first, last)
            yield self._own_tile(slab, start - first, stop - first)

    def groups(self, depth: int, count: int) -> list[list[tuple[int, int]]]:
        """The same groups as in memory, but each begins at the nearest beginning of a chunk."""
        groups, grain = super().groups(depth, count), self.plan.grain
        if grain == 1:
            return groups
        ends = {min(round(group[0][0] / grain) * grain, self.shape[0]) for group in groups}
        step = self.tile_rows(depth)
        return [
            [(start, min(start + step, last)) for start in range(first, last, step)]
            for first, last in pairwise(sorted(ends | {self.shape[0]}))
        ]

    def stream(self, tiles: list[tuple[int, int]]) -> Generator[Array, None, None]:
        """Tiles cut out of slabs that are read ahead. A tile that crosses slabs is put together from their pieces."""
        with closing(self._read_ahead(tiles[0][0], tiles[-1][1])) as slabs:
            first, last, slab = next(slabs)
            for start, stop in tiles:
                pieces = []
                while stop > last:
                    pieces.append(self._own_tile(slab, start - first, last - first))
                    del slab  # before the next one takes its place
                    start, (first, last, slab) = last, next(slabs)
                pieces.append(self._tile(_cut(slab, start - first, stop - first)))
                yield pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def user_parts(self) -> Iterator[tuple[slice, slice, Array]]:
        """(rows, columns, tile) of slabs, or of equal parts of them: whole columns where the user's matrix is wide."""
        rows, columns = self.shape
        step = _divisor(self.plan.lines, max(1, PART_ENTRIES // columns))
        everything = slice(0, columns)
        try:
            with closing(self._read_ahead(0, rows)) as slabs:
                for first, last, slab in slabs:
                    for start in range(first, last, step):
                        stop = min(start + step, last)
                        entries = self._tile(_cut(slab, start - first, stop - first))
                        if self.transposed:
                            yield everything, slice(start, stop), entries.T
                        else:
                            yield slice(start, stop), everything, entries
        finally:
            self.rest()

    def rest(self) -> None:
        """End the threads that are waiting for work, those that read too."""
        super().rest()
        reader = vars(self).pop("_reader", None)
        if reader is not None:
            reader.shutdown(wait=False)

    def _read_ahead(self, start: int, stop: int) -> Generator[tuple[int, int, Slab], None, None]:
        """(first line, end, slab) of one slab after the other; meanwhile the reader reads the next one."""
        pending: deque[tuple[int, int, Future[Slab]]] = deque()
        try:
            for first in range(start, stop, self.plan.lines):
                last = min(first + self.plan.lines, stop)
                pending.append((first, last, self._reader.submit(self._read_slab, first, last)))
                if len(pending) > 1:
                    yield _taken(pending)
            while pending:
                yield _taken(pending)
        finally:
            for _, _, slab in pending:
                slab.cancel()

    def _read_slab(self, start: int, stop: int) -> Slab:
        layout = self._layout
        data = layout.data.lines(self._axis, start, stop)
        observed = None if layout.observed is None else layout.observed.lines(self._axis, start, stop)
        with self._counting:
            self.bytes_read += data.nbytes + (0 if observed is None else observed.nbytes)
        return data, observed

    def _tile(self, slab: Slab) -> Array:
        return make_tile(*slab, self.dtype)

    def _own_tile(self, slab: Slab, start: int, stop: int) -> Array:
        """A copy of a few rows, for a caller who keeps them: a view would keep the whole slab in memory."""
        tile = self._tile(_cut(slab, start, stop))
        return tile.copy() if np.may_share_memory(tile, slab[0]) else tile

    @computed_once
    def _reader(self) -> ThreadPoolExecutor:
        # One thread: a disk is read in order, HDF5 has one lock, and Zarr has threads of its own.
        return ThreadPoolExecutor(1, thread_name_prefix="rankwolf-reader")


def _taken(pending: deque[tuple[int, int, Future[Slab]]]) -> tuple[int, int, Slab]:
    first, last, slab = pending.popleft()
    return first, last, slab.result()


def _cut(slab: Slab, start: int, stop: int) -> Slab:
    data, observed = slab
    return data[start:stop], None if observed is None else observed[start:stop]


def _divisor(number: int, most: int) -> int:
    """The largest divisor of ``number`` that is at most ``most``."""
    return next(d for d in range(min(number, max(1, most)), 0, -1) if number % d == 0)


def _part(stored: Stored, rows: slice | Array, columns: slice) -> Array:
    if not isinstance(rows, slice):
        return stored.rows(rows)[:, columns]
    start, stop, _ = rows.indices(stored.shape[0])
    first, last, _ = columns.indices(stored.shape[1])
    return stored.read(slice(start, stop), slice(first, last))


def _by_columns(data: Stored, most_rows: int, most_bytes: int) -> tuple[Stored, int]:
    """(matrix, step): ``data``, or at most ``most_rows`` rows of it, and how many columns of it to read at a time.

    Where columns of ``data`` cannot be read without reading chunks twice, the matrix is a copy in a scratch file.
    """
    m, n = data.shape
    if m > most_rows:
        numbers = np.linspace(0, m - 1, most_rows).astype(int)
        size = most_rows * n * data.dtype.itemsize
        file = None if size <= most_bytes else mapped_file(size, "a sample of rows", data.scratch)
        flat = np.empty(most_rows * n, data.dtype) if file is None else np.frombuffer(file, data.dtype)
        sample = flat.reshape(most_rows, n)
        data.rows(numbers, sample, file)
        return _with_step(MappedArray(sample, file), 1, most_bytes)
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


def open_stored(X: Any, request: Request) -> OnDisk | None:
    """The source of a matrix and a mask of which at least one is on the disk; None where neither is.

    :func:`rankwolf.data.storage_kinds.as_stored` says what counts as on the disk.
    """
    data, mask = as_stored(X), as_stored(request.observed)
    if data is None and mask is None:
        return None
    if data is None:
        data = MappedArray(as_array(X, request))
    request.check_matrix(data.shape, data.dtype)
    if mask is not None:
        request.check_mask(mask, data.shape)
    elif (present := request.mask_in_memory(data.shape)) is not None:
        mask = MappedArray(present)
    return OnDisk(data, mask, request.n_threads, request.max_memory)
