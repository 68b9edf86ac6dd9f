"""What a pass does: a :class:`Task` maps (tile, rows) to (sums, new rows), for every tile of a matrix.

What is lost can simply be computed again. A *tile* is a few consecutive rows of the matrix as a C-contiguous float
array in which **NaN marks what was not observed**, or a CSR array of the observed entries where the source is sparse. A
tile may be a view of the caller's data: a task never writes into it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import numpy as np

from rankwolf.ground.arrays import Array


@dataclass
class Sums:
    """What a pass adds up. Every field is a number, an array or a list, and is added by ``+``."""

    def add(self, other: Self) -> None:
        """Add the sums of another group of tiles to these."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def collect(self, numbers: Iterable[float]) -> None:
        """Add the numbers that a kernel returned to the first fields, in the order of the fields."""
        for name, number in zip(self.__dataclass_fields__, numbers, strict=False):
            setattr(self, name, getattr(self, name) + number)

    def __sizeof__(self) -> int:
        """Bytes, with those of its arrays: Dask's scheduler asks before it moves an object."""
        return size_of(vars(self))


S = TypeVar("S", bound=Sums)


class Task(ABC, Generic[S]):
    """What one pass does with each tile. Arrays that every tile needs are attributes; threads share the task.

    - ``depth``: the number of columns of products with the tile. A deep task gets taller tiles, so that adding up its
      n × depth sums costs little beside the products.
    - ``makes``: the width and the type of each row-aligned array that it makes.
    - ``large_sums``: one set of sums for each thread and no more, and tiles of a quarter of the height, to save memory.
    - ``sees_all``: entries that are out of scale are shown as they are (:mod:`rankwolf.data.bounded`).
    """

    depth: int = 0
    makes: tuple[tuple[int, Any], ...] = ()
    large_sums: bool = False
    sees_all: bool = False

    @property
    def label(self) -> str:
        """The name that Dask's dashboard shows: ``hybrid_pass`` for HybridPass."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()

    @abstractmethod
    def start(self) -> S:
        """New sums with nothing added yet, for a group of tiles."""

    @abstractmethod
    def visit(self, sums: S, tile: Array, *rows: Array) -> tuple[Array, ...] | None:
        """Add to ``sums`` what follows from one tile and the same rows of the row-aligned arrays.

        Returns these rows of the arrays that the task ``makes``.
        """

    def close(self, sums: S) -> None:
        """Called once after the last tile of a group, for a task that gathers tiles before it works on them."""


class Around(Task[S]):
    """A task that changes what another one is shown: a subclass says in ``visit`` how."""

    def __init__(self, task: Task[S]) -> None:
        self.task = task
        self.depth, self.makes = task.depth, task.makes
        self.large_sums, self.sees_all = task.large_sums, task.sees_all

    @property
    def label(self) -> str:
        """The label of the other task."""
        return self.task.label

    def start(self) -> S:
        """The other task's sums with nothing added yet."""
        return self.task.start()

    def close(self, sums: S) -> None:
        """Let the other task close its sums."""
        self.task.close(sums)


def size_of(value: Any) -> int:
    """Bytes of the arrays in a tree of containers, sums and tasks, and a little for everything else."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, dict):
        return sum(map(size_of, value.values())) + 64
    if isinstance(value, list | tuple):
        return sum(map(size_of, value)) + 64
    return size_of(vars(value)) if isinstance(value, Sums | Task) else 32
