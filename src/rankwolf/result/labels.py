"""Names of rows and columns in the file of a result: JSON, so that a stranger's file holds only words and numbers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from rankwolf.ground.table_frame import Frame, PandasFrame, PolarsFrame, SavedNames, XarrayFrame

# Characters that the names may take in a file; a result with more of them is saved without names.
MOST_TEXT = 2**24
LIBRARIES = ("pandas", "polars", "xarray")
MOST_LEVELS = 16
# The units that dates have in pandas; True stands for nanoseconds in older files.
UNITS = {True: "ns", "s": "s", "ms": "ms", "us": "us", "ns": "ns"}


def pack(frame: Frame | None) -> str:
    """The names of a table as text; empty where there are none, or too many.

    Words, numbers and dates stay what they are, in every level of an index; other names (periods, durations, dates of a
    time zone) become words.
    """
    if frame is None:
        return ""
    lines = [_plain(frame.names(axis)) for axis in (0, 1)]
    content: dict[str, Any] = {"library": "pandas", "rows": lines[0], "columns": lines[1]}
    if isinstance(frame, PolarsFrame):
        content["library"] = "polars"
    elif isinstance(frame, XarrayFrame):
        content |= {"library": "xarray", "dims": [str(name) for name in frame.dims]}
    text = json.dumps(content, ensure_ascii=False)
    return text if len(text) <= MOST_TEXT else ""


def unpack(text: str, shape: tuple[int, int]) -> Frame | None:
    """The names that :func:`pack` wrote, None for none; a ValueError where they do not fit a matrix of ``shape``."""
    if not text:
        return None
    content = json.loads(text)
    if not isinstance(content, dict) or content.get("library") not in LIBRARIES:
        raise ValueError("its names of rows and columns are none")
    rows, columns = (
        _names(content.get(name), length) for name, length in zip(("rows", "columns"), shape, strict=True)
    )
    if content["library"] == "polars" and columns is not None:
        return PolarsFrame(tuple(str(name) for name in columns.levels[0]))
    if content["library"] == "xarray":
        dims = content.get("dims")
        if not isinstance(dims, list) or len(dims) != 2 or not all(isinstance(name, str) for name in dims):
            raise ValueError("its names of dimensions are not two")
        lines = zip(dims, (rows, columns), strict=True)
        coords = {name: line.levels[0] for name, line in lines if line is not None}
        return XarrayFrame(tuple(dims), coords)
    return PandasFrame(rows, columns)


def _plain(names: Any) -> dict[str, Any] | None:
    """Names of one axis as JSON: words or numbers, the unit of dates, a title; of each level if there are several."""
    if names is None:
        return None
    if isinstance(names, SavedNames):
        names = names.index()
    if getattr(names, "nlevels", 1) > 1:
        return {"levels": [_plain(names.get_level_values(number)) for number in range(names.nlevels)]}
    title = getattr(names, "name", None)
    content: dict[str, Any] = {"title": None if title is None else str(title), "dates": False}
    array = np.asarray(names)
    if array.dtype.kind == "M":
        unit = np.datetime_data(array.dtype)[0]
        unit = unit if unit in UNITS else "s"  # days and longer
        return content | {"dates": unit, "names": array.astype(f"M8[{unit}]").astype(str).tolist()}
    if array.ndim == 1 and array.dtype.kind in "iufb":
        return content | {"names": array.tolist()}
    return content | {"names": [str(name) for name in names]}


def _names(found: Any, length: int) -> SavedNames | None:
    if found is None:
        return None
    levels = found.get("levels", [found]) if isinstance(found, dict) else None
    if not isinstance(levels, list) or not 1 <= len(levels) <= MOST_LEVELS:
        raise ValueError(f"its names have not 1 to {MOST_LEVELS} levels")
    return SavedNames(tuple(_level(level, length) for level in levels), tuple(map(_title, levels)))


def _title(level: dict[str, Any]) -> str | None:
    title = level.get("title")
    if not isinstance(title, str | None):
        raise ValueError("the title of its names is not a word")
    return title


def _level(found: Any, length: int) -> Any:
    """The names of one level: a list, or an array of dates."""
    names = found.get("names") if isinstance(found, dict) else None
    if not isinstance(names, list) or len(names) != length:
        raise ValueError(f"its names are not {length}, one for each line")
    if not all(isinstance(name, str | int | float) for name in names):
        raise ValueError("its names are not words or numbers")
    dates = found.get("dates", False)
    if dates is False:
        return names
    if not isinstance(dates, str | bool) or dates not in UNITS:
        raise ValueError("the unit of its dates is none")
    return np.array(names, f"M8[{UNITS[dates]}]")
