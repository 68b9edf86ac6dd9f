"""A matrix that is not stored entry by entry and still behaves like a NumPy array."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, SupportsIndex

import numpy as np
import scipy.sparse
from numpy.lib.mixins import NDArrayOperatorsMixin

from rankwolf.ground.arrays import Array
from rankwolf.ground.table_frame import Frame, NoFrame, PolarsFrame

RowKey = slice | SupportsIndex | Array
ColumnKey = slice | int
# Entries that are made dense at a time in a loop over the rows.
BLOCK_ENTRIES = 2**20


def split_key(key: RowKey | tuple[RowKey, ColumnKey]) -> tuple[RowKey, ColumnKey]:
    """(rows, columns) of an index: rows as NumPy takes them, columns a slice or a number, all where none are given."""
    rows, columns = key if isinstance(key, tuple) and len(key) == 2 else (key, slice(None))
    if isinstance(rows, tuple) or not isinstance(columns, slice | int | np.integer):
        raise IndexError(
            f"Rows, then perhaps a slice or a number of columns, can be taken. Got {key!r} instead."
        )
    return rows, columns


class Matrix(NDArrayOperatorsMixin, ABC):
    """What NumPy, pandas and people ask of a matrix; L and S are of this class.

    ``len`` and a loop go over the rows. Entry-wise sums, products and comparisons and NumPy's functions first make the
    dense array, m·n numbers, and return an array. ``frame`` has the names of the table that the data was, if any.
    """

    frame: Frame | None = None
    # pandas and NumPy leave an operator between an object of theirs and this one to this class.
    __pandas_priority__ = 10_000
    __array_priority__ = 10_000.0
    __hash__ = object.__hash__
    ndim = 2

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(m, n)."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Element type of the dense form."""

    @abstractmethod
    def __getitem__(self, key: RowKey | tuple[RowKey, ColumnKey]) -> Array: ...

    def toarray(self) -> Array:
        """The dense array: the same as ``np.asarray``."""
        return np.asarray(self[:])

    def to_frame(self) -> Any:
        """A table with the row and column names of the data: of polars where the data was a polars table, else pandas.

        Of an xarray.DataArray the first dimension becomes the index and the second the columns; :meth:`to_xarray` keeps
        all of its coordinates.
        """
        return (self.frame or NoFrame()).to_frame(self.toarray())

    def to_xarray(self) -> Any:
        """An xarray.DataArray with the dimensions and coordinates of the data."""
        return (self.frame or NoFrame()).to_xarray(self.toarray())

    @property
    def size(self) -> int:
        """m·n."""
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        step = max(1, BLOCK_ENTRIES // max(1, self.shape[1]))
        for start in range(0, self.shape[0], step):
            yield from self[start : start + step]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            name = type(self).__name__
            raise ValueError(f"A {name} has no dense form to share: np.asarray(x) makes one.")
        dense = self.toarray()
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if ufunc is np.matmul and method == "__call__" and not options:
            left, right = inputs
            return left._left_of(_dense(right)) if isinstance(left, Matrix) else right._right_of(left)
        if any(isinstance(place, Matrix) for place in options.get("out", ())):
            del options["out"]  # L += 1 makes an array
        made = getattr(ufunc, method)(*map(_dense, inputs), **options)
        tables = [item for item in inputs if _is_polars(item)]  # polars combines its tables with no arrays
        return PolarsFrame(tuple(tables[0].columns)).table(made) if tables else made

    def _left_of(self, other: Any) -> Any:
        """``self @ other``."""
        return self.toarray() @ other

    def _right_of(self, other: Any) -> Any:
        """``other @ self``."""
        return other @ self.toarray()


def _dense(item: Any) -> Any:
    if isinstance(item, Matrix) or scipy.sparse.issparse(item):
        return item.toarray()  # type: ignore[union-attr]
    return item.to_numpy() if _is_polars(item) else item


def _is_polars(item: Any) -> bool:
    return type(item).__name__ == "DataFrame" and type(item).__module__.startswith("polars.")
