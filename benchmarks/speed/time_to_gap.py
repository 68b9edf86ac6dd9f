"""Time and passes to a certified relative gap of 1e-3; the last column is the judge's own gap for the answer."""

from __future__ import annotations

from benchmarks.harness.experiment import Session, number, ratio, verdict
from benchmarks.harness.results import Row, table
from benchmarks.harness.worker import RunSpec
from benchmarks.speed.cases import Case, cases

NAME = "time_to_gap"
TITLE = "Time to a certified gap of 1e-3"
GAP = 1e-3
AIM_SLOWER = 10.0


def measure(session: Session) -> None:
    ours, full = session.options.ours, session.options.full
    for case in cases(full, session.options.data):
        first: Row = {}
        for name in (ours, *_others(case)):
            # The others get twelve times our time: enough to see who is ten times slower.
            limit = max(20.0, 12.0 * first.get("seconds", 0.0)) if first else 600.0
            spec = RunSpec(
                name, case.dataset, case.parameters, "gap", GAP, max_seconds=limit if name != "fw-t" else 10.0
            )
            row = session.run(
                spec, repeats=case.repeats if name == ours else 1, label=case.label, rho=case.rho, passes_aim=_aim(case)
            )  # fmt: skip
            first = first or row


def _others(case: Case) -> tuple[str, ...]:
    """FISTA takes minutes on Restaurant, and the more the less is observed: it runs once."""
    return ("fista", "fw-t") if case.dataset != "restaurant" or case.rho == 1.0 else ()


def _aim(case: Case) -> int | None:
    if case.dataset == "restaurant":
        return 30
    return {1.0: 12, 0.6: 25}.get(case.rho)


def report(rows: list[Row], settings: Row) -> str:
    lines = []
    for row in rows:
        if "failure" in row:
            lines.append([row["label"], f"{row['rho']:.1f}", row["contestant"], str(row["failure"])])
            continue
        own = next((other for other in rows if other["contestant"] == settings["ours"]
                    and (other["label"], other["rho"]) == (row["label"], row["rho"])), None)  # fmt: skip
        is_ours = row is own
        slower = None if is_ours else ratio(row, own)
        ended = "" if row["status"] == "GAP_REACHED" else _unfinished(row)
        aimed = is_ours and row["passes_aim"]
        video = not row["label"].startswith("yale")
        lines.append([
            row["label"], f"{row['rho']:.1f}", row["contestant"], number(row["seconds"]) + ended,
            verdict(float(row["passes"]), float(row["passes_aim"])) if aimed else str(row["passes"]),
            verdict(slower, AIM_SLOWER, at_least=True) if row["contestant"] == "fista" and video else number(slower),
            str(row["rank"]), number(row["relative_gap"], 2),
        ])  # fmt: skip
    header = [
        "data",
        "ρ",
        "solver",
        "seconds",
        "passes",
        f"times {settings['ours']}'s",
        "rank",
        "judge's gap",
    ]
    return table(header, lines)


def _unfinished(row: Row) -> str:
    return f" ({row['status'].lower()} at {number(row['claimed_gap'], 2)})"
