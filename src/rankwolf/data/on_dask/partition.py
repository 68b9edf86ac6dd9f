"""What happens on a worker: functions of one partition of the matrix, and of the row-aligned arrays beside it.

Each maps (block, rows) to an answer and new rows, and changes nothing. So Dask can compute again what a dead worker
held, from the block and the rows before.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwolf.data.on_dask.process import working
from rankwolf.data.source import Source
from rankwolf.data.tasks import Sums, Task, size_of
from rankwolf.data.tiles import make_tile
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad


@dataclass(frozen=True)
class Block:
    """Consecutive rows of the matrix as the solver sees it, in the stored type, and what was observed of them."""

    data: Array
    observed: Array | None

    def __sizeof__(self) -> int:
        return self.data.nbytes + (0 if self.observed is None else self.observed.nbytes)


class PartitionTiles(Source):
    """A block as a source of its own, for one thread."""

    in_memory = True

    def __init__(self, block: Block, dtype: np.dtype[Any]) -> None:
        rows, columns = block.data.shape
        super().__init__((rows, columns), dtype, transposed=False, n_threads=1)
        self.converts = block.observed is not None or block.data.dtype != dtype
        self._block = block

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


@dataclass(frozen=True)
class Part:
    """What a function made of one partition: an answer for the client, and row-aligned arrays, which stay."""

    answer: Any
    rows: tuple[Array, ...] = ()

    def __sizeof__(self) -> int:
        return size_of(self.answer) + size_of(self.rows)


def run_task(shared: tuple[Task[Any], tuple[int, ...], Any], block: Block, *parts: Part) -> Part:
    """A pass over the tiles of the partition. ``shared``: the task, the place of each array in its part, the type."""
    task, places, dtype = shared
    rows = [part.rows[place] for part, place in zip(parts, places, strict=True)]
    with working():
        sums, made = PartitionTiles(block, dtype).run_with_rows(task, *rows)
    return Part(sums, tuple(made))


def map_rows(shared: tuple[Callable[..., Array], tuple[int, ...]], block: Block, *parts: Part) -> Part:
    """The array whose rows are a function of the same rows of others."""
    function, places = shared
    rows = [part.rows[place] for part, place in zip(parts, places, strict=True)]
    return Part(None, (np.ascontiguousarray(function(*rows)),))


def zero_rows(shared: tuple[int, Any], block: Block) -> Part:
    """An array of zeros; ``shared``: its width and type."""
    width, dtype = shared
    return Part(None, (np.zeros((block.data.shape[0], width), dtype),))


def number_rows(shared: None, block: Block, first: int) -> Part:
    """The numbers that the partition's rows have in the whole matrix."""
    return Part(None, (np.arange(first, first + block.data.shape[0])[:, None],))


def place_rows(shared: None, block: Block, arrays: tuple[Array, ...]) -> Part:
    """Arrays that were sent."""
    return Part(None, arrays)


def fetch_rows(shared: tuple[int, slice], block: Block, part: Part) -> Part:
    """Some rows of an array, as an answer; ``shared``: its place in its part, and which rows."""
    place, rows = shared
    return Part(part.rows[place][rows])


def read_tiles(shared: Any, block: Block, ranges: Sequence[tuple[int, int]]) -> Part:
    """Entries of the matrix: a tile for each range of rows. ``shared``: the columns, and the type of tiles."""
    columns, dtype = shared
    tiles = PartitionTiles(block, dtype)
    return Part([tiles.read_user(slice(start, stop), columns) for start, stop in ranges])


def factor_rows(shared: int, block: Block, part: Part) -> Part:
    """Half of a tall QR: R is the answer, Q the new array."""
    q, triangle = np.linalg.qr(part.rows[shared].astype(np.float64))
    return Part(triangle, (q,))


def turn_rows(shared: Any, block: Block, part: Part, matrix: Array) -> Part:
    """The other half: the first array of a part times the matrix that was sent, in the type ``shared``."""
    return Part(None, (np.ascontiguousarray(part.rows[0] @ matrix, shared),))


def answer_of(part: Part) -> Any:
    """The answer alone, to be sent to the client."""
    return part.answer


def add_up(answers: Sequence[Any]) -> Any:
    """Sums, or parts with sums as their answers, added in the order of the partitions."""
    found = [answer.answer if isinstance(answer, Part) else answer for answer in answers]
    total: Sums = copy.deepcopy(found[0])  # Dask may ask for the same sum again
    for sums in found[1:]:
        total.add(sums)
    return total
