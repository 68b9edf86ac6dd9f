"""What the first pass over any data finds, and what a run asks of data of any kind."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

import numpy as np

from rankwolf import kernels
from rankwolf.data.tasks import Sums, Task
from rankwolf.data.tiles import is_sparse
from rankwolf.data.workspace import Workspace
from rankwolf.ground.arrays import Array


@dataclass(frozen=True)
class Summary:
    """‖P_Ω M‖_F, how many entries are observed and how many of them infinite, and the largest magnitude.

    The weights, the bounds and the checks need no more than this.
    """

    norm: float
    observed: int
    infinite: int
    largest: float
    bound: float = inf
    """Entries beyond this magnitude count as this large (:mod:`rankwolf.data.bounded`)."""


@dataclass
class DataSums(Sums):
    """‖P_Ω M‖²_F, counts of observed and infinite entries, and the largest magnitude of each tile."""

    squares: float
    observed: int
    infinite: int
    largest: list[float]

    def summary(self) -> Summary:
        """The summary that follows from these sums."""
        return Summary(
            float(np.sqrt(self.squares)), self.observed, self.infinite, max(self.largest, default=0.0)
        )


class Describe(Task[DataSums]):
    """The first pass over any data: its norm, counts and largest magnitude."""

    def start(self) -> DataSums:
        """Zeros."""
        return DataSums(0.0, 0, 0, [])

    def visit(self, sums: DataSums, tile: Any, *rows: Array) -> None:
        """Count and add up one tile."""
        entries: Any = tile.data[None, :] if is_sparse(tile) else tile
        squares, observed = kernels.describe_tile(entries)
        # Unlike max, fmax ignores NaN; unlike such a loop in Numba, it is made of vector instructions.
        high = np.fmax.reduce(entries, axis=None, initial=0.0)
        low = np.fmin.reduce(entries, axis=None, initial=0.0)
        largest = max(float(high), -float(low))
        infinite = int(np.count_nonzero(np.isinf(entries))) if largest == np.inf else 0
        sums.add(DataSums(squares, observed, infinite, [largest]))


class Data(Protocol):
    """What the loop, its checkpoints and the weights ask of what is decomposed: a Source, or Measurements of a matrix.

    Row-aligned arrays are those of :mod:`rankwolf.data.row_arrays`; Measurements have arrays of as many rows.
    """

    passes: int
    bytes_read: int
    workspace: Workspace

    @property
    def kind(self) -> str:
        """``"entries"``, ``"sparse entries"`` or ``"measurements"``; a solver's ``takes`` names those it can use."""

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n) of the matrix."""

    @property
    def summary(self) -> Summary:
        """Norm, counts and largest magnitude of what was observed."""

    @property
    def observed_fraction(self) -> float:
        """ρ: observed entries, or measurements, over mn."""

    def one_blas_thread(self) -> AbstractContextManager[None]:
        """A context that the loop runs in, in which BLAS keeps to one thread."""

    def fingerprint(self) -> str:
        """A hash that tells this data from other data."""

    def allocate(self, width: int, dtype: Any = None) -> Any:
        """A new row-aligned array of zeros."""

    def gather(self, rows: Any) -> Array:
        """A row-aligned array as a plain one in this process."""

    def spread(self, array: Array) -> Any:
        """A new row-aligned array with the numbers of a plain one."""
