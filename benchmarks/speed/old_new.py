"""What a change of the code's shape has cost: steps of an earlier commit and of this tree, taken in turn.

The earlier commit (``--commit``) is checked out into a temporary folder. Two processes hold the same matrix, one with
each code, and make one step after the other in turn, so that a slow phase of the machine meets both; while one works,
the other waits. Shown are the median ratio of the seconds a pass (a step may take two), the same of the seconds of the
processors, which other work on the machine changes less, and how far the two objectives are apart after every step.

The hybrid is compared from the same cold start, without a sample and without the path, and with one step of the rows in
a pass, as the earlier one had: then both do the same, but for the limit of momentum, which moved at the earlier one.
``hybrid as it is`` has its own start, rank and row steps, and its ratio shows what those cost a pass.
``python -m benchmarks old_new --data yaleB01 escalator --steps 12``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, Row, table

NAME = "old_new"
# The last commit before the code was given its present shape.
BEFORE = "601e968"
ROOT = Path(__file__).resolve().parents[2]
AIM = 1.03
COLD = {
    "sample_rows": float("inf"),
    "path_start": 0.0,
    "row_steps": [[1.0, 1.0]],
    "measures_rows": False,
}
# Solver, its options now, and its options then.
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "hybrid": ("hybrid", COLD, {"cold": True}),
    "hybrid as it is": ("hybrid", {}, {}),
    "fista": ("fista", {"restart": False}, {}),
    "fw-t": ("fw-t", {}, {}),
}

WORKER = """
import json, sys, time
import numpy as np
name, options, path, weights, threads = json.loads(sys.argv[1])
try:
    from rankwolf.data import InMemory
except ImportError:
    from rankwolf.sources import InMemory
from rankwolf.problem import Penalized
from rankwolf.solvers import SOLVERS
if "row_steps" in options:
    options["row_steps"] = tuple(map(tuple, options["row_steps"]))
if options.pop("cold", False):  # the earlier hybrid, without the way down to its start
    from rankwolf.solvers import hybrid

    def cold(problem, source, rng):
        n = source.shape[1]
        basis = np.linalg.qr(rng.standard_normal((n, min(hybrid.LEAST_PROBES, n))))[0].astype(source.dtype)
        return hybrid._start(source, np.zeros((n, 0), source.dtype), basis, rng)

    hybrid._come_down, hybrid.SAMPLE_ROWS = cold, 10**12
solver, problem = SOLVERS[name](**options), Penalized(*weights)
source = InMemory(np.load(path), None, threads)
with source.one_blas_thread():
    state = solver.init(problem, source, np.random.default_rng(0))
    print(json.dumps(source.passes), flush=True)
    for _ in sys.stdin:
        before, started, worked = source.passes, time.perf_counter(), time.process_time()
        state = solver.step(problem, source, state)
        seconds, processor = time.perf_counter() - started, time.process_time() - worked
        report = solver.report(problem, state)
        passes = source.passes - before
        print(json.dumps([seconds, processor, passes, report.objective, report.rank]), flush=True)
"""


class Step(NamedTuple):
    """What a worker says after a step. ``processor`` are seconds of all its threads."""

    seconds: float
    processor: float
    passes: int
    objective: float
    rank: int


class Worker:
    """A process with one of the two codes, which makes a step when it is asked to."""

    def __init__(self, tree: Path, *arguments: Any) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-c", WORKER, json.dumps(arguments)]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def step(self) -> Step:
        """Make one."""
        assert self._process.stdin is not None
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        return Step(*self._answer())

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """A folder with that commit."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(
            ("git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", tree, commit), check=True
        )
        try:
            yield tree
        finally:
            subprocess.run(("git", "-C", ROOT, "worktree", "remove", "--force", tree), check=True)


def compare(old_tree: Path, dataset: str, case: str, steps: int, warm: int, threads: int) -> Row:
    """``steps`` steps of both after ``warm`` that are not timed."""
    matrix, delta = data.matrix(dataset), data.DELTA[dataset]
    norm = float(np.linalg.norm(matrix.astype(np.float64)))
    weights = (delta * norm, delta * norm / max(matrix.shape) ** 0.5)
    solver, now, then = CASES[case]
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file, matrix)
        file.flush()
        workers = [
            Worker(tree, solver, options, file.name, weights, threads)
            for tree, options in ((old_tree, then), (ROOT, now))
        ]
        rows = []
        for k in range(warm + steps):
            order = (0, 1) if k % 2 == 0 else (1, 0)
            found = {which: workers[which].step() for which in order}
            rows.append((found[0], found[1]))
        for worker in workers:
            worker.end()
    old, new = zip(*rows, strict=True)
    return {
        "data": dataset,
        "case": case,
        "old_ms": 1e3 * median(step.seconds / max(1, step.passes) for step in old[warm:]),
        "new_ms": 1e3 * median(step.seconds / max(1, step.passes) for step in new[warm:]),
        "ratio": _ratio(old[warm:], new[warm:], "seconds"),
        "processor_ratio": _ratio(old[warm:], new[warm:], "processor"),
        "passes": [sum(step.passes for step in side) for side in (old, new)],
        "ranks": [old[-1].rank, new[-1].rank],
        "difference": max(abs(b.objective / a.objective - 1.0) for a, b in zip(old, new, strict=True)),
    }


def _ratio(old: Sequence[Step], new: Sequence[Step], kind: str) -> float:
    """The median of new/old a pass, over pairs of steps that were made one after the other."""
    ratios = [
        (getattr(b, kind) / max(1, b.passes)) / (getattr(a, kind) / max(1, a.passes))
        for a, b in zip(old, new, strict=True)
    ]
    return float(median(ratios))


def report(rows: Sequence[Row]) -> str:
    lines = [
        (
            row["data"],
            row["case"],
            f"{row['old_ms']:.1f}",
            f"{row['new_ms']:.1f}",
            f"{row['ratio']:.3f}" + ("" if row["ratio"] <= AIM else f" > {AIM}"),
            f"{row['processor_ratio']:.3f}",
            " / ".join(map(str, row["passes"])),
            " / ".join(map(str, row["ranks"])),
            f"{row['difference']:.1e}",
        )
        for row in rows
    ]
    head = (
        "data",
        "solver",
        "old ms",
        "new ms",
        "new/old",
        "processor",
        "passes",
        "rank",
        "objectives differ by",
    )
    return table(head, lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options_of(__doc__)
    parser.add_argument("--commit", default=BEFORE)
    parser.add_argument("--data", nargs="+", default=["yaleB01", "escalator"], choices=list(data.DELTA))
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--warm", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args(arguments)
    results = Results(NAME, {"commit": chosen.commit})
    with checked_out(chosen.commit) as tree:
        for dataset in chosen.data:
            for case in chosen.only:
                row = compare(tree, dataset, case, chosen.steps, chosen.warm, chosen.threads)
                results.add(row)
                print(
                    f"{dataset} {case}: {row['ratio']:.3f} ({row['processor_ratio']:.3f}), {row['difference']:.1e}",
                    flush=True,
                )
    print(report(results.rows))


if __name__ == "__main__":
    main()
