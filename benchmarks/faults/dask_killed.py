"""Workers killed at random times: every run has to end with the objective of the undisturbed one.

python -m benchmarks dask_killed [--runs 20] [--method hybrid] [--seed 0] [--output FILE.json]

Three worker processes with one thread each. In each run one of them, any, gets SIGKILL at a random moment between the
start and the end of the solve; its nanny starts another.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import rankwolf as rw
from benchmarks.harness.options import options_of


def make_block(block_info: Any = None) -> Any:
    """Rows of a low-rank matrix with noise and outliers; the same rows whenever and wherever they are computed."""
    (first, last), (_, columns) = block_info[None]["array-location"]
    right = np.random.default_rng(0).standard_normal((6, columns))
    rng = np.random.default_rng(1 + first)
    rows = rng.standard_normal((last - first, 6)) @ right + 0.1 * rng.standard_normal((last - first, columns))
    rows[rng.random(rows.shape) < 0.05] += 10.0
    return rows.astype(np.float32)


def matrix(rows: int, columns: int, height: int) -> Any:
    chunks = da.core.normalize_chunks((height, columns), (rows, columns))
    return da.map_blocks(make_block, chunks=chunks, dtype=np.float32, meta=np.empty((0, 0), np.float32))


def worker_processes(client: Client) -> list[int]:
    """When all three are there; the one that was killed last may still be on the list, and not answer."""
    while True:
        client.wait_for_workers(3, timeout=300)
        found = client.run(os.getpid, on_error="ignore")
        if len(found) == 3:
            return list(found.values())
        time.sleep(0.2)


def kill_one(process: int, after: float, killed: list[float]) -> None:
    """SIGKILL for a worker, ``after`` seconds from now."""
    started = time.perf_counter()
    time.sleep(after)
    os.kill(process, signal.SIGKILL)
    killed.append(time.perf_counter() - started)


def solve(X: Any, method: str) -> Any:
    if method == "fw-p":
        return rw.decompose(X, rng=0, method=method, radii=(5e3, 2e5), tol=0.0, max_iter=10)
    # A tolerance that is not reached: 15 iterations, or 10 of those that take several passes.
    return rw.decompose(
        X, rng=0, method=method, delta=3e-3, tol=0.0, max_iter=15 if method == "hybrid" else 10
    )


def run(
    cluster: LocalCluster, client: Client, X: Any, method: str, runs: int, seed: int
) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    solve(X, method)  # compiled, on every worker
    started = time.perf_counter()
    calm = solve(X, method)
    seconds = time.perf_counter() - started
    results = []
    for number in range(runs):
        cluster.scale(3)  # a nanny may have given up
        process, killed = rng.choice(worker_processes(client)), list[float]()
        killer = threading.Thread(target=kill_one, args=(process, rng.uniform(0.0, seconds), killed))
        started = time.perf_counter()
        killer.start()
        fit = solve(X, method)
        took = time.perf_counter() - started
        killer.join()
        results.append({
            "run": number, "calm_seconds": seconds, "killed_after": killed[0], "seconds": took,
            "during": killed[0] < took, "passes": fit.passes, "calm_passes": calm.passes,
            "difference": abs(fit.objective - calm.objective) / calm.objective,
        })  # fmt: skip
        print(
            f"run {number:2d}: killed after {killed[0]:5.2f} s of {seconds:.2f} s, {took:6.2f} s, {fit.passes} passes, "
            f"objective off by {results[-1]['difference']:.1e}", flush=True,
        )  # fmt: skip
    return results


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--method", default="hybrid")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=24_000)
    parser.add_argument("--columns", type=int, default=300)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, timeout=300) as client,
    ):
        X = matrix(options.rows, options.columns, options.rows // 6)
        results = run(cluster, client, X, options.method, options.runs, options.seed)
    wrong = [result for result in results if not result["difference"] <= 1e-10]
    print(
        f"{len(results) - len(wrong)} of {len(results)} runs of {options.method} ended with the same objective"
    )
    if options.output:
        options.output.write_text(json.dumps(results, indent=1))
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
