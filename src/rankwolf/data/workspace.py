"""Working memory that a source hands out: in memory while it fits, beyond that in scratch files."""

from __future__ import annotations

import mmap
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwolf.data.scratch_files import mapped_file
from rankwolf.ground.arrays import Array
from rankwolf.platform import give_back


@dataclass(frozen=True)
class _InFile:
    mapped: mmap.mmap
    row_bytes: int


class Workspace:
    """Row-aligned arrays, such as the factor U or a residual.

    Those in memory take at most ``most_bytes`` together (None: no limit); the others are maps of files in TMPDIR, whose
    pages are given back to the system as a pass goes on.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        self.most_bytes, self._in_memory = most_bytes, 0
        self._files: dict[int, _InFile] = {}
        self._sizes: dict[int, int] = {}

    def __reduce__(self) -> Any:
        return Workspace, (self.most_bytes,)  # its arrays do not belong to the copy

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit, so that arrays may be in files."""
        return self.most_bytes is not None

    def zeros(self, shape: tuple[int, int], dtype: Any) -> Array:
        """A new array of zeros, in memory while it fits the limit, else in a file."""
        dtype = np.dtype(dtype)
        size = shape[0] * shape[1] * dtype.itemsize
        if self.most_bytes is None or not size:
            return np.zeros(shape, dtype)
        if self._in_memory + size <= self.most_bytes:
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
        """Whether this array was made here and counts against the limit, or is in a file; never without a limit."""
        return id(array) in self._sizes or id(array) in self._files

    def is_in_file(self, array: Any) -> bool:
        """Whether this array was made here and is the map of a file."""
        return id(array) in self._files

    def give_back(self, start: int, stop: int) -> None:
        """Give pages of rows ``start`` to ``stop``, not needed for now, back to the system, for all arrays in files."""
        for file in list(self._files.values()):
            give_back(file.mapped, start * file.row_bytes, stop * file.row_bytes)

    def _forget(self, name: int) -> None:
        self._in_memory -= self._sizes.pop(name)
