"""Zarr arrays that are not compressed and lie on a local disk: their chunks are read as the files that they are.

Zarr itself makes two copies of such a chunk and reads it through an event loop, which takes more processor time than
the passes of a solver leave over. Here each chunk goes from its file straight into its place in the block, in memory
that has been used before.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
import threading
import weakref
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from rankwolf.data.stored import Dataset
from rankwolf.ground.arrays import Array
from rankwolf.platform import free_memory, mapped_memory

# With O_DIRECT, addresses, positions in the file and lengths must be multiples of this, on any disk.
SECTOR = 4096
# From this size on, a line of chunks is read at the disk's full speed by itself, and needs no copy.
LONG_CHUNK = 2**20
# Bytes of memory, at most, that are kept for the next blocks.
KEPT_BYTES = 64 * 2**20
# The names of the metadata file in Zarr's formats 3 and 2.
METADATA = ("zarr.json", ".zarray")
# Errors of a system that does not support O_DIRECT, or not for memory at this address.
_UNKNOWN = (errno.EINVAL, errno.EOPNOTSUPP)


class Buffers:
    """Memory that is used again once no array refers to it: getting new pages takes as long as reading into them."""

    def __init__(self) -> None:
        self._free: deque[mmap.mmap] = deque()
        self._kept = 0
        # Reentrant: an array may be collected, and its memory come back, while this very thread is in here.
        self._lock = threading.RLock()

    def take(self, size: int) -> Array:
        """An array of at least ``size`` bytes, a whole number of sectors, that starts at a page."""
        size = -(-max(1, size) // SECTOR) * SECTOR
        with self._lock:
            memory = next((memory for memory in list(self._free) if len(memory) == size), None)
            if memory is not None:
                self._free.remove(memory)
                self._kept -= size
        if memory is None:
            memory = mapped_memory(size)
        array = np.frombuffer(memory, np.uint8)
        # Every view keeps this array alive: NumPy makes it the base of the view.
        weakref.finalize(array, self._give_back, memory).atexit = False
        return array

    def _give_back(self, memory: mmap.mmap) -> None:
        with self._lock:
            self._free.append(memory)
            self._kept += len(memory)
            while self._kept > KEPT_BYTES:
                self._kept -= len(self._free.popleft())


class RawChunks(Dataset):
    """A Zarr array whose chunk files are read as they are.

    ``direct``: read past the system's cache; by default where the matrix is larger than the free memory, because the
    cache does not help then.
    """

    readers = 2  # with one reader, the disk would wait between two files

    def __init__(self, array: Any, direct: bool | None = None) -> None:
        super().__init__(array)
        if (
            array.metadata.zarr_format == 3
        ):  # its codec states the byte order, which is_raw has found to be this machine's
            self.dtype = self.dtype.newbyteorder("=")
        # Absolute, so that it holds when the process changes its folder.
        self._folder, self._key = (
            Path(array.store.root).absolute() / array.path,
            array.metadata.encode_chunk_key,
        )
        self._direct = self.nbytes > free_memory() if direct is None else direct
        self._buffers = Buffers()
        self._chunk: tuple[int, int] = (int(self._chunks[0]), int(self._chunks[1]))
        self._chunk_bytes = self._chunk[0] * self._chunk[1] * self.dtype.itemsize
        # A whole chunk is in memory while it is copied, even one that is larger than the matrix.
        self.overhead = self._chunk_bytes / (self.grain(0) * self.grain(1) * self.dtype.itemsize)

    def best_bytes(self, axis: int) -> int:
        """The bytes of one line of chunks, where it is long and is read without a copy; else the usual portion."""
        straight = axis == 1 or self._chunk[1] >= self.shape[1]
        lines = self._chunk[axis] * self.shape[1 - axis] * self.dtype.itemsize
        return lines if straight and lines >= LONG_CHUNK else super().best_bytes(axis)

    def _block(self, rows: slice, columns: slice) -> Array:
        high, wide = self._chunk
        memory, block = self._array((rows.stop - rows.start, columns.stop - columns.start))
        for i in range(rows.start // high, -(-rows.stop // high)):
            for j in range(columns.start // wide, -(-columns.stop // wide)):
                top, left = i * high - rows.start, j * wide - columns.start
                place = block[max(top, 0) : top + high, max(left, 0) : left + wide]
                if place.shape == self._chunk and place.flags.c_contiguous:
                    self._read_chunk(i, j, memory[top * wide * self.dtype.itemsize :], place)
                else:
                    buffer, chunk = self._array(self._chunk)
                    self._read_chunk(i, j, buffer, chunk)
                    inner = chunk[max(-top, 0) :, max(-left, 0) :]
                    place[...] = inner[: place.shape[0], : place.shape[1]]
        return block

    def _array(self, shape: tuple[int, int]) -> tuple[Array, Array]:
        """(memory, array): bytes of which the first are the array; there may be some more than it needs."""
        size = shape[0] * shape[1] * self.dtype.itemsize
        memory = self._buffers.take(size)
        return memory, memory[:size].view(self.dtype).reshape(shape)

    def _read_chunk(self, i: int, j: int, buffer: Array, chunk: Array) -> None:
        """Read a chunk into ``chunk``, the first bytes of ``buffer``; a chunk without a file gets the fill value."""
        try:
            _read_file(self._folder / self._key((i, j)), buffer, self._chunk_bytes, self._direct)
        except FileNotFoundError:
            if not any((self._folder / name).exists() for name in METADATA):
                raise  # the whole store is gone, not only this chunk
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
    """Read a file of ``size`` bytes into the first bytes of ``buffer``; an OSError where it has another size."""
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
    """The same past the system's cache; False, and to be read in the usual way, where that did not work."""
    room = -(-size // SECTOR) * SECTOR
    flag = getattr(os, "O_DIRECT", 0)
    if not flag or buffer.size < room:
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
