"""How a dask.array becomes partitions: consecutive rows of the longer side, whole, one chunk each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from rankwolf.sources.in_memory import tile_type

# Up to this size any rechunking is cheap on a cluster: the whole matrix crosses the network once, in seconds.
CHEAP_BYTES = 2 * 2**30
# Partitions for each thread, at most: about 3 ms of the scheduler's time go into each of them, in every pass.
MOST_PER_THREAD = 2


@dataclass(frozen=True)
class Room:
    """What there is to work with: threads, bytes of memory in all (None: no limit is known), bytes for a partition.

    Up to ``cheap`` bytes, any rechunking is.
    """

    threads: int
    memory: int | None
    partition: int
    cheap: int = CHEAP_BYTES


def is_dask_array(X: Any) -> bool:
    """Told by its module: dask is not imported for it."""
    return type(X).__name__ == "Array" and type(X).__module__.startswith("dask.array")


def complain(rule: str, got: str, remedy: str = "", name: str = "X") -> ValueError:
    """In the form of every complaint."""
    return ValueError(
        f"The '{name}' parameter of decompose must be {rule}. Got {got} instead.{' ' + remedy if remedy else ''}"
    )


def check_array(X: Any) -> None:
    """A matrix of real numbers whose chunks have known sizes."""
    if X.ndim != 2:
        raise complain("two-dimensional", f"an array of shape {X.shape}", "Reshape frames to rows.")
    if any(np.isnan(side) for side in X.shape) or any(np.isnan(size) for axis in X.chunks for size in axis):
        raise complain(
            "an array with chunks of known sizes", f"shape {X.shape}", "Call X.compute_chunk_sizes()."
        )
    if 0 in X.shape:
        raise complain("of at least one row and one column", f"shape {X.shape}")
    if X.dtype.kind not in "biuf":
        raise complain("an array of real numbers", f"dtype {X.dtype}")
    if not isinstance(X._meta, np.ndarray):
        raise complain("an array of NumPy blocks", f"blocks of {type(X._meta).__name__}")


def checked_with_nan(X: Any) -> Any:
    """The same array, NaN where a masked one is masked."""
    check_array(X)
    if not isinstance(X._meta, np.ma.MaskedArray):
        return X
    dtype = tile_type(X.dtype)
    return X.astype(dtype).map_blocks(np.ma.filled, np.nan, dtype=dtype, meta=np.empty((0, 0), dtype))


def mask_like(observed: Any, X: Any) -> Any:
    """The mask as a dask.array; one that is in memory is sent to the workers with the graph."""
    import dask.array as da

    mask = observed if is_dask_array(observed) else da.from_array(np.asarray(observed), chunks=X.chunks)
    if mask.dtype != np.bool_:
        raise complain("a boolean array", f"dtype {mask.dtype}", "True marks an observed entry.", "observed")
    if mask.shape != X.shape:
        raise complain(f"of the shape of X, {X.shape}", f"shape {mask.shape}", name="observed")
    return mask


def row_chunks(tall: Any, room: Room, transposed: bool) -> tuple[int, ...]:
    """The heights of the partitions of ``tall``, the matrix with its longer side first."""
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
    """Neighbours together, up to ``most`` rows: no chunk is cut."""
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
    return complain(
        f"chunked along its longer side, whole {kind} in a chunk of at most {room.partition / 1e9:.2g} GB",
        f"chunks of shape {chunks}, {tall.nbytes / 1e9:.3g} GB in all",
        f"Store it so, or call X.rechunk({{{axis}: {height}, {1 - axis}: -1}}).persist() first, which moves all of it.",
    )


def first_rows(heights: tuple[int, ...]) -> list[int]:
    """Where each partition begins."""
    return [0, *accumulate(heights[:-1])]
