"""Entries that are far out of scale, shown to passes as the largest size that is still in scale.

A cell of 1e12 in a table of ones, or a fill value that nobody marked as missing, is an outlier like any other: S takes
it, and L does not depend on how far out it is. But it would make up nearly all of the norm and of the objective,
relative to which gaps are judged. L does not change when such an entry is replaced by a smaller one, as long as that
one is beyond |L| + λ_S. S is computed from the entries as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwolf.data.tasks import Around, S, Sums, Task
from rankwolf.data.tiles import is_sparse, row_numbers, with_entries
from rankwolf.ground.arrays import Array


class Bounded(Around[S]):
    """Another task, to which entries beyond ±``bound`` are shown as ±``bound``."""

    def __init__(self, task: Task[S], bound: float) -> None:
        super().__init__(task)
        self.bound = bound

    def visit(self, sums: S, tile: Array, *rows: Array) -> tuple[Array, ...] | None:
        """Show the bounded tile to the other task; it is copied only where an entry is out of scale."""
        return self.task.visit(sums, bounded(tile, self.bound), *rows)


def bounded(tile: Any, bound: float) -> Any:
    """The tile, dense or sparse, with its entries clipped to ±``bound``; the tile itself where none is beyond."""
    entries: Any = tile.data if is_sparse(tile) else tile
    if not np.any(np.abs(entries) > bound):
        return tile
    clipped = np.clip(entries, -bound, bound)
    return with_entries(tile, clipped) if is_sparse(tile) else clipped


@dataclass
class ExcessSums(Sums):
    """Σ max(|M| − bound, 0)."""

    total: float = 0.0


class MeasureFar(Task[ExcessSums]):
    """By how much entries out of scale exceed the bound in all: S takes that, and pays for it."""

    sees_all = True

    def __init__(self, bound: float) -> None:
        self.bound = bound

    def start(self) -> ExcessSums:
        """Zero."""
        return ExcessSums()

    def visit(self, sums: ExcessSums, tile: Any, *rows: Array) -> None:
        """Add the excess of one tile."""
        entries: Any = tile.data if is_sparse(tile) else tile
        over = np.abs(entries, dtype=np.float64) - self.bound
        sums.total += float(np.sum(over, where=over > 0.0))


@dataclass
class ScaleSums(Sums):
    """The largest magnitude in scale; for each column, the counts of entries out of scale and of observed ones.

    ``worst_row`` is the largest share of a row's observed entries that is out of scale.
    """

    largest: float
    beyond: Array
    observed: Array
    worst_row: float

    def add(self, other: ScaleSums) -> None:
        """Add the counts; of ``largest`` and ``worst_row``, keep the larger one."""
        self.largest, self.worst_row = max(self.largest, other.largest), max(self.worst_row, other.worst_row)
        self.beyond, self.observed = self.beyond + other.beyond, self.observed + other.observed

    @property
    def is_strewn(self) -> bool:
        """Whether entries out of scale are single cells: less than half of the entries of every row and column."""
        columns = float(np.max(self.beyond / np.maximum(self.observed, 1.0), initial=0.0))
        return max(columns, self.worst_row) < 0.5


class FindScale(Task[ScaleSums]):
    """Count the entries beyond ±``limit`` by row and column, and find the largest magnitude that is not beyond."""

    def __init__(self, limit: float, columns: int) -> None:
        self.limit, self.columns = limit, columns

    def start(self) -> ScaleSums:
        """Zeros."""
        return ScaleSums(0.0, np.zeros(self.columns), np.zeros(self.columns), 0.0)

    def visit(self, sums: ScaleSums, tile: Any, *rows: Array) -> None:
        """Compare one tile with the limit, and count by row and column."""
        if is_sparse(tile):
            entries, down, across = tile.data, row_numbers(tile), np.asarray(tile.indices, np.int64)
        else:
            down, across = np.nonzero(tile == tile)
            entries = tile[down, across]
        far = np.abs(entries) > self.limit
        observed, beyond = np.bincount(down, minlength=1), np.bincount(down, far, minlength=1)
        sums.add(
            ScaleSums(
                float(np.max(np.abs(entries), initial=0.0, where=~far)),
                np.bincount(across, far, minlength=self.columns),
                np.bincount(across, minlength=self.columns).astype(np.float64),
                float(np.max(beyond / np.maximum(observed, 1))),
            )
        )
