"""A Python without what only POSIX has, for `make test-portable`: first on the path, so also in every child.

Modules and functions that Windows lacks are gone, /proc says nothing about memory, and processes are spawned.
"""

import builtins
import io
import multiprocessing
import os
import sys

MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "syslog")
FUNCTIONS = (
    "fork forkpty sched_getaffinity posix_fallocate pwrite pread readv geteuid mkfifo sysconf setsid "
    "killpg O_NONBLOCK O_DIRECTORY O_NOFOLLOW O_DIRECT"
).split()
for name in MODULES:
    sys.modules[name] = None  # type: ignore[assignment]
for name in FUNCTIONS:
    if hasattr(os, name):
        delattr(os, name)
multiprocessing.set_start_method("spawn")
# What this package asks; other libraries find their own files there, and have their own ways elsewhere.
MEMORY = ("/proc/meminfo", "/proc/self/stat")
_open = io.open


def _without_proc(file, *arguments, **settings):
    """As ``open``."""
    if isinstance(file, str | os.PathLike) and os.fspath(file).startswith(MEMORY):
        raise FileNotFoundError(2, "No such file or directory", os.fspath(file))
    return _open(file, *arguments, **settings)


builtins.open = io.open = _without_proc
