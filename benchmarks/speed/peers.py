"""Packages from PyPI side by side, on the escalator clip and on a synthetic recovery problem with known truth.

Two objectives, because most of them solve another problem than we do: ours is ½‖M − L − S‖² + λ_L‖L‖_* + λ_S‖S‖₁ with
the best S for their L; pursuit is ‖L‖_* + ‖M − L‖₁/√max(m, n). Lower is better in both; each is best for who minimises
it. The error is that of L against the truth. ``rpca`` has to be told the rank, and is told the one that we found (the
true one for the synthetic problem).
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.harness.experiment import Session, number
from benchmarks.harness.machine import installed
from benchmarks.harness.results import Row, table
from benchmarks.harness.worker import RunSpec

NAME = "peers"
TITLE = "Peers from PyPI"
RIVALS: tuple[tuple[str, Row], ...] = (
    ("pyrpca", {}),
    ("rpca", {}),
    ("skpcp", {"max_iter": 100}),
    ("tensorly", {"max_iter": 100}),
    ("decompy", {"solver": "pcp"}),
    ("decompy", {"solver": "ialm"}),
    ("sporco", {}),
    ("qolmat", {"max_iter": 100}),
)
SYNTHETIC_RANK = 20


# On the clip, a full SVD takes the better part of a second: in the quick selection only these.
QUICK_ON_VIDEO = ("pyrpca", "rpca")


def measure(session: Session, size: int | None = None) -> None:
    """``size`` of the synthetic matrix: 2000 in the full selection, 400 in the quick one."""
    full = session.options.full
    synthetic: Row = {"size": size or (2000 if full else 400), "rank": SYNTHETIC_RANK}
    for dataset, parameters in (("escalator", {"dtype": "float32"}), ("synthetic", synthetic)):
        first = _run(session, session.options.ours, dataset, parameters, {})
        rank = SYNTHETIC_RANK if dataset == "synthetic" else first.get("rank", 10)
        for name, settings in RIVALS:
            if full or dataset == "synthetic" or name in QUICK_ON_VIDEO:
                told = {"rank": rank} if name == "rpca" else {}
                _run(session, name, dataset, parameters, {**settings, **told})


def _run(session: Session, name: str, dataset: str, parameters: Row, settings: Row) -> Row:
    limit = 60.0 if session.options.full else 40.0
    spec = RunSpec(
        name, dataset, parameters, "gap", 1e-3, settings, max_seconds=limit, certify=False, grace_seconds=20.0
    )
    return session.run(replace(spec, grace_seconds=20.0), version=installed(name))


def report(rows: list[Row], settings: Row) -> str:
    parts = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        chosen = [row for row in rows if row["dataset"] == dataset]
        shape = next((" × ".join(map(str, row["shape"])) for row in chosen if "shape" in row), "")
        header = [
            "package",
            "seconds",
            "iterations",
            "rank of L",
            "error of L",
            "our objective",
            "pursuit",
            "peak MB above",
        ]
        parts.append(f"**{dataset}**, {shape}\n\n{table(header, [_line(row, settings) for row in chosen])}")
    return "\n\n".join(parts)


def _line(row: Row, settings: Row) -> list[str]:
    name = "rankwolf" if row["contestant"] == settings["ours"] else f"{row['contestant']} {row['version']}"
    name += f" ({row['settings']['solver']})" if "solver" in row["settings"] else ""
    if "failure" in row:
        return [name, row["failure"], *["–"] * 6]
    above = None if row["memory_above"] is None else row["memory_above"] / 2**20
    ended = " (time limit)" if row["status"] == "TIME_LIMIT" else ""
    pursuit = "–" if row["pursuit_objective"] is None else f"{row['pursuit_objective']:.6g}"
    return [
        name, number(row["seconds"]) + ended, "–" if row["iterations"] is None else str(row["iterations"]),
        str(row["rank"]), number(row.get("error")), f"{row['objective']:.6g}", pursuit, number(above),
    ]  # fmt: skip
