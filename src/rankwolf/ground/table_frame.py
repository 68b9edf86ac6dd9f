"""Frames: what a table was apart from its numbers, so that L and S can be made tables of the same kind again.

No library of tables is imported before a table is made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed


class Frame(ABC):
    """Names of rows and columns of a table; a subclass for each library of tables. Subclasses are final."""

    @abstractmethod
    def table(self, values: Array) -> Any:
        """A table of the kind that came in, with these numbers."""

    def names(self, axis: int) -> Any:
        """The names of the rows (axis 0) or columns (axis 1), to be indexed by number; None where there are none."""
        return None

    def to_frame(self, values: Array) -> Any:
        """A data frame: of polars where that came in, else of pandas."""
        return self.table(values)

    def to_pandas(self, values: Array) -> Any:
        """A pandas frame, whatever came in."""
        return self.table(values)

    def to_xarray(self, values: Array) -> Any:
        """An xarray.DataArray, whatever came in."""
        return needed("xarray").DataArray(self.to_pandas(values))


@dataclass(frozen=True)
class NoFrame(Frame):
    """The frame of an array, whose rows and columns are numbered."""

    def table(self, values: Array) -> Any:
        """A pandas frame, the usual table."""
        return needed("pandas").DataFrame(values)


@dataclass(frozen=True)
class SavedNames:
    """Names of rows or columns from a file: for each level of an index its names, and the title of the level."""

    levels: tuple[Any, ...]
    titles: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.levels[0])

    def __getitem__(self, number: int) -> Any:
        """One name; a tuple where there are several levels."""
        found = tuple(level[number] for level in self.levels)
        return found if len(found) > 1 else found[0]

    def index(self) -> Any:
        """The names as a pandas index, of several levels where there are several."""
        pd = needed("pandas")
        if len(self.levels) == 1:
            return pd.Index(self.levels[0], name=self.titles[0])
        return pd.MultiIndex.from_arrays(self.levels, names=self.titles)


def _index(names: Any) -> Any:
    return names.index() if isinstance(names, SavedNames) else names


@dataclass(frozen=True)
class PandasFrame(Frame):
    """Index and columns of a pandas frame, each a pandas index or :class:`SavedNames` from a file."""

    index: Any
    columns: Any

    def names(self, axis: int) -> Any:
        """The index (axis 0) or the columns (axis 1) of the frame."""
        return (self.index, self.columns)[axis]

    def table(self, values: Array) -> Any:
        """A frame with this index and these columns."""
        return needed("pandas").DataFrame(values, index=_index(self.index), columns=_index(self.columns))


@dataclass(frozen=True)
class PolarsFrame(Frame):
    """The columns of a polars frame, which has no index."""

    columns: tuple[str, ...]

    def names(self, axis: int) -> Any:
        """None for rows (axis 0), the columns for axis 1."""
        return self.columns if axis else None

    def table(self, values: Array) -> Any:
        """A frame with these columns."""
        return needed("polars").DataFrame(values, schema=list(self.columns))

    def to_pandas(self, values: Array) -> Any:
        """A pandas frame with these columns and numbered rows."""
        return needed("pandas").DataFrame(values, columns=list(self.columns))


@dataclass(frozen=True)
class XarrayFrame(Frame):
    """Dimensions, coordinates, name and attributes of an xarray.DataArray; coordinates are xarray's, or lists."""

    dims: tuple[Any, ...]
    coords: Any
    name: Any = None
    attrs: Mapping[Any, Any] = field(default_factory=dict)

    def names(self, axis: int) -> Any:
        """The coordinates along the first (0) or second (1) dimension; None where it has none."""
        dimension = self.dims[axis]
        if dimension not in self.coords:
            return None
        found = self.coords[dimension]
        return found if isinstance(found, list | np.ndarray) else found.values

    def table(self, values: Array) -> Any:
        """A DataArray with these dimensions and coordinates."""
        return needed("xarray").DataArray(
            values, coords=self.coords, dims=self.dims, name=self.name, attrs=dict(self.attrs)
        )

    def to_frame(self, values: Array) -> Any:
        """The first dimension is the index, the second the columns."""
        return self.table(values).to_pandas()

    def to_pandas(self, values: Array) -> Any:
        """The first dimension is the index, the second the columns."""
        return self.table(values).to_pandas()

    def to_xarray(self, values: Array) -> Any:
        """A DataArray with these dimensions and coordinates: the same as ``table``."""
        return self.table(values)
