"""Scratch files: files without a name for what does not fit the memory.

A file without a name is gone when the process ends, in whatever way, so nothing is left behind.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from pathlib import Path
from typing import IO

from rankwolf import platform


def unnamed_file(folder: Path | None, size: int | None, purpose: str) -> IO[bytes]:
    """A new file in ``folder`` (None: TMPDIR) with room for ``size`` bytes; an error names its ``purpose``.

    The room is reserved where the file system can do that: writing to a memory map for which the disk has no room ends
    the process by SIGBUS instead of raising.
    """
    place = Path(tempfile.gettempdir()) if folder is None else folder
    file = tempfile.TemporaryFile(dir=place, prefix=".rankwolf-")  # noqa: SIM115
    if size:
        try:
            platform.reserve(file, size)
        except OSError as error:
            file.close()
            if error.errno not in platform.FULL:
                raise
            what = f"{os.strerror(errno.ENOSPC)} for {size / 1e9:.2g} GB of {purpose}"
            raise OSError(errno.ENOSPC, what, str(place)) from error
    return file


def mapped_file(size: int, purpose: str, folder: Path | None = None) -> mmap.mmap:
    """A memory map, to read and to write, of a new file without a name in ``folder`` (None: TMPDIR)."""
    with unnamed_file(folder, size, purpose) as file:
        return mmap.mmap(file.fileno(), size)
