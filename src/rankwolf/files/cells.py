"""Cells of text that are numbers: decimal points or commas, thousands, and the words for what is missing."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array

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


def is_missing(cell: str, words: Collection[str] = MISSING) -> bool:
    """Whether a cell is empty, or one of the words for a missing value."""
    return cell.strip().lower() in words


def looks_like_number(cell: str) -> bool:
    """Whether a cell is a number, in any of the ways in which people write them, or missing."""
    if is_missing(cell):
        return True
    limit = _LIMIT.fullmatch(cell)
    text = _BETWEEN.sub("", (limit[2] if limit else cell).strip())
    return any(form.fullmatch(text) for form in (_PLAIN, _COMMA, *_THOUSANDS.values()))


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


def limits_of(cells: Any, decimal: str) -> tuple[Array, Array] | None:
    """(low, high) of a column of text, NaN where a cell is no limit such as ``<0.1`` or ``>5``; None without any.

    >>> limits_of(["1.5", "<0.1", "> 5"], ".")
    (array([nan, nan,  5.]), array([nan, 0.1, nan]))
    """
    found = [_LIMIT.fullmatch(cell) if isinstance(cell, str) else None for cell in cells]
    if not any(found):
        return None
    ends = np.full((2, len(found)), np.nan)
    for place, limit in enumerate(found):
        if limit is not None and (value := number_of(limit[2], decimal)) is not None:
            ends[int(limit[1] in "<≤"), place] = value
    return ends[0], ends[1]


def numbers_of(
    cells: Any, decimal: str, missing: Collection[str], may_differ: bool
) -> tuple[Array, int | None, str]:
    """(values, wrong, mark): a column of text as float64, None, and its decimal mark. Limits such as ``<0.1`` are NaN.

    If a cell is no number, ``values`` is empty and ``wrong`` is the place of the first such cell. ``may_differ``: where
    reading with ``decimal`` fails, the other decimal mark is tried; ``wrong`` is then for the mark that got further.
    """
    texts = ["" if cell is None or cell != cell else str(cell) for cell in cells]
    wrong = []
    for mark in (decimal, _OTHER[decimal]) if may_differ else (decimal,):
        values = [_value(text, mark, missing) for text in texts]
        if None not in values:
            return np.array(values, np.float64), None, mark
        wrong.append(values.index(None))
    return np.empty(0), max(wrong), decimal


def _value(text: str, mark: str, missing: Collection[str]) -> float | None:
    """The number in a cell; NaN where it is missing or only a limit, None where it is neither."""
    limit = _LIMIT.fullmatch(text)
    if limit is None:
        return number_of(text, mark, missing)
    return None if number_of(limit[2], mark) is None else float("nan")
