"""The machine: its memory, that of this process, and sizes as people write them."""

from __future__ import annotations

import mmap
import os
import re
import resource
import sys
from pathlib import Path

# Private: a child that the process forks gets a copy of its own.
_OWN = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}


def mapped_memory(size: int) -> mmap.mmap:
    """``size`` bytes of zeros that start at a page; the system gets them back as soon as nobody refers to them."""
    return mmap.mmap(-1, size, **_OWN)


def free_memory() -> int:
    """Bytes that the machine can give without swapping: what Linux calls available; elsewhere, all of its memory."""
    found = _kilobytes("/proc/meminfo", "MemAvailable:")
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if found is None else 1024 * found


def available_memory() -> int:
    """Bytes that this process may still take: four fifths of :func:`free_memory`."""
    return free_memory() * 4 // 5


def resident_memory() -> int:
    """Bytes of memory that this process holds now; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
    except OSError:  # not Linux
        return 0


def peak_memory() -> int:
    """The largest resident size of this process so far, in bytes."""
    found = _kilobytes("/proc/self/status", "VmHWM:")
    if found is not None:
        return 1024 * found
    # Not on Linux, where this number also counts the process that started this one.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def parse_size(text: str) -> int:
    """The number of bytes that words such as ``1GB``, ``512 MiB`` or ``2e9`` mean; a ValueError for other words.

    >>> parse_size("1GB"), parse_size("512MiB")
    (1000000000, 536870912)
    """
    match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?)(i?)b?\s*", text.lower())
    number = float(match[1]) if match else 0.0
    if not match or number <= 0.0:
        raise ValueError(f"{text!r} is not a size")
    return int(number * (1024 if match[3] else 1000) ** " kmgt".index(match[2] or " "))


def _kilobytes(path: str, name: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(name)), None)
    except (OSError, UnicodeDecodeError):  # not Linux; or a process whose name is not ASCII
        return None
