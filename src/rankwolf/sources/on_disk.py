"""A matrix on disk: slabs of it are read ahead by a thread or two, once per pass, and cut into tiles.

A *slab* is some lines of the longer side, whole chunks of the storage, in the stored type: uint8 stays uint8 until it
is a tile. Which tiles there are and in which groups their sums are added depends on the matrix and its chunks alone;
how long slabs are, how many are read ahead and how many threads work is what ``max_memory`` decides. So the limit
changes the speed and not the result.

Where the chunks lie across (one frame per chunk, and all frames of a few pixels are wanted), a slab would take every
chunk apart again and again. Then the matrix is turned once, into a file without a name in TMPDIR.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product

import numpy as np

from rankwolf.sources.base import PART_ENTRIES, Array, Source, Summary
from rankwolf.sources.in_memory import make_tile, safe_type, tile_type
from rankwolf.sources.memory import READING_SHARE, Shares
from rankwolf.sources.scratch import Workspace
from rankwolf.sources.stored import Stored, turned_copy

# Chunks along the longer side, at least, for them to be shared out among threads.
FEWEST_GRAINS = 8

Slab = tuple[Array, Array | None]


@dataclass(frozen=True)
class ReadingPlan:
    """Lines of a slab, of which a whole number of ``grain``; slabs read ahead for each thread; threads."""

    lines: int
    grain: int
    ahead: int
    n_threads: int


class OnDisk(Source):
    """A :class:`~rankwolf.sources.stored.Stored` matrix, with an optional mask that may be stored as well.

    Memory: ``(1 + ahead)·n_threads`` slabs, of which each thread is cutting one into tiles. ``summary``: what the first
    pass would find, where it is known from an earlier run.
    """

    def __init__(
        self, data: Stored, observed: Stored | None, n_threads: int, max_memory: int | None = None,
        summary: Summary | None = None,
    ) -> None:  # fmt: skip
        m, n = data.shape
        dtype = tile_type(data.dtype)
        shares = Shares.of(max_memory, min(m, n), dtype.itemsize, n_threads)
        self._axis = 1 if m < n else 0
        self._data, self._observed = self._user_data, self._user_observed = data, observed
        plan = _plan(data, observed, self._axis, n_threads, shares.reading)
        if plan is None:
            self._data, self._observed = _turned(data, observed, self._axis, shares, max_memory)
            plan = _plan(self._data, self._observed, self._axis, n_threads, shares.reading)
        if plan is None:  # not even a few lines
            raise _too_little(data, 16.0 * min(m, n) * data.dtype.itemsize, shares, max_memory)
        super().__init__((n, m) if m < n else (m, n), dtype, m < n, plan.n_threads)
        self._plan, self._counting = plan, threading.Lock()
        self.workspace = Workspace(shares.rows)
        if summary is not None:
            self.__dict__["summary"] = summary  # where the cached property would put it
        self.dtype = safe_type(self, data.dtype)

    def read(self, start: int, stop: int) -> Array:
        """One tile, by itself."""
        return self._tile(self._read_slab(start, stop))

    def read_user_rows(self, start: int, stop: int) -> Array:
        """Rows as the user counts them, from where the user has them: frames are cheap where they are chunks."""
        data, observed = self._user_data.lines(0, start, stop), self._user_observed
        return make_tile(data, None if observed is None else observed.lines(0, start, stop), self.dtype)

    def read_runs(self, runs: list[tuple[int, int]]) -> Iterator[Array]:
        """Chunk by chunk: one that holds several runs is decoded once."""
        grain, first, last = self._plan.grain, 0, 0
        slab: Slab = (np.empty((0, 0)), None)
        for start, stop in runs:
            if not first <= start <= stop <= last:
                first, last = start // grain * grain, min(-(-stop // grain) * grain, self.shape[0])
                slab = self._read_slab(first, last)
            yield self._own_tile(slab, start - first, stop - first)

    def groups(self, depth: int, count: int) -> list[list[tuple[int, int]]]:
        """The same groups as in memory, their ends moved to the next end of a chunk."""
        groups, grain = super().groups(depth, count), self._plan.grain
        if grain == 1:
            return groups
        ends = {min(round(group[0][0] / grain) * grain, self.shape[0]) for group in groups}
        step = self.tile_rows(depth)
        return [
            [(start, min(start + step, last)) for start in range(first, last, step)]
            for first, last in pairwise(sorted(ends | {self.shape[0]}))
        ]

    def stream(self, tiles: list[tuple[int, int]]) -> Generator[Array, None, None]:
        """Tiles out of slabs that are read ahead. A tile at the end of one slab goes on in the next."""
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
        """Slabs, or equal parts of them; columns of the user's matrix where its rows are the shorter side."""
        rows, columns = self.shape
        step = _divisor(self._plan.lines, max(1, PART_ENTRIES // columns))
        everything = slice(0, columns)
        with closing(self._read_ahead(0, rows)) as slabs:
            for first, last, slab in slabs:
                for start in range(first, last, step):
                    stop = min(start + step, last)
                    entries = self._tile(_cut(slab, start - first, stop - first))
                    if self.transposed:
                        yield everything, slice(start, stop), entries.T
                    else:
                        yield slice(start, stop), everything, entries

    def _read_ahead(self, start: int, stop: int) -> Generator[tuple[int, int, Slab], None, None]:
        """(first line, last line, slab) one after the other; the reader is always ``ahead`` slabs further."""
        pending: deque[tuple[int, int, Future[Slab]]] = deque()
        try:
            for first in range(start, stop, self._plan.lines):
                last = min(first + self._plan.lines, stop)
                pending.append((first, last, self._reader.submit(self._read_slab, first, last)))
                if len(pending) > self._plan.ahead:
                    yield _taken(pending)
            while pending:
                yield _taken(pending)
        finally:
            for _, _, slab in pending:
                slab.cancel()

    def _read_slab(self, start: int, stop: int) -> Slab:
        data = self._data.lines(self._axis, start, stop)
        observed = None if self._observed is None else self._observed.lines(self._axis, start, stop)
        with self._counting:
            self.bytes_read += data.nbytes + (0 if observed is None else observed.nbytes)
        return data, observed

    def _tile(self, slab: Slab) -> Array:
        return make_tile(*slab, self.dtype)

    def _own_tile(self, slab: Slab, start: int, stop: int) -> Array:
        """A few rows that somebody keeps: they should not keep all of the slab."""
        tile = self._tile(_cut(slab, start, stop))
        return tile.copy() if np.may_share_memory(tile, slab[0]) else tile

    @cached_property
    def _reader(self) -> ThreadPoolExecutor:
        # One for most: a disk is read in order, HDF5 has one lock, and Zarr has threads of its own.
        readers = self._data.readers if self._observed is None else 1
        return ThreadPoolExecutor(readers, thread_name_prefix="rankwolf-reader")


def _taken(pending: deque[tuple[int, int, Future[Slab]]]) -> tuple[int, int, Slab]:
    first, last, slab = pending.popleft()
    return first, last, slab.result()


def _cut(slab: Slab, start: int, stop: int) -> Slab:
    data, observed = slab
    return data[start:stop], None if observed is None else observed[start:stop]


def _divisor(number: int, most: int) -> int:
    """The largest divisor of ``number`` that is at most ``most``."""
    return next(d for d in range(min(number, max(1, most)), 0, -1) if number % d == 0)


def _plan(
    data: Stored, observed: Stored | None, axis: int, n_threads: int, most_bytes: int
) -> ReadingPlan | None:
    """Slabs of whole chunks that fit ``most_bytes``, with fewer threads where they must; None where none do."""
    parts = [data] if observed is None else [data, observed]
    rows, grain = data.shape[axis], max(part.grain(axis) for part in parts)
    if grain > 1 and FEWEST_GRAINS * grain > rows:  # too few to share out among threads
        return None
    line_bytes = data.shape[1 - axis] * sum(part.dtype.itemsize for part in parts)
    held_bytes = data.shape[1 - axis] * sum(part.dtype.itemsize * (1.0 + part.overhead) for part in parts)
    best_bytes, readers = min(part.best_bytes(axis) for part in parts), min(part.readers for part in parts)
    for threads, ahead in product(range(n_threads, 0, -1), range(readers, 0, -1)):
        share = most_bytes / ((1 + ahead) * threads)
        grains = min(int(share / (grain * held_bytes)), max(1, int(best_bytes / (grain * line_bytes))))
        if grains:
            lines = grain * grains
            # Whole powers of two where nothing else counts: parts of a slab are then of one size.
            return ReadingPlan(2 ** (lines.bit_length() - 1) if grain == 1 else lines, grain, ahead, threads)
    return None


def _turned(
    data: Stored, observed: Stored | None, axis: int, shares: Shares, max_memory: int | None
) -> tuple[Stored, Stored | None]:
    """Both in files that lie along ``axis``."""
    parts = [data] if observed is None else [data, observed]
    for part in parts:
        along, across = (
            part.grain(side) * part.shape[1 - side] * part.dtype.itemsize for side in (axis, 1 - axis)
        )
        along, across = 2.0 * (1.0 + part.overhead) * along, (2.0 + part.overhead) * across
        if across > shares.reading:
            raise _too_little(part, min(along, across), shares, max_memory)
    turned = [turned_copy(part, axis, shares.reading) for part in parts]
    return turned[0], None if observed is None else turned[1]


def _too_little(data: Stored, slab_bytes: float, shares: Shares, max_memory: int | None) -> ValueError:
    least = (shares.taken + READING_SHARE * slab_bytes) * 1.05
    got = "less free memory" if max_memory is None else f"{max_memory / 1e6:,.0f} MB"
    return ValueError(
        f"The 'max_memory' parameter of decompose must be at least {least / 1e6:,.0f} MB for a matrix of shape "
        f"{data.shape} in chunks of shape {(data.grain(0), data.grain(1))}. Got {got} instead. Raise it, or store the "
        "matrix in smaller chunks."
    )
