"""What tables in text and in Parquet share: which column names the rows, which are left out, which hold no numbers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankwolf.files.address import Address, RefusedError
from rankwolf.files.cells import number_of
from rankwolf.ground.arrays import Array

# A table this wide is not a table any more, and pandas would take minutes over it.
MOST_COLUMNS = 100_000
# Fewer rows than these prove nothing about a column.
FEWEST_ROWS = 5
KEYS = {
    "id",
    "ids",
    "index",
    "idx",
    "key",
    "uid",
    "uuid",
    "row",
    "rownumber",
    "nr",
    "timestamp",
    "unixtime",
    "epoch",
}


@dataclass(frozen=True)
class TableOptions:
    """What a table does not say by itself.

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
        """The options that were given and that only tables have."""
        given = {
            "--index": self.index not in ("auto", "none"),
            "--header": self.header is not None,
            "--drop": bool(self.drop),
            "--columns": bool(self.columns),
            "--missing": bool(self.missing),
            "--decimal": self.decimal is not None,
        }
        return [name for name, is_given in given.items() if is_given]

    @property
    def missing_numbers(self) -> list[float]:
        """The words of ``missing`` that are numbers, as numbers."""
        return [number for word in self.missing if (number := number_of(word, ".")) is not None]


def find_column(address: Address, names: Sequence[str], wanted: str, named: bool = True) -> int:
    """The number of a column; of a table without a heading, ``2`` and ``column 2`` are the third."""
    if not named and wanted.isdecimal():
        wanted = f"column {wanted}"
    if wanted in names:
        return list(names).index(wanted)
    shown = ", ".join(repr(name) for name in names[:8])
    several = [name.strip() for name in wanted.split(",")]
    hint = f" Several are given as {shlex.join(several)}." if set(several) <= set(names) else ""
    raise address.bad(f"it has no column {wanted!r}. It has {shown}{', …' if len(names) > 8 else ''}.{hint}")


def kept_columns(
    address: Address, names: Sequence[str], index: Sequence[int], options: TableOptions, named: bool = True
) -> list[int]:
    """The numbers of the columns that are part of the matrix, in the order of the file or of ``--columns``."""
    left_out = {find_column(address, names, name, named) for name in options.drop} | set(index)
    wanted = [find_column(address, names, name, named) for name in options.columns] or range(len(names))
    kept = [number for number in dict.fromkeys(wanted) if number not in left_out]
    if not kept:
        raise address.bad("no column of numbers is left.")
    if len(kept) > MOST_COLUMNS:
        raise too_wide(address)
    return kept


def without_missing(values: Array, options: TableOptions) -> Array:
    """NaN where a number stands that ``--missing`` names, such as -999; in place."""
    for number in options.missing_numbers:
        values[values == number] = np.nan
    return values


def data_or_names(values: Array, names: Sequence[str]) -> tuple[str, ...]:
    """The columns that look like a number of the row or a key, and are part of the matrix all the same.

    Whole numbers that go up by one from row to row, or that are called id, index or the like and are all different.
    """
    if values.shape[0] < FEWEST_ROWS:
        return ()
    found = []
    for name, column in zip(names, values.T, strict=True):
        steps = np.diff(column)
        counts = bool(np.all(steps == 1.0))
        if counts or (_is_key(name) and len(np.unique(column)) == column.size):
            found.append(name)
    return tuple(found)


def _is_key(name: str) -> bool:
    words = re.split(r"[\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    return bool({words[0], words[-1]} & KEYS)


def too_wide(address: Address) -> RefusedError:
    """The complaint about a table with more columns than anybody has in one."""
    return address.bad(f"it has more than {MOST_COLUMNS:,} columns. Transpose it, or keep it as .npy or .h5.")


def not_numbers(address: Address, name: str, found: str) -> RefusedError:
    """The complaint about a column that holds ``found`` and no numbers."""
    return address.bad(
        f"its column {name!r} must hold numbers. It holds {found}. "
        f"Leave it out with --drop {name!r}, or name the rows by it with --index {name!r}; "
        "a word for a missing cell is named with --missing."
    )
