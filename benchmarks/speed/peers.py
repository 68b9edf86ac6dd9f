"""Packages from PyPI side by side, on the escalator clip and on a synthetic recovery problem with known truth.

Two objectives, because most of them solve another problem than we do: ours is ½‖M − L − S‖² + λ_L‖L‖_* + λ_S‖S‖₁ with
the best S for their L; pursuit is ‖L‖_* + ‖M − L‖₁/√max(m, n). Lower is better in both; each is best for who minimises
it. The error is that of L against the truth. ``rpca`` has to be told the rank, and is told the one that we found (the
true one for the synthetic problem).

Rankwolf has the weights of the data set (the paper's for the clip, those of the known noise for the other) and its
default settings. In the full selection each rival is shown at the best of the settings in ``SEARCH``. They are tried on
a smaller problem of the same kind: 300 × 300 with the same share of rank, or every eighth frame of the clip. Best is
the smallest error of L (on the clip: the smallest pursuit objective), and of those within 2 % of it the quickest. λ is
searched around 1/√max(m, n) where there is a truth; on the clip it is part of the objective.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from benchmarks.harness.experiment import Session, number
from benchmarks.harness.machine import installed
from benchmarks.harness.results import Row, table
from benchmarks.harness.worker import RunSpec

NAME = "peers"
TITLE = "Peers from PyPI"
# Rival, what it is told always, and what is tried: every combination, the first values being its own defaults.
SEARCH: tuple[tuple[str, Row, dict[str, tuple[Any, ...]]], ...] = (
    ("pyrpca", {}, {"tol": (1e-7, 1e-4, 1e-3), "rho": (1.5, 1.2)}),
    ("rpca", {}, {"tol": (1e-5, 1e-3), "gamma": (0.5, 0.7), "trim": (False, True)}),
    ("skpcp", {"max_iter": 200}, {"tol": (1e-7, 1e-4, 1e-3)}),
    ("tensorly", {"max_iter": 200}, {"learning_rate": (1.1, 1.3), "tol": (1e-6, 1e-3)}),
    ("decompy", {"solver": "pcp", "maxiter": 500}, {"delta": (1e-7, 1e-4, 1e-3)}),
    ("decompy", {"solver": "ialm"}, {"tol": (1e-7, 1e-4, 1e-3), "rho": (1.5, 1.2)}),
    ("sporco", {}, {"tol": (1e-3, 1e-4)}),
    ("qolmat", {"max_iterations": 200}, {"tolerance": (1e-6, 1e-3)}),
)
WEIGHTS = (1.0, 0.6, 1.6)
SYNTHETIC_RANK = 20
CLOSE = 1.02
SMALLER: dict[str, Row] = {
    "escalator": {"dtype": "float32", "every": 8},
    "synthetic": {"size": 300, "rank": 6},
}


def measure(session: Session, size: int | None = None) -> None:
    """``size`` of the synthetic matrix: 1000 in the full selection, 300 in the quick one, which searches nothing."""
    full = session.options.full
    size = size or (1000 if full else 300)
    synthetic: Row = {"size": size, "rank": SYNTHETIC_RANK if full else 6}
    for dataset, parameters in (("escalator", {"dtype": "float32"}), ("synthetic", synthetic)):
        if session.options.data and dataset not in session.options.data:
            continue
        first = _run(session, session.options.ours, dataset, parameters, {})
        rank = parameters.get("rank", first.get("rank", 10))
        for name, always, tried in SEARCH:
            if full or dataset == "synthetic" or name in QUICK_ON_VIDEO:
                told = {**always, "rank": rank} if name == "rpca" else always
                best = _search(session, name, dataset, told, tried) if full else told
                _run(session, name, dataset, parameters, best)


# On the clip, a full SVD takes the better part of a second: in the quick selection only these.
QUICK_ON_VIDEO = ("pyrpca", "rpca")


def _search(session: Session, name: str, dataset: str, always: Row, tried: dict[str, tuple[Any, ...]]) -> Row:
    """The best of the settings on the smaller problem; those that were told always where none of them has an answer."""
    smaller = SMALLER[dataset]
    if dataset == "synthetic" and name != "rpca":
        tried = {"weight": WEIGHTS, **tried}
    told = {**always, "rank": smaller["rank"]} if "rank" in always and "rank" in smaller else always
    rows = []
    for values in product(*tried.values()):
        found = dict(zip(tried, values, strict=True))
        row = _run(session, name, dataset, smaller, {**told, **found}, stage="search")
        if "failure" not in row:
            rows.append((row, found))
    if not rows:
        return always
    judged = "error" if dataset == "synthetic" else "pursuit_objective"
    least = min(row[judged] for row, _ in rows)
    close = [(row["seconds"], number) for number, (row, _) in enumerate(rows) if row[judged] <= CLOSE * least]
    return {**always, **rows[min(close)[1]][1]}


def _run(
    session: Session, name: str, dataset: str, parameters: Row, settings: Row, stage: str = "shown"
) -> Row:
    limit = 20.0 if stage == "search" else 60.0 if session.options.full else 40.0
    spec = RunSpec(
        name, dataset, parameters, "gap", 1e-3, settings, max_seconds=limit, certify=False, grace_seconds=20.0
    )
    return session.run(spec, version=installed(name), stage=stage, label=dataset)


def report(rows: list[Row], settings: Row) -> str:
    parts = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        chosen = [row for row in rows if row["dataset"] == dataset]
        shown = [row for row in chosen if row.get("stage", "shown") == "shown"]
        shape = next((" × ".join(map(str, row["shape"])) for row in shown if "shape" in row), "")
        header = [
            "package",
            "seconds",
            "iterations",
            "rank of L",
            "error of L",
            "our objective",
            "pursuit",
            "peak MB above",
            "settings",
        ]
        parts.append(f"**{dataset}**, {shape}\n\n{table(header, [_line(row, settings) for row in shown])}")
        tries = len(chosen) - len(shown)
        if tries:
            parts.append(f"{tries} runs on the smaller problem chose the settings.")
    return "\n\n".join(parts)


def _line(row: Row, settings: Row) -> list[str]:
    name = "rankwolf" if row["contestant"] == settings["ours"] else f"{row['contestant']} {row['version']}"
    name += f" ({row['settings']['solver']})" if "solver" in row["settings"] else ""
    words = ", ".join(f"{key} {value}" for key, value in row["settings"].items() if key != "solver")
    words = words.replace("weight ", "λ × ") or "defaults"
    if "failure" in row:
        return [name, row["failure"], *["–"] * 6, words]
    above = None if row["memory_above"] is None else row["memory_above"] / 2**20
    ended = " (time limit)" if row["status"] == "TIME_LIMIT" else ""
    pursuit = "–" if row["pursuit_objective"] is None else f"{row['pursuit_objective']:.6g}"
    return [
        name, number(row["seconds"]) + ended, "–" if row["iterations"] is None else str(row["iterations"]),
        str(row["rank"]), number(row.get("error")), f"{row['objective']:.6g}", pursuit, number(above), words,
    ]  # fmt: skip
