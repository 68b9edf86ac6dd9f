"""Tables of text: ``.csv``, ``.tsv``, ``.txt``, compressed or not."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

import numpy as np

from rankwolf.files.address import Address, RefusedError
from rankwolf.files.cells import MISSING, looks_like_number, numbers_of
from rankwolf.files.claims import Budget
from rankwolf.files.dialect import SAID, Dialect, find_dialect
from rankwolf.files.encoding import open_text
from rankwolf.files.named_matrix import LabelledMatrix, Labels
from rankwolf.files.table_columns import (
    MOST_COLUMNS,
    TableOptions,
    data_or_names,
    find_column,
    kept_columns,
    not_numbers,
    too_wide,
    without_missing,
)
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed

# The most characters of the first lines together, from which dialect and heading are told.
MOST_LINE = 2**22
# How many lines the dialect is told from.
SAMPLE = 60
INDEX_NAMES = ("", "index", "unnamed: 0")


def read_text(address: Address, budget: Budget, options: TableOptions, kind: str) -> LabelledMatrix:
    """The matrix in a table of text. Empty cells and words such as NA, n/a, - and ? are missing."""
    pd = needed("pandas")
    usual = "\t" if kind.startswith("tsv") else ","
    missing = MISSING | {word.strip().lower() for word in options.missing}
    file, notes = open_text(address, budget)
    with file:
        dialect = find_dialect(_sample(address, file), usual, options.decimal)
        top = _top(address, file, dialect, options.header)
        names = heading(address, top.header, top.row)
        index = index_column(address, names, top.row, options.index, named=top.header is not None)
        kept = kept_columns(address, names, index, options, named=top.header is not None)
        file.seek(top.place)
        # Numbers are to be read exactly. pandas does so by itself since 3.1, and has deprecated the option.
        old = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
        exact: dict[str, Any] = {"float_precision": "round_trip"} if old else {}
        try:
            frame = pd.read_csv(
                file,
                sep=r"\s+" if dialect.separator == " " else dialect.separator,
                header=None,
                dtype=dict.fromkeys(index, "str"),
                low_memory=False,
                skipinitialspace=True,
                decimal=dialect.decimal,
                **exact,
                keep_default_na=False,
                na_values=sorted({form for word in missing for form in (word, word.upper(), word.title())}),
            )
        except pd.errors.ParserError as error:
            raise _uneven(address, str(error), top.lines) from error
    if frame.shape[1] != len(names):
        raise address.bad(f"its rows have up to {frame.shape[1]} cells and its first row {len(names)}.")
    values = np.empty((len(frame), len(kept)), np.float64)
    marks = {dialect.decimal}
    for place, number in enumerate(kept):
        where = _Where(address, names[number], top.lines)
        values[:, place], mark = _numbers(
            where, frame[number], dialect.decimal, missing, options.decimal is None
        )
        marks.add(mark)
    labels = Labels(
        tuple(names[number] for number in kept) if top.header else None,
        frame[index[0]].fillna("").tolist() if index else None,
        names[index[0]] if index and top.header else None,
    )
    if not values.size:
        raise address.bad("it has no rows of numbers.")
    if dialect.separator != usual and len(names) > 1:
        notes.append(f"Cells are separated by {SAID[dialect.separator]}.")
    if "," in marks:
        notes.append("Decimal commas were assumed.")
    return LabelledMatrix(
        without_missing(values, options),
        kind,
        labels,
        notes=tuple(notes),
        keys=data_or_names(values, labels.columns or [f"column {number}" for number in kept]),
        dialect=dialect,
    )


def _uneven(address: Address, said: str, lines_above: int) -> RefusedError:
    """The error about a row that is too long, with its line in the file: pandas counts from the first row of data."""
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", said)
    if found is None:
        return address.bad(f"it is not a table, or damaged ({said}).")
    cells, line, more = map(int, found.groups())
    return address.bad(f"its line {line + lines_above} has {more} cells, and those above have {cells}.")


def _sample(address: Address, file: IO[str]) -> list[str]:
    """The first lines that are not empty, at most SAMPLE of them."""
    lines = (line for line in _lines(address, file) if line.strip())
    return list(islice(lines, SAMPLE))


@dataclass(frozen=True)
class Top:
    """The top of a table: its heading, None if there is none, and its first row of data.

    ``place``: where in the file the rows of data begin. ``lines``: how many lines of text are above them.
    """

    header: list[str] | None
    row: list[str]
    place: int
    lines: int


def _top(address: Address, file: IO[str], dialect: Dialect, has_header: bool | None) -> Top:
    """The top of a table. Rows are read, not lines: a quoted cell may hold a line break. Empty ones are skipped."""
    file.seek(0)
    lines = (dialect.prepared(line) for line in _lines(address, file))
    reader = csv.reader(lines, delimiter=dialect.separator, skipinitialspace=True)
    before = file.tell()
    first = _next_row(reader)
    while first == [] or (first is not None and not any(cell.strip() for cell in first) and len(first) == 1):
        before, first = file.tell(), _next_row(reader)
    if first is None:
        raise address.bad("it is empty, without rows.")
    if len(first) > MOST_COLUMNS + 1:
        raise too_wide(address)
    if not (looks_like_header(first) if has_header is None else has_header):
        return Top(None, first, before, reader.line_num - 1)
    place, lines_above = file.tell(), reader.line_num
    row = _next_row(reader)
    while row == []:
        row = _next_row(reader)
    if row is None:
        raise address.bad("it has no rows below its heading.")
    return Top(first, row, place, lines_above)


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


def looks_like_header(row: list[str]) -> bool:
    """Whether a first row is a heading: some cell after the first is no number. The first may be the name of a row."""
    return not all(looks_like_number(cell) for cell in row[1:] or row)


def heading(address: Address, header: list[str] | None, row: list[str]) -> list[str]:
    """The names of the columns; "column 0", "column 1", … where there is no heading."""
    width = len(row)
    if header is None:
        return [f"column {number}" for number in range(width)]
    if len(header) == width - 1:  # as R writes it: no heading over the names of the rows
        return ["", *header]
    if len(header) != width:
        raise address.bad(f"its heading has {len(header)} cells and its first row {width}.")
    return header


def index_column(address: Address, names: list[str], row: list[str], wanted: str, named: bool) -> list[int]:
    """The number of the index column, in a list that is empty if there is none.

    "auto" takes the first column, if it has no heading or one of INDEX_NAMES, or if its first cell is no number.
    """
    if wanted == "none":
        return []
    if wanted != "auto":
        return [find_column(address, names, wanted, named)]
    nameless = named and names[0].strip().lower() in INDEX_NAMES
    return [0] if len(row) > 1 and (nameless or not looks_like_number(row[0])) else []


@dataclass(frozen=True)
class _Where:
    """A column, for errors: its file, its name, and how many lines are above its first cell."""

    address: Address
    name: str
    lines_above: int


def _numbers(
    where: _Where, column: Any, decimal: str, missing: Collection[str], may_differ: bool
) -> tuple[Array, str]:
    """(values, mark): the column as float64, and its decimal mark; a ValueError shows a cell that is no number."""
    types = needed("pandas").api.types
    if types.is_numeric_dtype(column.dtype) and not types.is_complex_dtype(column.dtype):
        return np.asarray(column.to_numpy(np.float64, na_value=np.nan)), decimal
    numbers, wrong, mark = numbers_of(column, decimal, missing, may_differ)
    if wrong is not None:
        line = wrong + where.lines_above + 1
        raise not_numbers(where.address, where.name, f"{str(column.iloc[wrong])[:40]!r} in line {line}")
    return numbers, mark
