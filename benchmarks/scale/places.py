"""One matrix in three places: in memory, on the disk and on a Dask cluster; passes and seconds to a certified gap.

``python -m benchmarks places --rows 16000 --columns 4800``: uint8, rank 5 with noise and 5 % outliers, δ = 1e-3. The
passes should be the same, because a proof costs at most three wherever the data lives.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks.data import Array
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results


def matrix(rows: int, columns: int, seed: int) -> Array:
    """Rank 5, noise of 4 gray levels, 5 % of the entries anything."""
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((rows, 5)), rng.standard_normal((5, columns))
    X = np.empty((rows, columns), np.uint8)
    for start in range(0, rows, 1000):
        part = (
            128.0
            + 15.0 * left[start : start + 1000] @ right
            + 4.0 * rng.standard_normal((min(1000, rows - start), columns))
        )
        wrong = rng.random(part.shape) < 0.05
        part[wrong] = rng.uniform(0.0, 255.0, int(wrong.sum()))
        X[start : start + 1000] = np.clip(part, 0, 255)
    return X


def main() -> None:
    """Measure the three."""
    parser = options_of(__doc__)
    parser.add_argument("--rows", type=int, default=16000)
    parser.add_argument("--columns", type=int, default=4800)
    options = parser.parse_args()
    results = Results("places", vars(options))
    X = matrix(options.rows, options.columns, 0)

    def measure(place: str, data: Any) -> None:
        began = time.perf_counter()
        fit = rw.decompose(data, delta=1e-3, method="hybrid", rng=0)
        seconds = time.perf_counter() - began
        results.add({"place": place, "passes": fit.passes, "seconds": seconds, "gap": fit.relative_gap})
        print(
            f"{place:10} {fit.passes:4} passes {seconds:7.1f} s  gap {fit.relative_gap:.1e}  {fit.status.name}",
            flush=True,
        )

    measure("memory", X)
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "x.npy", X)
        measure("disk", np.load(Path(folder) / "x.npy", mmap_mode="r"))
    import dask.array as da
    import distributed

    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None):
        measure("Dask", da.from_array(X, chunks=(-(-options.rows // 8), -1)))


if __name__ == "__main__":
    main()
