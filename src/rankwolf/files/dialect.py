"""How a table of text is written: the separator of its cells, and its decimal mark."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rankwolf.files.cells import decimal_of, looks_like_number

# Where several separators fit equally well, the first of them is taken.
SEPARATORS = ("\t", ";", ",", "|", " ")
SAID = {"\t": "tabs", ";": "semicolons", ",": "commas", "|": "bars", " ": "spaces"}
# The share of the sampled rows that must have the same number of cells.
MOST_ROWS = 0.8


@dataclass(frozen=True)
class Dialect:
    """``separator`` is one character; a space stands for any number of spaces and tabs."""

    separator: str = ","
    decimal: str = "."

    def prepared(self, line: str) -> str:
        """The line as ``csv.reader`` should get it: without spaces at its ends, where spaces separate cells."""
        return line.strip() + "\n" if self.separator == " " else line


def find_dialect(lines: Sequence[str], usual: str, decimal: str | None) -> Dialect:
    """The dialect of a text, from its first lines.

    ``usual``: the separator where the lines do not tell; ``decimal``: the decimal mark, if known.

    The separator must cut four fifths of the lines into the same number of cells, at least two. Of those that do, it is
    the one with the largest share of numbers among the cells, and then with the most cells in a line.
    """
    best, score = usual, (0.0, 0)
    for separator in SEPARATORS:
        rows = _rows(lines, separator)
        width, count = Counter(len(row) for row in rows).most_common(1)[0] if rows else (0, 0)
        if width < 2 or count < MOST_ROWS * len(rows):
            continue
        cells = [cell for row in rows for cell in row]
        found = (round(sum(map(looks_like_number, cells)) / len(cells), 6), width)
        if found > score:
            best, score = separator, found
    if decimal is None:
        decimal = decimal_of([cell for row in _rows(lines, best) for cell in row], best)
    return Dialect(best, decimal)


def _rows(lines: Sequence[str], separator: str) -> list[list[str]]:
    dialect = Dialect(separator)
    try:
        rows = csv.reader(
            (dialect.prepared(line) for line in lines), delimiter=separator, skipinitialspace=True
        )
        return [row for row in rows if row]
    except csv.Error:
        return []
