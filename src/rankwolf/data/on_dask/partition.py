"""What happens on a worker: one partition of the matrix, the row-aligned arrays beside it, and orders that change them.

The rows of a partition are changed in place, in the memory of one worker, so the changes are counted. An order says how
many changes must come before it. Rows that have seen fewer (they are new, because a worker died) answer
:class:`Behind` instead of doing anything; rows that have already obeyed the order give the same answer again. So an
order can be sent twice, and no change is ever made twice or left out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from rankwolf.data.on_dask.process import working
from rankwolf.data.source import Source
from rankwolf.data.tasks import Sums, Task, size_of
from rankwolf.data.tiles import make_tile
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad


class RowSpec(NamedTuple):
    """A row-aligned array: its name, width and type. It is zeros until an order writes to it."""

    name: int
    width: int
    dtype: str


class Work(Protocol):
    """What an order does with a partition; ``part`` is what was sent for this partition alone."""

    def __call__(self, tiles: PartitionTiles, arrays: list[Array], part: Any) -> Any:
        """Work on the tiles and the arrays, which may be overwritten, and answer."""


@dataclass(frozen=True)
class Order:
    """How a partition may obey: after ``number`` changes, with the arrays ``rows``, which it ``writes`` or only reads.

    ``released`` are names of arrays that nobody needs any more. ``anywhere``: it can be obeyed after any number of
    changes, because it needs no arrays or brings all of them itself.
    """

    number: int
    rows: tuple[RowSpec, ...]
    writes: bool
    released: tuple[int, ...] = ()
    anywhere: bool = False


@dataclass
class PartitionRows:
    """The row-aligned arrays of one partition, the number of changes so far, and the answer to the last change."""

    partition: int
    number: int = 0
    arrays: dict[int, Array] = field(default_factory=dict)
    answer: Any = None

    def __sizeof__(self) -> int:
        return size_of(vars(self))


@dataclass(frozen=True)
class Behind:
    """The answer where rows are older than an order: (partition, changes so far) of each; none if answers were lost."""

    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Block:
    """Consecutive rows of the matrix as the solver sees it, in the stored type, and what was observed of them."""

    data: Array
    observed: Array | None

    def __sizeof__(self) -> int:
        return self.data.nbytes + (0 if self.observed is None else self.observed.nbytes)


class PartitionTiles(Source):
    """A block as a source of its own, for one thread; ``first`` is the number of its first row in the whole matrix."""

    in_memory = True

    def __init__(self, block: Block, first: int, dtype: np.dtype[Any]) -> None:
        rows, columns = block.data.shape
        super().__init__((rows, columns), dtype, transposed=False, n_threads=1)
        self.converts = block.observed is not None or block.data.dtype != dtype
        self.first, self._block = first, block

    def read(self, start: int, stop: int) -> Array:
        """Rows of the block, in the solver's type."""
        return self.read_user(slice(start, stop))

    def read_user(self, rows: slice | Array, columns: slice | Array = slice(None)) -> Array:
        """A part of the block, as the solver sees it; ``columns`` may be an array of numbers if ``rows`` is a slice."""
        data, observed = self._block.data, self._block.observed
        return make_tile(
            data[rows, columns], None if observed is None else observed[rows, columns], self.dtype
        )


def make_block(data: Any, observed: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> Block:
    """The block of an array, masked or not, that Dask made; an error where it is not what the dask.array declares.

    Dask does not check: a block of another width would be read past its end, one of fewer rows would change the shape
    of the result, and of complex numbers only the real parts would be used.
    """
    if isinstance(data, np.ma.MaskedArray):
        present = ~np.ma.getmaskarray(data)
        observed = present if observed is None else present & observed
        data = np.ma.getdata(data)
    block = Block(np.asarray(data), None if observed is None else np.asarray(observed))
    found = block.data
    if found.shape != shape or found.dtype.kind not in "biuf" or not np.can_cast(found.dtype, dtype):
        raise _not_declared("X", f"{dtype} of shape {shape}", f"{found.dtype} of shape {found.shape}")
    if block.observed is not None and (block.observed.shape != shape or block.observed.dtype != np.bool_):
        mask = block.observed
        raise _not_declared("observed", f"bool of shape {shape}", f"{mask.dtype} of shape {mask.shape}")
    return block


def as_declared(data: Any, label: str, block_info: Any = None) -> Any:
    """A block as it is, if it has the shape that the dask.array declares: rechunking would cut a larger one."""
    if block_info:
        shape = tuple(stop - start for start, stop in block_info[0]["array-location"])
        if np.shape(data) != shape:
            raise _not_declared(label, f"of shape {shape}", f"a block of shape {np.shape(data)}")
    return data


def _not_declared(name: str, declared: str, found: str) -> ValueError:
    rule = f"a dask.array whose blocks are what it declares, here {declared}"
    return bad(
        name, rule, found, remedy="Give map_blocks and from_delayed the right dtype, shape and chunks."
    )


def start_rows(partition: int, block: Block) -> PartitionRows:
    """The rows of a partition, with no arrays yet. ``block`` is an argument so that Dask puts the rows beside it."""
    return PartitionRows(partition)


def obey(
    rows: PartitionRows,
    work: Work,
    part: Any,
    first: int,
    block: Block,
    *,
    order: Order,
    dtype: np.dtype[Any],
) -> Any:
    """Obey an order; the one function that runs on workers, once for each partition of a pass.

    Returns the answer of ``work``, the same again where it was obeyed before, or :class:`Behind`.
    """
    if order.writes and rows.number == order.number + 1 and not order.anywhere:
        return rows.answer
    if rows.number != order.number and not order.anywhere:
        return Behind(((rows.partition, rows.number),))
    height = block.data.shape[0]
    arrays = []
    for name, width, kind in order.rows:
        known = rows.arrays.get(name)
        arrays.append(np.zeros((height, width), kind) if known is None else known)
    with working():
        answer = work(PartitionTiles(block, first, dtype), arrays, part)
    if order.writes:
        kept = {} if order.anywhere else rows.arrays
        rows.arrays = {name: array for name, array in kept.items() if name not in order.released}
        rows.arrays.update({spec.name: array for spec, array in zip(order.rows, arrays, strict=True)})
        rows.number, rows.answer = order.number + 1, answer
    return answer


def add_up(answers: Sequence[Any]) -> Any:
    """The answers, which are sums, added in the order of the partitions; :class:`Behind` where any of them is."""
    behind = [place for answer in answers if isinstance(answer, Behind) for place in answer.places]
    if behind:
        return Behind(tuple(behind))
    total: Sums = copy.deepcopy(answers[0])  # Dask may ask for the same sum again
    for answer in answers[1:]:
        total.add(answer)
    return total


@dataclass(frozen=True)
class RunTask:
    """A pass of ``task`` over the tiles of a partition.

    ``part`` has the rows of plain arrays that the client sent, or None; ``places`` are their places among the task's
    row-aligned arrays.
    """

    task: Task[Any]
    places: tuple[int, ...] = ()

    def __sizeof__(self) -> int:
        return size_of(vars(self))

    def __call__(self, tiles: PartitionTiles, arrays: list[Array], part: Any) -> Any:
        """Run the task over the tiles of the partition; returns its sums."""
        rows = list(arrays)
        for place, array in zip(self.places, part or (), strict=True):
            rows.insert(place, array)
        return tiles.run(self.task, *rows)


@dataclass(frozen=True)
class MapRows:
    """The last array becomes ``function`` of the others."""

    function: Callable[..., Array]

    def __call__(self, tiles: PartitionTiles, arrays: list[Array], part: Any) -> None:
        """Change the last array in place."""
        arrays[-1] = np.ascontiguousarray(self.function(*arrays[:-1]))


class NumberRows:
    """The array becomes the numbers that the partition's rows have in the whole matrix."""

    def __call__(self, tiles: PartitionTiles, arrays: list[Array], part: Any) -> None:
        """Write the numbers into the array."""
        arrays[0] = np.arange(tiles.first, tiles.first + tiles.shape[0])[:, None]


class FetchRows:
    """The arrays themselves, or some rows of them. ``part``: a slice of this partition's rows."""

    def __call__(self, tiles: PartitionTiles, arrays: list[Array], part: Any) -> list[Array]:
        """Copies: a later pass may change the originals."""
        return [array[part].copy() for array in arrays]


class ReadRows:
    """Entries of the matrix. ``part``: ranges of this partition's rows, and a slice or the numbers of columns."""

    def __call__(self, tiles: PartitionTiles, arrays: list[Array], part: Any) -> list[Array]:
        """A tile for each range."""
        ranges, columns = part
        return [tiles.read_user(slice(start, stop), columns) for start, stop in ranges]


class PlaceRows:
    """The arrays become what was sent for this partition."""

    def __call__(self, tiles: PartitionTiles, arrays: list[Array], part: Any) -> None:
        """Copy what was sent into the arrays."""
        arrays[:] = [np.array(array) for array in part]


class FactorRows:
    """Half of a tall QR: the second array becomes Q of the first; the answer is R."""

    def __call__(self, tiles: PartitionTiles, arrays: list[Array], part: Any) -> Array:
        """R, with as many rows as the first array has rows or columns, whichever are fewer."""
        arrays[1], triangle = np.linalg.qr(arrays[0].astype(np.float64))
        return triangle


@dataclass(frozen=True)
class TurnRows:
    """The other half: the second array becomes the first times the matrix that was sent for this partition."""

    dtype: str

    def __call__(self, tiles: PartitionTiles, arrays: list[Array], part: Array) -> None:
        """Replace the second array by the product, in ``dtype``."""
        arrays[1] = np.ascontiguousarray(arrays[0] @ part, self.dtype)
