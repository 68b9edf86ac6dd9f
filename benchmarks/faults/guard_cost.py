"""What the cell costs: ``python -m benchmarks guard_cost [--megabytes 100] [--runs 5]``.

Seconds of processor time of a fresh process that reads a file by the ordinary library, and of one that reads it through
the cell with its child, one after the other; the median of the runs, and their ratio.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.harness.options import options_of

CELL = (
    "from rankwolf.files import read_matrix; import numpy as np; "
    "print(np.asarray(read_matrix({name!r}).values).sum())"
)
DIRECT = {
    "csv": "import pandas as pd; print(pd.read_csv({name!r}).to_numpy().sum())",
    "parquet": "import pandas as pd; print(pd.read_parquet({name!r}).to_numpy().sum())",
    "npy": "import numpy as np; print(np.load({name!r}, mmap_mode='r').sum())",
}
# Whoever asks for a cell has this package imported, so both do.
BOTH = "import rankwolf.files; "
# The time of a process and of those that it has waited for, which the operating system adds up.
TIMED = "\nimport os; t = os.times(); print(t.user + t.system + t.children_user + t.children_system)"


def make(folder: Path, megabytes: float) -> None:
    """The same numbers as .npy and .parquet of this size, and fewer as a .csv of this size."""
    import pandas as pd

    columns = 20
    values = np.random.default_rng(0).standard_normal((int(megabytes * 1e6 / 8 / columns), columns))
    np.save(folder / "x.npy", values)
    frame = pd.DataFrame(values, columns=[f"c{k}" for k in range(columns)])
    frame.to_parquet(folder / "x.parquet", index=False)
    frame[: len(frame) * 8 // 20].to_csv(folder / "x.csv", index=False)


def seconds(code: str, folder: Path) -> float:
    words = [sys.executable, "-c", BOTH + code + TIMED]
    done = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--megabytes", type=float, default=100.0)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    print("| kind | MB | directly, s | through the cell, s | ratio |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, options.megabytes)
        for kind, direct in DIRECT.items():
            file = f"x.{kind}"
            pairs = [
                (seconds(direct.format(name=file), folder), seconds(CELL.format(name=file), folder))
                for _ in range(options.runs)
            ]
            plain, cell = (statistics.median(column) for column in zip(*pairs, strict=True))
            size = (folder / file).stat().st_size / 1e6
            print(f"| {kind} | {size:.0f} | {plain:.2f} | {cell:.2f} | {cell / plain:.2f} |", flush=True)


if __name__ == "__main__":
    main()
