"""What all kinds of tables share: which column names the rows, which are left out, which hold no numbers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankwolf.files.address import Address, RefusedError
from rankwolf.files.cells import number_of
from rankwolf.ground.arrays import Array

# A file with more columns than this is hardly a table, and pandas would take minutes to read it.
MOST_COLUMNS = 100_000
# With fewer rows, a column of consecutive or distinct numbers may be chance.
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

    @property
    def missing_numbers(self) -> list[float]:
        """The words of ``missing`` that are numbers, as numbers."""
        return [number for word in self.missing if (number := number_of(word, ".")) is not None]


def find_column(address: Address, names: Sequence[str], wanted: str, named: bool = True) -> int:
    """The number of the column ``wanted``, from 0; in a table without a heading, ``2`` and ``column 2`` are the third.

    A ValueError if there is none. ``named``: the table has a heading.
    """
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
    """``values`` with NaN, in place, for the numbers that ``--missing`` names, such as -999."""
    for number in options.missing_numbers:
        values[values == number] = np.nan
    return values


def data_or_names(values: Array, names: Sequence[str]) -> tuple[str, ...]:
    """The names of columns that look like keys of the rows, although they are part of the matrix.

    These are numbers that go up by one from row to row, and columns called id, index or the like whose entries are all
    different.
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
    """The error about a table with more than MOST_COLUMNS columns."""
    return address.bad(f"it has more than {MOST_COLUMNS:,} columns. Transpose it, or keep it as .npy or .h5.")


def not_numbers(address: Address, name: str, found: str) -> RefusedError:
    """The error about the column ``name``, which holds ``found`` and not numbers."""
    return address.bad(
        f"its column {name!r} must hold numbers. It holds {found}. "
        f"Leave it out with --drop {name!r}, or name the rows by it with --index {name!r}; "
        "a word for a missing cell is named with --missing."
    )
