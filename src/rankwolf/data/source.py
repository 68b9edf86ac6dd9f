"""The one contract for data: a source reads tiles, and runs passes over them.

A *pass* shows every tile once to a :class:`~rankwolf.data.tasks.Task`, together with the same rows of row-aligned
arrays (:mod:`rankwolf.data.row_arrays`). It adds up the sums that the task finds, and keeps the new rows that the task
makes. Sums are added in the order of the tiles, so the result does not depend on which thread was faster.

The rows that a solver sees are the longer side of the matrix where the storage leaves the choice. ``transposed`` says
that the solver sees the transpose of the user's matrix; methods with ``user`` in their names count rows and columns as
the user does.

Opening a source reads nothing. What must be done once before the first pass is done by :meth:`Source.prepare`.
"""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np

from rankwolf.data.bounded import Bounded
from rankwolf.data.row_arrays import RowArrays
from rankwolf.data.summary import Describe, Summary
from rankwolf.data.tasks import S, Task
from rankwolf.data.tiles import dense_with_nan, is_sparse, tile_type
from rankwolf.ground.arrays import Array
from rankwolf.ground.blas import one_blas_thread
from rankwolf.ground.deadline import current
from rankwolf.ground.low_rank import LowRank
from rankwolf.ground.once import computed_once
from rankwolf.ground.table_frame import Frame

# A tile and its clipped copy should stay in a core's own cache (1 to 2 MB on current machines).
TILE_BYTES = 1024 * 1024
# The least and the most bytes of a tile that is converted; in between, the matrix makes so many tiles. The numbers as
# they were stored take cache, too, so that tiles of small matrices are smaller. With the larger tiles of large
# matrices, threads wait for each other less.
CONVERTED_TILE_BYTES, CONVERTED_TILES = (3 * TILE_BYTES // 4, 2 * TILE_BYTES), 128
# Consecutive rows in each run of a sample.
RUN = 8
# Entries of a part, and of a block of whole rows, when the matrix is read as the user gave it: 8 and 32 MB of float64.
PART_ENTRIES, BLOCK_ENTRIES = 2**20, 2**22
# Runs of rows that a fingerprint looks at.
FINGERPRINT_RUNS = 16
# Groups of tiles with sums of their own. Their number is fixed, so that the order of additions does not depend on the
# number of threads; only tasks with large sums have one group for each thread.
GROUPS = 32
# A sample of rows, spread over a matrix that is not in memory: at most so many bytes as float64, but at least so many
# rows.
SAMPLE_BYTES, LEAST_ROWS = 2**27, 51
# Outside this range squares of float32 numbers over- or underflow.
SAFE_SINGLE = (1e-15, 1e15)


class Source(RowArrays, ABC):
    """Where the matrix lives. Subclasses say how tiles are read; running passes is the same for all of them.

    ``stored`` is the type of the numbers before they become tiles: as the user gave them or, in a source that is made
    of another one, that of the other one's tiles. Tiles are float32 where that holds them all, else float64.
    ``sparse``: the tiles are CSR arrays of the observed entries. Not every task can visit those; a solver whose tasks
    can has ``"sparse entries"`` in ``takes``. ``in_memory``: reading costs next to nothing. ``converts``: a tile is an
    array of its own, not a view of the data. ``bound``: entries beyond ±``bound`` are shown to tasks as ±``bound``
    (:mod:`rankwolf.data.bounded`). ``frame``: the names of rows and columns, where the data was a table.
    ``limits``: (low, high) of entries that are known only to lie between them, as the solver sees the matrix.
    ``implicit_zeros``: entries are zeros where nothing is stored, and subtracting a centre would leave none of them.
    ``device``: the user's array of another library, whose device splitting and the results are on.
    ``maps_lazily``: what is computed from the matrix can stay where that is, as a dask.array (:meth:`map_lazily`).
    """

    kind: str = "entries"
    sparse: bool = False
    in_memory: bool = False
    implicit_zeros: bool = False
    maps_lazily: bool = False
    bound: float = inf
    limits: tuple[Array, Array] | None = None
    frame: Frame | None = None
    device: Any = None

    def __init__(
        self, shape: tuple[int, int], stored: np.dtype[Any], transposed: bool, n_threads: int
    ) -> None:
        super().__init__(shape, tile_type(stored))
        self.stored, self.transposed, self.n_threads = stored, transposed, n_threads
        self.passes, self.bytes_read, self.converts = 0, 0, False
        self._equip()

    def _equip(self) -> None:
        """Make what belongs to one process and is not pickled; called for a new source and for an unpickled one."""
        self._stop = threading.Event()

    # Attributes that stay behind when a source is pickled: threads, locks, and what passes make of the data.
    not_sent: tuple[str, ...] = ("_stop", "_pool")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self.not_sent}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._equip()

    @abstractmethod
    def read(self, start: int, stop: int) -> Any:
        """Rows ``start`` to ``stop`` of the matrix as the solver sees it, as one tile."""

    @abstractmethod
    def read_user(self, rows: slice | Array, columns: slice = slice(None)) -> Any:
        """Some rows and columns of the matrix as the user gave it, as one tile.

        ``rows`` is a slice, or an array of row numbers in ascending order.
        """

    def prepare(self) -> None:
        """Do what must be done once before passes, unless it is done: load blocks, turn a matrix that lies across."""

    # ------------------------------------------------------------ as the user sees it

    @property
    def user_shape(self) -> tuple[int, int]:
        """(m, n) of the user's matrix."""
        return self.shape[::-1] if self.transposed else self.shape

    def as_user_sees(self, low_rank: LowRank) -> LowRank:
        """An L that lies as the solver sees the matrix, turned to lie as the user's matrix does, with its names."""
        return (low_rank.T if self.transposed else low_rank).labelled(self.frame)

    def as_solver_sees(self, low_rank: LowRank) -> LowRank:
        """An L that lies as the user's matrix does, turned to lie as the solver sees the matrix."""
        return low_rank.T if self.transposed else low_rank

    def read_user_rows(self, start: int, stop: int) -> Array:
        """Rows ``start`` to ``stop`` of the user's matrix, as a dense array with NaN for what is missing."""
        tile = self.read_user(slice(start, stop))
        return dense_with_nan(tile) if is_sparse(tile) else np.asarray(tile)

    def user_blocks(self) -> Iterator[Any]:
        """Tiles of whole rows of the user's matrix, from top to bottom; of a sparse matrix, one tile with all of it."""
        m, n = self.user_shape
        step = m if self.sparse else max(1, BLOCK_ENTRIES // n)
        for start in range(0, m, step):
            yield self.read_user(slice(start, min(start + step, m)))

    def user_parts(self) -> Iterator[tuple[slice, slice, Any]]:
        """(rows, columns, tile) of about equally large parts that cover the user's matrix, in the order of storage."""
        m, n = self.user_shape
        step = max(1, PART_ENTRIES // n)
        for start in range(0, m, step):
            rows = slice(start, min(start + step, m))
            yield rows, slice(0, n), self.read_user(rows)

    def user_columns(self, most_rows: int, most_bytes: int) -> Iterator[tuple[slice, Array]]:
        """(columns, entries) of blocks of the user's columns, from left to right, dense with NaN: for medians.

        Entries are those of all rows where the matrix is in memory; elsewhere, of at most ``most_rows`` rows, spread
        evenly. A block has about ``most_bytes`` bytes where the storage leaves the choice.
        """
        m, n = self.user_shape
        if not self.in_memory:
            yield slice(0, n), self.read_user(self.spread_rows(most_rows))
            return
        step = max(1, most_bytes // (max(1, m) * self.dtype.itemsize))
        for start in range(0, n, step):
            columns = slice(start, min(start + step, n))
            tile = self.read_user(slice(0, m), columns)
            yield columns, dense_with_nan(tile) if is_sparse(tile) else tile

    def spread_rows(self, count: int) -> Array:
        """The numbers of about ``count`` of the user's rows, spread evenly; fewer where wide rows must be fetched."""
        m, n = self.user_shape
        if not self.in_memory:
            count = min(count, max(LEAST_ROWS, SAMPLE_BYTES // (8 * n)))
        return np.unique(np.linspace(0, m - 1, count).astype(int))

    # ------------------------------------------------------------ a few tiles, without a pass

    def read_runs(self, runs: list[tuple[int, int]]) -> Iterator[Any]:
        """The tile of each (start, stop) of ``runs``, which ascend; this does not count as a pass."""
        return (self.read(start, stop) for start, stop in runs)

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """About ``count`` rows, in runs of ``RUN`` at random places, as one array, within ±``bound``."""
        starts = np.sort(rng.choice(self.shape[0] // RUN, max(1, count // RUN), replace=False)) * RUN
        rows = np.vstack(list(self.read_runs([(start, start + RUN) for start in starts.tolist()])))
        return rows if self.bound == inf else np.clip(rows, -self.bound, self.bound)

    def fingerprint(self) -> str:
        """A hash of the shape and of tiles at a few places, to tell this data from other data without a pass."""
        digest = hashlib.sha256(repr((self.shape, self.transposed, self.sparse)).encode())
        starts = np.unique(np.linspace(0, max(self.shape[0] - RUN, 0), FINGERPRINT_RUNS).astype(int))
        runs = [(start, min(start + RUN, self.shape[0])) for start in starts.tolist()]
        for tile in self.read_runs(runs):
            arrays = (tile.data, tile.indices, tile.indptr) if self.sparse else (tile,)
            for array in arrays:
                digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()

    # ------------------------------------------------------------ what only some sources have

    def densest(self, side: int) -> Array | None:
        """A dense block, NaN where nothing was observed: at most ``side`` rows and columns, those with most entries.

        None from a source whose random rows and columns serve as well: from any but a sparse matrix.
        """
        return None

    def by_columns(self) -> Source | None:
        """A source of the transpose, for steps over the columns, where a pass cannot add up what these need.

        None where it can: then a pass over the rows is enough, and no copy is made.
        """
        return None

    def map_lazily(self, function: Callable[..., Array], left: Any) -> Any:
        """``function(tile, rows of left)`` as a lazy array of the user's shape, if the source ``maps_lazily``."""
        raise NotImplementedError(f"{type(self).__name__} makes no lazy arrays")

    # ------------------------------------------------------------ passes

    def tile_rows(self, depth: int = 0) -> int:
        """How many rows a tile has, for a task of this ``depth``."""
        row_bytes = max(1, self.shape[1]) * self.dtype.itemsize
        return int(max(8, 2 * depth, min(self._tile_bytes() // row_bytes, self.shape[0])))

    def _tile_bytes(self) -> int:
        if not self.converts:
            return TILE_BYTES
        least, most = CONVERTED_TILE_BYTES
        return min(max(self.shape[0] * self.shape[1] * self.dtype.itemsize // CONVERTED_TILES, least), most)

    def tiles(self, depth: int = 0) -> list[tuple[int, int]]:
        """(start, stop) of the rows of each tile of a pass."""
        rows, step = self.shape[0], self.tile_rows(depth)
        return [(start, min(start + step, rows)) for start in range(0, rows, step)]

    def groups(self, depth: int, count: int) -> list[list[tuple[int, int]]]:
        """The tiles of a pass in at most ``count`` groups of neighbours; each group has sums of its own."""
        tiles = self.tiles(depth)
        count = min(count, len(tiles))
        bounds = [len(tiles) * k // count for k in range(count + 1)] if count else [0]
        return [tiles[a:b] for a, b in pairwise(bounds)]

    def stream(self, tiles: list[tuple[int, int]]) -> Generator[Array, None, None]:
        """Read these tiles of a pass, in their order; a subclass may read ahead here."""
        for start, stop in tiles:
            yield self.read(start, stop)

    def run(self, task: Task[S], *rows: Any) -> S:
        """One pass: show every tile to ``task``, with the same rows of the row-aligned ``rows``; return the sums."""
        return self.run_with_rows(task, *rows)[0]

    def run_with_rows(self, task: Task[S], *rows: Any) -> tuple[S, list[Any]]:
        """(sums, new row-aligned arrays) of one pass."""
        current().check()
        self.prepare()
        self.passes += 1
        made = [self.allocate(width, dtype) for width, dtype in task.makes]
        total: S | None = None
        for sums in self._groups(self.in_scale(task), rows, made):
            if total is None:
                total = sums
            else:
                total.add(sums)
        return task.start() if total is None else total, made

    def in_scale(self, task: Task[S]) -> Task[S]:
        """The task, to which entries beyond ±``bound`` are shown as ±``bound``; the task itself if it ``sees_all``."""
        return task if self.bound == inf or task.sees_all else Bounded(task, self.bound)

    def set_bound(self, bound: float) -> None:
        """Show entries beyond ±``bound`` as ±``bound`` from now on; the summary is made anew."""
        self.bound = bound
        vars(self).pop("summary", None)

    def take_over(self, summary: Summary) -> None:
        """Use the summary that an earlier run made of the same data, which saves the first pass."""
        self.bound, vars(self)["summary"] = summary.bound, summary

    def _groups(self, task: Task[S], rows: tuple[Array, ...], made: list[Array]) -> Iterator[S]:
        if task.large_sums:
            parts = [_quartered(part) for part in self.groups(task.depth, self.n_threads)]
        else:
            parts = self.groups(task.depth, GROUPS)
        limit = current()

        def visit(part: list[tuple[int, int]]) -> S:
            sums = task.start()
            with closing(self.stream(part)) as tiles:
                for start, stop in part:
                    if self._stop.is_set():
                        break
                    limit.check()
                    shown = [array[start:stop] for array in rows]
                    new = task.visit(sums, next(tiles), *shown) or ()
                    for array, block in zip(made, new, strict=True):
                        array[start:stop] = block
                    self.workspace.give_back(start, stop)
            task.close(sums)
            return sums

        self._stop.clear()
        if self.n_threads == 1 or len(parts) < 2:
            yield from map(visit, parts)
            return
        try:
            yield from self._pool.map(visit, parts)
        except BaseException:  # Ctrl-C as well: tiles under way end, the others do not start
            self._stop.set()
            raise

    @computed_once
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.n_threads, thread_name_prefix="rankwolf")

    @contextmanager
    def one_blas_thread(self) -> Iterator[None]:
        """A context for passes and the work between them, in which BLAS keeps to one thread.

        At its end the source ends its own threads, because a result keeps its source, perhaps for long.
        """
        try:
            with one_blas_thread():
                yield
        finally:
            self.rest()

    def rest(self) -> None:
        """End the threads that are waiting for work; the next pass starts new ones."""
        pool = vars(self).pop("_pool", None)
        if pool is not None:
            pool.shutdown(wait=False)

    # ------------------------------------------------------------ what the first pass finds

    @computed_once
    def summary(self) -> Summary:
        """Norm, counts and largest entry: from one pass, when first asked for, or from :meth:`take_over`."""
        return replace(self.run(Describe()).summary(), bound=self.bound)

    @property
    def fully_observed(self) -> bool:
        """Whether Ω is every entry."""
        return self.summary.observed == self.shape[0] * self.shape[1]

    @property
    def observed_fraction(self) -> float:
        """ρ = |Ω| / (mn)."""
        return self.summary.observed / (self.shape[0] * self.shape[1])

    def settle_type(self) -> None:
        """Make tiles float64 where the data is float32 and squares of its numbers would over- or underflow."""
        if self.dtype == np.float32 and self.stored.newbyteorder("=") == np.float32:
            scale = self.summary.largest
            if scale and not SAFE_SINGLE[0] < scale < SAFE_SINGLE[1]:
                self.use_type(np.dtype(np.float64))

    def use_type(self, dtype: np.dtype[Any]) -> None:
        """Make tiles of this type from now on."""
        self.dtype = dtype


def _quartered(tiles: list[tuple[int, int]]) -> list[tuple[int, int]]:
    finer = []
    for start, stop in tiles:
        step = -(-(stop - start) // 4)
        finer += [(first, min(first + step, stop)) for first in range(start, stop, step)]
    return finer
