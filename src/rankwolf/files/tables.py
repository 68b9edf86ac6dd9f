"""Tables: which column names the rows, which are left out, which hold numbers. Read in the cell.

A text, a spreadsheet and a Parquet or Feather file become a :class:`Table`, whose columns :func:`matrix_of` turns into
numbers.
"""

from __future__ import annotations

import datetime
import io
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import IO, Any

import numpy as np

from rankwolf.files.address import Address, RefusedError
from rankwolf.files.cells import MISSING, limits_of, looks_like_number, number_of, numbers_of
from rankwolf.files.text import SAID, find_dialect, open_text, read_lines, sample
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed
from rankwolf.ground.plural import number_of as counted

# A file with more columns than this is hardly a table, and pandas would take minutes to read it.
MOST_COLUMNS = 100_000
# With fewer rows, a column of consecutive or distinct numbers may be chance.
FEWEST_ROWS = 5
KEYS = set("id ids index idx key uid uuid row rownumber nr timestamp unixtime epoch".split())
INDEX_NAMES = ("", "index", "unnamed: 0")
Answer = tuple[dict[str, Any], dict[str, Array]]


@dataclass(frozen=True)
class TableOptions:
    """How a table is to be read, where the file does not say it.

    ``index``: the column that names the rows, ``"none"``, or ``"auto"``: the first column where it has no heading or
    no numbers. ``header``: whether the first line of a text file is a heading; None: if it is not all numbers.
    ``drop``: columns to leave out. ``columns``: the only ones to keep, in this order; none: all. ``missing``: further
    words for a missing cell, or numbers that stand for one. ``decimal``: "." or ","; None: as it looks.
    """

    index: str = "auto"
    header: bool | None = None
    drop: Sequence[str] = ()
    columns: Sequence[str] = ()
    missing: Sequence[str] = ()
    decimal: str | None = None

    @property
    def for_tables(self) -> list[str]:
        """The options that were given, by their names on the command line; all of them are for tables only."""
        given = {
            "--index": self.index not in ("auto", "none"),
            "--header": self.header is not None,
            "--drop": bool(self.drop),
            "--columns": bool(self.columns),
            "--missing": bool(self.missing),
            "--decimal": self.decimal is not None,
        }
        return [name for name, is_given in given.items() if is_given]


@dataclass(frozen=True)
class Table:
    """What a file of any kind holds: the names of its columns, and ``column(k)``, a pandas or Arrow column.

    ``named``: the names are the file's own. ``index``: the number of the column that names the rows, in a list that is
    empty without one. ``place``: the words for the place of the k-th cell of a column, for errors.
    """

    names: list[str]
    named: bool
    index: list[int]
    column: Any
    place: Any = lambda row: f"row {row}"


def matrix_of(
    address: Address, options: TableOptions, table: Table, notes: list[str], decimal: str = "."
) -> Answer:
    """The kept columns as a matrix, NaN where a cell is missing, with the names of rows and columns."""
    names = table.names
    left_out = {find_column(address, table, name) for name in options.drop} | set(table.index)
    wanted = [find_column(address, table, name) for name in options.columns] or range(len(names))
    kept = [number for number in dict.fromkeys(wanted) if number not in left_out]
    if not kept:
        raise address.bad("no column of numbers is left.")
    if len(kept) > MOST_COLUMNS:
        raise too_wide(address)
    columns, limits, marks = [], list[Any](), {decimal}
    for number in kept:
        found, mark = _numbers(address, table, number, decimal, options)
        columns.append(found)
        marks.add(mark)
        cells = table.column(number)
        limits.append(limits_of(cells, mark) if _is_text(cells) else None)
    single = all(column.dtype == np.float32 for column in columns)
    values = np.empty((columns[0].size, len(kept)), np.float32 if single else np.float64, order="F")
    for place, column in enumerate(columns):
        values[:, place] = column
    if not values.size:
        raise address.bad("it has no rows of numbers.")
    for word in options.missing:
        if (gap := number_of(word, ".")) is not None:
            values[values == gap] = np.nan
    if "," in marks:
        notes.append("Decimal commas were assumed.")
    labels = [names[number] for number in kept]
    words = {
        "columns": labels if table.named else None,
        "notes": notes,
        "keys": keys_among(values, labels),
        "index_name": names[table.index[0]] if table.index and table.named else None,
    }
    arrays = {"values": np.ascontiguousarray(values)}
    if any(limits):
        none = np.full(values.shape[0], np.nan)
        for end, name in enumerate(("low", "high")):
            arrays[name] = np.column_stack([none if pair is None else pair[end] for pair in limits])
        count = int(sum(np.count_nonzero(~np.isnan(arrays[name])) for name in ("low", "high")))
        notes.append(f"{count} cells such as '<0.1' are limits: S may be zero wherever L keeps to them.")
    if table.index:
        index, given = _labels(table.column(table.index[0]))
        words["index"] = index
        arrays |= {} if given is None else {"index": given}
    return words, arrays


def _is_text(column: Any) -> bool:
    """Whether a pandas column holds words."""
    types = needed("pandas").api.types
    return not hasattr(column, "to_pandas") and (
        types.is_object_dtype(column.dtype) or types.is_string_dtype(column.dtype)
    )


def _labels(column: Any) -> tuple[list[Any] | None, Array | None]:
    """The names of rows, as JSON, or as an array of times."""
    series = column.to_pandas() if hasattr(column, "to_pandas") else column
    if series.dtype.kind == "M":
        return None, series.dt.tz_localize(None).to_numpy("M8[us]") if series.dt.tz else series.to_numpy(
            "M8[us]"
        )
    labels = ["" if label is None or label != label else label for label in series.tolist()]
    plain = all(isinstance(label, str | int | float) for label in labels)
    return (labels if plain else [str(label) for label in labels]), None


def _numbers(
    address: Address, table: Table, number: int, decimal: str, options: TableOptions
) -> tuple[Array, str]:
    """(values, mark): a column as floats, and its decimal mark; a ValueError shows a cell that is no number."""
    column, name = table.column(number), table.names[number]
    if hasattr(column, "to_pandas"):  # Arrow's
        kinds, kind = needed("pyarrow.types"), column.type
        if not any(
            is_kind(kind)
            for is_kind in (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal)
        ):
            raise not_numbers(address, name, f"the type {kind}")
        single = "float" if kind == "float" else "double"
        return np.asarray(column.cast(single).to_numpy(zero_copy_only=False)), decimal
    types = needed("pandas").api.types
    if types.is_numeric_dtype(column.dtype) and not types.is_complex_dtype(column.dtype):
        return np.asarray(column.to_numpy(np.float64, na_value=np.nan)), decimal
    missing = MISSING | {word.strip().lower() for word in options.missing}
    numbers, wrong, mark = numbers_of(column, decimal, missing, options.decimal is None)
    if wrong is not None:
        raise not_numbers(address, name, f"{str(column.iloc[wrong])[:40]!r} in {table.place(wrong)}")
    return numbers, mark


# Texts


def read_text(address: Address, file: IO[bytes], options: TableOptions, usual: str) -> Answer:
    """The matrix in a table of text. Empty cells and words such as NA, n/a, - and ? are missing."""
    pd = needed("pandas")
    text, notes = open_text(address, file)
    lines = sample(address, text)
    dialect = find_dialect(lines, usual, options.decimal)
    width = Counter(len(row) for row in dialect.rows(iter(lines))).most_common(1)[0][0] if lines else 0
    text.seek(0)
    reader = dialect.rows(read_lines(address, text))
    top: list[
        tuple[list[str], int, int]
    ] = []  # the first two rows that are not empty; where each begins, its line
    place = line = 0
    comments = 0
    for row in reader:
        if not top and row and row[0].lstrip().startswith("#") and len(row) < width:
            comments += 1
        elif any(cell.strip() for cell in row) or len(row) > 1:
            top.append((row, place, line))
        if len(top) == 2:
            break
        place, line = text.tell(), reader.line_num  # type: ignore[attr-defined]
    if comments:
        notes.append(f"Left out: {counted(comments, 'line')} above the table that began with #.")
    header, first, number = heading(address, [row for row, _, _ in top], options.header)
    names = names_of(address, header, first)
    place, lines_above = top[number][1:]
    index = index_column(address, names, first, options.index, header is not None)
    source: Any = text
    encoding = text.encoding
    if encoding in ("utf-8", "utf-8-sig") and place < 2**63:  # pandas reads bytes at twice the speed
        source = text.detach()
    source.seek(place)
    missing = MISSING | {word.strip().lower() for word in options.missing}
    # Numbers are to be read exactly. pandas does so by itself since 3.1, and has deprecated the option.
    old = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
    exact: dict[str, Any] = {"float_precision": "round_trip"} if old else {}
    try:
        frame = pd.read_csv(
            source,
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
        raise _uneven(address, str(error), lines_above) from error
    if frame.shape[1] != len(names):
        raise address.bad(f"its rows have up to {frame.shape[1]} cells and its first row {len(names)}.")
    if frame.iloc[:, -1].isna().any():
        source.seek(place)
        again = source if source is text else io.TextIOWrapper(source, encoding, newline="")
        short = sum(any(row) and len(row) < len(names) for row in dialect.rows(iter(again)))
        if short:
            notes.append(
                f"{counted(short, 'row has', 'rows have')} fewer cells than others: the rest is missing."
            )
    if dialect.separator != usual and len(names) > 1:
        notes.append(f"Cells are separated by {SAID[dialect.separator]}.")
    table = Table(
        names, header is not None, index, frame.__getitem__, lambda row: f"line {row + lines_above + 1}"
    )
    words, arrays = matrix_of(address, options, table, notes, dialect.decimal)
    return {**words, "dialect": [dialect.separator, dialect.decimal]}, arrays


def _uneven(address: Address, said: str, lines_above: int) -> RefusedError:
    """The error about a row that is too long, with its line in the file: pandas counts from the first row of data."""
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", said)
    if found is None:
        return address.bad(f"it is not a table, or damaged ({said}).")
    cells, line, more = map(int, found.groups())
    return address.bad(f"its line {line + lines_above} has {more} cells, and those above have {cells}.")


def heading(
    address: Address, rows: list[list[str]], has_header: bool | None
) -> tuple[list[str] | None, list[str], int]:
    """(heading or None, first row of data, its number), from the first two rows of a table.

    The first row is a heading if some cell after the first is no number. The first cell may be the name of a row.
    """
    if not rows:
        raise address.bad("it is empty, without rows.")
    if len(rows[0]) > MOST_COLUMNS + 1:
        raise too_wide(address)
    looks = not all(looks_like_number(cell) for cell in rows[0][1:] or rows[0])
    if not (looks if has_header is None else has_header):
        return None, rows[0], 0
    if len(rows) < 2:
        raise address.bad("it has no rows below its heading.")
    return rows[0], rows[1], 1


def names_of(address: Address, header: list[str] | None, row: list[str]) -> list[str]:
    """The names of the columns; "column 0", "column 1", … where there is no heading."""
    if header is None:
        return [f"column {number}" for number in range(len(row))]
    if len(header) == len(row) - 1:  # as R writes it: no heading over the names of the rows
        return ["", *header]
    if len(header) != len(row):
        raise address.bad(f"its heading has {len(header)} cells and its first row {len(row)}.")
    return header


def index_column(address: Address, names: list[str], row: list[str], wanted: str, named: bool) -> list[int]:
    """The number of the index column, in a list that is empty if there is none.

    "auto" takes the first column, if it has no heading or one of INDEX_NAMES, or if its first cell is no number.
    """
    if wanted == "none":
        return []
    if wanted != "auto":
        return [find_column(address, Table(names, named, [], None), wanted)]
    nameless = named and names[0].strip().lower() in INDEX_NAMES
    return [0] if len(row) > 1 and (nameless or not looks_like_number(row[0])) else []


# Spreadsheets


def read_xlsx(address: Address, file: IO[bytes], options: TableOptions) -> Answer:
    """The matrix in one sheet: ``file.xlsx::Sheet``, or the first. Its values, never its formulas, macros or links.

    Empty cells and errors such as #N/A are missing.
    """
    book = needed("openpyxl").load_workbook(file, read_only=True, data_only=True, keep_links=False)
    sheets = [sheet.title for sheet in book.worksheets]
    if not sheets:
        raise address.bad("it holds no sheet of cells.")
    name = sheets[0] if address.member is None else address.choose(sheets, "sheet")
    rows = list(_sheet_rows(address, book[name]))
    start = next((number for number, row in enumerate(rows) if row), None)
    if start is None:
        raise address.bad("its sheet is empty.")
    width = max(map(len, rows))
    body = [row + [None] * (width - len(row)) for row in rows[start:]]
    top = [["" if cell is None else str(cell) for cell in row] for row in body[:2]]
    header, first, number = heading(address, top, options.header)
    names = names_of(address, header, first)
    index = index_column(address, names, first, options.index, header is not None)
    frame = needed("pandas").DataFrame(body[number:], dtype=object)
    notes = []
    if address.member is None and len(sheets) > 1:
        notes.append(f"The first of {len(sheets)} sheets was read, {name!r}. Name another as FILE::SHEET.")
    table = Table(
        names, header is not None, index, frame.__getitem__, lambda row: f"row {row + start + number + 1}"
    )
    words, arrays = matrix_of(address, options, table, notes, options.decimal or ".")
    return {**words, "member": name}, arrays


def _sheet_rows(address: Address, sheet: Any) -> Iterator[list[Any]]:
    """The rows of a sheet, without empty cells at their ends and without empty rows at the end of the sheet."""
    sheet.reset_dimensions()  # the size that the file claims is not used
    waiting = 0
    for row in sheet.iter_rows(values_only=True):
        values = [_cell(value) for value in row]
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


def _cell(value: Any) -> Any:
    """A cell as a number or text; a time at midnight is written as a date, an error such as #N/A is missing."""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, Real):
        return value
    return None if value is None or (isinstance(value, str) and value.startswith("#")) else str(value)


# Arrow


def read_arrow(address: Address, found: Any, options: TableOptions) -> Answer:
    """The matrix in an Arrow table: its columns of numbers, with the names of rows and columns. Nulls are missing."""
    schema = found.schema
    table = Table(list(schema.names), True, [], found.column)
    index = _arrow_index(address, schema, table, options.index)
    if found.num_rows < 1:
        raise address.bad("it has no rows.")
    table = Table(table.names, True, index, found.column)
    words, arrays = matrix_of(address, options, table, [])
    if str(words["index_name"] or "").startswith("__index_level_"):  # pandas made it up
        words["index_name"] = None
    return words, arrays


def _arrow_index(address: Address, schema: Any, table: Table, wanted: str) -> list[int]:
    """As :func:`index_column`; "auto" takes the column that pandas marked, else a first one of words or times."""
    if wanted == "none":
        return []
    if wanted != "auto":
        return [find_column(address, table, wanted)]
    try:
        marked = (schema.pandas_metadata or {}).get("index_columns", [])
    except (ValueError, AttributeError):  # not JSON, or not a dictionary
        marked = []
    named = [name for name in marked if isinstance(name, str) and name in table.names]
    if named:
        return [table.names.index(named[0])]
    kinds, first = needed("pyarrow.types"), schema.field(0).type if len(schema) else None
    words = (
        kinds.is_string,
        kinds.is_large_string,
        kinds.is_string_view,
        kinds.is_dictionary,
        kinds.is_temporal,
    )
    return [0] if len(schema) > 1 and any(is_kind(first) for is_kind in words) else []


# Names


def find_column(address: Address, table: Table, wanted: str) -> int:
    """The number of the column ``wanted``, from 0; without a heading, ``2`` and ``column 2`` are the third."""
    names = table.names
    if not table.named and wanted.isdecimal():
        wanted = f"column {wanted}"
    if wanted in names:
        return names.index(wanted)
    shown = ", ".join(repr(name) for name in names[:8])
    several = [name.strip() for name in wanted.split(",")]
    hint = f" Several are given as {shlex.join(several)}." if set(several) <= set(names) else ""
    raise address.bad(f"it has no column {wanted!r}. It has {shown}{', …' if len(names) > 8 else ''}.{hint}")


def keys_among(values: Array, names: Sequence[str]) -> list[str]:
    """The names of columns that look like keys of the rows, although they are part of the matrix.

    These are numbers that go up by one from row to row, and columns called id, index or the like whose entries are all
    different.
    """
    if values.shape[0] < FEWEST_ROWS:
        return []
    return [
        name
        for name, column in zip(names, values.T, strict=True)
        if np.all(np.diff(column) == 1.0) or (_is_key(name) and np.unique(column).size == column.size)
    ]


def _is_key(name: str) -> bool:
    words = re.split(r"[\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    return bool({words[0], words[-1]} & KEYS)


def too_wide(address: Address) -> RefusedError:
    """The error about a table with more than MOST_COLUMNS columns."""
    return address.bad(f"it has more than {MOST_COLUMNS:,} columns. Transpose it, or keep it as .npy or .h5.")


def not_numbers(address: Address, name: str, found: str) -> RefusedError:
    """The error about the column ``name``, which holds ``found`` and not numbers."""
    return address.bad(
        f"its column {name!r} must hold numbers. It holds {found}. "
        f"Leave it out with --drop {name!r}, or name the rows by it with --index {name!r}; "
        "a word for a missing cell is named with --missing."
    )
