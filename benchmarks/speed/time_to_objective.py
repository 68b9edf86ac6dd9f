"""The paper's comparison: FW-T until its rule stops it (ε = 1e-3), everybody else until they are as low as it got.

float32, start-up included, JIT compilation excluded. FISTA goes without lower bounds here. ISTA is left out: Tables 1
and 2 (``python -m benchmarks table1``, ``table2``) show it three to five times behind FISTA.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.harness.experiment import Session, number, ratio, verdict
from benchmarks.harness.results import Row, table
from benchmarks.harness.worker import RunSpec
from benchmarks.speed.cases import cases

NAME = "time_to_objective"
TITLE = "Time to FW-T's objective"
AIM_VIDEO, AIM_FACES = 20.0, 5.0


def measure(session: Session) -> None:
    ours, full = session.options.ours, session.options.full
    limit = 3600.0 if full else 150.0
    for case in cases(full, session.options.data):
        labels = {"label": case.label, "rho": case.rho}
        first = session.run(
            RunSpec("fw-t", case.dataset, case.parameters, "paper", 1e-3, max_seconds=limit, certify=False),
            repeats=case.repeats, **labels,
        )  # fmt: skip
        if "failure" in first:
            continue
        for name in (ours, "fista"):
            spec = RunSpec(name, case.dataset, case.parameters, "objective", first["objective"])
            session.run(replace(spec, max_seconds=limit, certify=False), repeats=case.repeats, **labels)


def report(rows: list[Row], settings: Row) -> str:
    ours = settings["ours"]
    lines = []
    for label, rho in dict.fromkeys((row["label"], row["rho"]) for row in rows):
        by_name = {row["contestant"]: row for row in rows if (row["label"], row["rho"]) == (label, rho)}
        own, fista, fw_t = by_name.get(ours), by_name.get("fista"), by_name.get("fw-t")
        aim = AIM_FACES if label.startswith("yale") else AIM_VIDEO
        lines.append([
            label, f"{rho:.1f}", *(_cell(by_name.get(name)) for name in ("fw-t", "fista", ours)),
            verdict(ratio(fista, own), aim, at_least=True), verdict(ratio(fw_t, own), 1.0, at_least=True),
        ])  # fmt: skip
    header = ["data", "ρ", *(f"{name}: s (iterations)" for name in ("FW-T", "FISTA", ours)),
              f"FISTA / {ours}", f"FW-T / {ours}"]  # fmt: skip
    return table(header, lines)


def _cell(row: Row | None) -> str:
    if row is None:
        return "–"
    if "failure" in row:
        return str(row["failure"])
    ended = "" if row["status"] in ("PAPER_RULE", "CALLBACK") else f", {row['status'].lower()}"
    return f"{number(row['seconds'])} ({row['iterations']}{ended})"
