"""What happens inside the process of one run: load, warm up, measure, judge."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks import contestants, datasets
from benchmarks.contestants import Challenge, Outcome
from benchmarks.data import Array, MissingDataError
from benchmarks.datasets import Dataset
from benchmarks.harness import process
from benchmarks.harness.judge import Judge
from benchmarks.harness.machine import PeakMemory
from benchmarks.harness.results import Row


@dataclass(frozen=True)
class RunSpec:
    """One contestant on one data set. ``goal`` and ``value`` are explained at :class:`Challenge`.

    ``grace_seconds`` come on top of ``max_seconds`` for loading, warming up and judging; then the process is ended.
    """

    contestant: str
    dataset: str
    parameters: Row = field(default_factory=dict)
    goal: str = "gap"
    value: float = 1e-3
    settings: Row = field(default_factory=dict)
    seed: int = 0
    threads: int = 2
    max_seconds: float = 300.0
    certify: bool = True
    grace_seconds: float = 300.0

    def measure(self) -> Row:
        """Run it in a fresh process; the row says what was asked for and what came of it."""
        arguments = asdict(self)
        row = process.call(
            "benchmarks.harness.worker:perform", {"spec": arguments}, threads=self.threads,
            hard_limit=self.max_seconds + self.grace_seconds,
        )  # fmt: skip
        return {**arguments, **row}


def perform(spec: Row) -> Row:
    """The measured run and the judge's verdict. JIT compilation happens in the warm-up, before the clock starts."""
    run = RunSpec(**spec)
    try:
        data = datasets.load(run.dataset, seed=run.seed, **run.parameters)
    except MissingDataError:
        return {"failure": "the data is not on this machine"}
    solve = contestants.load(run.contestant)
    # Imports and compilation. A piece this small may not suit a contestant's settings: only the run itself counts.
    with suppress(Exception):
        solve(_challenge(_tiny(data), run))
    try:
        with PeakMemory() as memory:
            outcome = solve(_challenge(data, run))
    except ImportError as error:
        return {"failure": f"not installed: {error}"}
    except Exception as error:  # a rival's failure is a result
        return {"failure": f"{type(error).__name__}: {str(error)[:200]}"}
    stamps = np.array(outcome.stamps)
    return {
        "seconds": outcome.seconds, "total_seconds": outcome.total_seconds, "iterations": outcome.iterations,
        "passes": outcome.passes, "status": outcome.status, "claimed_objective": outcome.objective,
        "claimed_gap": outcome.relative_gap, "iteration_seconds": np.diff(stamps, prepend=0.0).tolist(),
        "pass_counts": outcome.pass_counts, "input_bytes": data.matrix.nbytes, "shape": list(data.matrix.shape),
        "memory_above": memory.above, "memory_total": memory.total, **_verdict(data, outcome, run),
    }  # fmt: skip


def _challenge(data: Dataset, run: RunSpec) -> Challenge:
    return Challenge(
        data.matrix, data.observed, data.weights, run.goal, run.value, run.seed, run.threads, run.max_seconds,
        run.settings,
    )  # fmt: skip


def _tiny(data: Dataset) -> Dataset:
    """A small piece of the data, of the same type and layout, so that the same kernels get compiled."""
    m, n = data.matrix.shape
    rows, columns = slice(0, min(m, 2000 if m >= n else 24)), slice(0, min(n, 24 if m >= n else 2000))
    matrix = np.ascontiguousarray(data.matrix[rows, columns])
    observed = None if data.observed is None else np.ascontiguousarray(data.observed[rows, columns])
    shrink = (matrix.size / data.matrix.size) ** 0.5
    return Dataset(data.name, matrix, observed, (data.weights[0] * shrink, data.weights[1]))


def _verdict(data: Dataset, outcome: Outcome, run: RunSpec) -> Row:
    left, right = outcome.left, outcome.right
    if right is None:
        right = np.eye(left.shape[1])
    verdict = Judge(data.matrix, data.observed, data.weights, run.threads).judge(
        left, right, certify=run.certify
    )
    row: dict[str, Any] = asdict(verdict)
    if data.truth is not None:
        row["error"] = _relative_error(left, right, *data.truth)
    row["pursuit_objective"] = (
        _pursuit_objective(data, left, right, verdict.nuclear_norm) if data.small else None
    )
    return row


def _relative_error(left: Array, right: Array, true_left: Array, true_right: Array) -> float:
    difference = left @ right.T - true_left @ true_right.T
    return float(np.linalg.norm(difference) / np.linalg.norm(true_left @ true_right.T))


def _pursuit_objective(data: Dataset, left: Array, right: Array, nuclear_norm: float) -> float | None:
    """‖L‖_* + ‖M − L‖₁/√max(m, n), which most rivals minimise; only for data without gaps."""
    if data.observed is not None or not np.isfinite(data.matrix).all():
        return None
    rest = data.matrix.astype(np.float64) - left.astype(np.float64) @ right.T
    return float(nuclear_norm + np.sum(np.abs(rest)) / max(data.matrix.shape) ** 0.5)
