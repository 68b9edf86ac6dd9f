"""Runs that are killed at random times and resumed: ``python -m benchmarks interrupted --runs 20``.

Each run solves the same matrix, on disk, in a process that keeps a checkpoint after every iteration. SIGKILL ends the
process at a random time, up to three times, and another goes on. The last must end with the objective and the passes
of the undisturbed run: no pass that was finished and saved is made again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results

SHAPE, ITERATIONS = (40_000, 250), {"hybrid": 30, "fw-t": 40}
AGREEMENT = 1e-8


def write_matrix(path: Path) -> None:
    rng = np.random.default_rng(0)
    X = 40.0 * rng.random((SHAPE[0], 5)) @ rng.random((5, SHAPE[1])) + 2.0 * rng.standard_normal(SHAPE)
    X[rng.random(SHAPE) < 0.05] += 120.0
    np.save(path, np.clip(X, 0.0, 255.0).astype(np.uint8))


def solve(data: str, method: str, checkpoint: str | None) -> dict[str, Any]:
    X = np.load(data, mmap_mode="r")
    kept: dict[str, Any] = {} if checkpoint is None else {
        "checkpoint": checkpoint, "checkpoint_every": 1, "resume": True
    }  # fmt: skip
    fit = rw.decompose(X, method=method, tol=0.0, max_iter=ITERATIONS[method], rng=0, **kept)
    return {"objective": fit.objective, "passes": fit.passes, "seconds": fit.seconds}


def start(data: Path, method: str, checkpoint: Path | None) -> subprocess.Popen[str]:
    request = json.dumps(
        {"data": str(data), "method": method, "checkpoint": None if checkpoint is None else str(checkpoint)}
    )
    words = [sys.executable, "-m", "benchmarks.faults.interrupted", "--child", request]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def answer_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    text, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"a run ended with {process.returncode}")
    answer: dict[str, Any] = json.loads(text)
    return answer


def killed_run(
    data: Path, method: str, checkpoint: Path, most_seconds: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Kill three times at random moments, if it takes so long; then let it end."""
    kills = 0
    for _ in range(3):
        process = start(data, method, checkpoint)
        try:
            process.wait(rng.uniform(0.3, 1.0) * most_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
        else:
            return {**answer_of(process), "kills": kills}
    return {**answer_of(start(data, method, checkpoint)), "kills": kills}


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--runs", type=int, default=20, help="for each method")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(solve(**json.loads(arguments.child))))
        return
    rng, results = np.random.default_rng(1), Results("interrupted", {"runs": arguments.runs})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_matrix(folder / "x.npy")
        for method in ITERATIONS:
            started = time.perf_counter()
            whole = answer_of(start(folder / "x.npy", method, None))
            seconds, right, kills = time.perf_counter() - started, 0, 0
            for number in range(arguments.runs):
                row = killed_run(
                    folder / "x.npy", method, folder / f"{method}{number}.checkpoint", seconds, rng
                )
                difference = abs(row["objective"] / whole["objective"] - 1.0)
                results.add({"method": method, **row, "difference": difference, "undisturbed": whole})
                right += difference <= AGREEMENT and row["passes"] == whole["passes"]
                kills += row["kills"]
            print(f"{method}: {right} of {arguments.runs} runs end right, after {kills} kills", flush=True)


if __name__ == "__main__":
    main()
