"""How a stored matrix is read in passes: slabs of whole chunks that fit the memory, perhaps from a turned copy."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rankwolf.data.memory_shares import READING_SHARE, MemoryShares
from rankwolf.data.stored import PORTION_BYTES, Stored, turned_copy
from rankwolf.ground.complaints import bad

# Bytes for reading, at least, where the limit is not firm; one line of chunks that lies across comes on top.
LEAST_READING = 16 * 2**20
# With fewer chunks than this along the longer side, threads cannot share them evenly.
FEWEST_GRAINS = 8


@dataclass(frozen=True)
class ReadingPlan:
    """Slabs of ``lines`` lines, a multiple of ``grain``; for each of ``n_threads`` threads one is read ahead."""

    lines: int
    grain: int
    n_threads: int


@dataclass(frozen=True)
class Layout:
    """The matrix and its mask, as stored or turned, such that lines of the longer side are cheap to read; the plan."""

    data: Stored
    observed: Stored | None
    plan: ReadingPlan
    shares: MemoryShares


def lay_out(
    data: Stored, observed: Stored | None, axis: int, n_threads: int, itemsize: int, max_memory: int | None
) -> Layout:
    """How lines along ``axis`` are read within ``max_memory`` bytes; where chunks lie across, turned copies are made.

    ``itemsize``: bytes of a number in a tile. Where there is too little memory, a ValueError says how much is enough.
    """
    columns = data.shape[1 - axis]
    shares = MemoryShares.of(max_memory, columns, itemsize, n_threads)
    if not data.firm_limit:
        parts = [data] if observed is None else [data, observed]
        least = LEAST_READING + int(sum(_bytes_across(part, axis) for part in parts))
        shares = replace(shares, reading=max(shares.reading, least))
    plan = _plan(data, observed, axis, n_threads, shares.reading)
    if plan is None:
        data, observed = _turned(data, observed, axis, shares, max_memory)
        plan = _plan(data, observed, axis, n_threads, shares.reading)
    if plan is None:  # not even a few lines
        raise _too_little(data, 16.0 * columns * data.dtype.itemsize, shares, max_memory)
    return Layout(data, observed, plan, shares)


def _plan(
    data: Stored, observed: Stored | None, axis: int, n_threads: int, most_bytes: int
) -> ReadingPlan | None:
    """A plan of slabs that fit ``most_bytes``, with fewer threads where necessary; None where no slab fits.

    None, too, where there are too few chunks along ``axis`` to share among threads.
    """
    parts = [data] if observed is None else [data, observed]
    rows, grain = data.shape[axis], max(part.grain(axis) for part in parts)
    if grain > 1 and FEWEST_GRAINS * grain > rows:  # too few to share out among threads
        return None
    line_bytes = data.shape[1 - axis] * sum(part.dtype.itemsize for part in parts)
    held_bytes = data.shape[1 - axis] * sum(part.dtype.itemsize * (1.0 + part.overhead) for part in parts)
    for threads in range(n_threads, 0, -1):
        share = most_bytes / (2 * threads)
        grains = min(int(share / (grain * held_bytes)), max(1, int(PORTION_BYTES / (grain * line_bytes))))
        if grains:
            lines = grain * grains
            # A power of two where there are no chunks: a slab is then cut into parts of one size.
            return ReadingPlan(2 ** (lines.bit_length() - 1) if grain == 1 else lines, grain, threads)
    return None


def _turned(
    data: Stored, observed: Stored | None, axis: int, shares: MemoryShares, max_memory: int | None
) -> tuple[Stored, Stored | None]:
    """Copies of data and mask in scratch files, in which lines along ``axis`` are cheap to read."""
    parts = [data] if observed is None else [data, observed]
    for part in parts:
        along = 2.0 * (1.0 + part.overhead) * part.grain(axis) * part.shape[1 - axis] * part.dtype.itemsize
        across = _bytes_across(part, axis)
        if across > shares.reading:
            raise _too_little(part, min(along, across), shares, max_memory)
    turned = [turned_copy(part, axis, shares.reading) for part in parts]
    return turned[0], None if observed is None else turned[1]


def _bytes_across(part: Stored, axis: int) -> float:
    """The bytes of memory that turning one line of chunks takes, which lies across ``axis``."""
    return (2.0 + part.overhead) * float(part.grain(1 - axis) * part.shape[axis] * part.dtype.itemsize)


def _too_little(data: Stored, slab_bytes: float, shares: MemoryShares, max_memory: int | None) -> ValueError:
    least = (shares.taken + READING_SHARE * slab_bytes) * 1.05
    got = "less free memory" if max_memory is None else f"{max_memory / 1e6:,.0f} MB"
    rule = (
        f"at least {least / 1e6:,.0f} MB for a matrix of shape {data.shape} in chunks of shape "
        f"{(data.grain(0), data.grain(1))}"
    )
    return bad("max_memory", rule, got, remedy="Raise it, or store the matrix in smaller chunks.")
