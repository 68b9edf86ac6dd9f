"""The matrix of a video, one frame per row, filled while frames are decoded: in memory, or on disk if too large.

On disk it is a scratch file with the frames in order, and a stored matrix like any other. A pass of the solver looks at
all frames of a few pixels at a time, so :mod:`rankwolf.data.on_disk` transposes it once, and reads it within the memory
limit.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

from rankwolf.data import Stored
from rankwolf.data.scratch_files import unnamed_file
from rankwolf.data.stored import PIECE_BYTES
from rankwolf.ground.arrays import Array

FRAMES = "decoded frames"
# So many bytes of rows are gathered before they are written to the file.
BUFFER_BYTES = 8 * 1024 * 1024


class FrameStore(Stored):
    """A matrix whose rows arrive one by one, in any number, and are read by slices: ``store[10:20]``.

    The rows are in memory while they take at most ``most_bytes``; then all of them move to a file in ``folder``. Where
    ``expected`` says how many will come, the memory is allocated or the disk's space is reserved at once, so that a
    disk that is too small is an error before the work. The file is written by ``write``, not through a memory map,
    which ends the process by SIGBUS on a full disk. ``dtype`` has one byte: uint8 for frames, bool for a mask of them.
    """

    firm_limit = False  # --max-memory decides where the frames are; the solver may exceed it

    def __init__(
        self, columns: int, expected: int | None, most_bytes: int, folder: Path, dtype: Any = np.uint8
    ) -> None:
        super().__init__((0, columns), dtype)
        self._most_rows, self.scratch = max(1, most_bytes // columns), folder
        self._file: IO[bytes] | None = None
        self._waiting: list[bytes] = []
        if expected is not None and expected > self._most_rows:
            self._file = unnamed_file(folder, expected * columns, FRAMES)
            self._rows = np.empty((0, columns), self.dtype)
        else:
            self._rows = np.empty((64 if expected is None else expected, columns), self.dtype)

    @property
    def on_disk(self) -> bool:
        """Whether the rows are in a file."""
        return self._file is not None

    @property
    def matrix(self) -> Array | Stored:
        """All rows as :func:`rankwolf.decompose` takes them: an array, without a copy, or this store."""
        return self if self.on_disk else self._rows[: len(self)]

    def __len__(self) -> int:
        return self.shape[0]

    def append(self, row: Array) -> None:
        """Add one row of ``columns`` entries; it is copied."""
        count, columns = self.shape
        if self._file is None and count >= self._rows.shape[0]:
            self._grow()
        if self._file is None:
            self._rows[count] = row
        else:
            self._waiting.append(row.tobytes())
            if len(self._waiting) * columns >= BUFFER_BYTES:
                self.flush()
        self.shape = (count + 1, columns)

    def _grow(self) -> None:
        rows, columns = self._rows.shape
        if rows >= self._most_rows:
            self._file = unnamed_file(self.scratch, None, FRAMES)
            self._file.write(self._rows.data)  # no copy: the memory is full at this moment
            self._rows = np.empty((0, columns), self.dtype)
            return
        # The method and not np.resize, which copies: realloc moves large blocks without a copy.
        self._rows.resize((min(self._most_rows, rows + rows // 2 + 1), columns), refcheck=False)

    def flush(self) -> None:
        """Write the rows that wait in the buffer to the file; does nothing while rows are in memory."""
        if self._file is not None and self._waiting:
            for part in self._waiting:
                self._file.write(part)
            self._waiting.clear()
            self._file.flush()

    def grain(self, axis: int) -> int:
        """1 for rows; for columns PIECE_BYTES: an entry is one byte, and fewer would read the same piece again."""
        return 1 if axis == 0 else PIECE_BYTES

    def read(self, rows: slice, columns: slice) -> Array:
        """A block: a view where rows are in memory, else a copy. The pages of a memory map would stay in memory."""
        if self._file is None:
            return self._rows[rows, columns]
        self.flush()
        block = np.empty((rows.stop - rows.start, columns.stop - columns.start), self.dtype)
        width, file = self.shape[1], self._file.fileno()
        if block.shape[1] == width:
            _read_bytes(file, block.reshape(-1), rows.start * width)
        else:
            for number, line in enumerate(block, rows.start):
                _read_bytes(file, line, number * width + columns.start)
        return block

    def close(self) -> None:
        """Give the disk's space back."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read_bytes(file: int, line: Array, position: int) -> None:
    """Fill ``line`` from the file; the system may give less at a time than it is asked for."""
    done, content = 0, line.view(np.uint8).data
    while done < len(content):
        count = os.preadv(file, [content[done:]], position + done)
        if not count:
            raise OSError(f"The file of {FRAMES} became shorter.")
        done += count
