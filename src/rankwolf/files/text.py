"""Tables of text: ``.csv`` and ``.tsv``."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from rankwolf.files.address import Address
from rankwolf.files.claims import Budget
from rankwolf.files.columns import (
    MOST_COLUMNS,
    TableOptions,
    find_column,
    kept_columns,
    not_numbers,
    too_wide,
)
from rankwolf.files.matrix import LabelledMatrix, Labels
from rankwolf.ground.arrays import Array

# Characters of a heading or of a row, at most.
MOST_LINE = 2**22
INDEX_NAMES = ("", "index", "unnamed: 0")
MISSING = {"", "na", "n/a", "nan", "null", "none", "#n/a", "-nan", "<na>"}


def read_text(address: Address, budget: Budget, options: TableOptions) -> LabelledMatrix:
    """A text table. Empty cells, NA and NaN are missing."""
    import pandas as pd

    kind = "tsv" if address.path.suffix.lower() in (".tsv", ".tab") else "csv"
    size = address.path.stat().st_size
    budget.check(address, 2 * size, size)
    try:
        with address.path.open("r", encoding="utf-8-sig", newline="") as file:
            top = _top(address, file, kind, options.header)
            names = _heading(address, top)
            index = _index_column(address, names if top.header else [], top.row, options.index)
            kept = kept_columns(address, names, index, options.drop, named=top.header is not None)
            file.seek(top.place)
            frame = pd.read_csv(
                file,
                sep=top.separator,
                header=None,
                dtype=dict.fromkeys(index, "str"),
                low_memory=False,
                skipinitialspace=True,
            )
    except UnicodeDecodeError as error:
        raise address.bad("it is not a text in UTF-8.") from error
    if frame.shape[1] != len(names):
        raise address.bad(f"its rows have up to {frame.shape[1]} cells and its first row {len(names)}.")
    values = np.empty((len(frame), len(kept)), np.float64)
    for place, number in enumerate(kept):
        values[:, place] = _numbers(address, frame[number], names[number], top.lines)
    labels = Labels(
        tuple(names[number] for number in kept) if top.header else None,
        frame[index[0]].fillna("").tolist() if index else None,
        names[index[0]] if index and top.header else None,
    )
    if not values.size:
        raise address.bad("it has no rows of numbers.")
    return LabelledMatrix(values, kind, labels)


@dataclass(frozen=True)
class Top:
    """The heading, where there is one, and the first row below it; ``place``: where in the file that row begins.

    ``lines``: how many lines of text are above that row.
    """

    header: list[str] | None
    row: list[str]
    separator: str
    place: int
    lines: int


def _top(address: Address, file: IO[str], kind: str, has_header: bool | None) -> Top:
    """Row by row, not line by line: a quoted cell of the heading may hold a line break, and lines may be empty."""
    separator = "\t" if kind == "tsv" else _separator(address, file)
    file.seek(0)
    reader = csv.reader(_lines(address, file), delimiter=separator, skipinitialspace=True)
    before = file.tell()
    first = _next_row(reader)
    while first == [] or (first is not None and not any(cell.strip() for cell in first) and len(first) == 1):
        before, first = file.tell(), _next_row(reader)
    if first is None:
        raise address.bad("it is empty, without rows.")
    if len(first) > MOST_COLUMNS + 1:
        raise too_wide(address)
    if not (_looks_like_header(first) if has_header is None else has_header):
        return Top(None, first, separator, before, reader.line_num - 1)
    place, lines = file.tell(), reader.line_num
    row = _next_row(reader)
    while row == []:
        row = _next_row(reader)
    if row is None:
        raise address.bad("it has no rows below its heading.")
    return Top(first, row, separator, place, lines)


def _separator(address: Address, file: IO[str]) -> str:
    """The one that the first line that is not empty has most of."""
    line = next((line for line in _lines(address, file) if line.strip()), "")
    return max(",;\t", key=line.count)


def _lines(address: Address, file: IO[str]) -> Iterator[str]:
    """The lines of the file, read so that ``tell`` works between two of them."""
    total = 0
    while line := file.readline(MOST_LINE):
        total += len(line)
        if total >= MOST_LINE:
            raise address.bad("its first lines are longer than 4 MB.")
        yield line


def _next_row(reader: Any) -> list[str] | None:
    row: list[str] | None = next(reader, None)
    return row


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.strip().lower() in MISSING
    return True


def _looks_like_header(row: list[str]) -> bool:
    """A heading has words, and beyond the first cell (which may name the rows) at least one."""
    return not all(_is_number(cell) for cell in row[1:] or row)


def _heading(address: Address, top: Top) -> list[str]:
    width = len(top.row)
    if top.header is None:
        return [f"column {number}" for number in range(width)]
    if len(top.header) == width - 1:  # as R writes it: no heading over the names of the rows
        return ["", *top.header]
    if len(top.header) != width:
        raise address.bad(f"its heading has {len(top.header)} cells and its first row {width}.")
    return top.header


def _index_column(address: Address, names: list[str], row: list[str], wanted: str) -> list[int]:
    """The number of the index column, in a list that is empty where there is none."""
    if wanted == "none":
        return []
    if wanted != "auto":
        return [find_column(address, names, wanted)]
    nameless = bool(names) and names[0].strip().lower() in INDEX_NAMES
    return [0] if len(row) > 1 and (nameless or not _is_number(row[0])) else []


def _numbers(address: Address, column: Any, name: str, lines_above: int) -> Array:
    """The column in float64, or a complaint that shows the first cell that is no number."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype):
        return np.asarray(column.to_numpy(np.float64, na_value=np.nan))
    numbers = pd.to_numeric(column, errors="coerce")
    wrong = np.flatnonzero(numbers.isna() & column.notna())
    if wrong.size:
        line = int(wrong[0]) + lines_above + 1
        raise not_numbers(address, name, f"{str(column.iloc[wrong[0]])[:40]!r} in line {line}")
    return np.asarray(numbers.to_numpy(np.float64, na_value=np.nan))
