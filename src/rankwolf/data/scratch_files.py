"""Scratch files: files without a name for what does not fit the memory.

A file without a name is gone with the process, whatever ends that, so nothing is left behind.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO


def unnamed_file(folder: Path | None, size: int | None, purpose: str) -> IO[bytes]:
    """A new file in ``folder`` (None: TMPDIR) with room for ``size`` bytes; ``purpose`` is for the complaint.

    The room is reserved where the file system can do that, because a memory map of a file that the disk has no room
    for dies of SIGBUS instead of raising.
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


def mapped_file(size: int, purpose: str, folder: Path | None = None) -> mmap.mmap:
    """A memory map, to read and to write, of a new file without a name in ``folder`` (None: TMPDIR)."""
    with unnamed_file(folder, size, purpose) as file:
        return mmap.mmap(file.fileno(), size)


def give_back(mapped: mmap.mmap, start: int, stop: int) -> None:
    """Pages of a shared map leave this process's memory; what was written to them stays in the file."""
    first = start - start % mmap.PAGESIZE
    with suppress(ValueError, OSError, AttributeError):  # not Linux, or closed by now
        mapped.madvise(mmap.MADV_DONTNEED, first, min(stop, len(mapped)) - first)
