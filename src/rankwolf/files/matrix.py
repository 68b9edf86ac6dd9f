"""A matrix with the names of its rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import scipy.sparse

from rankwolf.files.dialect import Dialect


@dataclass(frozen=True)
class Labels:
    """Names of columns and rows, where the file had any; ``index_name`` is that of the index column."""

    columns: Sequence[str] | None = None
    index: Sequence[Any] | None = None
    index_name: str | None = None

    def column(self, number: int) -> str:
        """What to call a column."""
        return f"column {number}" if self.columns is None else str(self.columns[number])

    def row(self, number: int) -> str:
        """What to call a row."""
        return f"row {number}" if self.index is None else str(self.index[number])


@dataclass(frozen=True)
class LabelledMatrix:
    """What a file held: an array with NaN for missing, or a CSR array whose stored entries count.

    ``kind`` and ``member`` say where it came from, so that the parts can be written in the same manner. ``warnings``
    are sentences about damage that did not keep it from being read, ``notes`` about what was assumed: an alphabet, a
    decimal mark. ``keys`` names columns that look like a key of the rows and are part of the matrix. ``dialect`` is how
    a text was written.
    """

    values: Any
    kind: str
    labels: Labels = Labels()
    member: str | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    dialect: Dialect | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return int(self.values.shape[0]), int(self.values.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether only the stored entries are known."""
        return bool(scipy.sparse.issparse(self.values))
