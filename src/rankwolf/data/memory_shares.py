"""How a limit on the memory of the process is shared out between reading, row-aligned arrays and all the rest."""

from __future__ import annotations

from dataclasses import dataclass

from rankwolf.platform import available_memory, resident_memory

# A proof by factorisation takes an n × n matrix. Up to this n it is always made, beyond only where it is affordable
# (rankwolf.solvers.certificate).
EXACT_COLUMNS = 4096
# Bytes for what is not counted: Python objects, tiles that are being worked on, small arrays.
SMALL_THINGS = 64 * 2**20
# One part in so many of the free memory is for reading.
READING_SHARE = 4


@dataclass(frozen=True)
class MemoryShares:
    """Bytes for slabs that are read, bytes for row-aligned arrays, and bytes that other things take already."""

    reading: int
    rows: int
    taken: int

    @classmethod
    def of(cls, max_memory: int | None, columns: int, itemsize: int, n_threads: int) -> MemoryShares:
        """The shares, if the whole process may take ``max_memory`` bytes; None: what it holds and what is free now.

        What the process holds already and the matrices of a proof are taken off first. Of the rest, one part in
        ``READING_SHARE`` is for reading and a third for row-aligned arrays. What remains is for work on pieces of
        these: L is orthogonalised in float64 at the end.
        """
        side = min(columns, EXACT_COLUMNS)
        proof = side * side * (8 + itemsize * n_threads)
        taken = resident_memory() + proof + SMALL_THINGS
        total = resident_memory() + available_memory() if max_memory is None else max_memory
        free = max(total - taken, 0)
        return cls(free // READING_SHARE, free // 3, taken)
