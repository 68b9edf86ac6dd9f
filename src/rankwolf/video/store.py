"""The matrix of a video, one frame per row, filled while frames are decoded: in memory, or on disk if too large."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

# Rows that are held back before they go to the file in one piece.
BUFFER_BYTES = 8 * 1024 * 1024


class FrameStore:
    """Rows of bytes that arrive one by one, as many as come.

    In memory while they take at most ``most_bytes``, afterwards in a file in ``folder``; what is in memory by then
    moves there. Where the count is known, the memory is taken or the disk's space is reserved at once, so that a disk
    that is too small says so before the work and not after it. The file has no name: it is gone with the process,
    whatever ends that. Written by ``write``, never through a memory map, which dies of SIGBUS on a full disk.
    """

    def __init__(self, columns: int, expected: int | None, most_bytes: int, folder: Path) -> None:
        self.columns, self.count = columns, 0
        self._most_rows = max(1, most_bytes // columns)
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._waiting: list[bytes] = []
        if expected is not None and expected > self._most_rows:
            self._open_file(expected)
            self._rows = np.empty((0, columns), np.uint8)
        else:
            self._rows = np.empty((64 if expected is None else expected, columns), np.uint8)

    @property
    def on_disk(self) -> bool:
        """Whether the rows are in a file."""
        return self._file is not None

    def append(self, row: Array) -> None:
        """Add one row."""
        if self._file is None and self.count >= self._rows.shape[0]:
            self._grow()
        if self._file is None:
            self._rows[self.count] = row
        else:
            self._waiting.append(row.tobytes())
            if len(self._waiting) * self.columns >= BUFFER_BYTES:
                self._flush()
        self.count += 1

    def finish(self) -> Array:
        """All rows, (count, columns); a read-only memory map when they are on disk."""
        if self._file is None:
            return self._rows[: self.count]
        self._flush()
        self._file.flush()
        return np.memmap(self._file, np.uint8, "r", shape=(self.count, self.columns))

    def _grow(self) -> None:
        rows = self._rows.shape[0]
        if rows >= self._most_rows:
            self._open_file(None)
            self._waiting.append(self._rows.tobytes())
            self._flush()
            self._rows = np.empty((0, self.columns), np.uint8)
            return
        # Not np.resize: realloc moves large blocks without copying them.
        self._rows.resize((min(self._most_rows, rows + rows // 2 + 1), self.columns), refcheck=False)

    def _open_file(self, expected: int | None) -> None:
        self._file = tempfile.TemporaryFile(dir=self._folder, prefix=".rankwolf-frames-")  # noqa: SIM115
        if expected is not None:
            try:
                os.posix_fallocate(self._file.fileno(), 0, expected * self.columns)
            except OSError as error:
                if error.errno != errno.ENOSPC:  # some file systems cannot reserve: writing will tell
                    return
                self.close()
                size = expected * self.columns / 1e9
                raise OSError(
                    errno.ENOSPC,
                    f"{os.strerror(errno.ENOSPC)} for {size:.1f} GB of decoded frames",
                    str(self._folder),
                ) from error

    def _flush(self) -> None:
        assert self._file is not None
        for part in self._waiting:
            self._file.write(part)
        self._waiting.clear()

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


def available_memory() -> int:
    """What this process may take: the memory that is free or can be freed at once, less a fifth."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        free = next(
            int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("MemAvailable")
        )
    except (OSError, StopIteration):  # not Linux
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return free * 4 // 5
