"""What Dask costs: the same run in memory and on LocalCluster, per pass, and the bytes that travel.

python -m benchmarks.dask_overhead [--rows 40000] [--columns 800] [--iterations 12] [--output FILE.json]

Memory with 1 and 2 threads; LocalCluster with 1 and 2 workers of 1 thread each; a matrix that is almost empty, whose
passes are nothing but overhead. Bytes are Dask's own: ``transfer_outgoing_bytes_total`` of every worker (sums on their
way to other workers and to the client, copies of factors for other workers), and the size of what the client scatters.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from dask.sizeof import sizeof
from distributed import Client, LocalCluster

import rankwolf as rw
from benchmarks.dask_killed import matrix


class Meter:
    """Seconds and bytes of each iteration's passes."""

    def __init__(self, client: Client | None = None) -> None:
        self._client, self._scattered = client, 0
        self.marks: list[tuple[int, float, float]] = []
        if client is not None:
            self._scatter, client.scatter = client.scatter, self._counted

    def _counted(self, data: Any, **options: Any) -> Any:
        self._scattered += sizeof(data)
        return self._scatter(data, **options)

    def bytes(self) -> float:
        if self._client is None:
            return 0.0
        sent = self._client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
        return float(sum(sent.values()) + self._scattered)

    def __call__(self, record: Any) -> None:
        """The callback of a run; the loop's clock does not count what happens here."""
        self.marks.append((record.passes, record.seconds, self.bytes()))

    def per_pass(self, column: int) -> float:
        """The median over iterations, the first two left out."""
        steps = [
            (b[column] - a[column]) / (b[0] - a[0])
            for a, b in zip(self.marks[1:], self.marks[2:], strict=False)
        ]
        return float(np.median(steps))

    def close(self) -> None:
        if self._client is not None:
            self._client.scatter = self._scatter


def solve(X: Any, meter: Meter | None, iterations: int, n_threads: int = 1) -> Any:
    return rw.decompose(
        X,
        rng=0,
        delta=3e-3,
        method="hybrid",
        tol=0.0,
        max_iter=iterations,
        n_threads=n_threads,
        callback=meter,
    )


def measure(
    X: Any, name: str, iterations: int, client: Client | None = None, n_threads: int = 1
) -> dict[str, Any]:
    solve(X, None, 2, n_threads)  # compiled
    meter = Meter(client)
    fit = solve(X, meter, iterations, n_threads)
    meter.close()
    m, n = fit.low_rank.shape
    rank = fit.low_rank.rank
    result = {
        "name": name, "rows": m, "columns": n, "rank": rank, "passes": fit.passes, "objective": fit.objective,
        "seconds_per_pass": meter.per_pass(1), "bytes_per_pass": meter.per_pass(2),
        "model_bytes": 4.0 * (m + n) * rank, "threads": n_threads,
        "workers": 0 if client is None else len(client.scheduler_info()["workers"]),
    }  # fmt: skip
    print(
        f"{name:28s} {1e3 * result['seconds_per_pass']:8.1f} ms/pass  {result['bytes_per_pass'] / 1e6:8.3f} MB/pass  "
        f"(m + n)·r = {result['model_bytes'] / 1e6:.3f} MB  rank {rank}  F = {fit.objective:.8g}", flush=True,
    )  # fmt: skip
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--columns", type=int, default=800)
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    lazy = matrix(options.rows, options.columns, options.rows // 4)
    X = lazy.compute(scheduler="synchronous")
    results = [measure(X, f"memory, {k} threads", options.iterations, n_threads=k) for k in (1, 2)]
    for workers in (1, 2):
        started = time.perf_counter()
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster, timeout=300) as client,
        ):
            print(f"# cluster of {workers} after {time.perf_counter() - started:.1f} s")
            results.append(measure(lazy, f"dask, {workers} workers", options.iterations, client))
            small = matrix(2000, 16, 500)
            results.append(measure(small, f"dask, {workers} workers, 2000×16", options.iterations, client))
    if options.output:
        options.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
