"""Children that are forked to be hurt: how each one ended."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# For the machine's sake: no child gets further than this.
ADDRESS_SPACE = 12 * 2**30
# A child that waits for a busy machine has not hung: its limit is in seconds of its own, and on the clock this many
# times as many.
PATIENCE = 10.0


@dataclass(frozen=True)
class Ending:
    """How one child ended. ``memory``: the most that it, or a child of its own, had."""

    status: int
    seconds: float
    memory: float
    words: str
    hung: bool

    @property
    def code(self) -> int:
        """The exit code; for a signal, its number with a minus sign."""
        return os.waitstatus_to_exitcode(self.status)


def run_child(
    action: Callable[[], int],
    words: Path,
    longest: float,
    disturb: tuple[float, signal.Signals] | None = None,
) -> Ending:
    """Fork, run ``action`` there, and wait; what it says on stderr goes to the file ``words``.

    ``disturb``: a signal for the child, after so many seconds. After ``longest`` seconds of processor time, or PATIENCE
    times as many on the clock, it is killed, and has hung.
    """
    started = time.perf_counter()
    child = os.fork()
    if child == 0:
        _run(action, words)
    hung = False
    while True:
        found, status, usage = os.wait4(child, os.WNOHANG)
        passed = time.perf_counter() - started
        if found:
            break
        if disturb is not None and passed > disturb[0]:
            os.kill(child, disturb[1])
            disturb = None
        if passed > longest and not hung and (passed > PATIENCE * longest or _worked(child) > longest):
            hung = True
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.002)
    said = words.read_text(encoding="utf-8", errors="backslashreplace") if words.exists() else ""
    return Ending(status, passed, 1024.0 * usage.ru_maxrss, said, hung)


def _worked(group: int) -> float:
    """Seconds of processor time that the processes of a group have had, with children that have ended."""
    ticks = 0
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[2]) == group:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _run(action: Callable[[], int], words: Path) -> None:
    code = 70
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        code = action()
    except BaseException:
        traceback.print_exc()
        code = 71
    finally:
        sys.stderr.flush()
        os._exit(code)


def make_in_child(make: Callable[[Path], object], place: Path) -> None:
    """Files that the others need: in a child too, because the threads that libraries start would be lost in a fork."""
    child = os.fork()
    if child == 0:
        try:
            make(place)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError(f"nothing was made in {place}")


def warm_up() -> None:
    """Everything that a child will need, imported and compiled once; without threads, which a fork would lose."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in (
        "h5py",
        "zarr",
        "pandas",
        "pyarrow.parquet",
        "av",
        "PIL.Image",
        "scipy.sparse.linalg",
        "scipy.fft",
    ):
        __import__(name)
    import rankwolf as rw
    import rankwolf.video.separation
    from benchmarks.faults.fuzzing import samples

    for method, data in (("hybrid", samples.matrix()), ("fw-t", samples.matrix()), ("als", samples.sparse())):
        rw.decompose(data, method=method, delta=1e-2, max_iter=3, rng=0, n_threads=1)


def command(*words: object) -> int:
    """``rankwolf`` as the shell would call it: it reads the file in a cell."""
    from rankwolf.cli import main

    warnings.simplefilter("ignore")
    return main([*map(str, words), "--quiet", "--threads", "1"])
