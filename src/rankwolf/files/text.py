"""How a table of text is written: its encoding, the separator of its cells, its decimal mark."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

from rankwolf.files.address import Address
from rankwolf.files.cells import decimal_of, looks_like_number

# Where several separators fit equally well, the first of them is taken.
SEPARATORS = ("\t", ";", ",", "|", " ")
SAID = {"\t": "tabs", ";": "semicolons", ",": "commas", "|": "bars", " ": "spaces"}
# The share of the sampled rows that must have the same number of cells; and how many rows are sampled.
MOST_ROWS, SAMPLE = 0.8, 60
# The most characters of the first lines together, from which dialect and heading are told.
MOST_LINE = 2**22
# How many bytes are looked at to tell texts from other files, and how many are decoded at a time.
FIRST, PORTION = 4096, 2**20
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
ENCODINGS = {
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
    "cp1252": "Latin-1 (Windows-1252)",
}


@dataclass(frozen=True)
class Dialect:
    """``separator`` is one character; a space stands for any number of spaces and tabs."""

    separator: str = ","
    decimal: str = "."

    def rows(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """The cells of each row. A quoted cell may hold a line break. Spaces at the ends of lines separate nothing."""
        stripped = (line.strip() + "\n" if self.separator == " " else line for line in lines)
        return csv.reader(stripped, delimiter=self.separator, skipinitialspace=True)


def open_text(address: Address, file: IO[bytes]) -> tuple[io.TextIOWrapper, list[str]]:
    """(text, notes): an open file as text, from its beginning, and sentences about what was assumed.

    The encoding is UTF-8, UTF-16 with or without its byte order mark, or else Windows-1252. The whole file is decoded
    once before.
    """
    raw: IO[bytes] = (
        io.BytesIO(gzip.decompress(file.read())) if address.path.suffix.lower() == ".gz" else file
    )
    encoding = _encoding(address, raw)
    raw.seek(0)
    notes = [f"The text is not UTF-8; {ENCODINGS[encoding]} was assumed."] if encoding in ENCODINGS else []
    errors = "replace" if encoding == "cp1252" else "strict"  # five bytes have no meaning in it
    return io.TextIOWrapper(raw, encoding=encoding, errors=errors, newline=""), notes


def _encoding(address: Address, raw: IO[bytes]) -> str:
    first = raw.read(FIRST)
    zeros = [first[0::2].count(0), first[1::2].count(0)]
    found = next((encoding for mark, encoding in MARKS if first.startswith(mark)), "utf-8")
    if found == "utf-8" and any(zeros):
        # A text of numbers in UTF-16 has a zero in nearly every second byte, and in no other.
        if min(zeros) or max(zeros) <= len(first) // 4:
            raise address.bad("it is not a text: it has zero bytes.")
        found = "utf-16-le" if zeros[1] else "utf-16-be"
    decoder: Any = codecs.getincrementaldecoder(found)()
    raw.seek(0)
    try:
        while part := raw.read(PORTION):
            decoder.decode(part)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        if found == "utf-8":
            return "cp1252"
        raise address.bad(f"it begins like a text in {found.upper()}, but some of it is not.") from error
    return found


def find_dialect(lines: Sequence[str], usual: str, decimal: str | None) -> Dialect:
    """The dialect of a text, from its first lines.

    ``usual``: the separator where the lines do not tell; ``decimal``: the decimal mark, if known.

    The separator must cut four fifths of the lines into the same number of cells, at least two. Of those that do, it is
    the one with the largest share of numbers among the cells, and then with the most cells in a line.
    """
    best, score = usual, (0.0, 0)
    for separator in SEPARATORS:
        rows = _sampled(lines, separator)
        width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (0, 0)
        if width < 2 or count < MOST_ROWS * len(rows):
            continue
        cells = [cell for row in rows for cell in row]
        found = (round(sum(map(looks_like_number, cells)) / len(cells), 6), width)
        if found > score:
            best, score = separator, found
    if decimal is None:
        decimal = decimal_of([cell for row in _sampled(lines, best) for cell in row], best)
    return Dialect(best, decimal)


def _sampled(lines: Sequence[str], separator: str) -> list[list[str]]:
    try:
        return [row for row in Dialect(separator).rows(iter(lines)) if row]
    except csv.Error:
        return []


def sample(address: Address, file: IO[str]) -> list[str]:
    """The first lines that are not empty, at most SAMPLE of them."""
    return list(islice((line for line in read_lines(address, file) if line.strip()), SAMPLE))


def read_lines(address: Address, file: IO[str]) -> Iterator[str]:
    """The lines of the file, read so that ``tell`` works between two of them."""
    total = 0
    while line := file.readline(MOST_LINE):
        total += len(line)
        if total >= MOST_LINE:
            raise address.bad("its first lines are longer than 4 MB.")
        yield line
