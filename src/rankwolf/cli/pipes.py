"""``-``: a matrix from standard input, and a table to standard output."""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

PORTION = 2**20
# The first bytes of a file, and the ending of its kind. Zip files are told apart in ending_of; all others are text.
FIRST_BYTES = (
    (b"\x93NUMPY", ".npy"),
    (b"PAR1", ".parquet"),
    (b"ARROW1", ".feather"),
    (b"\x89HDF", ".h5"),
    (b"\x1f\x8b", ".csv.gz"),
    (b"MATLAB 5.0", ".mat"),
    (b"MATLAB 7.3", ".mat"),
)


@contextmanager
def received() -> Iterator[Path]:
    """Standard input copied into a temporary file with the ending of its kind, which is removed when the block ends."""
    if sys.stdin.isatty():
        raise ValueError(
            "Nothing comes in by standard input. Give a file, or: cat table.csv | rankwolf decompose -"
        )
    with tempfile.TemporaryDirectory(prefix="rankwolf-") as folder:
        first = sys.stdin.buffer.read(PORTION)
        if not first:
            raise ValueError("Standard input is empty. Give a table or a matrix.")
        path = Path(folder) / f"standard-input{ending_of(first)}"
        with path.open("wb") as file:
            file.write(first)
            while part := sys.stdin.buffer.read(PORTION):
                file.write(part)
        yield path


def ending_of(first: bytes) -> str:
    """The ending of a file that begins with these bytes; .csv where they are of no known kind."""
    if first.startswith(b"PK\x03\x04"):
        return ".xlsx" if b"[Content_Types].xml" in first or b"xl/" in first[:4096] else ".npz"
    return next((ending for magic, ending in FIRST_BYTES if first.startswith(magic)), ".csv")


def text_output() -> IO[str]:
    """Standard output, set to UTF-8 and to line ends as they are written, like the files."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="")
    return sys.stdout
