"""A paper simulation of scale: what was measured on one machine, put into a model of many.

python -m benchmarks dask_overhead --output overhead.json
python -m benchmarks scale_model --measured overhead.json [--bandwidth 1.25e9] [--latency 2e-4] [--threads 16]

The model of one pass of the hybrid method over m × n entries, rank r, k = r + max(8, r/4) columns in the basis, with W
workers of t threads and P = 2·W·t partitions:

    pass  =  c·m·n·(6r + 4k)/(W·t)                      arithmetic, shared out evenly
          +  a + b·P                                     the client and the scheduler, for each pass and task
          +  (log₂ W + 1)·(4·n·(2r + k)/β + ℓ)           the factors, to every worker by a tree of copies
          +  levels·8·(8·n·k/β + ℓ)                      the sums, eight at a time, levels = ⌈log₈ P⌉

c, a, b are measured: c from memory with one thread, a from two workers on a matrix that is almost empty, b from many
tasks that do nothing. β and ℓ, bandwidth and latency of the network, are given. What is assumed:

- every worker computes as fast as a thread here did alone: as many memory channels as cores. Workers here share one
  memory, so this machine's own points are checked with the speed of 2 threads in memory in place of twice that of 1;
- the scheduler's cost for each task does not grow with the number of workers;
- partitions are equal, no worker is slow and none dies; the blocks fit the workers' memory;
- rank and number of passes do not grow with the matrix; the first reading of the data and the proof at the end, whose
  n × n Gram matrix is added up by the same tree (up to 4096 columns), are not passes and are listed apart.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import ceil, log, log2
from pathlib import Path
from typing import Any

from benchmarks.harness.options import options_of
from benchmarks.scale.dask_overhead import MANY


@dataclass(frozen=True)
class Costs:
    """Seconds for an operation, a pass and a task; bytes a second and seconds of the network."""

    operation: float
    per_pass: float
    per_task: float
    bandwidth: float
    latency: float


def basis_columns(rank: int) -> int:
    want = rank + max(8, rank // 4)
    return -(-want // 8) * 8


def operations(m: float, n: float, rank: int) -> float:
    return m * n * (6.0 * rank + 4.0 * basis_columns(rank))


def wire_seconds(costs: Costs, n: float, rank: int, workers: int, partitions: int) -> float:
    k = basis_columns(rank)
    copies = (log2(workers) + 1.0) * (4.0 * n * (2.0 * rank + k) / costs.bandwidth + costs.latency)
    levels = max(1, ceil(log(partitions) / log(8.0) - 1e-9))
    return copies + levels * 8.0 * (8.0 * n * k / costs.bandwidth + costs.latency)


def pass_seconds(
    costs: Costs, m: float, n: float, rank: int, workers: int, threads: int, partitions: int
) -> dict[str, float]:
    parts = {
        "arithmetic": costs.operation * operations(m, n, rank) / (workers * threads),
        "scheduling": costs.per_pass + costs.per_task * partitions,
        "network": wire_seconds(costs, n, rank, workers, partitions),
    }
    return {**parts, "pass": sum(parts.values())}


def proof_seconds(costs: Costs, m: float, n: float, workers: int, threads: int) -> float:
    """mn² operations, of the speed of a matrix product, counted as twice the passes' here; the sums of n²/2 numbers."""
    partitions = 2 * workers * threads
    levels = max(1, ceil(log(partitions) / log(8.0) - 1e-9))
    return 0.5 * costs.operation * m * n * n / (workers * threads) + levels * 8.0 * (
        2.0 * n * n / costs.bandwidth
    )


def calibrate(measured: list[dict[str, Any]], bandwidth: float, latency: float) -> Costs:
    memory = next(x for x in measured if x["workers"] == 0 and x["threads"] == 1)
    small = {x["workers"]: x for x in measured if x["workers"] and x["columns"] == 16}
    operation = memory["seconds_per_pass"] / operations(memory["rows"], memory["columns"], memory["rank"])
    two = next(x for x in measured if x["workers"] == 2 and "many_empty_tasks" in x)
    per_task = max(two["many_empty_tasks"] - two["empty_tasks"], 0.0) / (2 * (MANY - 2))
    # Two partitions for each worker.
    per_pass = small[2]["seconds_per_pass"] - 4.0 * per_task
    return Costs(operation, per_pass, per_task, bandwidth, latency)


def check(measured: list[dict[str, Any]], costs: Costs) -> bool:
    """Whether the measured points that the model was not made from are within a quarter of it."""
    right = True
    print("| measured point | model, ms a pass | measured | model/measured |\n|---|---|---|---|")
    memory = {x["threads"]: x["seconds_per_pass"] for x in measured if x["workers"] == 0}
    for x in measured:
        if not x["workers"] or x["columns"] == 16:
            continue
        shared = memory[1] / memory[2] if x["workers"] == 2 else 1.0  # what the second core is worth here
        parts = pass_seconds(costs, x["rows"], x["columns"], x["rank"], x["workers"], 1, 2 * x["workers"])
        model = parts["pass"] - parts["arithmetic"] + parts["arithmetic"] * x["workers"] / shared
        name = f"{x['rows']} × {x['columns']}, rank {x['rank']}, {x['workers']} workers"
        print(
            f"| {name} | {1e3 * model:.0f} | {1e3 * x['seconds_per_pass']:.0f} | {model / x['seconds_per_pass']:.2f} |"
        )
        right &= 0.75 < model / x["seconds_per_pass"] < 1.33
    return right


def predict(costs: Costs, threads: int, passes: int) -> None:
    print(
        f"\n| matrix | float32 | workers × {threads} threads | arithmetic | scheduling | network "
        f"| {passes} passes | proof | efficiency |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for m, n, rank in ((10**6, 10**3, 10), (10**7, 10**3, 10), (10**7, 10**4, 30), (10**8, 10**4, 30)):
        for workers in (1, 4, 16, 64, 256):
            if 4.0 * m * n / workers > 1e12 or m < 64 * workers * threads:
                continue
            parts = pass_seconds(costs, m, n, rank, workers, threads, 2 * workers * threads)
            proof = f"{proof_seconds(costs, m, n, workers, threads):.0f} s" if n <= 4096 else "Lanczos passes"
            print(
                f"| {m:.0e} × {n:.0e}, rank {rank} | {4.0 * m * n / 1e9:,.0f} GB | {workers} | "
                f"{parts['arithmetic']:.2f} s | {parts['scheduling']:.2f} s | {parts['network']:.2f} s | "
                f"{passes * parts['pass']:,.0f} s | {proof} | {parts['arithmetic'] / parts['pass']:.0%} |"
            )


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--measured", type=Path, required=True)
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="bytes a second; default 10 Gbit/s")
    parser.add_argument("--latency", type=float, default=2e-4)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--passes", type=int, default=20)
    options = parser.parse_args()
    measured = json.loads(options.measured.read_text())
    costs = calibrate(measured, options.bandwidth, options.latency)
    print(
        f"{costs.operation * 1e12:.1f} ps an operation, {costs.per_pass * 1e3:.1f} ms a pass, "
        f"{costs.per_task * 1e3:.1f} ms a task, {costs.bandwidth / 1e9:.2f} GB/s, {costs.latency * 1e6:.0f} µs\n"
    )
    right = check(measured, costs)
    predict(costs, options.threads, options.passes)
    raise SystemExit(0 if right else "The model is off by more than a quarter at a measured point.")


if __name__ == "__main__":
    main()
