"""Tables in ``.xlsx`` files: the values of a sheet, never its formulas, macros or links."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from numbers import Real
from typing import IO, Any
from xml.parsers import expat

import numpy as np

from rankwolf.files.address import Address
from rankwolf.files.archive import COMPRESSIONS
from rankwolf.files.cells import MISSING, number_of
from rankwolf.files.claims import Budget
from rankwolf.files.named_matrix import LabelledMatrix, Labels
from rankwolf.files.table_columns import (
    MOST_COLUMNS,
    TableOptions,
    data_or_names,
    kept_columns,
    not_numbers,
    too_wide,
    without_missing,
)
from rankwolf.files.text import heading, index_column, looks_like_header
from rankwolf.ground.extras import needed

# The most rows and columns of a sheet, by the format itself.
MOST_ROWS_WRITTEN, MOST_COLUMNS_WRITTEN = 1_048_576, 16_384
# How many bytes of memory a cell takes as a Python object, while a sheet is read.
CELL_BYTES = 64
# How many bytes of memory a byte of XML takes at most: <si><t>a</t></si> becomes a string in a list.
XML_GROWTH = 4
# How many bytes of a part are parsed at a time, until its first element is seen.
PIECE = 4096


def read_xlsx(address: Address, budget: Budget, options: TableOptions) -> LabelledMatrix:
    """The matrix in one sheet: ``file.xlsx::Sheet``, or the first. Empty cells and errors such as #N/A are missing."""
    openpyxl = needed("openpyxl")
    _check_parts(address, budget)
    book = openpyxl.load_workbook(address.path, read_only=True, data_only=True, keep_links=False)
    try:
        names = [sheet.title for sheet in book.worksheets]
        if not names:
            raise address.bad("it holds no sheet of cells.")
        name = names[0] if address.member is None else address.choose(names, "sheet")
        rows = list(_rows(address, budget, book[name]))
    finally:
        book.close()
    notes = []
    if address.member is None and len(names) > 1:
        notes.append(f"The first of {len(names)} sheets was read, {name!r}. Name another as FILE::SHEET.")
    matrix = _matrix(address, options, rows)
    return LabelledMatrix(
        without_missing(matrix.values, options),
        "xlsx",
        matrix.labels,
        name,
        notes=tuple(notes),
        keys=matrix.keys,
    )


def _check_parts(address: Address, budget: Budget) -> None:
    """Refuse a file whose parts would take too much memory, or declare entities, which could grow without end.

    Every part counts, whatever its name: the file itself says which of them are sheets.
    """
    with zipfile.ZipFile(address.path) as archive:
        parts = archive.infolist()
        if any(part.compress_type not in COMPRESSIONS for part in parts):
            raise address.bad("a part of it is compressed in a way that is not known.")
        # Text of XML becomes objects of several times its size.
        total = XML_GROWTH * sum(part.file_size for part in parts)
        budget.check(address, total, max(address.path.stat().st_size, 1))
        for part in parts:
            with archive.open(part) as file:
                if _declares_a_type(file):
                    raise address.bad("it declares a document type, which spreadsheets do not.")


def _declares_a_type(file: IO[bytes]) -> bool:
    """Whether a file is XML with a document type. It must stand before the first element, so no more is parsed."""
    found: list[bool] = []
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = lambda *declared: found.append(True)
    parser.StartElementHandler = lambda *element: found.append(False)
    with suppress(expat.ExpatError):
        while not found and (piece := file.read(PIECE)):
            parser.Parse(piece, False)
        if not found:  # newer versions of expat report a declaration only when more follows
            parser.Parse(b"", True)
    return bool(found) and found[0]


def _rows(address: Address, budget: Budget, sheet: Any) -> Iterator[list[Any]]:
    """The rows of a sheet, without empty cells at their ends and without empty rows at the end of the sheet.

    The memory that they take is checked against the budget as they come.
    """
    sheet.reset_dimensions()  # the size that the file claims is not used
    stored, cells, waiting = address.path.stat().st_size, 0, 0
    for row in sheet.iter_rows(values_only=True):
        cells += len(row) + 1
        budget.check(address, CELL_BYTES * cells, stored)
        values = list(row)
        while values and values[-1] is None:
            values.pop()
        if len(values) > MOST_COLUMNS + 1:
            raise too_wide(address)
        if not values:
            waiting += 1
            continue
        yield from ([] for _ in range(waiting))
        waiting = 0
        yield values


def _matrix(address: Address, options: TableOptions, rows: list[list[Any]]) -> LabelledMatrix:
    start = next((number for number, row in enumerate(rows) if row), None)
    if start is None:
        raise address.bad("its sheet is empty.")
    width = max(map(len, rows))
    table = [row + [None] * (width - len(row)) for row in rows[start:]]
    words = [_word(value) for value in table[0]]
    has_header = looks_like_header(words) if options.header is None else options.header
    body = table[1:] if has_header else table
    if not body:
        raise address.bad("it has no rows below its heading.")
    first = [_word(value) for value in body[0]]
    names = heading(address, words if has_header else None, first)
    index = index_column(address, names, first, options.index, named=has_header)
    kept = kept_columns(address, names, index, options, named=has_header)
    missing = MISSING | {word.strip().lower() for word in options.missing}
    values = np.empty((len(body), len(kept)))
    for place, number in enumerate(kept):
        for line, row in enumerate(body):
            found = _number(row[number], options.decimal or ".", missing)
            if found is None:
                sheet_row = line + start + 1 + has_header
                raise not_numbers(address, names[number], f"{_word(row[number])[:40]!r} in row {sheet_row}")
            values[line, place] = found
    labels = Labels(
        tuple(names[number] for number in kept) if has_header else None,
        [_word(row[index[0]]) for row in body] if index else None,
        names[index[0]] if index and has_header else None,
    )
    return LabelledMatrix(
        values, "xlsx", labels, keys=data_or_names(values, labels.columns or [names[n] for n in kept])
    )


def _word(value: Any) -> str:
    """A cell as text, for names; a time at midnight is written as a date."""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    return "" if value is None else str(value)


def _number(value: Any, decimal: str, missing: frozenset[str]) -> float | None:
    """A cell as a number; NaN if it is missing or an error such as #N/A, None for anything else, such as a date."""
    if value is None or (isinstance(value, str) and value.startswith("#")):
        return float("nan")
    if isinstance(value, Real):
        return float(value)
    return number_of(value, decimal, missing) if isinstance(value, str) else None


def check_room(shape: tuple[int, int]) -> None:
    """Refuse to write a matrix that, with one row and column of names, does not fit into a sheet."""
    if shape[0] + 1 > MOST_ROWS_WRITTEN or shape[1] + 1 > MOST_COLUMNS_WRITTEN:
        raise ValueError(
            f"An .xlsx file has room for {MOST_ROWS_WRITTEN:,} rows and {MOST_COLUMNS_WRITTEN:,} columns. "
            f"The table has {shape[0]:,} × {shape[1]:,}. Give --format csv."
        )
