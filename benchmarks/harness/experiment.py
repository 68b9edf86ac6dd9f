"""What an experiment is: a module with ``NAME``, ``measure(session)`` and ``report(rows)``.

``measure`` adds rows to the session one by one; ``report`` turns saved rows into Markdown, and nothing else knows what
the rows of that experiment mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.harness import process
from benchmarks.harness.results import FOLDER, Results, Row, load
from benchmarks.harness.worker import RunSpec

# A run is not started with less time left, and gets this much for loading, warming up and judging.
LEAST_SECONDS, LEAST_GRACE = 5.0, 60.0


@dataclass(frozen=True)
class Options:
    """``full`` is the whole experiment, otherwise what fits in ``make bench``; ``ours`` is the solver that is shown."""

    full: bool = False
    threads: int = 2
    seed: int = 0
    ours: str = "hybrid"
    deadline: float = float("inf")
    data: tuple[str, ...] = ()

    def seconds_left(self) -> float:
        """Until the whole selection has to be done."""
        return self.deadline - time.monotonic()


def say_at_once(line: str) -> None:
    """To the terminal, also where it is a pipe."""
    print(line, flush=True)


def folder(full: bool) -> Path:
    """Where the results of a selection are kept: a quick run does not overwrite a full one."""
    return FOLDER / ("full" if full else "quick")


class Session:
    """Runs of one experiment: each in a fresh process, each saved and printed as soon as it is there."""

    def __init__(self, name: str, options: Options, say: Callable[[str], object] = say_at_once) -> None:
        self.options, self.say = options, say
        settings = {
            "full": options.full,
            "threads": options.threads,
            "seed": options.seed,
            "ours": options.ours,
        }
        place = folder(options.full)
        saved = load(name, place) if options.data else None
        self.results = Results(name, settings, place / f"{name}.json")
        # Data that is measured again takes the place of its own rows only.
        self.results.rows += [
            row for row in (saved or {"rows": []})["rows"] if row["label"] not in options.data
        ]

    def run(self, spec: RunSpec, *, repeats: int = 1, **labels: Any) -> Row:
        """Measure ``spec``; of several repeats the one with the median time is kept."""
        rows: list[Row] = []
        for _ in range(repeats):
            row = self._measure(spec)
            if "failure" in row and not rows:
                return self.add(row, **labels)
            if "failure" in row:
                break
            rows.append(row)
        rows.sort(key=lambda row: float(row["seconds"]))
        return self.add({**rows[len(rows) // 2], "all_seconds": [row["seconds"] for row in rows]}, **labels)

    def _measure(self, spec: RunSpec) -> Row:
        left = self.options.seconds_left()
        if left < LEAST_SECONDS:
            return {**vars(spec), "failure": "left out: the selection's time was used up"}
        most = min(spec.max_seconds, left)
        grace = min(spec.grace_seconds, max(left - most, LEAST_GRACE))
        return replace(
            spec, threads=self.options.threads, seed=self.options.seed, max_seconds=most, grace_seconds=grace
        ).measure()

    def call(self, target: str, *, hard_limit: float = 1200.0, **arguments: Any) -> Row:
        """The row of ``module:function`` in a fresh process."""
        limit = min(hard_limit, max(self.options.seconds_left(), LEAST_SECONDS))
        return self.add(process.call(target, arguments, threads=self.options.threads, hard_limit=limit))

    def add(self, row: Row, **labels: Any) -> Row:
        """Save a row and say what it is."""
        row = {**labels, **row}
        self.results.add(row)
        self.say("  " + summary(row))
        return row


def summary(row: Row) -> str:
    """A row in a few words, for the terminal."""
    words = [str(row[key]) for key in ("contestant", "method", "dataset") if key in row]
    words += [f"{key}={value}" for key, value in row.get("parameters", {}).items()]
    if "failure" in row:
        return " ".join([*words, "FAILED:", row["failure"]])
    for key in (
        "shape",
        "seconds",
        "iterations",
        "passes",
        "rank",
        "relative_gap",
        "ratio",
        "to_fista",
        "status",
    ):
        value = row.get(key)
        if value is not None and value == value:
            words.append(f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={value}")
    return " ".join(words)


def number(value: float | None, digits: int = 3) -> str:
    """For a cell of a table."""
    if value is None or value != value:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def ratio(numerator: Row | None, denominator: Row | None, key: str = "seconds") -> float | None:
    """How many times as large; None where one of the two failed."""
    if not numerator or not denominator or not numerator.get(key) or not denominator.get(key):
        return None
    return float(numerator[key] / denominator[key])


def verdict(value: float | None, limit: float, *, at_least: bool = False) -> str:
    """``value`` beside its aim."""
    if value is None:
        return "–"
    met = value >= limit if at_least else value <= limit
    return f"{number(value)} ({'met' if met else 'missed'}: {'≥' if at_least else '≤'} {number(limit)})"
