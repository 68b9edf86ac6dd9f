"""How much memory there is, and how a limit on it is shared out."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from rankwolf.files.memory import free_memory

# A proof by factorisation takes an n × n matrix, and is made for at most so many columns (rankwolf.certificate).
EXACT_COLUMNS = 4096
# What Python objects, tiles under way and small arrays take beside what is counted.
SMALL_THINGS = 64 * 2**20
READING_SHARE = 4


def parse_size(text: str) -> int:
    """``1GB``, ``512 MiB``, ``2e9``: bytes. A ValueError for anything else.

    >>> parse_size("1GB"), parse_size("512MiB")
    (1000000000, 536870912)
    """
    match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?)(i?)b?\s*", text.lower())
    number = float(match[1]) if match else 0.0
    if not match or number <= 0.0:
        raise ValueError(f"{text!r} is not a size")
    return int(number * (1024 if match[3] else 1000) ** " kmgt".index(match[2] or " "))


def available_memory() -> int:
    """What this process may take: the memory that is free or can be freed at once, less a fifth."""
    return free_memory() * 4 // 5


def resident_memory() -> int:
    """What this process holds now; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
    except OSError:  # not Linux
        return 0


@dataclass(frozen=True)
class Shares:
    """Bytes for slabs that are read, bytes for row-aligned arrays, and those that are taken by other things."""

    reading: int
    rows: int
    taken: int

    @classmethod
    def of(cls, max_memory: int | None, columns: int, itemsize: int, n_threads: int) -> Shares:
        """Of a limit on the whole process, what it holds already and the matrices of a proof being taken off.

        One part in ``READING_SHARE`` is for reading and a third for row-aligned arrays. The rest is for work on pieces
        of them: L is orthogonalised in float64 at the end.
        """
        side = min(columns, EXACT_COLUMNS)
        proof = side * side * (8 + itemsize * n_threads)
        taken = resident_memory() + proof + SMALL_THINGS
        total = resident_memory() + available_memory() if max_memory is None else max_memory
        free = max(total - taken, 0)
        return cls(free // READING_SHARE, free // 3, taken)
