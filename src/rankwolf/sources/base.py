"""The one contract for data: a source runs passes over tiles.

A *tile* is a few consecutive rows of the matrix as a C-contiguous float array in which **NaN marks what was not
observed**. Masks, NaN, masked arrays, integer types, files: a source turns each of them into such tiles, and nothing
above this folder knows the difference. A tile may be a view of the caller's data: a task never writes into it.

A *pass* shows every tile once to a :class:`Task`, together with the same rows of row-aligned arrays (the factor U, a
residual), which the task may overwrite, and adds up what the task collects in a :class:`Sums`. The order in which
sums are added is fixed by the tiles alone, so the result does not depend on which thread was faster.

*Row-aligned arrays* live beside the data: ``allocate`` makes them, tasks read and write them, and outside of passes a
solver works on them by :meth:`Source.map`, :meth:`Source.row` and :meth:`Source.low_rank` only. Where the data is in
another process, they are handles, not arrays.

Sources run passes over the longer side of the matrix where the storage leaves the choice; ``transposed`` says that
the solver sees the transpose, and the result is turned back once, at the end.
"""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, fields
from functools import cache, cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import scipy.sparse
from threadpoolctl import ThreadpoolController

from rankwolf import kernels
from rankwolf.lowrank import LowRank, pieces_of
from rankwolf.sources.scratch import Workspace

Array = np.ndarray[Any, np.dtype[Any]]

# A tile and its clipped copy should stay in a core's own cache (1 to 2 MB on current machines).
TILE_BYTES = 1024 * 1024
# Where each tile is converted it is one more array to keep, so that small matrices have smaller tiles. Large ones have
# larger tiles: the threads wait for each other less.
CONVERTED_TILE_BYTES, CONVERTED_TILES = (3 * TILE_BYTES // 4, 2 * TILE_BYTES), 128
# Rows that a sample takes in a row.
RUN = 8
# Rows that are read together when the matrix is read as the user gave it: 8 MB of float64.
PART_ENTRIES = 2**20
# Short runs of rows that a fingerprint looks at.
FINGERPRINT_RUNS = 16
# Fixed, so that the order of additions does not depend on the number of threads.
GROUPS = 32


@dataclass
class Sums:
    """What a pass adds up: every field is a number or an array that knows ``+``."""

    def add(self, other: Self) -> None:
        """Add another group's sums to these."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def __sizeof__(self) -> int:
        """With its arrays: a scheduler asks before it moves things."""
        return size_of(vars(self))


def size_of(value: Any) -> int:
    """Bytes of the arrays in a tree of containers and objects, and a little for the rest."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, dict):
        return sum(map(size_of, value.values())) + 64
    if isinstance(value, list | tuple):
        return sum(map(size_of, value)) + 64
    return size_of(vars(value)) if isinstance(value, Sums | Task) else 32


S = TypeVar("S", bound=Sums)


class Task(ABC, Generic[S]):
    """What one pass does with one tile. Broadcast arrays are its attributes; it must be safe to share by threads.

    ``depth`` is the number of columns that products with the tile have: a deep task gets taller tiles, so that adding
    up its n × depth sums costs little beside the products. A task that only looks at row-aligned arrays says so with
    ``reads_data`` and is shown tiles without columns; one that overwrites none of them says so with ``writes_rows``.
    One with ``large_sums`` gets as few of them as there are threads, and tiles of a quarter of the height, because
    memory is short then.
    """

    depth: int = 0
    reads_data: bool = True
    writes_rows: bool = True
    large_sums: bool = False

    @abstractmethod
    def start(self) -> S:
        """Sums with nothing added yet."""

    @abstractmethod
    def visit(self, sums: S, tile: Array, *rows: Array) -> None:
        """Work on one tile and the same rows of the row-aligned arrays; add to ``sums``."""

    def close(self, sums: S) -> None:
        """Called once after the last tile of a group, for a task that gathers tiles before it works on them."""


@dataclass
class DataSums(Sums):
    """‖P_Ω M‖²_F, counts of observed and infinite entries; the largest magnitude rides along in a list."""

    squares: float
    observed: int
    infinite: int
    largest: list[float]


class Describe(Task[DataSums]):
    """The first pass over any data."""

    writes_rows = False

    def start(self) -> DataSums:
        """Zeros."""
        return DataSums(0.0, 0, 0, [])

    def visit(self, sums: DataSums, tile: Any, *rows: Array) -> None:
        """Count and add."""
        entries: Any = tile.data[None, :] if isinstance(tile, scipy.sparse.csr_array) else tile
        squares, observed = kernels.describe_tile(entries)
        # Unlike max, fmax passes over NaN; unlike a loop of Numba's, it is made of vector instructions.
        ends = (
            np.fmax.reduce(entries, axis=None, initial=0.0),
            np.fmin.reduce(entries, axis=None, initial=0.0),
        )
        largest = max(float(ends[0]), -float(ends[1]))
        infinite = int(np.count_nonzero(np.isinf(entries))) if largest == np.inf else 0
        sums.add(DataSums(squares, observed, infinite, [largest]))


@dataclass(frozen=True)
class Summary:
    """What the weights, the bounds and the checks need to know about the data."""

    norm: float
    observed: int
    infinite: int
    largest: float


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """A limit on BLAS in this process, for as long as the context is open."""
    limit: AbstractContextManager[Any] = _blas().limit(limits=1, user_api="blas")
    return limit


class Source(ABC):
    """Where the matrix lives. Subclasses say how a tile is read; running passes is the same for all of them.

    ``sparse``: the tiles are CSR arrays of the observed entries. Only tasks that work through
    :func:`rankwolf.passes.clip_tile` can visit them, and a solver says so by ``takes_sparse``.
    """

    sparse: ClassVar[bool] = False

    def __init__(
        self, shape: tuple[int, int], dtype: np.dtype[Any], transposed: bool, n_threads: int
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.transposed = transposed
        self.n_threads = n_threads
        self.passes = 0
        self.bytes_read = 0
        self.converts = False
        self.workspace = Workspace()
        self._stop = threading.Event()

    @abstractmethod
    def read(self, start: int, stop: int) -> Array:
        """Rows ``start`` to ``stop`` of the matrix as the solver sees it, as one tile."""

    @abstractmethod
    def read_user_rows(self, start: int, stop: int) -> Array:
        """Rows of the matrix as the user gave it, float with NaN for missing."""

    def tile_rows(self, depth: int = 0) -> int:
        """How many rows make a tile."""
        row_bytes = max(1, self.shape[1]) * self.dtype.itemsize
        return int(max(8, 2 * depth, min(self._tile_bytes() // row_bytes, self.shape[0])))

    def _tile_bytes(self) -> int:
        if not self.converts:
            return TILE_BYTES
        least, most = CONVERTED_TILE_BYTES
        return min(max(self.shape[0] * self.shape[1] * self.dtype.itemsize // CONVERTED_TILES, least), most)

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """``count`` rows or a few less, in short runs at random places, as one tall tile."""
        starts = np.sort(rng.choice(self.shape[0] // RUN, max(1, count // RUN), replace=False)) * RUN
        return np.vstack(list(self.read_runs([(start, start + RUN) for start in starts.tolist()])))

    def read_runs(self, runs: list[tuple[int, int]]) -> Iterator[Any]:
        """Tiles at a few places, in ascending order; no pass."""
        return (self.read(start, stop) for start, stop in runs)

    def fingerprint(self) -> str:
        """Of the shape, the type and rows at a few places: tells other data from this, without a pass."""
        digest = hashlib.sha256(repr((self.shape, self.transposed, self.sparse)).encode())
        starts = np.unique(np.linspace(0, max(self.shape[0] - RUN, 0), FINGERPRINT_RUNS).astype(int))
        runs = [(start, min(start + RUN, self.shape[0])) for start in starts.tolist()]
        for tile in self.read_runs(runs):
            arrays = (tile.data, tile.indices, tile.indptr) if self.sparse else (tile,)
            for array in arrays:
                digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()

    def tiles(self, depth: int = 0) -> list[tuple[int, int]]:
        """The row ranges of a pass."""
        rows, step = self.shape[0], self.tile_rows(depth)
        return [(start, min(start + step, rows)) for start in range(0, rows, step)]

    def allocate(self, width: int, dtype: Any = None) -> Array:
        """A row-aligned array of zeros, ``width`` columns, to be handed to :meth:`run`."""
        return self.workspace.zeros((self.shape[0], width), self.dtype if dtype is None else dtype)

    def gather(self, rows: Any) -> Array:
        """What :meth:`allocate` gave, as a plain array: a checkpoint saves it."""
        return np.asarray(rows)

    def spread(self, array: Array) -> Array:
        """The other way round, when a run is taken up again."""
        rows = self.allocate(array.shape[1], array.dtype)
        rows[...] = array
        return rows

    def map(self, function: Callable[..., Array], *rows: Any) -> Any:
        """A new row-aligned array whose rows are ``function`` of the same rows of the others; no pass."""
        if not self.workspace.is_limited:
            return function(*rows)
        kind = function(*(array[:0] for array in rows))
        made = self.allocate(kind.shape[1], kind.dtype)
        for start, stop in pieces_of(self.shape[0]):
            made[start:stop] = function(*(array[start:stop] for array in rows))
            self.workspace.give_back(start, stop)
        return made

    def row(self, rows: Any, number: int) -> Array:
        """One row of a row-aligned array."""
        row: Array = rows[number]
        return row

    def row_numbers(self) -> Any:
        """0, 1, 2, … as a row-aligned array of one column."""
        return np.arange(self.shape[0])[:, None]

    def low_rank(self, left: Any, right: Array) -> LowRank:
        """The singular value decomposition of left·rightᵀ, ``left`` being row-aligned; ``u`` is, too."""
        if not self.workspace.is_limited:
            return LowRank.from_factors(left, right)
        return LowRank.from_factors(left, right, self.workspace.zeros, self.workspace.give_back)

    def factors(self, low_rank: LowRank) -> tuple[Any, Array]:
        """(U, V) with L = U Vᵀ as tasks take them: U row-aligned, both in the tiles' type."""
        scale = partial(_scaled, np.sqrt(low_rank.s), self.dtype)
        return self.map(scale, low_rank.u), scale(low_rank.vt.T)

    def as_user_sees(self, low_rank: LowRank) -> LowRank:
        """L for the matrix as the user gave it."""
        return low_rank.T if self.transposed else low_rank

    def stream(self, tiles: list[tuple[int, int]]) -> Generator[Array, None, None]:
        """The tiles of a pass, or of a part of it, in their order; a place to read ahead."""
        for start, stop in tiles:
            yield self.read(start, stop)

    def user_parts(self) -> Iterator[tuple[slice, slice, Array]]:
        """(rows, columns, entries) that make up the matrix as the user gave it, in the order of its storage.

        All but the last are of one size.
        """
        (m, n) = self.shape[::-1] if self.transposed else self.shape
        step = max(1, PART_ENTRIES // n)
        for start in range(0, m, step):
            stop = min(start + step, m)
            yield slice(start, stop), slice(0, n), self.read_user_rows(start, stop)

    def run(self, task: Task[S], *rows: Array) -> S:
        """One pass: show every tile to ``task``, with the same rows of ``rows``; return the sums."""
        self.passes += 1
        total: S | None = None
        for sums in self._groups(task, rows):
            if total is None:
                total = sums
            else:
                total.add(sums)
        return task.start() if total is None else total

    def groups(self, depth: int, count: int) -> list[list[tuple[int, int]]]:
        """The tiles of a pass in at most ``count`` groups of neighbours, each of which has its own sums."""
        tiles = self.tiles(depth)
        count = min(count, len(tiles))
        bounds = [len(tiles) * k // count for k in range(count + 1)] if count else [0]
        return [tiles[a:b] for a, b in pairwise(bounds)]

    def _groups(self, task: Task[S], rows: tuple[Array, ...]) -> Iterator[S]:
        if task.large_sums:
            parts = [_quartered(part) for part in self.groups(task.depth, self.n_threads)]
        else:
            parts = self.groups(task.depth, GROUPS)

        def visit(part: list[tuple[int, int]]) -> S:
            sums = task.start()
            tiles = self.stream(part) if task.reads_data else self._without_columns(part)
            with closing(tiles):
                for start, stop in part:
                    if self._stop.is_set():
                        break
                    task.visit(sums, next(tiles), *(array[start:stop] for array in rows))
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

    def _without_columns(self, tiles: list[tuple[int, int]]) -> Generator[Array, None, None]:
        for start, stop in tiles:
            yield np.empty((stop - start, 0), self.dtype)

    def one_blas_thread(self) -> AbstractContextManager[Any]:
        """Tiles are the unit of parallel work: BLAS keeps to one thread, inside a tile and between passes.

        Between passes too, because two OpenBLAS threads took ten times longer than one for a Cholesky factorisation of
        3000 rows, and a hundred times for the eigenvalues of 100.
        """
        return one_blas_thread()

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.n_threads, thread_name_prefix="rankwolf")

    @cached_property
    def summary(self) -> Summary:
        """Norm, counts and largest entry, from one pass, made when first asked for."""
        sums = self.run(Describe())
        return Summary(
            float(np.sqrt(sums.squares)), sums.observed, sums.infinite, max(sums.largest, default=0.0)
        )

    @property
    def fully_observed(self) -> bool:
        """Whether Ω is every entry."""
        return self.summary.observed == self.shape[0] * self.shape[1]

    @property
    def observed_fraction(self) -> float:
        """ρ = |Ω| / (mn)."""
        return self.summary.observed / (self.shape[0] * self.shape[1])


def _scaled(weights: Array, dtype: Any, columns: Array) -> Array:
    return np.ascontiguousarray(columns * weights.astype(columns.dtype), dtype)


def _quartered(tiles: list[tuple[int, int]]) -> list[tuple[int, int]]:
    finer = []
    for start, stop in tiles:
        step = -(-(stop - start) // 4)
        finer += [(first, min(first + step, stop)) for first in range(start, stop, step)]
    return finer
