"""A dask.array as a source: blocks and row-aligned arrays stay on the workers, factors and sums travel.

A pass is one Dask task for each partition. The pass's own task, with its factors, is sent to every worker once; its
sums are added up in a tree on the way back. During a run nothing of the matrix comes to the client but the few rows of
a sample.

*Losing a worker.* All that tasks do is to map blocks and rows to sums and new rows, so Dask computes again what was
lost: the blocks, and the rows from the rows before. From time to time the rows are fetched and placed anew, so that
this lineage, and what the scheduler keeps of it, does not grow with the number of passes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rankwolf.data.on_dask.chunks import check_array, first_rows, is_dask_array, mask_like, row_chunks
from rankwolf.data.on_dask.partition import (
    as_declared,
    factor_rows,
    fetch_rows,
    make_block,
    map_rows,
    number_rows,
    place_rows,
    read_tiles,
    run_task,
    turn_rows,
    zero_rows,
)
from rankwolf.data.on_dask.workers import LazyBlock, Workers, client_of, make_workers, room_of
from rankwolf.data.request import Request
from rankwolf.data.source import Source
from rankwolf.data.tasks import S, Task
from rankwolf.data.tiles import make_tile
from rankwolf.ground.arrays import Array
from rankwolf.ground.deadline import current
from rankwolf.ground.low_rank import LowRank, svd_of_triangles
from rankwolf.ground.once import computed_once

# Row-aligned arrays of at most so many bytes are fetched to the client: U of a result, and rows that are placed anew.
CLIENT_BYTES = 2**30
# Rows are placed anew after so many passes, and after more of them where they are wider than this share of the data: so
# at most a 64th of the data crosses the network in a pass. Above CLIENT_BYTES their lineage grows.
ANEW_EVERY, NARROW = 16, 0.25


class RowHandle:
    """A row-aligned array on the workers: for each partition a part, in which it has this ``place``."""

    def __init__(self, parts: list[Any], place: int, shape: tuple[int, int], dtype: Any) -> None:
        self.parts, self.place, self.shape, self.dtype = parts, place, shape, np.dtype(dtype)

    @property
    def nbytes(self) -> int:
        """The bytes of the array on all workers together."""
        return int(self.shape[0] * self.shape[1] * self.dtype.itemsize)


class OnDask(Source):
    """A dask.array, partitioned along its longer side, with an optional mask.

    Memory on the workers: the matrix in its own type, and the row-aligned arrays. ``n_threads`` holds for this process
    alone: workers have as many threads as they were started with.
    """

    maps_lazily = True

    def __init__(self, X: Any, observed: Any, n_threads: int, max_memory: int | None = None) -> None:
        m, n = X.shape
        super().__init__((n, m) if m < n else (m, n), X.dtype, m < n, n_threads)
        self._array, self._mask, self._max_memory = X, observed, max_memory
        self._live: weakref.WeakSet[RowHandle] = weakref.WeakSet()
        self._lineage = 0

    def __reduce__(self) -> Any:
        return type(None), ()  # pickled as None: a result that is sent elsewhere has no cluster

    @computed_once
    def _workers(self) -> Workers:
        """The partitions, computed where they will stay."""
        X = _checked(self._array, "X")
        mask = None if self._mask is None else _checked(self._mask, "observed")
        tall, tall_mask = (X.T, None if mask is None else mask.T) if self.transposed else (X, mask)
        client = client_of(X)
        room = room_of(client, self.n_threads, self._max_memory)
        self._heights = row_chunks(tall, room, self.transposed)
        self._first = first_rows(self._heights)
        size = X.nbytes + (0 if mask is None else mask.nbytes)
        return make_workers(client, _lazy_blocks(tall, tall_mask, self._heights), size, room)

    def prepare(self) -> None:
        """Compute the blocks, on the workers that keep them."""
        _ = self._workers

    def read(self, start: int, stop: int) -> Array:
        """A tile, brought to the client."""
        tile: Array = next(self.read_runs([(start, stop)]))
        return tile

    def read_user(self, rows: slice | Array, columns: slice = slice(None)) -> Array:
        """A part of the user's matrix, brought to the client; before the first pass, only this part is computed."""
        if "_workers" not in vars(self):
            array, mask = self._array[rows, columns], self._mask
            seen = None if mask is None else mask[rows, columns].compute()
            block = make_block(array.compute(), seen, array.shape, array.dtype)
            return make_tile(block.data, block.observed, self.dtype)
        if self.transposed:
            start, stop, _ = columns.indices(self.shape[0])
            turned: Array = next(self.read_runs([(start, stop)], rows))
            return turned.T
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(self.shape[0])
            runs = [(start, stop)]
        else:
            runs = [(number, number + 1) for number in rows.tolist()]
        return np.concatenate(list(self.read_runs(runs, columns)))

    def read_runs(self, runs: list[tuple[int, int]], columns: slice | Array = slice(None)) -> Iterator[Any]:
        """The tile of each run, brought to the client; one task for each partition fetches its rows of all runs."""
        self.prepare()
        pieces = [
            [(max(start - first, 0), min(stop - first, height)) for start, stop in runs]
            for first, height in zip(self._first, self._heights, strict=True)
        ]
        ranges = [[(a, b) for a, b in piece if a < b] for piece in pieces]
        places = [k for k, wanted in enumerate(ranges) if wanted]
        shared, own = (columns, self.dtype), [ranges[k] for k in places]
        parts = self._workers.call("read", read_tiles, shared, own, places=places)
        answers = dict(zip(places, map(iter, self._workers.fetch(parts)), strict=True))
        for number in range(len(runs)):
            have = [k for k in places if pieces[k][number][0] < pieces[k][number][1]]
            yield np.concatenate([next(answers[k]) for k in have])

    def allocate(self, width: int, dtype: Any = None) -> Any:
        """A handle for a new array of zeros."""
        dtype = np.dtype(self.dtype if dtype is None else dtype)
        return self._handles(self._call("zeros", zero_rows, (width, dtype)), [(width, dtype)])[0]

    def run_with_rows(self, task: Task[S], *rows: Any) -> tuple[S, list[Any]]:
        """One pass: a Dask task for each partition. Plain arrays among ``rows`` are cut up and sent to the workers."""
        current().check()
        task = self.in_scale(task)
        self.prepare()
        self.passes += 1
        handles = [self.spread(array) if isinstance(array, np.ndarray) else array for array in rows]
        shared = task, tuple(handle.place for handle in handles), self.dtype
        parts = self._call(task.label, run_task, shared, *handles)
        sums: S = self._workers.add(parts)
        made = self._handles(parts, list(task.makes))
        self._lineage += bool(made)
        self._place_anew()
        return sums, made

    def map(self, function: Callable[..., Array], *rows: Any) -> Any:
        """A handle for ``function`` of the rows of others; a call here with no rows tells its width and type."""
        empty = function(*(np.empty((0, array.shape[1]), array.dtype) for array in rows))
        shared = function, tuple(handle.place for handle in rows)
        parts = self._call("map", map_rows, shared, *rows)
        return self._handles(parts, [(empty.shape[1], empty.dtype)])[0]

    def row_numbers(self) -> Any:
        """A handle for 0, 1, 2, … as an array of one column on the workers."""
        self.prepare()
        return self._handles(self._call("map", number_rows, None, self._first), [(1, np.int64)])[0]

    def gather(self, rows: Any) -> Array:
        """The rows as one array, brought to the client."""
        if isinstance(rows, np.ndarray):
            return rows
        shared = rows.place, slice(None)
        return np.concatenate(self._workers.fetch(self._call("fetch", fetch_rows, shared, rows)))

    def spread(self, array: Array) -> Any:
        """A handle for a copy of the array on the workers, to which it is sent in pieces."""
        return self._handles(self._placed([array]), [(array.shape[1], array.dtype)])[0]

    def low_rank(self, left: Any, right: Array) -> LowRank:
        """The SVD of left·rightᵀ; the QR of ``left`` is made of each partition, then of the triangles at the client."""
        if not left.shape[1]:
            return LowRank.zeros((left.shape[0], right.shape[0]), left.dtype)
        parts = self._call("factor", factor_rows, left.place, left)
        triangles = self._workers.fetch(parts)
        q, r_left = np.linalg.qr(np.vstack(triangles))
        q_right, r_right = np.linalg.qr(right.astype(np.float64, copy=False))
        u, s, vt = svd_of_triangles(r_left, r_right, left.dtype)
        ends = np.cumsum([len(triangle) for triangle in triangles])[:-1]
        turned = self._call("factor", turn_rows, left.dtype, parts, np.split(q @ u, ends))
        handle: Any = self._handles(turned, [(s.size, left.dtype)])[0]
        return LowRank(handle, s, (vt @ q_right.T).astype(left.dtype, copy=False))

    def factors(self, low_rank: LowRank) -> tuple[Any, Array]:
        """(U, V) with L = U Vᵀ; U is a handle, and is sent to the workers if it is not there yet."""
        u: Any = low_rank.u
        here = not isinstance(u, RowHandle)
        return super().factors(LowRank(self.spread(u), low_rank.s, low_rank.vt) if here else low_rank)

    def as_user_sees(self, low_rank: LowRank) -> LowRank:
        """L as the user's matrix lies: U as an array of at most ``CLIENT_BYTES``, else a dask.array on the workers."""
        left: Any = low_rank.u
        if isinstance(left, RowHandle):
            left = self.gather(left) if left.nbytes <= CLIENT_BYTES else self._as_dask(left)
        return super().as_user_sees(LowRank(left, low_rank.s, low_rank.vt))

    def map_lazily(self, function: Callable[..., Array], left: Any) -> Any:
        """``function(tile, rows of left)`` for each partition, as a dask.array of the user's shape.

        ``left`` has a row for each row that the solver sees. It is a dask.array, or an array, which is sent to the
        workers now, as rows and not inside the graph. Nothing else is computed before Dask is asked to.
        """
        import dask.array as da

        self.prepare()
        whole = [[(0, height)] for height in self._heights]
        lazy = self._workers.lazy(read_tiles, (slice(None), self.dtype), whole)
        data = _stacked([part.answer[0] for part in lazy], self._heights, self.shape[1], self.dtype)
        rows = []
        if left.shape[1]:
            here = isinstance(left, np.ndarray)
            spread = self._as_dask(self.spread(left)) if here else da.asarray(left)
            rows = [spread.rechunk((self._heights, (left.shape[1],)))]
        made = data.map_blocks(function, *rows, dtype=self.dtype, chunks=data.chunks)
        return made.T if self.transposed else made

    def _as_dask(self, rows: RowHandle) -> Any:
        lazy = self._workers.lazy(fetch_rows, (rows.place, slice(None)), rows.parts)
        return _stacked([part.answer for part in lazy], self._heights, rows.shape[1], rows.dtype)

    def _placed(self, arrays: list[Array]) -> list[Any]:
        """Parts with the rows of plain arrays."""
        self.prepare()
        blocks = [np.split(array, self._first[1:]) for array in arrays]
        return self._call("place", place_rows, None, list(zip(*blocks, strict=True)))

    def _call(self, name: str, function: Any, shared: Any, *arguments: Any) -> list[Any]:
        """A part of each partition; an argument is a handle, or a list with an item for each partition."""
        self.prepare()
        own = [item.parts if isinstance(item, RowHandle) else item for item in arguments]
        return self._workers.call(name, function, shared, *own, places=range(len(self._first)))

    def _handles(self, parts: list[Any], kinds: list[tuple[int, Any]]) -> list[RowHandle]:
        """Handles for the arrays of ``parts``, whose widths and types are ``kinds``."""
        rows = self.shape[0]
        made = [RowHandle(parts, k, (rows, width), dtype) for k, (width, dtype) in enumerate(kinds)]
        self._live.update(made)
        return made

    def _place_anew(self) -> None:
        """Fetch all rows and place them anew, when enough passes have made rows: their lineage begins there."""
        handles = list(self._live)
        share = sum(handle.shape[1] for handle in handles) / (NARROW * self.shape[1])
        if self._lineage < ANEW_EVERY * max(1.0, share):
            return
        if sum(handle.nbytes for handle in handles) > CLIENT_BYTES:
            return
        parts = self._placed([self.gather(handle) for handle in handles])
        for place, handle in enumerate(handles):
            handle.parts, handle.place = parts, place
        self._lineage = 0


def _checked(array: Any, name: str) -> Any:
    """The same dask.array; a block of another shape than it declares is an error when it is computed."""
    return array.map_blocks(as_declared, name=None, dtype=array.dtype, meta=array._meta, **{"label": name})


def _lazy_blocks(tall: Any, mask: Any, heights: tuple[int, ...]) -> list[LazyBlock]:
    width = int(tall.shape[1])
    data = tall.rechunk((heights, (width,))).to_delayed()[:, 0]
    observed = [None] * len(data) if mask is None else mask.rechunk((heights, (width,))).to_delayed()[:, 0]
    return [
        LazyBlock(part, seen, (int(height), width), tall.dtype)
        for part, seen, height in zip(data, observed, heights, strict=True)
    ]


def _stacked(blocks: list[Any], heights: tuple[int, ...], width: int, dtype: np.dtype[Any]) -> Any:
    import dask.array as da

    arrays = [
        da.from_delayed(block, (height, width), dtype=dtype)
        for block, height in zip(blocks, heights, strict=True)
    ]
    return da.concatenate(arrays)


def open_dask(X: Any, request: Request) -> OnDask | None:
    """The source of a dask.array of NumPy blocks, masked or not; None for anything else. The mask may be in memory."""
    if not is_dask_array(X):
        return None
    check_array(X, request)
    return OnDask(X, mask_like(X, request), request.n_threads, request.max_memory)
