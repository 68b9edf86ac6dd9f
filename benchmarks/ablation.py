"""What each heuristic of the hybrid is worth: ``python -m benchmarks.ablation``, hours for all of it.

Each heuristic is switched off, or set to a plain value, alone; counted are the passes to a certified relative gap of
1e-3. A run ends after four times the passes of the full hybrid, and counts as so many. Every run is saved as soon as
it is done, and a second call goes on with what is missing. ``--data``, ``--rho`` and ``--only`` select; ``--table``
writes what is there to ``docs/ablation.md``; ``--again`` measures anew, after the code has changed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks import data
from benchmarks.harness.results import Results, Row, load, table
from benchmarks.quality.cdnet import frames_of
from benchmarks.quality.exact_recovery import problem as pursuit
from rankwolf.solvers import Hybrid

NAME, TOL = "ablation", 1e-3
DATA = (*data.FACES, "escalator", "lobby", "highway", "restaurant")
RHOS = (1.0, 0.6, 0.3)
MOST_PASSES, MOST_TIMES = 300, 4.0
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "ablation.md"

PURSUED = (
    "the hybrid as it is",
    "no predictor on the path",
    "failed proofs teach nothing",
    "eight probes, whatever the rank",
    "no probes for directions that wait",
)
PURSUITS = ((400, 20, 0.1), (400, 10, 0.2), (600, 30, 0.05), (1000, 10, 0.3), (1000, 50, 0.1))
# Other values of the two constants that noise=0 asked for.
AROUND: dict[str, dict[str, Any]] = {
    "3 probes for each beyond 0.9": {},
    "1.5": {"probes_for_each": 1.5},
    "2": {"probes_for_each": 2.0},
    "4": {"probes_for_each": 4.0},
    "6": {"probes_for_each": 6.0},
    "beyond 0.8": {"near": 0.8},
    "beyond 0.95": {"near": 0.95},
}
AROUND_THESE = (
    (400, 20, 0.1),
    (400, 10, 0.2),
    (400, 20, 0.3),
    (600, 30, 0.05),
    (600, 6, 0.3),
    (1000, 10, 0.3),
)

FULL = "the hybrid as it is"
# What is switched off, and the settings that do it.
WITHOUT: dict[str, dict[str, Any]] = {
    FULL: {},
    "no momentum": {"momentum": 0.0},
    "momentum up to 0.85": {"momentum": 0.85},
    "rows step by 1": {"bold_rows": False},
    "thresholds step by 1": {"bold_threshold": False},
    "no caution in thresholds": {"caution": 1.0},
    "eight probes, whatever the rank": {"probe_share": 0.0},
    "no probes for directions that wait": {"probes_for_each": 0.0},
    "rows step once in a pass": {"row_steps": ((1.0, 1.0),)},
    "rows step twice in a pass": {"row_steps": ((1.0, 0.5), (1.0, 1.0))},
    "rows step by shares that are not measured": {"measures_rows": False},
    "rows first fitted at λ_S alone": {"first_row_steps": ((1.0, 1.0),)},
    "no sample": {"sample_rows": float("inf")},
    "no path: weights as given from the start": {"path_start": 0.0},
    "no predictor on the path": {"predicts": False},
    "levels of the path end at a gap of 0.1": {"path_gap": 0.1},
    "proofs only when the Ritz bound is enough": {"proof_ratio": (float("inf"), float("inf"))},
    "failed proofs teach nothing": {"learns": False},
    "proofs without a hint": {"deflates": False},
}

HEAD = """# What the heuristics of the hybrid are worth

Written by `python -m benchmarks ablation --table`. Passes to a certified relative gap of 1e-3 with each heuristic
switched off alone; `>` where the run was ended there, `–` where it was not run. *worth* is the geometric mean, over the
columns that were run, of the passes without the heuristic over the passes of the hybrid as it is, less one. ρ is the
observed fraction. What is worth less than a twentieth goes out of the code, unless the text below says why not.
"""

# What the table does not say.
NOTES = """## What went, and what stayed

Gone, because they were worth less than a twentieth: the limit of momentum that moved between two values with the pace
of the objective, the rule that halved momentum when it was about to ring (without both, and with rows that measure
their curvature, the columns above need 5 % fewer passes), and a limit on what a single failed proof teaches (0 %).

Worth less than a twentieth above, and still there, mostly for what the table does not have: L + S = M (`noise=0`) on
random matrices, in passes (`python -m benchmarks ablation --pursuit`).

| matrix, rank, corrupted | as it is | no predictor | proofs teach nothing | eight probes | none for those that wait |
|---|---|---|---|---|---|
| 400 × 400, 20, 10 % | 38 | 41 | 37 | 38 | 38 |
| 400 × 400, 10, 20 % | 33 | 47 | 33 | 33 | 33 |
| 600 × 600, 30, 5 % | 38 | 42 | 38 | 38 | 38 |
| 1000 × 1000, 10, 30 % | 37 | 53 | 37 | 41 | 55 |
| 1000 × 1000, 50, 10 % | 36 | 40 | 36 | 37 | 36 |

- *Probes for directions that wait*: half of the passes where 30 % are corrupted. Their two constants, three probes for
  each direction beyond 0.9 λ_L, were chosen on these matrices. On six others (the same command):

  | matrix, rank, corrupted | 3 beyond 0.9 | 1.5 | 2 | 4 | 6 | 3 beyond 0.8 | 3 beyond 0.95 |
  |---|---|---|---|---|---|---|---|
  | 400 × 400, 20, 10 % | 38 | 38 | 38 | 38 | 38 | 38 | 38 |
  | 400 × 400, 10, 20 % | 33 | 33 | 33 | 33 | 33 | 33 | 33 |
  | 400 × 400, 20, 30 % | 56 | 59 | 56 | 58 | 57 | 57 | 56 |
  | 600 × 600, 30, 5 % | 36 | 36 | 36 | 36 | 36 | 36 | 36 |
  | 600 × 600, 6, 30 % | 38 | 45 | 45 | 38 | 38 | 38 | 43 |
  | 1000 × 1000, 10, 30 % | 38 | 52 | 47 | 37 | 38 | 37 | 47 |

  Chosen without one of the six, the constants would be these, four probes or 0.8: a pass or two more or less.
- *A share of the rank as probes*: highway in full (rank 155) takes 22 passes without, in place of 18, and Restaurant 18
  in place of 16.
- *The predictor*: a tenth to a half of the passes of `noise=0`.
- *What failed proofs teach* is worth nothing in passes any more. It stays for what it gives back: the directions in
  which a proof failed, without which a run could end at a point that is not optimal.
- *The first fit of the rows at three clip levels, and levels of the path that end at a gap of 0.02*: 3 % each, close
  to the line. Without the first, Restaurant needs 18 passes in place of 16, and faces with 60 % observed up to 3 more.

Not run: Restaurant with 30 % observed, and the last two rows with 60 %; highway with 60 and 30 % but for the rows in
question.
"""


def matrix(name: str, rho: float, seed: int) -> tuple[data.Array, data.Array | None, float]:
    """X, what was observed, and the paper's δ."""
    if name == "highway":
        video = frames_of("highway", color=False)
        flat = video.reshape(len(video), -1)
        return flat, data.observed((flat.shape[0], flat.shape[1]), rho, seed), 1e-3
    return *data.masked(name, rho, seed), data.DELTA[name]


def count_passes(
    results: Results, names: Sequence[str], rhos: Sequence[float], variants: Sequence[str], again: bool
) -> None:
    """Every combination that is not there yet."""
    for name in names:
        for rho in rhos:
            wanted = [FULL, *(variant for variant in variants if variant != FULL)]
            done = {row["variant"]: row for row in results.rows if (row["data"], row["rho"]) == (name, rho)}
            wanted = [variant for variant in wanted if again or variant not in done]
            if not wanted:
                continue
            X, observed, delta = matrix(name, rho, seed=0)
            for variant in wanted:
                limit = MOST_PASSES if variant == FULL else round(MOST_TIMES * done[FULL]["passes"])
                fit = rw.decompose(
                    X, observed=observed, delta=delta, tol=TOL, rng=0, method=Hybrid(**WITHOUT[variant]),
                    callback=partial(within, limit),
                )  # fmt: skip
                row: Row = {
                    "data": name, "rho": rho, "variant": variant, "passes": fit.passes, "iterations": fit.iterations,
                    "met": fit.status is rw.Status.GAP_REACHED, "gap": fit.relative_gap, "rank": fit.low_rank.rank,
                }  # fmt: skip
                results.rows = [old for old in results.rows if _key(old) != _key(row)]
                done[variant] = results.add(row)
                print(f"{name} ρ = {rho}: {fit.passes:4d} passes, {variant}", flush=True)


def pursue(
    variants: dict[str, dict[str, Any]], matrices: Sequence[tuple[int, int, float]], seed: int
) -> None:
    """Passes of ``noise=0``, L + S = M, on matrices of ``exact_recovery``, with each of the settings in turn."""
    lines = []
    for side, rank, corrupted in matrices:
        M = pursuit(side, rank, corrupted, seed)[0]
        passes = [
            rw.decompose(M, noise=0.0, rng=0, method=Hybrid(**settings)).passes
            for settings in variants.values()
        ]
        lines.append([f"{side} × {side}, {rank}, {corrupted:.0%}", *map(str, passes)])
        print(*lines[-1], flush=True)
    print("\n" + table(["matrix, rank, corrupted", *variants], lines))


def within(limit: int, record: rw.Record) -> bool:
    return record.passes < limit


def _key(row: Row) -> tuple[str, float, str]:
    return row["data"], row["rho"], row["variant"]


def report(rows: Sequence[Row]) -> str:
    """One line for each heuristic, one column for each matrix."""
    found = {_key(row): row for row in rows}
    columns = [(name, rho) for name in DATA for rho in RHOS if (name, rho, FULL) in found]
    lines = []
    for variant in WITHOUT:
        cells, ratios = [], []
        for name, rho in columns:
            row, full = found.get((name, rho, variant)), found[name, rho, FULL]
            cells.append("–" if row is None else f"{'' if row['met'] else '>'}{row['passes']}")
            if row is not None:
                ratios.append(row["passes"] / full["passes"])
        worth = f"{np.exp(np.mean(np.log(ratios))) - 1.0:+.0%}" if ratios and variant != FULL else ""
        lines.append([variant, *cells, worth])
    return table(["without", *(f"{name} {rho:g}" for name, rho in columns), "worth"], lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--rho", nargs="+", type=float, choices=RHOS, default=list(RHOS))
    parser.add_argument("--only", nargs="+", choices=list(WITHOUT), default=list(WITHOUT))
    parser.add_argument("--again", action="store_true", help="measure also what was measured before")
    parser.add_argument(
        "--table", action="store_true", help=f"write docs/{DOCUMENT.name} and measure nothing"
    )
    parser.add_argument("--pursuit", action="store_true", help="L + S = M on random problems instead")
    chosen = parser.parse_args(arguments)
    if chosen.pursuit:
        pursue({name: WITHOUT[name] for name in PURSUED}, PURSUITS, seed=0)
        pursue(AROUND, AROUND_THESE, seed=1)
        return
    results = Results(NAME, {"tol": TOL})
    results.rows += (load(NAME) or {"rows": []})["rows"]
    if not chosen.table:
        count_passes(results, chosen.data, chosen.rho, chosen.only, chosen.again)
    text = report(results.rows)
    print(text)
    if chosen.table:
        DOCUMENT.write_text(f"{HEAD}\n{text}\n\n{NOTES}", encoding="utf-8")


if __name__ == "__main__":
    main()
