"""Memory of the machine and of this process."""

from __future__ import annotations

import os
import resource
import sys


def free_memory() -> int:
    """Bytes that this machine could give without swapping; what Linux calls available, elsewhere all of it."""
    found = _kilobytes("/proc/meminfo", "MemAvailable:")
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if found is None else 1024 * found


def peak_memory() -> int:
    """The largest resident size of this process so far, in bytes."""
    found = _kilobytes("/proc/self/status", "VmHWM:")
    if found is not None:
        return 1024 * found
    # On Linux this would count the process that started this one, too.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _kilobytes(path: str, name: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(name)), None)
    except (OSError, UnicodeDecodeError):  # not Linux; or a process whose name is not ASCII
        return None
