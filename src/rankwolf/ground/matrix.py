"""A matrix that is not stored entry by entry and still behaves like a NumPy array."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex

import numpy as np

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


class Matrix(ABC):
    """What NumPy, pandas and people ask of a matrix; L and S are of this class.

    ``len`` and a loop go over the rows. Entry-wise sums, products and comparisons and NumPy's functions first make the
    dense array, m·n numbers, and return an array. ``frame`` has the names of the table that the data was, if any.
    """

    frame: Frame | None = None
    # pandas and NumPy leave an operator between an object of theirs and this one to this class.
    __pandas_priority__ = 10_000
    __array_priority__ = 1000.0
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
        if ufunc is np.matmul and method == "__call__" and not options and inputs[1] is self:
            return self._right_of(inputs[0])
        return getattr(ufunc, method)(*(_dense(item) for item in inputs), **options)

    def _right_of(self, other: Any) -> Any:
        """``other @ self``."""
        return _dense(other) @ self.toarray()

    def __matmul__(self, other: Any) -> Any:
        return self.toarray() @ _dense(other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._right_of(other)

    def __add__(self, other: Any) -> Any:
        return self._combined(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return self._combined(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return self._combined(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._combined(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return self._combined(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._combined(operator.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._combined(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._combined(operator.truediv, other, self)

    def __pow__(self, other: Any) -> Any:
        return self._combined(operator.pow, self, other)

    def __lt__(self, other: Any) -> Any:
        return self._combined(operator.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return self._combined(operator.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return self._combined(operator.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return self._combined(operator.ge, self, other)

    def __eq__(self, other: Any) -> Any:
        return self._combined(operator.eq, self, other)

    def __ne__(self, other: Any) -> Any:
        return self._combined(operator.ne, self, other)

    def __neg__(self) -> Array:
        return -self.toarray()

    def __abs__(self) -> Array:
        return np.abs(self.toarray())

    @staticmethod
    def _combined(combine: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        """``combine(left, right)``, each Matrix made dense: an array, or a table where one operand is a table."""
        return combine(_beside(right, left), _beside(left, right))


def _dense(item: Any) -> Any:
    return item.toarray() if isinstance(item, Matrix) else item


def _beside(other: Any, item: Any) -> Any:
    """``item``, dense; where ``other`` is a polars table, as one too: polars combines its tables with no arrays."""
    kind = type(other)
    if isinstance(item, Matrix) and kind.__name__ == "DataFrame" and kind.__module__.startswith("polars."):
        return PolarsFrame(tuple(other.columns)).table(item.toarray())
    return _dense(item)
