"""Tables: how a text is written, which column names the rows, which hold numbers. Read in the cell.

Each reader makes a pandas frame with numbered columns, and :func:`matrix_of` turns that into numbers: texts, sheets,
Parquet and Feather files all go this way.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import gzip
import io
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, Any

import numpy as np

from rankwolf.files.address import Address, RefusedError
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed
from rankwolf.ground.plural import number_of as counted

Answer = tuple[dict[str, Any], dict[str, Array]]

# A file with more columns than this is hardly a table, and pandas would take minutes to read it.
MOST_COLUMNS = 100_000
# With fewer rows, a column of consecutive or distinct numbers may be chance.
FEWEST_ROWS = 5
KEYS = set("id ids index idx key uid uuid row rownumber nr timestamp unixtime epoch".split())
INDEX_NAMES = ("", "index", "unnamed: 0")
# Where several separators fit equally well, the first of them is taken.
SEPARATORS = {"\t": "tabs", ";": "semicolons", ",": "commas", "|": "bars", " ": "spaces"}
# The share of the sampled rows that must have the same number of cells; and how many rows are sampled.
MOST_ROWS, SAMPLE = 0.8, 60
# The most characters of the first lines together, and how many bytes are decoded at a time.
MOST_LINE, PORTION = 2**22, 2**20
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
ENCODINGS = {
    **dict.fromkeys(("utf-16", "utf-16-le", "utf-16-be"), "UTF-16"),
    "cp1252": "Latin-1 (Windows-1252)",
}


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
        usual = TableOptions(index=self.index if self.index == "none" else "auto")
        return [
            f"--{name}" for name, value in vars(self).items() if value != getattr(usual, name) and value != []
        ]


@dataclass(frozen=True)
class Dialect:
    """``separator`` is one character; a space stands for any number of spaces and tabs."""

    separator: str = ","
    decimal: str = "."

    def rows(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """The cells of each row. A quoted cell may hold a line break. Spaces at the ends of lines separate nothing."""
        stripped = (line.strip() + "\n" if self.separator == " " else line for line in lines)
        return csv.reader(stripped, delimiter=self.separator, skipinitialspace=True)


@dataclass
class Table:
    """What a file holds: the names of its columns, and a pandas frame whose columns have the numbers from 0.

    ``named``: the names are the file's own. ``index``: the number of the column that names the rows, in a list that is
    empty without one. ``place``: the words for the place of the k-th row, for errors.
    """

    address: Address
    names: list[str]
    named: bool
    index: list[int] = field(default_factory=list)
    frame: Any = None
    place: Callable[[int], str] = "row {}".format

    def column(self, wanted: str) -> int:
        """The number of the column ``wanted``; without a heading, ``2`` and ``column 2`` are the third."""
        names = self.names
        if not self.named and wanted.isdecimal():
            wanted = f"column {wanted}"
        if wanted in names:
            return names.index(wanted)
        shown = ", ".join(repr(name) for name in names[:8]) + (", …" if len(names) > 8 else "")
        several = [name.strip() for name in wanted.split(",")]
        hint = f" Several are given as {shlex.join(several)}." if set(several) <= set(names) else ""
        raise self.address.bad(f"it has no column {wanted!r}. It has {shown}.{hint}")


# Cells

MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "#n/a", "-nan", "<na>", "-", "--", "?", "."))
# Marks between thousands that are no decimal mark anywhere: spaces of all widths, and the Swiss apostrophe.
_BETWEEN = re.compile("(?<=[0-9])[ '\u00a0\u2009\u202f\u2019](?=[0-9]{3})")
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_PLAIN = re.compile(rf"[+-]?(?:\d+\.?\d*|\.\d+){_EXPONENT}|[+-]?inf(?:inity)?", re.IGNORECASE | re.ASCII)
_COMMA = re.compile(rf"[+-]?\d*,\d+{_EXPONENT}")
_THOUSANDS = {
    ".": re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?"),
    ",": re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+(?:,\d*)?"),
}
_OTHER = {".": ",", ",": "."}
# "<0.1": below a detection limit; ">5": above.
_LIMIT = re.compile(r"\s*([<>≤≥])=?\s*(.+)")


def looks_like_number(cell: str) -> bool:
    """Whether a cell is a number, in any of the ways in which people write them, or missing."""
    limit = _LIMIT.fullmatch(cell)
    text = _BETWEEN.sub("", (limit[2] if limit else cell).strip())
    forms = (_PLAIN, _COMMA, *_THOUSANDS.values())
    return text.lower() in MISSING or any(form.fullmatch(text) for form in forms)


def decimal_of(cells: Collection[str], separator: str) -> str:
    """The decimal mark of a table, "." or ",", from some of its cells; commas of thousands are told apart.

    ``1,5`` and ``0,125`` have a decimal comma; ``1,234.5``, and ``1,234`` beside ``1.5``, have not. Where all commas
    are as in ``1,234``, they are decimal if cells are separated by semicolons: spreadsheets write semicolons where
    commas are decimal.
    """
    marked = [cell.strip() for cell in cells if "," in cell and looks_like_number(cell)]
    if not marked or any("." in cell and _THOUSANDS["."].fullmatch(cell) for cell in marked):
        return "."
    if any(not _THOUSANDS["."].fullmatch(cell) or re.match(r"[+-]?0,", cell) for cell in marked):
        return ","
    points = any(_PLAIN.fullmatch(cell.strip()) and "." in cell for cell in cells)
    return "," if separator == ";" and not points else "."


def number_of(cell: str, decimal: str, missing: Collection[str] = MISSING) -> float | None:
    """The number in a cell; NaN where it is missing, None where it is neither a number nor missing.

    >>> number_of("1.234,5", ","), number_of("1,234.5", "."), number_of("12 500", "."), number_of("n/a", ".")
    (1234.5, 1234.5, 12500.0, nan)
    >>> number_of("1,5", ".") is None
    True
    """
    text = cell.strip()
    if text.lower() in missing:
        return float("nan")
    text = _BETWEEN.sub("", text)
    if _OTHER[decimal] in text:
        if not _THOUSANDS[decimal].fullmatch(text):
            return None
        text = text.replace(_OTHER[decimal], "")
    text = text.replace(decimal, ".")
    return float(text) if _PLAIN.fullmatch(text) else None


def numbers_of(cells: Any, decimal: str, missing: Collection[str] = MISSING) -> tuple[Array, int | None]:
    """(values, low and high of each cell; None): a column of text, NaN where a cell is missing or no limit.

    With a cell that is no number, its place instead of None.

    >>> numbers_of(["1.5", "<0.1", "> 5"], ".")
    (array([[1.5, nan, nan],
           [nan, nan, 5. ],
           [nan, 0.1, nan]]), None)
    """
    found = np.full((3, len(cells)), np.nan)
    for place, cell in enumerate(cells):
        text = "" if cell is None or cell != cell else str(cell)
        limit = _LIMIT.fullmatch(text)
        number = number_of(limit[2] if limit else text, decimal, missing)
        if number is None:
            return found, place
        found[0 if limit is None else 1 if limit[1] in ">≥" else 2, place] = number
    return found, None


# From a table to a matrix


def matrix_of(table: Table, options: TableOptions, notes: list[str], decimal: str = ".") -> Answer:
    """The kept columns as a matrix, NaN where a cell is missing, with the names of rows and columns."""
    names = table.names
    left_out = {table.column(name) for name in options.drop} | set(table.index)
    wanted = [table.column(name) for name in options.columns] or range(len(names))
    kept = [number for number in dict.fromkeys(wanted) if number not in left_out]
    if not kept:
        raise table.address.bad("no column of numbers is left.")
    if len(kept) > MOST_COLUMNS:
        raise too_wide(table.address)
    columns = [_column(table, number, decimal, options) for number in kept]
    values = np.column_stack([column[0] for column in columns])
    if not values.size:
        raise table.address.bad("it has no rows of numbers.")
    for word in options.missing:
        if (gap := number_of(word, ".")) is not None:
            values[values == gap] = np.nan
    if any(mark == "," for _, _, mark in columns):
        notes.append("Decimal commas were assumed.")
    arrays = {"values": values}
    if any(limits is not None for _, limits, _ in columns):
        none = np.full((2, len(values)), np.nan)
        ends = np.stack([none if limits is None else limits for _, limits, _ in columns], axis=2)
        arrays |= {"low": ends[0], "high": ends[1]}
        count = np.count_nonzero(~np.isnan(ends))
        limited = counted(int(count), "cell")
        notes.append(f"{limited} such as '<0.1' set limits: S may be zero wherever L keeps to them.")
    labels = [names[number] for number in kept]
    words: dict[str, Any] = {"notes": notes, "keys": keys_among(values, labels)}
    if table.named:
        words["columns"] = labels
    if table.index:
        words["index_name"] = names[table.index[0]] if table.named else None
        rows = table.frame[table.index[0]]
        if rows.dtype.kind == "M":
            arrays["index"] = (rows.dt.tz_localize(None) if rows.dt.tz else rows).to_numpy("M8[us]")
        else:
            given = ["" if label is None or label != label else label for label in rows.tolist()]
            plain = all(isinstance(label, str | int | float) for label in given)
            words["index"] = given if plain else list(map(str, given))
    return words, arrays


def _column(table: Table, number: int, decimal: str, options: TableOptions) -> tuple[Array, Any, str]:
    """(values, limits or None, decimal mark) of a column; a ValueError shows a cell that is no number."""
    cells, types = table.frame[number], needed("pandas").api.types
    if cells.dtype.name == "category":
        cells = cells.astype(cells.cat.categories.dtype)
    if types.is_numeric_dtype(cells.dtype) and not types.is_complex_dtype(cells.dtype):
        kind = np.float32 if cells.dtype == np.float32 else np.float64
        return cells.to_numpy(kind, na_value=np.nan), None, decimal
    found = f"the type {cells.dtype}"
    if types.is_object_dtype(cells.dtype) or types.is_string_dtype(cells.dtype):
        missing = MISSING | {word.strip().lower() for word in options.missing}
        wrong = []
        for mark in (decimal, _OTHER[decimal]) if options.decimal is None else (decimal,):
            numbers, place = numbers_of(cells, mark, missing)
            if place is None:
                return numbers[0], None if np.isnan(numbers[1:]).all() else numbers[1:], mark
            wrong.append(place)
        found = f"{str(cells.iloc[max(wrong)])[:40]!r} in {table.place(max(wrong))}"
    name = table.names[number]
    raise table.address.bad(
        f"its column {name!r} must hold numbers. It holds {found}. "
        f"Leave it out with --drop {name!r}, or name the rows by it with --index {name!r}; "
        "a word for a missing cell is named with --missing."
    )


def keys_among(values: Array, names: Sequence[str]) -> list[str]:
    """The names of columns that look like keys of the rows, although they are part of the matrix.

    These are numbers that go up by one from row to row, and columns called id, index or the like whose entries are all
    different.
    """

    def is_key(name: str) -> bool:
        words = re.split(r"[\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
        return bool({words[0], words[-1]} & KEYS)

    if values.shape[0] < FEWEST_ROWS:
        return []
    return [
        name
        for name, column in zip(names, values.T, strict=True)
        if np.all(np.diff(column) == 1.0) or (is_key(name) and np.unique(column).size == column.size)
    ]


def headed(address: Address, rows: list[list[str]], options: TableOptions) -> tuple[Table, int]:
    """(a table without a frame, how many rows its heading takes), from the first two rows of a text or a sheet.

    The first row is a heading if some cell after the first is no number. The first cell may be the name of a row.
    "auto" takes the first column as names of the rows, if it has no heading or one of INDEX_NAMES, or if its first cell
    is no number.
    """
    if not rows:
        raise address.bad("it is empty, without rows.")
    if len(rows[0]) > MOST_COLUMNS + 1:
        raise too_wide(address)
    looks = not all(looks_like_number(cell) for cell in rows[0][1:] or rows[0])
    named = looks if options.header is None else options.header
    if named and len(rows) < 2:
        raise address.bad("it has no rows below its heading.")
    names, row = rows[0], rows[int(named)]
    if not named:
        names = [f"column {number}" for number in range(len(row))]
    elif len(names) == len(row) - 1:  # as R writes it: no heading over the names of the rows
        names = ["", *names]
    elif len(names) != len(row):
        raise address.bad(f"its heading has {len(names)} cells and its first row {len(row)}.")
    table = Table(address, names, named)
    if options.index not in ("none", "auto"):
        table.index = [table.column(options.index)]
    elif options.index == "auto" and len(row) > 1:
        nameless = named and names[0].strip().lower() in INDEX_NAMES
        table.index = [0] if nameless or not looks_like_number(row[0]) else []
    return table, int(named)


def too_wide(address: Address) -> RefusedError:
    """The error about a table with more than MOST_COLUMNS columns."""
    return address.bad(f"it has more than {MOST_COLUMNS:,} columns. Transpose it, or keep it as .npy or .h5.")


# Texts


def read_text(address: Address, file: IO[bytes], options: TableOptions, usual: str) -> Answer:
    """The matrix in a table of text. Empty cells and words such as NA, n/a, - and ? are missing."""
    pd = needed("pandas")
    text, notes = open_text(address, file)
    sample = list(islice((line for line in read_lines(address, text) if line.strip()), SAMPLE))
    dialect = find_dialect(sample, usual, options.decimal)
    width = Counter(len(row) for row in dialect.rows(iter(sample))).most_common(1)[0][0] if sample else 0
    text.seek(0)
    reader = dialect.rows(read_lines(address, text))
    # The first two rows that are not empty: their cells, where each begins, and the lines above it.
    top: list[tuple[list[str], int, int]] = []
    place = line = comments = 0
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
    table, number = headed(address, [row for row, _, _ in top], options)
    place, above = top[number][1:]
    table.place = lambda row: f"line {row + above + 1}"
    source: Any = text
    encoding = text.encoding
    if encoding in ("utf-8", "utf-8-sig") and place < 2**63:  # pandas reads bytes at twice the speed
        source = text.detach()
    missing = MISSING | {word.strip().lower() for word in options.missing}
    settings: dict[str, Any] = {
        "sep": r"\s+" if dialect.separator == " " else dialect.separator,
        "header": None,
        "dtype": dict.fromkeys(table.index, "str"),
        "skipinitialspace": True,
        "decimal": dialect.decimal,
        "keep_default_na": False,
        "na_values": sorted({form for word in missing for form in (word, word.upper(), word.title())}),
    }
    # Numbers are to be read exactly. pandas does so by itself since 3.1, and has deprecated the option.
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        settings["float_precision"] = "round_trip"
    try:
        source.seek(place)
        frame = pd.read_csv(source, **settings)
        # In portions, a column of words may become one of words and numbers.
        if any(map(pd.api.types.is_object_dtype, frame.dtypes)):
            source.seek(place)
            frame = pd.read_csv(source, low_memory=False, **settings)
    except pd.errors.ParserError as error:
        # pandas counts from the first row of data.
        found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if found is None:
            raise
        cells, wrong, more = map(int, found.groups())
        raise address.bad(
            f"its line {wrong + above} has {more} cells, and those above have {cells}."
        ) from error
    if frame.shape[1] != len(table.names):
        raise address.bad(f"its rows have up to {frame.shape[1]} cells and its first row {len(table.names)}.")
    if frame.iloc[:, -1].isna().any():
        source.seek(place)
        again = source if source is text else io.TextIOWrapper(source, encoding, newline="")
        short = sum(any(row) and len(row) < len(table.names) for row in dialect.rows(iter(again)))
        if short:
            have = counted(short, "row has", "rows have")
            notes.append(f"{have} fewer cells than others: the rest is missing.")
    if dialect.separator != usual and len(table.names) > 1:
        notes.append(f"Cells are separated by {SEPARATORS[dialect.separator]}.")
    table.frame = frame
    words, arrays = matrix_of(table, options, notes, dialect.decimal)
    return {**words, "dialect": [dialect.separator, dialect.decimal]}, arrays


def open_text(address: Address, file: IO[bytes]) -> tuple[io.TextIOWrapper, list[str]]:
    """(text, notes): an open file as text, from its beginning, and sentences about what was assumed.

    The encoding is UTF-8, UTF-16 with or without its byte order mark, or else Windows-1252. The whole file is decoded
    once before.
    """
    packed = address.path.suffix.lower() == ".gz"
    raw: IO[bytes] = io.BytesIO(gzip.decompress(file.read())) if packed else file
    first = raw.read(4096)
    zeros = [first[0::2].count(0), first[1::2].count(0)]
    encoding = next((name for mark, name in MARKS.items() if first.startswith(mark)), "utf-8")
    if encoding == "utf-8" and any(zeros):
        # A text of numbers in UTF-16 has a zero in nearly every second byte, and in no other.
        if min(zeros) or max(zeros) <= len(first) // 4:
            raise address.bad("it is not a text: it has zero bytes.")
        encoding = "utf-16-le" if zeros[1] else "utf-16-be"
    decoder: Any = codecs.getincrementaldecoder(encoding)()
    raw.seek(0)
    try:
        while part := raw.read(PORTION):
            if encoding != "utf-8" or not part.isascii() or decoder.getstate()[0]:
                decoder.decode(part)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            said = f"it begins like a text in {encoding.upper()}, but some of it is not."
            raise address.bad(said) from error
        encoding = "cp1252"
    raw.seek(0)
    notes = [f"The text is not UTF-8; {ENCODINGS[encoding]} was assumed."] if encoding in ENCODINGS else []
    errors = "replace" if encoding == "cp1252" else "strict"  # five bytes have no meaning in it
    return io.TextIOWrapper(raw, encoding=encoding, errors=errors, newline=""), notes


def find_dialect(lines: Sequence[str], usual: str, decimal: str | None) -> Dialect:
    """The dialect of a text, from its first lines.

    ``usual``: the separator where the lines do not tell; ``decimal``: the decimal mark, if known.

    The separator must cut four fifths of the lines into the same number of cells, at least two. Of those that do, it is
    the one with the largest share of numbers among the cells, and then with the most cells in a line.
    """

    def cut(separator: str) -> list[list[str]]:
        try:
            return [row for row in Dialect(separator).rows(iter(lines)) if row]
        except csv.Error:
            return []

    best, score = usual, (0.0, 0)
    for separator in SEPARATORS:
        rows = cut(separator)
        width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (0, 0)
        if width < 2 or count < MOST_ROWS * len(rows):
            continue
        cells = [cell for row in rows for cell in row]
        found = (round(sum(map(looks_like_number, cells)) / len(cells), 6), width)
        if found > score:
            best, score = separator, found
    return Dialect(best, decimal or decimal_of([cell for row in cut(best) for cell in row], best))


def read_lines(address: Address, file: IO[str]) -> Iterator[str]:
    """The lines of the file, read so that ``tell`` works between two of them."""
    total = 0
    while line := file.readline(MOST_LINE):
        total += len(line)
        if total >= MOST_LINE:
            raise address.bad("its first lines are longer than 4 MB.")
        yield line


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
    book[name].reset_dimensions()  # the size that the file claims is not used
    rows = [[_cell(value) for value in row] for row in book[name].iter_rows(values_only=True)]
    frame = needed("pandas").DataFrame(rows, dtype=object)
    filled = frame.notna().to_numpy()
    if not filled.any():
        raise address.bad("its sheet is empty.")
    (first, last), width = np.flatnonzero(filled.any(axis=1))[[0, -1]], np.flatnonzero(filled.any(axis=0))[-1]
    frame = frame.iloc[first : last + 1, : width + 1]
    top = frame.iloc[:2].map(lambda cell: "" if cell is None else str(cell)).to_numpy().tolist()
    table, number = headed(address, top, options)
    table.frame = frame.iloc[number:]
    table.place = lambda row: f"row {row + first + number + 1}"
    notes = []
    if address.member is None and len(sheets) > 1:
        notes.append(f"The first of {len(sheets)} sheets was read, {name!r}. Name another as FILE::SHEET.")
    words, arrays = matrix_of(table, options, notes, options.decimal or ".")
    return {**words, "member": name}, arrays


def _cell(value: Any) -> Any:
    """A cell as a number or text; a time at midnight is written as a date, an error such as #N/A is missing."""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    if isinstance(value, bool | int | float):
        return float(value) if isinstance(value, bool) else value
    return None if value is None or (isinstance(value, str) and value.startswith("#")) else str(value)


# Arrow


def read_arrow(address: Address, found: Any, options: TableOptions) -> Answer:
    """The matrix in an Arrow table: its columns of numbers, with the names of rows and columns. Nulls are missing.

    "auto" takes the column that pandas marked as index, else a first one of words or times.
    """
    schema, pandas = found.schema, needed("pandas")
    if found.num_rows < 1:
        raise address.bad("it has no rows.")
    table = Table(address, list(schema.names), True)
    truths = {needed("pyarrow").bool_(): pandas.BooleanDtype()}  # with nulls, too
    table.frame = found.to_pandas(ignore_metadata=True, types_mapper=truths.get)
    table.frame.columns = range(len(table.names))
    if options.index not in ("none", "auto"):
        table.index = [table.column(options.index)]
    elif options.index == "auto" and table.names:
        try:
            marked = (schema.pandas_metadata or {}).get("index_columns", [])
        except (ValueError, AttributeError):  # not JSON, or not a dictionary
            marked = []
        names = [name for name in marked if isinstance(name, str) and name in table.names]
        types = needed("pyarrow.types")
        named = ("string", "large_string", "string_view", "dictionary", "temporal")
        first = schema.field(0).type
        fits = any(getattr(types, f"is_{kind}")(first) for kind in named)
        auto = [0] if len(table.names) > 1 and fits else []
        table.index = [table.names.index(names[0])] if names else auto
    words, arrays = matrix_of(table, options, [])
    if str(words.get("index_name") or "").startswith("__index_level_"):  # pandas made it up
        words["index_name"] = None
    return words, arrays
