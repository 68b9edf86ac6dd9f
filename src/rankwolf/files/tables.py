"""Tables with names: ``.csv``, ``.tsv`` and ``.parquet``."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from rankwolf.files.address import Address
from rankwolf.files.claims import Budget
from rankwolf.files.matrix import Array, LabelledMatrix, Labels

# A table this wide is not a table any more, and pandas would take minutes over it.
MOST_COLUMNS = 100_000
MOST_HEADER = 2**22
INDEX_NAMES = ("", "index", "unnamed: 0")
MISSING = {"", "na", "n/a", "nan", "null", "none", "#n/a", "-nan", "<na>"}


@dataclass(frozen=True)
class TableOptions:
    """What a table does not say by itself.

    ``index``: the column that names the rows, ``"none"``, or ``"auto"``: the first column where it has no heading or
    no numbers. ``header``: whether the first line of a text file is a heading; None: if it is not all numbers.
    ``drop``: columns to leave out.
    """

    index: str = "auto"
    header: bool | None = None
    drop: Sequence[str] = ()


def read_text(address: Address, budget: Budget, options: TableOptions) -> LabelledMatrix:
    """A text table. Empty cells, NA and NaN are missing."""
    import pandas as pd

    kind = "tsv" if address.path.suffix.lower() in (".tsv", ".tab") else "csv"
    budget.check(address, 2 * address.path.stat().st_size, address.path.stat().st_size)
    try:
        with address.path.open("r", encoding="utf-8-sig", newline="") as file:
            rows, separator = _first_rows(address, file, kind)
            header = _looks_like_header(rows) if options.header is None else options.header
            if header and len(rows) == 1:
                raise address.bad("it has no rows below its heading.")
            file.seek(0)
            width = len(rows[-1])
            names = _heading(address, rows[0] if header else None, width)
            index = _index_column(address, names if header else [], rows[-1], options.index)
            kept = _kept(address, names, index, options.drop, header)
            frame = pd.read_csv(
                file, sep=separator, header=None, skiprows=1 if header else 0,
                dtype=dict.fromkeys(index, "str"), low_memory=False, skipinitialspace=True,
            )  # fmt: skip
    except UnicodeDecodeError as error:
        raise address.bad("it is not a text in UTF-8.") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error) as error:
        raise address.bad(f"it is not a table ({error}).") from error
    values = np.empty((len(frame), len(kept)), np.float64)
    for place, number in enumerate(kept):
        values[:, place] = _numbers(address, frame[number], names[number], header)
    labels = Labels(
        tuple(names[number] for number in kept) if header else None,
        frame[index[0]].fillna("").tolist() if index else None,
        names[index[0]] if index and header else None,
    )
    if not values.size:
        raise address.bad("it has no rows of numbers.")
    return LabelledMatrix(values, kind, labels)


def _first_rows(address: Address, file: IO[str], kind: str) -> tuple[list[list[str]], str]:
    """The first two lines that are not empty, in cells, and what separates them."""
    lines: list[str] = []
    while len(lines) < 2 and (line := file.readline(MOST_HEADER)):
        if len(line) == MOST_HEADER:
            raise address.bad("its first lines are longer than 4 MB.")
        lines += [line] if line.strip() else []
    if not lines:
        raise address.bad("it is empty, without rows.")
    separator = "\t" if kind == "tsv" else max(",;\t", key=lines[0].count)
    rows = list(csv.reader(io.StringIO("".join(lines)), delimiter=separator, skipinitialspace=True))
    if max(map(len, rows)) > MOST_COLUMNS:
        raise address.bad(
            f"it has more than {MOST_COLUMNS:,} columns. Transpose it, or keep it as .npy or .h5."
        )
    return rows, separator


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.strip().lower() in MISSING
    return True


def _looks_like_header(rows: list[list[str]]) -> bool:
    """A heading has words, and beyond the first cell (which may name the rows) at least one."""
    first = rows[0][1:] or rows[0]
    return not all(_is_number(cell) for cell in first)


def _heading(address: Address, header: list[str] | None, width: int) -> list[str]:
    if header is None:
        return [f"column {number}" for number in range(width)]
    if len(header) == width - 1:  # as R writes it: no heading over the names of the rows
        return ["", *header]
    if len(header) != width:
        raise address.bad(f"its heading has {len(header)} cells and its first row {width}.")
    return header


def _index_column(address: Address, names: list[str], row: list[str], wanted: str) -> list[int]:
    """The number of the index column, in a list that is empty where there is none."""
    if wanted == "none":
        return []
    if wanted != "auto":
        return [_find(address, names, wanted)]
    nameless = bool(names) and names[0].strip().lower() in INDEX_NAMES
    return [0] if len(row) > 1 and (nameless or not _is_number(row[0])) else []


def _find(address: Address, names: Sequence[str], wanted: str) -> int:
    if wanted in names:
        return list(names).index(wanted)
    shown = ", ".join(repr(name) for name in names[:8])
    raise address.bad(f"it has no column {wanted!r}. It has {shown or 'no names'}.")


def _kept(
    address: Address, names: list[str], index: list[int], drop: Sequence[str], header: bool
) -> list[int]:
    left_out = {_find(address, names if header else [], name) for name in drop} | set(index)
    kept = [number for number in range(len(names)) if number not in left_out]
    if not kept:
        raise address.bad("no column of numbers is left.")
    return kept


def _numbers(address: Address, column: Any, name: str, header: bool) -> Array:
    """The column in float64, or a complaint that shows the first cell that is no number."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype):
        return np.asarray(column.to_numpy(np.float64, na_value=np.nan))
    numbers = pd.to_numeric(column, errors="coerce")
    wrong = np.flatnonzero(numbers.isna() & column.notna())
    if wrong.size:
        line = int(wrong[0]) + (2 if header else 1)
        raise _not_numbers(address, name, f"{str(column.iloc[wrong[0]])[:40]!r} in line {line}")
    return np.asarray(numbers.to_numpy(np.float64, na_value=np.nan))


def _not_numbers(address: Address, name: str, found: str) -> ValueError:
    return address.bad(
        f"its column {name!r} must hold numbers. It holds {found}. "
        f"Leave it out with --drop {name!r}, or name the rows by it with --index {name!r}."
    )


def read_parquet(address: Address, budget: Budget, options: TableOptions) -> LabelledMatrix:
    """A Parquet file, column by column. Nulls are missing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    try:
        file = pq.ParquetFile(address.path)
        names, count = file.schema_arrow.names, file.metadata.num_rows
        index = _parquet_index(address, file.schema_arrow, options.index)
        dropped = {names[_find(address, names, name)] for name in options.drop}
        kept = [name for name in names if name not in (index, *dropped)]
        # Run lengths can promise any number of rows in a few bytes.
        if count * len(kept) == 0:
            raise address.bad("no column of numbers is left." if count else "it has no rows.")
        budget.check(address, 8 * count * len(kept), address.path.stat().st_size)
        _check_row_groups(address, file, budget)
        single = all(file.schema_arrow.field(name).type == pa.float32() for name in kept)
        values = np.empty((count, len(kept)), np.float32 if single else np.float64)
        for place, name in enumerate(kept):
            kind = file.schema_arrow.field(name).type
            if not any(is_numeric(kind) for is_numeric in numeric):
                raise _not_numbers(address, name, f"the type {kind}")
            column = file.read(columns=[name], use_pandas_metadata=False).column(0)
            values[:, place] = column.cast(pa.float64()).to_numpy()
        rows = None if index is None else file.read(columns=[index], use_pandas_metadata=False).column(0)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise address.bad(f"it is not a Parquet file, or damaged ({error}).") from error
    given = None if index is None or index.startswith("__index_level_") else index
    labels = Labels(tuple(kept), None if rows is None else rows.to_pylist(), given)
    return LabelledMatrix(values, "parquet", labels)


def _check_row_groups(address: Address, file: Any, budget: Budget) -> None:
    """Groups are read one column at a time; what a column claims to inflate to is claimed too."""
    metadata = file.metadata
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            part = metadata.row_group(group).column(column)
            budget.check(address, part.total_uncompressed_size, max(part.total_compressed_size, 1))


def _parquet_index(address: Address, schema: Any, wanted: str) -> str | None:
    """The column that pandas marked, or a first column that holds no numbers."""
    import pyarrow as pa

    if wanted == "none":
        return None
    if wanted != "auto":
        return str(schema.names[_find(address, schema.names, wanted)])
    try:
        marked = (schema.pandas_metadata or {}).get("index_columns", [])
    except ValueError:  # not JSON
        marked = []
    named = [name for name in marked if isinstance(name, str) and name in schema.names]
    if named:
        return str(named[0])
    first = schema.field(0)
    plain = (
        pa.types.is_string(first.type)
        or pa.types.is_large_string(first.type)
        or pa.types.is_temporal(first.type)
    )
    return str(first.name) if plain and len(schema.names) > 1 else None
