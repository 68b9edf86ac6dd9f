"""How a dask.array becomes partitions: consecutive rows of the longer side, whole, one chunk each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from rankwolf.data.request import Request
from rankwolf.ground.complaints import bad

# Bytes of a matrix up to which any rechunking is cheap on a cluster: all of it crosses the network once, in seconds.
CHEAP_BYTES = 2 * 2**30
# Partitions for each thread, at most, unless memory asks for more: each costs the scheduler 3 ms in every pass.
MOST_PER_THREAD = 2


@dataclass(frozen=True)
class Room:
    """What there is to work with: threads, bytes of memory in all (None: unknown), bytes that a partition may have.

    A matrix of at most ``cheap`` bytes is rechunked without asking the user.
    """

    threads: int
    memory: int | None
    partition: int
    cheap: int = CHEAP_BYTES


def is_dask_array(X: Any) -> bool:
    """Whether this is a dask.array, judged by the name of its module: dask need not be imported."""
    return type(X).__name__ == "Array" and type(X).__module__.startswith("dask.array")


def check_array(X: Any, request: Request) -> None:
    """Raise unless ``X`` is a matrix of real numbers whose blocks are NumPy arrays of known sizes."""
    if X.ndim == 2 and any(np.isnan(size) for sizes in (X.shape, *X.chunks) for size in sizes):
        remedy = "Call X.compute_chunk_sizes()."
        raise bad("X", "an array with chunks of known sizes", f"shape {X.shape}", request.where, remedy)
    request.check_matrix(X.shape, X.dtype)
    if not isinstance(X._meta, np.ndarray):
        got = f"blocks of {type(X._meta).__name__}"
        raise bad("X", "an array of NumPy blocks", got, request.where)


def mask_like(X: Any, request: Request) -> Any:
    """The mask as a dask.array; None where there is none. One in memory is sent to the workers with the graph."""
    if request.observed is None:
        return None
    import dask.array as da

    observed = request.observed
    mask = observed if is_dask_array(observed) else da.from_array(np.asarray(observed), chunks=X.chunks)
    request.check_mask(mask, X.shape)
    return mask


def row_chunks(tall: Any, room: Room, transposed: bool) -> tuple[int, ...]:
    """The heights of the partitions of ``tall``, the matrix with its longer side first.

    Neighbouring chunks are merged up to the size of a partition, where there are many. Cutting them up needs a matrix
    that is cheap to rechunk; a ValueError asks the user to rechunk any other.
    """
    heights, row_bytes = tall.chunks[0], tall.shape[1] * tall.dtype.itemsize
    cheap = tall.nbytes <= room.cheap
    if len(heights) < room.threads and cheap:
        return _even(tall.shape[0], min(room.threads, -(-tall.shape[0] // 8)))
    too_tall = max(heights) * row_bytes > room.partition
    if (too_tall or len(heights) < min(room.threads, 2)) and not cheap:
        raise _must_rechunk(tall, room, row_bytes, transposed)
    if too_tall:
        return _even(tall.shape[0], -(-tall.nbytes // room.partition))
    wanted = max(tall.shape[0] / (MOST_PER_THREAD * room.threads), max(heights))
    return _merged(heights, int(min(wanted, max(room.partition // row_bytes, 1))))


def _even(rows: int, count: int) -> tuple[int, ...]:
    return tuple(rows * (k + 1) // count - rows * k // count for k in range(count))


def _merged(heights: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Heights of neighbouring chunks put together, up to ``most`` rows; no chunk is cut."""
    merged = [0]
    for height in heights:
        if merged[-1] and merged[-1] + height > most:
            merged.append(0)
        merged[-1] += height
    return tuple(merged)


def _must_rechunk(tall: Any, room: Room, row_bytes: int, transposed: bool) -> ValueError:
    axis, kind = (1, "columns") if transposed else (0, "rows")
    chunks = tuple(max(sizes) for sizes in (tall.chunks[::-1] if transposed else tall.chunks))
    height = max(1, min(room.partition // 2 // row_bytes, tall.shape[0] // max(room.threads, 1)))
    call = f"X.rechunk({{{axis}: {height}, {1 - axis}: -1}}).persist()"
    return bad(
        "X",
        f"chunked along its longer side, whole {kind} in a chunk of at most {room.partition / 1e9:.2g} GB",
        f"chunks of shape {chunks}, {tall.nbytes / 1e9:.3g} GB in all",
        remedy=f"Store it so, or call {call} first, which moves all of it.",
    )


def first_rows(heights: tuple[int, ...]) -> list[int]:
    """The number of the first row of each partition."""
    return [0, *accumulate(heights[:-1])]
