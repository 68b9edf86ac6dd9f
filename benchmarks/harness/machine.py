"""Where and with what a figure was measured, and how much memory a run took."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_LIBRARIES = ("rankwolf", "numpy", "scipy", "numba")


@cache
def commit() -> str:
    """The commit that is checked out, with ``+`` where the sources differ from it."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


def _git(*arguments: str) -> str:
    return subprocess.run(
        ("git", "-C", str(ROOT), *arguments), check=True, capture_output=True, text=True
    ).stdout.strip()


def describe() -> dict[str, Any]:
    """The machine and the libraries, for the record."""
    return {
        "commit": commit(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(_memory_bytes() / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "libraries": {name: installed(name) for name in _LIBRARIES},
    }


def installed(name: str) -> str:
    """The version of a package, or a dash."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "–"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def load() -> float:
    """The load average of the last minute before a run: above a few tenths, its timings are doubtful."""
    return os.getloadavg()[0]


class PeakMemory:
    """Bytes that a stretch of code needed on top of what the process held before it.

    Linux keeps a high-water mark of the resident set, and resets it on request; nothing is sampled, nothing is missed.
    Elsewhere, or where the mark cannot be reset, the answer is NaN.

    >>> with PeakMemory() as memory:
    ...     x = bytearray(50_000_000)
    >>> memory.above > 40_000_000 or memory.above != memory.above
    True
    """

    before: float = float("nan")
    above: float = float("nan")
    total: float = float("nan")

    def __enter__(self) -> PeakMemory:
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self.before = _status_bytes("VmRSS")
        except OSError:
            self.before = float("nan")
        return self

    def __exit__(self, *exc: object) -> None:
        if self.before == self.before:
            self.total = _status_bytes("VmHWM")
            self.above = max(self.total - self.before, 0.0)


def _status_bytes(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024.0 * float(line.split()[1])
    raise OSError(f"no {field} in /proc/self/status")
