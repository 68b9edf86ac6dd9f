"""What the process around a command costs: ``python -m benchmarks guard_cost [--runs 20]``.

Seconds of processor time and of the clock of ``rankwolf --version``, through the guard and without it, and the memory
that the waiting process holds while a command runs.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.harness.options import options_of

GUARDED = "import sys; from rankwolf.cli import guarded_main; sys.exit(guarded_main(['--version']))"
PLAIN = GUARDED.replace("guarded_main", "main")


def seconds(script: str) -> tuple[float, float]:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.perf_counter() - started


def held() -> float:
    """Private memory of the waiting process, in bytes, while a command solves."""
    with tempfile.TemporaryDirectory() as name:
        np.save(Path(name) / "x.npy", np.random.default_rng(0).standard_normal((5000, 100)))
        words = [sys.executable, "-m", "rankwolf", "decompose", "x.npy", "-o", "out", "--tol", "0", "--quiet"]
        with subprocess.Popen(words, cwd=name) as process:
            time.sleep(5.0)
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
            process.terminate()
    private = [line.split() for line in text.splitlines() if line.startswith("Private")]
    return 1024.0 * sum(int(line[1]) for line in private)


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    found: dict[str, list[tuple[float, float]]] = {"guarded": [], "plain": []}
    for _ in range(options.runs):
        found["guarded"].append(seconds(GUARDED))
        found["plain"].append(seconds(PLAIN))
    for name, rows in found.items():
        used, passed = (1e3 * statistics.median(column) for column in zip(*rows, strict=True))
        print(f"{name}: {used:.1f} ms of processor time, {passed:.1f} ms by the clock")
    print(f"the waiting process holds {held() / 1e6:.1f} MB of its own")


if __name__ == "__main__":
    main()
