"""How long a newcomer waits: the first import, ``rankwolf --help``, and the first decomposition of a fresh process.

Each is a process of its own, in turn with one of an earlier commit (``--commit``), so that a slow phase of the machine
meets both. *warm*: the compiled kernels are in Numba's cache; *cold*: the cache is empty, as after an installation.
The matrix is 200 × 50, rank 3, with noise and outliers, in memory. Seconds are those of the whole process, from its
start to its end. Python's bytecode is there, as pip leaves it. ``python -m benchmarks first_call --times 7``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.harness.options import options_of
from benchmarks.speed.old_new import BEFORE, ROOT, checked_out

FIRST = """
import numpy as np, rankwolf as rw
rng = np.random.default_rng(0)
X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 50)) + 0.1 * rng.standard_normal((200, 50))
X[rng.random(X.shape) < 0.05] += 10.0
rw.decompose(X)
"""
WAITS = {
    "import rankwolf": ["-c", "import rankwolf"],
    "rankwolf --help": ["-m", "rankwolf", "--help"],
    "first decompose, warm": ["-W", "ignore", "-c", FIRST],
    "first decompose, cold": ["-W", "ignore", "-c", FIRST],
}


def seconds(source: Path, words: list[str], cache: str) -> float:
    """Of one process with the code of ``source``."""
    environment = {**os.environ, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": cache}
    # Some environments forbid bytecode; without it the time would be that of compiling the modules.
    environment |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{Path(cache).parent}/bytecode"}
    started = time.perf_counter()
    subprocess.run([sys.executable, *words], env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--commit", default=BEFORE)
    parser.add_argument("--times", type=int, default=7)
    options = parser.parse_args()
    with checked_out(options.commit) as folder, tempfile.TemporaryDirectory() as caches:
        codes = {f"at {options.commit}": folder / "src", "now": ROOT / "src"}
        print("| seconds, median (least) | " + " | ".join(codes) + " |\n|---|" + "---|" * len(codes))
        for name, words in WAITS.items():
            found: dict[str, list[float]] = {code: [] for code in codes}
            # The first round fills the caches of the system and, where it is warm, that of Numba.
            for turn in range(options.times + 1):
                for number, (code, source) in enumerate(codes.items()):
                    fresh = f"{turn}-cold" if name.endswith("cold") else "warm"
                    taken = seconds(source, words, f"{caches}/{number}-{fresh}")
                    if turn:
                        found[code].append(taken)
            cells = " | ".join(f"{median(times):.2f} ({min(times):.2f})" for times in found.values())
            print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
