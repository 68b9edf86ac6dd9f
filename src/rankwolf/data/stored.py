"""Matrices that stay where they are stored: memory maps, HDF5 datasets, Zarr arrays, several of these below each other.

One contract, :class:`Stored`: read a block, and say in which portions reading is cheap. Neither h5py nor zarr is
imported here: whoever hands in a dataset has imported its library. A stored matrix is pickled as the path of its file
(:mod:`rankwolf.data.reopening`), not as its numbers.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from rankwolf.data import reopening
from rankwolf.data.scratch_files import mapped_file
from rankwolf.ground.arrays import Array
from rankwolf.platform import announce, give_back

# A piece of a file of this size is read at about the full speed of the disk, wherever the next piece is.
PIECE_BYTES = 64 * 1024
# Bytes of decoded chunks that are held at a time, where little of each chunk is wanted.
DECODED_BYTES = 8 * 2**20
# Bytes that are read at once: enough for the full speed of a disk, and few enough for a slow disk to read within two
# seconds, because a run cannot be ended before.
PORTION_BYTES = 32 * 2**20


class Stored(ABC):
    """A two-dimensional array that stays where it is and is read block by block.

    ``overhead``: bytes of memory that reading takes for each byte that is read, beside that byte. ``scratch``: the
    folder for a turned copy; None is TMPDIR. ``firm_limit``: True makes a memory limit that is too small an error;
    False takes the least that works instead.
    """

    overhead: float = 1.0
    scratch: Path | None = None
    firm_limit: bool = True

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape: tuple[int, ...] = tuple(int(side) for side in shape)
        self.dtype = np.dtype(dtype)

    @abstractmethod
    def read(self, rows: slice, columns: slice) -> Array:
        """A block, in the stored type, as an array of its own."""

    @abstractmethod
    def grain(self, axis: int) -> int:
        """How many rows (axis 0) or columns (axis 1) have to be read together so that nothing is read twice."""

    @property
    def nbytes(self) -> int:
        """The bytes of the whole matrix."""
        return self.shape[0] * self.shape[1] * int(self.dtype.itemsize)

    def lines(self, axis: int, start: int, stop: int) -> Array:
        """Rows ``start`` to ``stop``; for axis 1 these columns, as the rows of the array that is returned."""
        if axis == 0:
            return self.read(slice(start, stop), slice(0, self.shape[1]))
        return self.read(slice(0, self.shape[0]), slice(start, stop)).T

    def __getitem__(self, rows: slice) -> Array:
        start, stop, step = rows.indices(self.shape[0])
        if step != 1:
            raise ValueError(f"A stored matrix gives consecutive rows. Got a step of {step} instead.")
        return self.lines(0, start, max(start, stop))

    def portions(self) -> Iterator[tuple[slice, slice]]:
        """(rows, columns) of blocks of whole chunks that cover the matrix, band by band; no chunk is in two blocks."""
        (m, n), (high, wide) = self.shape, (self.grain(0), self.grain(1))
        most = PORTION_BYTES // self.dtype.itemsize
        width = n if high * n <= most else min(n, wide * max(1, most // (high * wide)))
        height = high * max(1, most // (high * width))
        for top in range(0, m, height):
            for left in range(0, n, width):
                yield slice(top, min(top + height, m)), slice(left, min(left + width, n))

    def rows(self, numbers: Array, found: Array | None = None, mapped: mmap.mmap | None = None) -> Array:
        """The rows with these numbers, which ascend; chunks that hold none of them are not read.

        They are written into ``found`` where it is given. If that lies in a map of a file, ``mapped`` is the map, whose
        pages are given back along the way.
        """
        if found is None:
            found = np.empty((numbers.size, self.shape[1]), self.dtype)
        for rows, columns in self.portions():
            first, last = np.searchsorted(numbers, (rows.start, rows.stop))
            if first < last:
                found[first:last, columns] = self.read(rows, columns)[numbers[first:last] - rows.start]
                if mapped is not None:
                    give_back(mapped, 0, found.nbytes)
        return found


class MappedArray(Stored):
    """An array, usually a memory map: its pages are announced to the system, copied, and given back."""

    def __init__(
        self, array: Array, mapped: mmap.mmap | None = None, place: reopening.InFile | None = None
    ) -> None:
        super().__init__(array.shape, array.dtype)
        self._array: Array = np.asarray(array)
        self._mapped, self._place = mapped, place
        # The address where the map starts, which is where madvise counts from.
        self._origin = 0 if mapped is None else np.frombuffer(mapped, np.uint8).ctypes.data

    def grain(self, axis: int) -> int:
        """1 where a line along ``axis`` is contiguous; else as many lines as make up a piece of ``PIECE_BYTES``."""
        strides = [abs(stride) for stride in self._array.strides]
        return 1 if strides[axis] >= strides[1 - axis] else max(1, PIECE_BYTES // self.dtype.itemsize)

    def read(self, rows: slice, columns: slice) -> Array:
        """A copy, in the order of the original."""
        if self._mapped is not None and _length(self._mapped) < len(self._mapped):
            # Touching what is gone would end the process by SIGBUS.
            raise ValueError(
                f"The file of the matrix has become shorter; rows from {rows.start} on cannot be read."
            )
        part = self._array[rows, columns]
        first, last = np.lib.array_utils.byte_bounds(part)
        self._announce(first, last, part.nbytes)
        block = part.copy(order="K")
        if self._mapped is not None:
            give_back(self._mapped, first - self._origin, last - self._origin)
        return block

    def __reduce__(self) -> Any:
        if self._place is None:
            return MappedArray, (np.array(self._array),)
        return reopening.map_again, (self._place, self.shape, self.dtype)

    def _announce(self, first: int, last: int, size: int) -> None:
        """Tell the system which pages come next, so that it reads them in one piece and not page by page."""
        if self._mapped is None or last - first > 2 * size:
            return
        announce(self._mapped, first - self._origin, last - self._origin)


def _length(mapped: mmap.mmap) -> int:
    """The present length of the file behind a map, in bytes; that of the map where there is no file."""
    try:
        return mapped.size()
    except OSError:
        return len(mapped)


class Dataset(Stored):
    """An HDF5 dataset or a Zarr array: both are read alike. Blocks of whole chunks decode each chunk once."""

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset.shape, dataset.dtype)
        self._dataset, self._place = dataset, reopening.place_of(dataset)
        # Zarr may pack several chunks into one object, a shard, which is then what is read as a whole.
        self._chunks = getattr(dataset, "shards", None) or dataset.chunks
        # Whole chunks are in memory twice, encoded and decoded, even one that is larger than the matrix.
        self.overhead = 2.0 * prod(
            max(1.0, chunk / max(side, 1))
            for chunk, side in zip(self._chunks or self.shape, self.shape, strict=True)
        )

    def grain(self, axis: int) -> int:
        """The side of a chunk; a dataset without chunks lies row by row."""
        if self._chunks is not None:
            return max(1, min(int(self._chunks[axis]), self.shape[axis]))
        return 1 if axis == 0 else max(1, PIECE_BYTES // self.dtype.itemsize)

    def read(self, rows: slice, columns: slice) -> Array:
        """A block; a ValueError that names the place where a chunk is damaged."""
        try:
            return self._block(rows, columns)
        except (KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:  # each compression filter has its own way to fail on a damaged chunk
            place = f"rows {rows.start} to {rows.stop}"
            raise ValueError(f"The matrix on the disk is damaged at {place}: {error}") from error

    def _block(self, rows: slice, columns: slice) -> Array:
        """A block, read in one call; where less than half of its chunks is wanted, a few chunks at a time.

        In one call, Zarr would hold all of these chunks in memory, decoded.
        """
        chunk = self._chunks or (1, 1)
        first = [part.start // side for part, side in zip((rows, columns), chunk, strict=True)]
        count = [
            -(-part.stop // side) - at for part, side, at in zip((rows, columns), chunk, first, strict=True)
        ]
        decoded, wanted = prod(chunk) * prod(count), (rows.stop - rows.start) * (columns.stop - columns.start)
        if decoded <= 2 * wanted or decoded * self.dtype.itemsize <= DECODED_BYTES:
            return np.asarray(self._dataset[rows, columns])
        axis = int(count[1] > count[0])
        line = chunk[axis] * max(1, int(DECODED_BYTES // (decoded // count[axis] * self.dtype.itemsize)))
        along = (rows, columns)[axis]
        block = np.empty((rows.stop - rows.start, columns.stop - columns.start), self.dtype)
        for start in range(first[axis] * chunk[axis], along.stop, line):
            part = slice(max(start, along.start), min(start + line, along.stop))
            here = slice(part.start - along.start, part.stop - along.start)
            if axis:
                block[:, here] = self._dataset[rows, part]
            else:
                block[here] = self._dataset[part, columns]
        return block

    def __reduce__(self) -> Any:
        if self._place is None:  # in memory: its numbers are all there is
            return MappedArray, (np.asarray(self._dataset[...]),)
        return reopening.open_again, (type(self), self._place, self.shape, self.dtype)


class Absent(Stored):
    """The matrix of an unpickled result whose file cannot be opened: its size is known, its entries are not."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, reason: str) -> None:
        super().__init__(shape, dtype)
        self._reason = reason

    def grain(self, axis: int) -> int:
        """1; nothing is ever read."""
        return 1

    def read(self, rows: slice, columns: slice) -> Array:
        """Raise a ValueError with the reason why the data is not here."""
        raise ValueError(
            f"The data of this result is not here, and S and refit need it. L is complete. {self._reason}"
        )


class Stacked(Stored):
    """Several stored matrices, one below the other (axis 0) or one beside the other (axis 1), with one type."""

    def __init__(self, parts: Sequence[Stored], axis: int = 0) -> None:
        sides = [0, 0]
        sides[axis] = sum(part.shape[axis] for part in parts)
        sides[1 - axis] = parts[0].shape[1 - axis]
        super().__init__((sides[0], sides[1]), np.result_type(*[part.dtype for part in parts]))
        self._parts, self._axis = list(parts), axis
        self._bounds = np.concatenate([[0], np.cumsum([part.shape[axis] for part in parts])]).tolist()
        self.overhead = max(part.overhead for part in parts) + 1.0

    def grain(self, axis: int) -> int:
        """The largest grain of the parts. A chunk that such a grain cuts, beside a seam of parts, is read twice."""
        return max(part.grain(axis) for part in self._parts)

    def read(self, rows: slice, columns: slice) -> Array:
        """A block, put together from the parts that it meets."""
        wanted = (rows, columns)
        along, across = wanted[self._axis], wanted[1 - self._axis]
        blocks = []
        for part, (first, last) in zip(self._parts, pairwise(self._bounds), strict=True):
            start, stop = max(along.start, first), min(along.stop, last)
            if start < stop:
                inner = slice(start - first, stop - first)
                blocks.append(part.read(inner, across) if self._axis == 0 else part.read(across, inner))
        if len(blocks) == 1:
            return blocks[0].astype(self.dtype, copy=False)
        return np.concatenate(blocks, axis=self._axis, dtype=self.dtype)


def turned_copy(data: Stored, axis: int, most_bytes: int) -> Stored:
    """A copy of the matrix in a scratch file, in the stored type, in which lines along ``axis`` are cheap to read.

    The original is read once, in slabs along the other axis that take ``most_bytes`` of memory. Each slab is turned in
    memory and written in one piece. Some hundred lines are then read from one place in each slab, in pieces of at least
    ``PIECE_BYTES``.
    """
    other = 1 - axis
    line_bytes = data.shape[axis] * data.dtype.itemsize
    grain = data.grain(other)
    step = grain * max(1, int(most_bytes / (2.0 + data.overhead)) // (line_bytes * grain))
    mapped = mapped_file(
        data.shape[0] * data.shape[1] * data.dtype.itemsize, "the matrix, turned", data.scratch
    )
    flat = np.frombuffer(mapped, data.dtype)
    parts: list[Stored] = []
    position = 0
    for start in range(0, data.shape[other], step):
        stop = min(start + step, data.shape[other])
        shape = (data.shape[axis], stop - start)
        size = shape[0] * shape[1]
        block = flat[position : position + size].reshape(shape)
        block[...] = data.lines(other, start, stop).T
        offset = position * data.dtype.itemsize
        give_back(mapped, offset, offset + block.nbytes)
        parts.append(MappedArray(block if axis == 0 else block.T, mapped))
        position += size
    return Stacked(parts, axis=other)
