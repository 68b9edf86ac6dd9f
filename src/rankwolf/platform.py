"""All that is not the same on Linux, macOS and Windows: memory, locks, limits, forks, and how files are replaced.

No other module imports ``fcntl``, ``resource``, ``msvcrt`` or ``ctypes``, reads ``/proc``, or calls a function of
``os`` that one of the three systems lacks. What a system cannot do is done in the next best way, which each function
names. Standard library only, because ``rankwolf --help`` imports it.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import IO, Any

fcntl: ModuleType | None
resource: ModuleType | None
try:
    import fcntl
    import resource
except ImportError:  # Windows
    fcntl = resource = None

FULL = tuple(getattr(errno, name) for name in ("ENOSPC", "EDQUOT") if hasattr(errno, name))

# Memory


def free_memory() -> int:
    """Bytes that the machine can give without swapping; on macOS, all of its memory."""
    found = _kilobytes("/proc/meminfo", "MemAvailable:")
    if found is not None:
        return 1024 * found
    if sys.platform == "win32":
        return _windows_memory("GlobalMemoryStatusEx")
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4 * 2**30


def available_memory() -> int:
    """Bytes that this process may still take: four fifths of :func:`free_memory`."""
    return free_memory() * 4 // 5


def resident_memory() -> int:
    """Bytes of memory that this process holds now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * mmap.PAGESIZE
    except OSError:
        return _windows_memory("WorkingSetSize") if sys.platform == "win32" else 0


def peak_memory() -> int:
    """The largest resident size of this process so far, in bytes; 0 where the system does not say."""
    found = _kilobytes("/proc/self/status", "VmHWM:")
    if found is not None:
        return 1024 * found
    if resource is not None:
        # Not on Linux, where this number also counts the process that started this one.
        peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak
    return _windows_memory("PeakWorkingSetSize") if sys.platform == "win32" else 0


def _kilobytes(path: str, name: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(name)), None)
    except (OSError, UnicodeDecodeError):  # not Linux; or a process whose name is not ASCII
        return None


def _windows_memory(what: str) -> int:
    """One number of the structures that Windows fills: MEMORYSTATUSEX, PROCESS_MEMORY_COUNTERS."""
    library: Any = getattr(ctypes, "windll", None)
    if library is None:
        return 0
    if what == "GlobalMemoryStatusEx":
        status = (ctypes.c_ulonglong * 8)(64)  # its own length comes first
        return int(status[2]) if library.kernel32.GlobalMemoryStatusEx(status) else 4 * 2**30
    size = 9 * ctypes.sizeof(ctypes.c_size_t)
    counters = (ctypes.c_size_t * 9)(size)
    library.kernel32.GetCurrentProcess.restype = ctypes.c_void_p
    process = ctypes.c_void_p(library.kernel32.GetCurrentProcess())
    known = library.psapi.GetProcessMemoryInfo(process, counters, size)
    return int(counters[1 if what == "PeakWorkingSetSize" else 2]) if known else 0


def mapped_memory(size: int) -> mmap.mmap:
    """``size`` bytes of zeros that start at a page; the system gets them back as soon as nobody refers to them.

    A process that this one forks gets a copy of its own.
    """
    if hasattr(mmap, "MAP_ANONYMOUS"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)


def give_back(mapped: mmap.mmap, start: int, stop: int) -> None:
    """Take bytes ``start`` to ``stop`` of a shared map out of the process's memory; their contents stay in the file.

    Windows has no such call, and takes pages back by itself.
    """
    if hasattr(mmap, "MADV_DONTNEED"):
        advise(mapped, mmap.MADV_DONTNEED, start, stop)


def announce(mapped: mmap.mmap, start: int, stop: int) -> None:
    """Tell the system that these bytes of a map will be read soon."""
    if hasattr(mmap, "MADV_WILLNEED"):
        advise(mapped, mmap.MADV_WILLNEED, start, stop)


def advise(mapped: mmap.mmap, advice: int, start: int, stop: int) -> None:
    """Advice about the pages that hold these bytes; nothing happens where the map is closed."""
    first = start - start % mmap.PAGESIZE
    try:
        mapped.madvise(advice, first, min(stop, len(mapped)) - first)
    except (ValueError, OSError):
        return


# Processes


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def limit_this_process(memory: int, seconds: float | None) -> None:
    """Let this process take only so many bytes beyond what it has, and so many seconds of processor time.

    Linux keeps both; macOS the seconds; Windows neither: there the reader of the other process ends it by the clock.
    """
    if resource is None:
        return
    if sys.platform == "linux":
        most = 1024 * (_kilobytes("/proc/self/status", "VmData:") or 0) + memory
        _limit(resource.RLIMIT_DATA, most)
    _limit(resource.RLIMIT_CORE, 0)
    if seconds is not None:
        _limit(resource.RLIMIT_CPU, int(seconds) + 1)


def _limit(which: int, most: int) -> None:
    assert resource is not None
    hard = resource.getrlimit(which)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, hard))


def around_forks(
    before: Callable[[], object], in_parent: Callable[[], object], in_child: Callable[[], object]
) -> None:
    """Have these called around every fork of this process; nothing to do where the system has no forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)


# Files


def lock(file: IO[bytes]) -> bool:
    """Lock an open file until it is closed or the process ends.

    False where somebody else has locked it, or where nobody can know, as on a file system without locks.
    """
    try:
        if fcntl is not None:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            return False
    except OSError:
        return False
    return True


def is_own(entry: os.stat_result) -> bool:
    """Whether a file belongs to the user of this process; always on Windows, where folders have their own rules."""
    return not hasattr(os, "geteuid") or entry.st_uid == os.geteuid()


def reserve(file: IO[bytes], size: int) -> None:
    """Give a file at least ``size`` bytes, reserved on the disk where the system can: a full disk is an error now."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return
        except OSError as error:
            if error.errno in FULL:
                raise
    if os.fstat(file.fileno()).st_size < size:
        file.truncate(size)


def flush_to_disk(path: Path) -> None:
    """Wait until a file is on the disk."""
    with path.open("r+b") as file:  # Windows flushes only what may be written
        os.fsync(file.fileno())


def open_without_waiting(path: Path) -> int:
    """A descriptor of ``path`` to read from; of a pipe too, without waiting for somebody who writes into it."""
    return os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))


def exchange(first: Path, second: Path) -> bool:
    """Exchange two paths in one step, by Linux's renameat2; False where the system or the file system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(here, os.fsencode(first), here, os.fsencode(second), swap) == 0)


def set_allocator(option: int, value: int) -> None:
    """Set one of the parameters of glibc's ``mallopt``; nothing happens with another C library."""
    try:
        ctypes.CDLL(None).mallopt(option, value)
    except (AttributeError, OSError, TypeError):
        return


def end_with_parent() -> None:
    """Have this process end when its standard input does, which a parent holds open as long as it lives."""

    def wait() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
