"""Zarr arrays that are not compressed and lie on a local disk: their chunks are read as the files that they are.

Zarr's own way to such a chunk makes two copies of it and passes through an event loop, which costs more processor time
than the passes of a solver have left. Here each chunk goes from the file into its place in the block, into memory that
has been used before.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
import weakref
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from rankwolf.files.memory import free_memory
from rankwolf.sources.stored import Array, Dataset

# What O_DIRECT wants addresses, places and lengths to be multiples of, on any disk.
SECTOR = 4096
# Blocks of one chunk are at the disk's best from here on, and need no copy.
LONG_CHUNK = 2**20
# What a file system answers that does not know O_DIRECT.
_UNKNOWN = (errno.EINVAL, errno.EOPNOTSUPP)


class Buffers:
    """Memory that is used again when no array refers to it any more: new pages cost as much as reading into them."""

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = {}

    def take(self, size: int) -> Array:
        """Bytes at the start of a page, a whole number of sectors, at least ``size``."""
        size = -(-max(1, size) // SECTOR) * SECTOR
        if size not in self._free and len(self._free) > 1:
            del self._free[next(iter(self._free))]  # blocks and chunks: two sizes are what a pass needs
        free = self._free.setdefault(size, [])
        try:
            memory = free.pop()
        except IndexError:
            memory = mmap.mmap(-1, size)
        array = np.frombuffer(memory, np.uint8)
        # Every view of it keeps this array alive, as NumPy's rule for the base of a view is.
        weakref.finalize(array, free.append, memory).atexit = False
        return array


class RawChunks(Dataset):
    """See the module. ``direct``: past the system's cache, which is of no use to a matrix that does not fit in it."""

    readers = 2  # one file after the other keeps a disk waiting

    def __init__(self, array: Any, direct: bool | None = None) -> None:
        super().__init__(array)
        self._folder, self._key = Path(array.store.root) / array.path, array.metadata.encode_chunk_key
        self._direct = self.nbytes > free_memory() if direct is None else direct
        self._buffers = Buffers()
        self._chunk: tuple[int, int] = (int(self._chunks[0]), int(self._chunks[1]))
        self._chunk_bytes = self._chunk[0] * self._chunk[1] * self.dtype.itemsize
        self.overhead = 1.0  # chunks at the edge are stored whole, and one chunk is on its way

    def best_bytes(self, axis: int) -> int:
        """Of one chunk where a line of chunks needs no copy to be a block."""
        straight = axis == 1 or self._chunk[1] >= self.shape[1]
        lines = self._chunk[axis] * self.shape[1 - axis] * self.dtype.itemsize
        return lines if straight and lines >= LONG_CHUNK else super().best_bytes(axis)

    def _block(self, rows: slice, columns: slice) -> Array:
        high, wide = self._chunk
        top, bottom = rows.start // high, -(-rows.stop // high)
        first, last = columns.start // wide, -(-columns.stop // wide)
        memory, block = self._array(((bottom - top) * high, (last - first) * wide))
        for i, j in product(range(bottom - top), range(last - first)):
            place = block[i * high : (i + 1) * high, j * wide : (j + 1) * wide]
            if place.flags.c_contiguous:
                self._read_chunk(top + i, first + j, memory[i * self._chunk_bytes :], place)
            else:
                buffer, chunk = self._array(self._chunk)
                self._read_chunk(top + i, first + j, buffer, chunk)
                place[...] = chunk
        inner: Array = block[rows.start - top * high :, columns.start - first * wide :]
        return inner[: rows.stop - rows.start, : columns.stop - columns.start]

    def _array(self, shape: tuple[int, int]) -> tuple[Array, Array]:
        """Memory for an array, some bytes more than needed, and that array."""
        size = shape[0] * shape[1] * self.dtype.itemsize
        memory = self._buffers.take(size)
        return memory, memory[:size].view(self.dtype).reshape(shape)

    def _read_chunk(self, i: int, j: int, buffer: Array, chunk: Array) -> None:
        """One chunk into ``chunk``, which is where ``buffer`` starts; what is not stored is the fill value."""
        try:
            _read_file(self._folder / self._key((i, j)), buffer, self._chunk_bytes, self._direct)
        except FileNotFoundError:
            fill = self._dataset.fill_value
            chunk[...] = 0 if fill is None else fill


def is_raw(array: Any) -> bool:
    """Whether the chunks of this Zarr array are files that hold its numbers, row by row, and nothing else."""
    if type(array.store).__name__ != "LocalStore" or len(array.shape) != 2 or array.dtype.kind not in "biuf":
        return False
    if array.compressors or array.filters or array.shards or array.metadata.zarr_format not in (2, 3):
        return False
    if array.metadata.zarr_format == 2:
        return bool(array.order == "C")
    serializer = array.serializer
    endian = getattr(serializer, "endian", None)
    return type(serializer).__name__ == "BytesCodec" and (endian is None or endian.value == sys.byteorder)


def _read_file(path: Path, buffer: Array, size: int, direct: bool) -> None:
    """A file of ``size`` bytes to the start of ``buffer``."""
    if direct and _read_direct(path, buffer, size):
        return
    with path.open("rb", buffering=0) as file:
        found = os.fstat(file.fileno()).st_size
        if found != size:
            raise OSError(f"{path} holds {found} bytes instead of {size}")
        done = 0
        while done < size:
            count = file.readinto(buffer.data[done:size])
            if not count:
                raise OSError(f"{path} became shorter")
            done += count


def _read_direct(path: Path, buffer: Array, size: int) -> bool:
    """The same past the system's cache; False where the system or the place of ``buffer`` does not allow that."""
    room = -(-size // SECTOR) * SECTOR
    flag = getattr(os, "O_DIRECT", 0)
    if not flag or buffer.size < room or buffer.ctypes.data % SECTOR:
        return False
    try:
        file = os.open(path, os.O_RDONLY | flag)
    except OSError as error:
        if error.errno in _UNKNOWN:
            return False
        raise
    try:
        return os.fstat(file).st_size == size == os.readv(file, [buffer.data[:room]])
    except OSError as error:
        if error.errno in _UNKNOWN:
            return False
        raise
    finally:
        os.close(file)
