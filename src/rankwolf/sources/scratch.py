"""Working memory that a source hands out: in memory while it fits, beyond that in files that have no name.

A file without a name is gone with the process, whatever ends that, so nothing is left behind.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def unnamed_file(folder: Path | None, size: int | None, purpose: str) -> IO[bytes]:
    """A temporary file with room for ``size`` bytes, where the file system can reserve it; ``None`` is TMPDIR.

    Reserved, because a memory map of a file that the disk has no room for dies of SIGBUS instead of raising.
    """
    place = Path(tempfile.gettempdir()) if folder is None else folder
    file = tempfile.TemporaryFile(dir=place, prefix=".rankwolf-")  # noqa: SIM115
    if size:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno != errno.ENOSPC:  # some file systems cannot reserve: make it long at least
                file.truncate(size)
                return file
            file.close()
            what = f"{os.strerror(errno.ENOSPC)} for {size / 1e9:.2g} GB of {purpose}"
            raise OSError(errno.ENOSPC, what, str(place)) from error
    return file


def mapped_file(size: int, purpose: str) -> mmap.mmap:
    """A memory map of a new file without a name."""
    with unnamed_file(None, size, purpose) as file:
        return mmap.mmap(file.fileno(), size)


def give_back(mapped: mmap.mmap, start: int, stop: int) -> None:
    """Pages of a shared map leave this process's memory; what was written to them stays in the file."""
    first = start - start % mmap.PAGESIZE
    with suppress(ValueError, OSError, AttributeError):  # not Linux, or closed by now
        mapped.madvise(mmap.MADV_DONTNEED, first, min(stop, len(mapped)) - first)


@dataclass(frozen=True)
class _InFile:
    mapped: mmap.mmap
    row_bytes: int


class Workspace:
    """Row-aligned arrays, such as the factor U or a residual.

    Together they take at most ``most_bytes`` of memory (None: no limit); the others are maps of files in TMPDIR, whose
    pages are given back as a pass goes on.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        self._most_bytes, self._in_memory = most_bytes, 0
        self._files: dict[int, _InFile] = {}
        self._sizes: dict[int, int] = {}

    @property
    def is_limited(self) -> bool:
        """Whether arrays are counted."""
        return self._most_bytes is not None

    def zeros(self, shape: tuple[int, int], dtype: Any) -> Array:
        """A new array of zeros."""
        dtype = np.dtype(dtype)
        size = shape[0] * shape[1] * dtype.itemsize
        if self._most_bytes is None or not size:
            return np.zeros(shape, dtype)
        if self._in_memory + size <= self._most_bytes:
            array = np.zeros(shape, dtype)
            self._in_memory += size
            self._sizes[id(array)] = size
            weakref.finalize(array, self._forget, id(array))
            return array
        mapped = mapped_file(size, "working arrays")
        array = np.frombuffer(mapped, dtype).reshape(shape)
        self._files[id(array)] = _InFile(mapped, shape[1] * dtype.itemsize)
        weakref.finalize(array, self._files.pop, id(array), None)
        return array

    def owns(self, array: Any) -> bool:
        """Whether this array counts here; none do where there is no limit."""
        return id(array) in self._sizes or id(array) in self._files

    def is_in_file(self, array: Any) -> bool:
        """Whether this array was too large for the memory."""
        return id(array) in self._files

    def give_back(self, start: int, stop: int) -> None:
        """Rows ``start`` to ``stop`` are not needed for now."""
        for file in list(self._files.values()):
            give_back(file.mapped, start * file.row_bytes, stop * file.row_bytes)

    def _forget(self, name: int) -> None:
        self._in_memory -= self._sizes.pop(name)
