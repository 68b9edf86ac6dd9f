"""Tables in memory: which columns hold numbers, and the names that the results will have again.

Objects of pandas, polars, xarray, pyarrow and torch are recognised by the module of their class: nothing is imported.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad
from rankwolf.ground.table_frame import Frame, PandasFrame, PolarsFrame, XarrayFrame

# Columns that one complaint names, at most.
MOST_NAMED = 5
SET_ASIDE = "Leave such columns out with columns='numeric', or make numbers of them."


@dataclass(frozen=True)
class Labelled:
    """The numbers of a table, as an array or what a DataArray holds (a dask.array, say), and its names."""

    values: Any
    frame: Frame


def library_of(X: Any) -> str:
    """The package that the class of ``X`` comes from."""
    return type(X).__module__.partition(".")[0]


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a pandas or polars data frame."""
    return type(X).__name__ == "DataFrame" and library_of(X) in ("pandas", "polars")


def labelled(X: Any, columns: Any = "all", where: str = "decompose") -> Labelled | None:
    """The numbers and the names of a pandas, polars or pyarrow table or an xarray.DataArray; None for anything else.

    ``columns``: "all", of which each must hold numbers; "numeric", those that do; or names. A ValueError names chosen
    columns of dates, durations, words and other things that are no numbers.
    """
    X, frame = with_names(X, columns, where)
    if frame is None:
        return None
    if not is_frame(X):
        return Labelled(X, frame)
    return Labelled(_polars_values(X) if library_of(X) == "polars" else _pandas_values(X), frame)


def with_names(X: Any, columns: Any = "all", where: str = "decompose") -> tuple[Any, Frame | None]:
    """(X, names): a data frame of the chosen columns, or the array of a DataArray, and its names.

    Anything else is returned as it is, with None for the names.
    """
    X = _unpacked(X, where)
    if is_frame(X):
        X = chosen_columns(X, columns, where)
        if library_of(X) == "polars":
            return X, PolarsFrame(tuple(X.columns))
        return X, PandasFrame(X.index, X.columns)
    if not (isinstance(columns, str) and columns == "all"):
        raise bad("columns", "'all' for data without names of columns", repr(columns), where)
    if (library_of(X), type(X).__name__) == ("xarray", "DataArray"):
        if X.ndim != 2:
            got = f"a DataArray with the dimensions {tuple(X.dims)}"
            remedy = "X.stack(pixel=('y', 'x')) makes one of two dimensions."
            raise bad("X", "two-dimensional", got, where, remedy)
        return X.data, XarrayFrame(tuple(X.dims), X.coords, X.name, X.attrs)
    return X, None


def chosen_columns(X: Any, columns: Any = "all", where: str = "decompose") -> Any:
    """The frame of the chosen columns, in the order in which they are named; an error where one holds no numbers.

    It is ``X`` itself where these are all of its columns, in its own order.
    """
    names = list(X.columns)
    wrong = partial(_wrong_pandas if library_of(X) == "pandas" else _wrong_polars, X, list(X.dtypes))
    kept = list(range(len(names)))
    if isinstance(columns, str) and columns == "numeric":
        kept = [number for number in kept if wrong(number) is None]
        if not kept:
            raise bad("X", "a table with a column of numbers", _named(names, wrong, range(len(names))), where)
    elif isinstance(columns, str) and columns == "all":
        pass
    else:
        kept = _found(names, columns, where)
    found = _named(names, wrong, kept)
    if found:
        raise bad("X", "a table of numbers in every column", found, where, SET_ASIDE)
    if kept == list(range(len(names))):
        return X
    return X.iloc[:, kept] if library_of(X) == "pandas" else X[:, kept]


def tensor_on_cpu(X: Any, where: str = "decompose") -> Any:
    """The array of a torch tensor on the CPU, without a copy except for bfloat16; anything else as it is."""
    if (library_of(X), type(X).__name__) not in (("torch", "Tensor"), ("torch", "Parameter")):
        return X
    if X.device.type != "cpu":
        raise bad("X", "a tensor on the CPU", f"one on {X.device}", where, "Give X.cpu().")
    X = X.detach()
    try:
        # NumPy has no bfloat16: float32 holds the same numbers.
        return np.asarray(X.float() if str(getattr(X, "dtype", "")) == "torch.bfloat16" else X)
    except (TypeError, RuntimeError) as error:  # sparse, or a view that NumPy cannot have
        raise bad("X", "a dense tensor", f"one of which NumPy makes no array ({error})", where) from error


def _unpacked(X: Any, where: str) -> Any:
    """A pyarrow table as a pandas frame, other things as they are; LazyFrame and Dataset are errors with a remedy."""
    kind = (library_of(X), type(X).__name__)
    if kind == ("pyarrow", "Table"):
        return X.to_pandas()
    if kind == ("polars", "LazyFrame"):
        raise bad("X", "a table", "a polars LazyFrame", where, "Give X.collect().")
    if kind == ("xarray", "Dataset"):
        remedy = "Give one of its variables, as in X['name'], or X.to_dataarray()."
        raise bad("X", "one array", f"an xarray Dataset of {', '.join(map(repr, X))}", where, remedy)
    return X


def _found(names: Sequence[Any], wanted: Any, where: str) -> list[int]:
    """The positions of the columns that ``wanted`` names, in its order.

    An error for a name that is not there, and for one that is given twice.
    """
    rule = "'all', 'numeric', or a list of names"
    if isinstance(wanted, str | bytes):
        raise bad("columns", rule, repr(wanted), where)
    try:
        items = list(wanted)
    except TypeError:
        raise bad("columns", rule, repr(wanted), where) from None
    places: dict[Any, list[int]] = {}  # several, where columns of X share a name
    for number, name in enumerate(names):
        places.setdefault(name, []).append(number)
    missing = [item for item in items if not _is_key(item, places)]
    if missing or not items:
        has = ", ".join(map(repr, names[:8]))
        got = f"the name {missing[0]!r}" if missing else "none"
        raise bad("columns", f"names of columns of X, which has {has}", got, where)
    repeated = [item for item, count in Counter(items).items() if count > 1]
    if repeated:
        raise bad("columns", "names that are given once each", f"the name {repeated[0]!r} twice", where)
    return [number for item in items for number in places[item]]


def _is_key(item: Any, places: dict[Any, list[int]]) -> bool:
    try:
        return item in places
    except TypeError:  # a list, say: no column has such a name
        return False


def _named(names: Sequence[Any], wrong: Callable[[int], str | None], numbers: Sequence[int]) -> str:
    """Words about those of the columns that hold no numbers, and what they hold; empty where all hold numbers."""
    found = [
        f"{what} in column {names[number]!r}" for number in numbers if (what := wrong(number)) is not None
    ]
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(found[:MOST_NAMED]) + more


def _wrong_pandas(X: Any, dtypes: Sequence[Any], number: int) -> str | None:
    """Words for what a column holds that is no number; None where it holds numbers alone."""
    pandas, dtype = sys.modules["pandas"], dtypes[number]
    if pandas.api.types.is_numeric_dtype(dtype):
        return f"complex numbers ({dtype})" if dtype.kind == "c" else None
    if dtype != np.object_:
        return _worded(str(dtype))
    for item in X.iloc[:, number].to_numpy():
        if not isinstance(item, Real | Decimal | np.bool_) and not _is_missing(pandas, item):
            return _worded(type(item).__name__) if not isinstance(item, str) else f"words ({item[:40]!r})"
    return None


def _is_missing(pandas: Any, item: Any) -> bool:
    return item is None or item is pandas.NA or item is pandas.NaT


def _worded(kind: str) -> str:
    """The name of a type, with an everyday word for it where there is one."""
    words = {
        "timedelta": "durations",
        "duration": "durations",
        "date": "dates",
        "time": "dates",
        "str": "words",
        "utf8": "words",
        "cat": "categories",
        "enum": "categories",
    }
    found = next((word for part, word in words.items() if part in kind.lower()), None)
    return f"the type {kind}" if found is None else f"{found} ({kind})"


def _wrong_polars(X: Any, dtypes: Sequence[Any], number: int) -> str | None:
    dtype = dtypes[number]
    if dtype.is_numeric() or str(dtype) in ("Boolean", "Null"):
        return None
    return _worded(str(dtype))


def _pandas_values(X: Any) -> Array:
    """The frame as an array in which None, NA and null are NaN."""
    values: Array = X.to_numpy()
    if values.dtype == np.object_:
        values = X.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def _polars_values(X: Any) -> Array:
    polars = sys.modules["polars"]
    odd = [
        name
        for name, dtype in zip(X.columns, X.dtypes, strict=True)
        if not (dtype.is_float() or dtype.is_integer())
    ]
    if odd:  # booleans, decimals and columns of nothing would become Python objects
        X = X.with_columns(polars.col(odd).cast(polars.Float64))
    return np.asarray(X.to_numpy())
