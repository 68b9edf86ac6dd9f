"""A matrix in other units: (x − centre)/scale for each column of another source, wherever its data is.

Numbers in memory are changed once, so that passes cost no more than before. Anywhere else they are changed tile by
tile, on the way from the source to the task, on the workers of a cluster too: no copy of the matrix is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from rankwolf.data.in_memory import InMemory
from rankwolf.data.source import Source
from rankwolf.data.sparse import SparseObserved
from rankwolf.data.tasks import Around, S, Task
from rankwolf.data.tiles import is_sparse, row_numbers, with_entries
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank


def centred(source: Source, centre: Array, scale: Array | None = None) -> Source:
    """The source of (M − 1·centreᵀ)/scale, column by column; of observed sparse entries only those are changed.

    ``centre`` and ``scale`` have a number for each of the user's columns. Costs a copy of the entries where they are in
    memory, nothing elsewhere, and no pass.
    """
    if scale is None and not centre.any():
        return source
    if isinstance(source, InMemory | SparseObserved):
        units = _along(source, centre, scale)
        made = source.changed(partial(in_units, centre=units[0], scale=units[1]))
        made.frame, made.workspace = source.frame, source.workspace
        return made
    return Centred(source, centre, scale)


def in_units(tile: Any, centre: Array, scale: Array | None) -> Any:
    """(tile − centre)/scale of a dense or sparse tile.

    ``centre`` and ``scale`` are both vectors, with a number for each column of the tile, or both matrices of one
    column, with a number for each of its rows.
    """
    if is_sparse(tile):
        entries = tile.data - _at_entries(tile, centre)
        return with_entries(tile, entries if scale is None else entries / _at_entries(tile, scale))
    made: Array = tile - centre
    if scale is not None:
        made /= scale
    return made


def _at_entries(tile: Any, line: Array) -> Array:
    """For each stored entry of a CSR tile, the number of ``line`` that belongs to its column or row."""
    numbers: Array = line[tile.indices] if line.ndim == 1 else line[row_numbers(tile), 0]
    return numbers


def _along(source: Source, *lines: Array | None) -> list[Any]:
    """Each of ``lines``, numbers for the user's columns, in the tiles' type and laid as the tiles of ``source`` are."""
    turned = slice(None) if not source.transposed else (slice(None), None)
    return [None if line is None else line.astype(source.dtype)[turned] for line in lines]


class InUnits(Around[S]):
    """Another task, which is shown tiles in other units.

    Where tiles are rows of the user's matrix, the ``units`` (centre and scale) are attributes of the task. Where they
    are columns of it, the first ``aligned`` of the units are row-aligned arrays: the last ones of ``rows``.
    """

    def __init__(self, task: Task[S], units: list[Any], aligned: int) -> None:
        super().__init__(task)
        self.units, self.aligned = units, aligned

    def visit(self, sums: S, tile: Any, *rows: Array) -> tuple[Array, ...] | None:
        """Show the tile to the other task, in the new units."""
        end = len(rows) - self.aligned
        units = [*rows[end:], *self.units]
        return self.task.visit(sums, in_units(tile, units[0], units[1]), *rows[:end])


class Centred(Source):
    """(x − centre)/scale for each column of another source; tiles are changed as they are shown.

    Each pass costs one subtraction (and one division) an entry more. Row-aligned arrays are those of the other source.
    """

    def __init__(self, source: Source, centre: Array, scale: Array | None = None) -> None:
        super().__init__(source.shape, source.dtype, source.transposed, source.n_threads)
        self._source, self._centre, self._scale = source, centre, scale
        self._units = _along(source, centre, scale)
        self._aligned: list[Any] | None = None
        self.kind, self.sparse, self.in_memory = source.kind, source.sparse, source.in_memory
        self.workspace, self.frame = source.workspace, source.frame

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_aligned": None}

    def prepare(self) -> None:
        """Prepare the other source, and take over its threads and its workspace."""
        self._source.prepare()
        self.n_threads, self.workspace = self._source.n_threads, self._source.workspace

    def use_type(self, dtype: np.dtype[Any]) -> None:
        """Make tiles of this type from now on, here and in the other source."""
        super().use_type(dtype)
        self._source.use_type(dtype)
        self._units, self._aligned = _along(self._source, self._centre, self._scale), None

    def read(self, start: int, stop: int) -> Any:
        """A tile of the other source, in the new units."""
        return self._changed(self._source.read(start, stop), slice(start, stop))

    def read_runs(self, runs: list[tuple[int, int]]) -> Iterator[Any]:
        """Tiles of the other source at a few places, in the new units."""
        for (start, stop), tile in zip(runs, self._source.read_runs(runs), strict=True):
            yield self._changed(tile, slice(start, stop))

    def _changed(self, tile: Any, rows: slice) -> Any:
        """A tile of the other source, as the solver sees it, in the new units.

        Where the solver sees the transpose, ``rows`` are the user's columns.
        """
        centre, scale = self._units
        if self.transposed:
            centre, scale = centre[rows], None if scale is None else scale[rows]
        return in_units(tile, centre, scale)

    def read_user(self, rows: slice | Array, columns: slice = slice(None)) -> Any:
        """A part of the user's matrix, in the new units."""
        return self._in_user_units(self._source.read_user(rows, columns), columns)

    def user_parts(self) -> Iterator[tuple[slice, slice, Any]]:
        """The parts of the other source, in the new units."""
        for rows, columns, tile in self._source.user_parts():
            yield rows, columns, self._in_user_units(tile, columns)

    def user_columns(self, most_rows: int, most_bytes: int) -> Iterator[tuple[slice, Array]]:
        """The columns of the other source, in the new units."""
        for columns, entries in self._source.user_columns(most_rows, most_bytes):
            yield columns, self._in_user_units(entries, columns)

    def _in_user_units(self, tile: Any, columns: slice) -> Any:
        centre, scale = self._units
        own = None if scale is None else scale.reshape(-1)[columns]
        return in_units(tile, centre.reshape(-1)[columns], own)

    def tile_rows(self, depth: int = 0) -> int:
        """The height of a tile of the other source, which cuts the tiles."""
        return self._source.tile_rows(depth)

    def tiles(self, depth: int = 0) -> list[tuple[int, int]]:
        """The row ranges of the other source's tiles."""
        return self._source.tiles(depth)

    def run_with_rows(self, task: Task[S], *rows: Any) -> tuple[S, list[Any]]:
        """A pass of the other source, with a task that changes each tile first."""
        self.prepare()
        self.passes += 1
        task = self.in_scale(task)
        try:
            if not self.transposed:
                task = InUnits(task, self._units, aligned=0)
                return self._source.run_with_rows(task, *rows)
            if self._aligned is None:
                self._aligned = [self._source.spread(line) for line in self._units if line is not None]
            rest = self._units[len(self._aligned) :]
            task = InUnits(task, rest, len(self._aligned))
            return self._source.run_with_rows(task, *rows, *self._aligned)
        finally:
            self.bytes_read = self._source.bytes_read

    def allocate(self, width: int, dtype: Any = None) -> Any:
        """A new row-aligned array of zeros of the other source."""
        return self._source.allocate(width, dtype)

    def gather(self, rows: Any) -> Array:
        """A row-aligned array of the other source as a plain array."""
        return self._source.gather(rows)

    def spread(self, array: Array) -> Any:
        """A plain array as a row-aligned one of the other source."""
        return self._source.spread(array)

    def map(self, function: Callable[..., Array], *rows: Any) -> Any:
        """A new row-aligned array of the other source, whose rows are ``function`` of the same rows of ``rows``."""
        return self._source.map(function, *rows)

    def row_numbers(self) -> Any:
        """0, 1, 2, … as a row-aligned array of the other source."""
        return self._source.row_numbers()

    def low_rank(self, left: Any, right: Array) -> LowRank:
        """The singular value decomposition of left·rightᵀ, ``left`` a row-aligned array of the other source."""
        return self._source.low_rank(left, right)

    def factors(self, low_rank: LowRank) -> tuple[Any, Array]:
        """(U, V) with L = U Vᵀ as tasks take them: U is a row-aligned array of the other source."""
        return self._source.factors(low_rank)

    def as_user_sees(self, low_rank: LowRank) -> LowRank:
        """L as the user's matrix lies, with U in this process even where the other source would leave it on workers."""
        return super().as_user_sees(LowRank(self.gather(low_rank.u), low_rank.s, low_rank.vt))
