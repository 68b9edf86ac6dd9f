"""How long a newcomer waits: the first import, ``rankwolf --help``, and the first decomposition of a fresh process.

Each is a process of its own. *warm*: the compiled kernels are in Numba's cache; *cold*: the cache is empty, as after an
installation. The matrix is 200 × 50, rank 3, with noise and outliers, in memory. Seconds are those of the processor.
``python -m benchmarks first_call --times 7``.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from statistics import median

from benchmarks.harness.options import options_of

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


def seconds(words: list[str], cache: str) -> float:
    """Processor seconds of one process."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print a table: the median and the least of some runs."""
    parser = options_of(__doc__)
    parser.add_argument("--times", type=int, default=7)
    options = parser.parse_args()
    print("| processor seconds | median | least |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as caches:
        for name, words in WAITS.items():
            cold = name.endswith("cold")
            folders = [
                f"{caches}/{turn}-cold" if cold else f"{caches}/warm" for turn in range(options.times + 1)
            ]
            # The first run fills the caches of the system and, where it is warm, that of Numba.
            taken = [seconds(words, folder) for folder in folders][1:]
            print(f"| {name} | {median(taken):.2f} | {min(taken):.2f} |", flush=True)


if __name__ == "__main__":
    main()
