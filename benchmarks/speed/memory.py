"""Peak resident memory of a run above what the process held before it (the matrix, the libraries, compiled kernels)."""

from __future__ import annotations

from benchmarks.harness.experiment import Session, number, verdict
from benchmarks.harness.results import Row, table
from benchmarks.harness.worker import RunSpec

NAME = "memory"
TITLE = "Memory"
# Peak above the input over the bytes of the matrix as float32.
LIMITS = {"fw-t": 2.5, "fista": 8.0, "ista": 8.0}
OURS_LIMIT = 0.25
MOST_RANK = 20


def measure(session: Session) -> None:
    for contestant, dtype, goal, value in (
        ("fw-t", "float32", "paper", 1e-3),
        ("fista", "float32", "iterations", 41 if session.options.full else 10),
        (session.options.ours, "uint8", "gap", 1e-3),
    ):
        session.run(
            RunSpec(contestant, "lobby", {"dtype": dtype}, goal, value, max_seconds=300.0, certify=False)
        )


def report(rows: list[Row], settings: Row) -> str:
    lines = []
    for row in rows:
        if "failure" in row:
            lines.append([row["contestant"], row["parameters"]["dtype"], row["failure"]])
            continue
        as_float32 = 4.0 * row["shape"][0] * row["shape"][1]
        share = None if row["memory_above"] is None else row["memory_above"] / as_float32
        limit = OURS_LIMIT if row["contestant"] == settings["ours"] else LIMITS[row["contestant"]]
        lines.append([
            row["contestant"], row["parameters"]["dtype"], number(row["input_bytes"] / 2**20) + " MB",
            number((row["memory_above"] or float("nan")) / 2**20) + " MB", verdict(share, limit), str(row["rank"]),
            number((row["memory_total"] or float("nan")) / 2**20) + " MB",
        ])  # fmt: skip
    header = ["solver", "input", "matrix", "peak above it", "of the matrix as float32", "rank", "peak in all"]
    return f"Lobby, 20480 × 1000.\n\n{table(header, lines)}"
