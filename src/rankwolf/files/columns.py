"""What tables in text and in Parquet share: which column names the rows, which are left out, which hold no numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankwolf.files.address import Address, RefusedError

# A table this wide is not a table any more, and pandas would take minutes over it.
MOST_COLUMNS = 100_000


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


def find_column(address: Address, names: Sequence[str], wanted: str) -> int:
    """The number of a column."""
    if wanted in names:
        return list(names).index(wanted)
    shown = ", ".join(repr(name) for name in names[:8])
    raise address.bad(f"it has no column {wanted!r}. It has {shown or 'no names'}.")


def kept_columns(
    address: Address, names: Sequence[str], index: Sequence[int], drop: Sequence[str], named: bool = True
) -> list[int]:
    """The numbers of the columns that are part of the matrix."""
    left_out = {find_column(address, names if named else [], name) for name in drop} | set(index)
    kept = [number for number in range(len(names)) if number not in left_out]
    if not kept:
        raise address.bad("no column of numbers is left.")
    if len(kept) > MOST_COLUMNS:
        raise too_wide(address)
    return kept


def too_wide(address: Address) -> RefusedError:
    """More columns than anybody has in a table."""
    return address.bad(f"it has more than {MOST_COLUMNS:,} columns. Transpose it, or keep it as .npy or .h5.")


def not_numbers(address: Address, name: str, found: str) -> RefusedError:
    """A column that cannot be part of the matrix."""
    return address.bad(
        f"its column {name!r} must hold numbers. It holds {found}. "
        f"Leave it out with --drop {name!r}, or name the rows by it with --index {name!r}."
    )
