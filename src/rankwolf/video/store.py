"""The matrix of a video, one frame per row, filled while frames are decoded: in memory, or on disk if too large.

On disk there are two files without a name, which are gone with the process, whatever ends that. One has the frames in
order, and is read frame by frame. The other has the same numbers pixel by pixel, because a pass of the solver looks at
all frames of a few pixels at a time, and would otherwise touch every page of the file for every tile.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

from rankwolf.sources.scratch import unnamed_file

Array = np.ndarray[Any, np.dtype[Any]]

FRAMES = "decoded frames"
# What is gathered before it goes to a file in one piece.
BUFFER_BYTES = 8 * 1024 * 1024
# Pixels are gathered in pieces of this size when the second file is made.
TRANSPOSE_BYTES = 96 * 1024 * 1024


class FrameStore:
    """Rows of bytes that arrive one by one, as many as come, and are read by slices: ``store[10:20]``.

    In memory while they take at most ``most_bytes``, afterwards in a file in ``folder``; what is in memory by then
    moves there. Where the count is known, the memory is taken or the disk's space is reserved at once, so that a disk
    that is too small says so before the work and not after it. Written by ``write``, never through a memory map, which
    dies of SIGBUS on a full disk.
    """

    def __init__(self, columns: int, expected: int | None, most_bytes: int, folder: Path) -> None:
        self.columns, self.count = columns, 0
        self._most_bytes, self._most_rows = most_bytes, max(1, most_bytes // columns)
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._waiting: list[bytes] = []
        if expected is not None and expected > self._most_rows:
            self._file = unnamed_file(folder, expected * columns, FRAMES)
            self._rows = np.empty((0, columns), np.uint8)
        else:
            self._rows = np.empty((64 if expected is None else expected, columns), np.uint8)

    @property
    def on_disk(self) -> bool:
        """Whether the rows are in a file."""
        return self._file is not None

    @property
    def shape(self) -> tuple[int, int]:
        """(frames, columns)."""
        return self.count, self.columns

    def __len__(self) -> int:
        return self.count

    def append(self, row: Array) -> None:
        """Add one row."""
        if self._file is None and self.count >= self._rows.shape[0]:
            self._grow()
        if self._file is None:
            self._rows[self.count] = row
        else:
            self._waiting.append(row.tobytes())
            if len(self._waiting) * self.columns >= BUFFER_BYTES:
                self.flush()
        self.count += 1

    def _grow(self) -> None:
        rows = self._rows.shape[0]
        if rows >= self._most_rows:
            self._file = unnamed_file(self._folder, None, FRAMES)
            self._waiting.append(self._rows.tobytes())
            self.flush()
            self._rows = np.empty((0, self.columns), np.uint8)
            return
        # Not np.resize: realloc moves large blocks without copying them.
        self._rows.resize((min(self._most_rows, rows + rows // 2 + 1), self.columns), refcheck=False)

    def flush(self) -> None:
        """Write what waits."""
        if self._file is not None:
            for part in self._waiting:
                self._file.write(part)
            self._waiting.clear()
            self._file.flush()

    def __getitem__(self, rows: slice) -> Array:
        """Consecutive rows; read from the file without mapping it, so that they do not count as memory afterwards."""
        start, stop, step = rows.indices(self.count)
        if step != 1:
            raise ValueError(f"A store gives consecutive rows. Got a step of {step} instead.")
        if self._file is None:
            return self._rows[start : max(start, stop)]
        shape = (max(0, stop - start), self.columns)
        content = os.pread(self._file.fileno(), shape[0] * self.columns, start * self.columns)
        return np.frombuffer(content, np.uint8).reshape(shape)

    @contextmanager
    def matrix(self) -> Iterator[Array]:
        """All rows as one array, for the solver.

        From the disk it is a memory map of the second file. Pages that were read stay in the process's memory until the
        system wants them back; so that ``--max-memory`` holds, they are given back as they come to be too many.
        """
        self.flush()
        if self._file is None:
            yield self._rows[: self.count]
            return
        with self._by_pixels() as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            with _giving_back(mapped, self._most_bytes // 2):
                yield np.frombuffer(mapped, np.uint8).reshape(self.columns, self.count).T

    def _by_pixels(self) -> IO[bytes]:
        """The second file: (columns, count)."""
        assert self._file is not None
        file, source = unnamed_file(self._folder, self.count * self.columns, FRAMES), self._file.fileno()
        step = max(1, min(TRANSPOSE_BYTES, self._most_bytes // 2) // self.count)
        for first in range(0, self.columns, step):
            width = min(step, self.columns - first)
            part = np.empty((self.count, width), np.uint8)
            for row in range(self.count):
                part[row] = np.frombuffer(os.pread(source, width, row * self.columns + first), np.uint8)
            for begin in range(0, width, 4096):
                file.write(part[:, begin : begin + 4096].T.tobytes())
        file.flush()
        return file

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


@contextmanager
def _giving_back(mapped: mmap.mmap, most_bytes: int) -> Iterator[None]:
    """Ask the system to take back the pages of ``mapped`` whenever more than ``most_bytes`` of files are resident."""
    statm, page = Path("/proc/self/statm"), mmap.PAGESIZE
    if not statm.exists():  # not Linux: the system decides
        yield
        return

    def resident() -> int:
        return int(statm.read_text().split()[2]) * page

    before, done = resident(), threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            if resident() - before > most_bytes:
                mapped.madvise(mmap.MADV_DONTNEED)

    watcher = threading.Thread(target=watch, name="rankwolf-pages", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        with suppress(ValueError, OSError):
            mapped.madvise(mmap.MADV_DONTNEED)
