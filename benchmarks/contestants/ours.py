"""What the contestants of rankwolf share: any ``method`` of ``decompose``."""

from __future__ import annotations

import time
from typing import Any

import rankwolf as rw
from benchmarks.contestants import Challenge, Outcome
from rankwolf.result.decomposition import Record


def solve_with(method: Any, challenge: Challenge) -> Outcome:
    """Run ``decompose``; the clock starts at the call, and the objective's goal is met when a callback sees it met."""
    records: list[Record] = []
    stamps: list[float] = []
    started = time.perf_counter()

    def watch(record: Record) -> bool:
        stamps.append(time.perf_counter() - started)
        records.append(record)
        if challenge.goal == "objective" and record.objective <= challenge.value:
            return False
        return not (challenge.goal == "iterations" and record.iteration >= challenge.value)

    by_rule = challenge.goal in ("gap", "paper")
    fit = rw.decompose(
        challenge.matrix, observed=challenge.observed, lambdas=challenge.weights, method=method,
        stop="gap" if challenge.goal == "gap" else "paper", tol=challenge.value if by_rule else 0.0, max_iter=100_000,
        max_seconds=challenge.max_seconds, callback=watch, rng=challenge.seed, n_threads=challenge.threads,
    )  # fmt: skip
    total = time.perf_counter() - started
    left, right = fit.low_rank.factors()
    return Outcome(
        left, right, total if challenge.goal == "gap" else stamps[-1], total, fit.iterations, fit.status.name,
        fit.passes, fit.objective, fit.relative_gap, stamps, [record.passes for record in records],
    )  # fmt: skip
