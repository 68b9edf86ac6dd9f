"""A matrix with the names of its rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import scipy.sparse

from rankwolf.files.text import Dialect


@dataclass(frozen=True)
class Labels:
    """Names of columns and rows, where the file had any; ``index_name`` is that of the index column."""

    columns: Sequence[str] | None = None
    index: Sequence[Any] | None = None
    index_name: str | None = None

    def column(self, number: int) -> str:
        """The name of a column; "column 3" where columns have none."""
        return f"column {number}" if self.columns is None else str(self.columns[number])

    def row(self, number: int) -> str:
        """The name of a row; "row 3" where rows have none."""
        return f"row {number}" if self.index is None else str(self.index[number])


@dataclass(frozen=True)
class LabelledMatrix:
    """The matrix in a file: ``values`` is an array with NaN for missing entries, a dataset, or a CSR array.

    ``kind`` and ``member`` say where it came from, so that L and S can be written in the same way. ``warnings`` are
    sentences about damage in spite of which it was read, ``notes`` about what was assumed: an encoding, a decimal mark.
    ``keys`` are names of columns that look like keys of the rows but are part of the matrix. ``dialect`` says how a
    text was written.
    """

    values: Any
    kind: str
    labels: Labels = Labels()
    member: str | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    dialect: Dialect | None = None
    limits: tuple[Any, Any] | None = None
    """(low, high) of cells that are only known to be above or below a value, NaN elsewhere."""

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return int(self.values.shape[0]), int(self.values.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether ``values`` is a sparse matrix."""
        return bool(scipy.sparse.issparse(self.values))
