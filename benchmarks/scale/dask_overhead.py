"""What Dask costs: the same run in memory and on LocalCluster, per pass, and the bytes that travel.

python -m benchmarks dask_overhead [--rows 40000] [--columns 800] [--iterations 12] [--output FILE.json]

Memory with 1 and 2 threads; LocalCluster with 1 and 2 workers of 1 thread each; a matrix that is almost empty, whose
passes are nothing but overhead; and as many tasks that do nothing, which is what Dask takes by itself. Bytes are
Dask's own: ``transfer_outgoing_bytes_total`` of every worker (sums on their way to other workers and to the client,
copies of factors for other workers), and the size of what the client sends, which has no counter: what it scatters,
and the arguments of its tasks.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from dask.sizeof import sizeof
from distributed import Client, Future, LocalCluster

import rankwolf as rw
from benchmarks.faults.dask_killed import matrix
from benchmarks.harness.options import options_of

# Tasks for each worker, to see what one more costs.
MANY = 32


class Meter:
    """Seconds and bytes of each iteration's passes."""

    def __init__(self, client: Client | None = None) -> None:
        self._client, self._sent = client, 0
        self.marks: list[tuple[int, float, float]] = []
        if client is not None:
            self._scatter, client.scatter = client.scatter, self._scatter_and_count
            self._map, client.map = client.map, self._map_and_count

    def _scatter_and_count(self, data: Any, **options: Any) -> Any:
        self._sent += sizeof(data)
        return self._scatter(data, **options)

    def _map_and_count(self, function: Any, *arguments: Any, **options: Any) -> Any:
        once = {id(x): x for column in arguments for x in column if not isinstance(x, Future)}
        self._sent += sizeof(list(once.values()))
        return self._map(function, *arguments, **options)

    def bytes(self) -> float:
        if self._client is None:
            return 0.0
        sent = self._client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
        return float(sum(sent.values()) + self._sent)

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
            self._client.scatter, self._client.map = self._scatter, self._map


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


def empty_tasks(client: Client, count: int, rounds: int = 50) -> float:
    """The median of the seconds from sending ``count`` tasks that do nothing to each worker to having the answers."""
    homes, seconds = list(client.scheduler_info()["workers"]), []
    for _ in range(rounds):
        started = time.perf_counter()
        client.gather([client.map(bool, range(count), workers=[home], pure=False) for home in homes])
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds))


def print_table(results: list[dict[str, Any]]) -> None:
    """As in docs/clusters.md: large matrix only."""
    large = [x for x in results if x["columns"] > 16]
    here = {x["threads"]: x["seconds_per_pass"] for x in large if not x["workers"]}
    print(
        "\n| | ms a pass | speed-up | ms over memory | empty tasks, ms | MB in a pass | (m + n)·r numbers, MB |"
    )
    print("|---|---|---|---|---|---|---|")
    for x in large:
        mine, count = x["seconds_per_pass"], x["workers"] or x["threads"]
        first = next(y for y in large if bool(y["workers"]) == bool(x["workers"]))["seconds_per_pass"]
        travels = (
            f"{1e3 * (mine - here[count]):.0f} | {1e3 * x['empty_tasks']:.0f} | {x['bytes_per_pass'] / 1e6:.2f} | "
            f"{x['model_bytes'] / 1e6:.2f}" if x["workers"] else "| | |"
        )  # fmt: skip
        print(f"| {x['name']} | {1e3 * mine:.0f} | {first / mine:.2f} | {travels} |")


def main() -> None:
    parser = options_of(__doc__)
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
            results[-1] |= {
                "empty_tasks": empty_tasks(client, 2),
                "many_empty_tasks": empty_tasks(client, MANY),
            }
            small = matrix(2000, 16, 500)
            results.append(measure(small, f"dask, {workers} workers, 2000×16", options.iterations, client))
    print_table(results)
    if options.output:
        options.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
