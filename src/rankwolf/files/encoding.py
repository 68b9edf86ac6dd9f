"""Text out of bytes, compressed or not: finds the encoding."""

from __future__ import annotations

import codecs
import gzip
import io
from typing import IO, Any

from rankwolf.files.address import Address
from rankwolf.files.claims import Budget

# How many bytes are looked at to tell texts from other files, and how many are read at a time.
FIRST, PORTION = 4096, 2**20
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
SAID = {"utf-16": "UTF-16", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16", "cp1252": "Latin-1 (Windows-1252)"}


def open_text(address: Address, budget: Budget) -> tuple[IO[str], list[str]]:
    """(text, notes): the file opened as text, at its beginning, and sentences about what was assumed.

    The encoding is UTF-8, UTF-16 with or without its byte order mark, or else Windows-1252. A file that ends in ``.gz``
    is inflated in memory, and the budget is checked after each piece. Cost: the whole file is decoded once before.
    """
    size = address.path.stat().st_size
    budget.check(address, 2 * size, size)
    if address.path.suffix.lower() == ".gz":
        raw: IO[bytes] = io.BytesIO(_inflated(address, budget, size))
    else:
        raw = address.path.open("rb")
    try:
        encoding = _encoding(address, raw)
        raw.seek(0)
    except BaseException:
        raw.close()
        raise
    notes = [f"The text is not UTF-8; {SAID[encoding]} was assumed."] if encoding in SAID else []
    errors = "replace" if encoding == "cp1252" else "strict"  # five bytes have no meaning in it
    return io.TextIOWrapper(raw, encoding=encoding, errors=errors, newline=""), notes


def _inflated(address: Address, budget: Budget, size: int) -> bytes:
    parts, total = [], 0
    with gzip.open(address.path) as file:
        while part := file.read(PORTION):
            parts.append(part)
            total += len(part)
            budget.check(address, 2 * total, size)
    return b"".join(parts)


def _encoding(address: Address, raw: IO[bytes]) -> str:
    first = raw.read(FIRST)
    for mark, encoding in MARKS:
        if first.startswith(mark):
            return _checked(address, raw, encoding)
    zeros = [first[0::2].count(0), first[1::2].count(0)]
    if any(zeros):
        # A text of numbers in UTF-16 has a zero in nearly every second byte, and in no other.
        if min(zeros) == 0 and max(zeros) > len(first) // 4:
            return _checked(address, raw, "utf-16-le" if zeros[1] else "utf-16-be")
        raise address.bad("it is not a text: it has zero bytes.")
    try:
        return _checked(address, raw, "utf-8")
    except UnicodeDecodeError:
        return "cp1252"


def _checked(address: Address, raw: IO[bytes], encoding: str) -> str:
    """``encoding``, if the whole file can be decoded by it; else a ValueError, for UTF-8 a UnicodeDecodeError."""
    decoder: Any = codecs.getincrementaldecoder(encoding)()
    raw.seek(0)
    try:
        while part := raw.read(PORTION):
            decoder.decode(part)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        if encoding == "utf-8":
            raise
        raise address.bad(f"it begins like a text in {encoding.upper()}, but some of it is not.") from error
    return encoding
