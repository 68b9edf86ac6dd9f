"""A dask.array as a source: blocks and row-aligned arrays stay on the workers, factors and sums travel.

A pass is one Dask task for each partition. The pass's own task, with its factors, is sent to every worker once; its
sums are added up in a tree on the way back. During a run nothing of the matrix comes to the client but the few rows of
a sample.

*Losing a worker.* The blocks are Dask's own: it computes lost ones once more, elsewhere. The rows beside them were
changed in place, and start again from nothing. The client keeps the orders that changed rows, and has the lost
partitions obey them once more, in the same order. So their rows come back to the last bit, at the price of their share
of the passes. From time to time, where the rows are small beside the data, the client fetches them and forgets the
orders before that.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from rankwolf.data.on_dask.chunks import check_array, is_dask_array, mask_like, row_chunks
from rankwolf.data.on_dask.partition import (
    Behind,
    FactorRows,
    FetchRows,
    MapRows,
    NumberRows,
    Order,
    PlaceRows,
    ReadRows,
    RowSpec,
    RunTask,
    TurnRows,
    Work,
    as_declared,
    make_block,
)
from rankwolf.data.on_dask.workers import LazyBlock, Parts, Workers, client_of, make_workers, room_of
from rankwolf.data.request import Request
from rankwolf.data.source import Source
from rankwolf.data.tasks import S, Task
from rankwolf.data.tiles import make_tile
from rankwolf.ground.arrays import Array
from rankwolf.ground.deadline import current
from rankwolf.ground.low_rank import LowRank, svd_of_triangles
from rankwolf.ground.once import computed_once

# Row-aligned arrays of at most so many bytes are fetched to the client: U of a result, and copies from which lost rows
# are made again.
CLIENT_BYTES = 2**30
# After so many changes the rows are fetched, if they have at most this share of the number of the data's columns.
FETCH_EVERY, NARROW = 16, 0.25
# How often a pass is tried, when workers die during it.
MOST_ATTEMPTS = 5


class RowHandle:
    """A name for a row-aligned array on the workers, with its shape and type. Without a handle it is dropped."""

    def __init__(self, name: int, shape: tuple[int, int], dtype: Any) -> None:
        self.name, self.shape, self.dtype = name, shape, np.dtype(dtype)

    @property
    def nbytes(self) -> int:
        """The bytes of the array on all workers together."""
        return int(self.shape[0] * self.shape[1] * self.dtype.itemsize)

    @property
    def spec(self) -> RowSpec:
        """The name, width and type by which an order refers to this array."""
        return RowSpec(self.name, self.shape[1], self.dtype.str)


@dataclass(frozen=True)
class Change:
    """An order as it is sent, with its work and what each partition gets; one that changed rows is kept."""

    label: str
    work: Work
    order: Order
    parts: Parts


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
        self._names, self._number = count(), 0
        self._live: weakref.WeakValueDictionary[int, RowHandle] = weakref.WeakValueDictionary()
        self._released: list[int] = []
        self._changes: list[Change] = []

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
        heights = row_chunks(tall, room, self.transposed)
        size = X.nbytes + (0 if mask is None else mask.nbytes)
        return make_workers(client, _lazy_blocks(tall, tall_mask, heights), heights, self.dtype, size, room)

    @property
    def _heights(self) -> tuple[int, ...]:
        return self._workers.heights

    @property
    def _first(self) -> list[int]:
        return self._workers.first

    def prepare(self) -> None:
        """Compute the blocks, on the workers that keep them."""
        _ = self._workers

    def use_type(self, dtype: np.dtype[Any]) -> None:
        """Make tiles of this type from now on, on the workers too."""
        super().use_type(dtype)
        self._workers.dtype = dtype

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
        pieces = [
            [(max(start - first, 0), min(stop - first, height)) for start, stop in runs]
            for first, height in zip(self._first, self._heights, strict=True)
        ]
        parts = [([(a, b) for a, b in piece if a < b], columns) for piece in pieces]
        places = [k for k, (ranges, _) in enumerate(parts) if ranges]
        answers = dict(zip(places, self._ask("read", ReadRows(), (), parts, places), strict=True))
        for number in range(len(runs)):
            found = [answers[k].pop(0) for k in places if pieces[k][number][0] < pieces[k][number][1]]
            yield np.concatenate(found)

    def allocate(self, width: int, dtype: Any = None) -> Any:
        """A handle for a new array. The workers make its zeros when an order first uses it."""
        name = next(self._names)
        handle = RowHandle(name, (self.shape[0], width), self.dtype if dtype is None else dtype)
        self._live[name] = handle
        weakref.finalize(handle, self._released.append, name)
        return handle

    def run(self, task: Task[S], *rows: Any) -> S:
        """One pass: a Dask task for each partition. Plain arrays among ``rows`` are cut up and sent to the workers."""
        current().check()
        task = self.in_scale(task)
        self.prepare()
        self.passes += 1
        places = tuple(k for k, array in enumerate(rows) if isinstance(array, np.ndarray))
        handles = tuple(array for array in rows if isinstance(array, RowHandle))
        parts = None
        if places:
            cut = [self._cut(rows[k]) for k in places]
            parts = [tuple(blocks) for blocks in zip(*cut, strict=True)]
        sums: S
        if task.writes_rows and handles:
            sums = self._change(task.label, RunTask(task, places), handles, parts, add=True)
        else:
            sums = self._ask(task.label, RunTask(task, places), handles, parts, add=True)
        return sums

    def map(self, function: Callable[..., Array], *rows: Any) -> Any:
        """A handle for ``function`` of the rows of others; a call here with no rows tells its width and type."""
        empty = function(*(np.empty((0, array.shape[1]), array.dtype) for array in rows))
        made = self.allocate(empty.shape[1], empty.dtype)
        self._change("map", MapRows(function), (*rows, made))
        return made

    def row(self, rows: RowHandle, number: int) -> Array:
        """One row, fetched from the partition that has it."""
        place = int(np.searchsorted(self._first, number, side="right")) - 1
        local = number - self._first[place]
        parts = [slice(local, local + 1)] * len(self._first)
        row: Array = self._ask("fetch", FetchRows(), (rows,), parts, [place])[0][0][0]
        return row

    def row_numbers(self) -> Any:
        """A handle for 0, 1, 2, … as an array of one column on the workers."""
        numbers = self.allocate(1, np.int64)
        self._change("map", NumberRows(), (numbers,))
        return numbers

    def gather(self, rows: Any) -> Array:
        """The rows as one array, brought to the client."""
        return rows if isinstance(rows, np.ndarray) else self._fetch([rows])[0]

    def spread(self, array: Array) -> Any:
        """A handle for a copy of the array on the workers, to which it is sent in pieces."""
        handle = self.allocate(array.shape[1], array.dtype)
        self._change("place", PlaceRows(), (handle,), [(block,) for block in self._cut(array)])
        return handle

    def low_rank(self, left: Any, right: Array) -> LowRank:
        """The SVD of left·rightᵀ; the QR of ``left`` is made of each partition, then of the triangles at the client."""
        if not left.shape[1]:
            return LowRank.zeros((left.shape[0], right.shape[0]), left.dtype)
        part = self.allocate(left.shape[1], np.float64)
        triangles = self._change("factor", FactorRows(), (left, part))
        q, r_left = np.linalg.qr(np.vstack(triangles))
        q_right, r_right = np.linalg.qr(right.astype(np.float64, copy=False))
        u, s, vt = svd_of_triangles(r_left, r_right, left.dtype)
        ends = np.cumsum([len(triangle) for triangle in triangles])[:-1]
        turned = self.allocate(s.size, left.dtype)
        self._change("factor", TurnRows(left.dtype.str), (part, turned), np.split(q @ u, ends))
        return LowRank(turned, s, (vt @ q_right.T).astype(left.dtype, copy=False))

    def factors(self, low_rank: LowRank) -> tuple[Any, Array]:
        """(U, V) with L = U Vᵀ; U is a handle, and is sent to the workers if it is not there yet."""
        u: Any = low_rank.u
        here = not isinstance(u, RowHandle)
        return super().factors(LowRank(self.spread(u), low_rank.s, low_rank.vt) if here else low_rank)

    def as_user_sees(self, low_rank: LowRank) -> LowRank:
        """L as the user's matrix lies: U as an array of at most ``CLIENT_BYTES``, else as a dask.array on the workers.

        Such a dask.array is valid until rows are changed again, by a pass that writes or by :meth:`spread`.
        """
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

        parts = [([(0, height)], slice(None)) for height in self._heights]
        order = Order(self._number, (), writes=False, anywhere=True)
        answers = self._workers.lazy(ReadRows(), order, parts)
        data = _stacked([answer[0] for answer in answers], self._heights, self.shape[1], self.dtype)
        rows = []
        if left.shape[1]:
            here = isinstance(left, np.ndarray)
            spread = self._as_dask(self.spread(left)) if here else da.asarray(left)
            rows = [spread.rechunk((self._heights, (left.shape[1],)))]
        made = data.map_blocks(function, *rows, dtype=self.dtype, chunks=data.chunks)
        return made.T if self.transposed else made

    def _as_dask(self, rows: RowHandle) -> Any:
        parts = [slice(None)] * len(self._first)
        answers = self._workers.lazy(FetchRows(), self._order((rows,), writes=False), parts)
        return _stacked([answer[0] for answer in answers], self._heights, rows.shape[1], rows.dtype)

    def _cut(self, array: Array) -> list[Array]:
        return np.split(array, self._first[1:])

    def _fetch(self, handles: Sequence[RowHandle]) -> list[Array]:
        answers = self._ask("fetch", FetchRows(), handles, [slice(None)] * len(self._first))
        return [np.concatenate(blocks) for blocks in zip(*answers, strict=True)]

    def _order(self, handles: Sequence[RowHandle], writes: bool) -> Order:
        released: tuple[int, ...] = ()
        if writes:
            released = tuple(self._released)
            del self._released[: len(released)]
        return Order(self._number, tuple(handle.spec for handle in handles), writes, released)

    def _ask(
        self,
        label: str,
        work: Work,
        handles: Sequence[RowHandle],
        parts: Parts = None,
        places: Sequence[int] | None = None,
        add: bool = False,
    ) -> Any:
        """The answers of partitions to an order that changes nothing; with ``add`` their sum."""
        return self._send(Change(label, work, self._order(handles, writes=False), parts), places, add)

    def _change(
        self, label: str, work: Work, handles: Sequence[RowHandle], parts: Parts = None, add: bool = False
    ) -> Any:
        """The answers of all partitions to an order that changes rows. The order is kept, to make lost rows again."""
        change = Change(label, work, self._order(handles, writes=True), parts)
        answer = self._send(change, None, add)
        self._changes.append(change)
        self._number += 1
        if len(self._changes) > FETCH_EVERY:
            self._forget_changes()
        return answer

    def _send(self, change: Change, places: Sequence[int] | None, add: bool) -> Any:
        """Send an order until every partition has obeyed it; those that are behind are brought up to date first."""
        places = range(len(self._first)) if places is None else places
        for _ in range(MOST_ATTEMPTS):
            answer = self._workers.send(change.label, change.work, change.order, change.parts, places, add)
            behind = _behind([answer] if add else answer)
            if behind is None:
                return answer
            self._catch_up(dict(behind))
        raise RuntimeError(
            f"Dask workers died {MOST_ATTEMPTS} times in the same pass, most likely because their memory was full. "
            "Start workers with more memory, or more of them; a run with checkpoint= goes on with resume=True."
        )

    def _catch_up(self, numbers: dict[int, int]) -> None:
        """Send each kept change to the partitions that have not seen it; ``numbers`` says how many each has seen.

        If another worker dies meanwhile, this stops, and the next attempt of :meth:`_send` begins anew.
        """
        for change in self._changes:
            places = [k for k, number in numbers.items() if number <= change.order.number]
            if not places:
                continue
            answer = self._workers.send(change.label, change.work, change.order, change.parts, places, False)
            if _behind(answer) is not None:
                return
            numbers.update(dict.fromkeys(places, change.order.number + 1))

    def _forget_changes(self) -> None:
        """Keep the present rows in place of the changes that made them, where they are small beside the data."""
        handles = list(self._live.values())
        if sum(handle.shape[1] for handle in handles) > NARROW * self.shape[1]:
            return
        if sum(handle.nbytes for handle in handles) > CLIENT_BYTES:
            return
        arrays = self._fetch(handles) if handles else []
        blocks = [self._cut(array) for array in arrays]
        parts = [tuple(block[k] for block in blocks) for k in range(len(self._first))]
        order = Order(self._number - 1, tuple(h.spec for h in handles), True, anywhere=True)
        self._changes[:] = [Change("place", PlaceRows(), order, parts)]


def _behind(answers: Sequence[Any]) -> list[tuple[int, int]] | None:
    """(partition, changes so far) of rows that are older than the order; None where every partition has obeyed."""
    late = [answer for answer in answers if isinstance(answer, Behind)]
    return [place for answer in late for place in answer.places] if late else None


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
