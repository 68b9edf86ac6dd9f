"""What each heuristic of the hybrid is worth: ``python -m benchmarks.ablation``, hours for all of it.

Each heuristic is switched off, or a constant is set to a neighbour of its value, alone; counted are the passes to a
certified relative gap of 1e-3. There are three questions, because some settings serve one form of the problem only:
``weights`` on recorded data, ``pursuit`` (L + S = M) on random matrices, ``radii`` on recorded data. A run ends after
four times the passes of the hybrid as it is, and counts as so many. Every run is saved as soon as it is done, and a
second call goes on with what is missing. ``--question``, ``--columns`` and ``--only`` select; ``--table`` writes what
is there to ``docs/ablation.md``; ``--again`` measures anew, after the code has changed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks import data
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, Row, load, table
from benchmarks.quality.cdnet import frames_of
from benchmarks.quality.exact_recovery import error
from benchmarks.quality.exact_recovery import problem as pursuit
from benchmarks.speed.forms import EXACT, SHARES, norms
from rankwolf.solvers import Hybrid

NAME, TOL = "ablation", 1e-3
MOST_PASSES, MOST_TIMES = 300, 4.0
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "ablation.md"

# A variant: what is different, and the settings that make it so.
Variants = dict[str, dict[str, Any]]
FULL = "the hybrid as it is"
HEURISTICS: Variants = {
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
CONSTANTS: Variants = {
    "sixteen probes at least": {"least_probes": 16},
    "live shares count down to 0.1": {"least_live": 0.1},
    "live shares count down to 0.5": {"least_live": 0.5},
    "a sample of 1500 rows at most": {"sample_share": 0.0},
    "a sample of 3000 rows at least": {"sample_rows": 3000},
    "probes on the sample as elsewhere": {"sample_probe_share": 0.25},
    "the sample is solved to a gap of 0.1": {"sample_gap": 0.1},
    "the path begins at 0.3 of ‖M‖": {"path_start": 0.3},
    "levels of the path fall by 2": {"path_step": 2.0},
    "levels of the path fall by 10": {"path_step": 10.0},
    "levels of the path have 10 passes at most": {"path_passes": 10},
}
OF_PURSUIT: Variants = {
    FULL: {},
    **{
        name: HEURISTICS[name]
        for name in (
            "no predictor on the path",
            "failed proofs teach nothing",
            "eight probes, whatever the rank",
            "no probes for directions that wait",
            "rows first fitted at λ_S alone",
            "levels of the path end at a gap of 0.1",
        )
    },
    "1.5 probes for each that waits": {"probes_for_each": 1.5},
    "2 probes for each that waits": {"probes_for_each": 2.0},
    "4 probes for each that waits": {"probes_for_each": 4.0},
    "6 probes for each that waits": {"probes_for_each": 6.0},
    "directions wait beyond 0.8 λ_L": {"near": 0.8},
    "directions wait beyond 0.95 λ_L": {"near": 0.95},
    "levels of the path fall by 2": {"path_step": 2.0},
    "levels of the path fall by 10": {"path_step": 10.0},
    "the end is tried after a fall by 4": {"end_fall": 4.0},
    "the end is tried with 0.1 % more clipped": {"end_lost": 0.001},
    "the end is tried with 5 % more clipped": {"end_lost": 0.05},
    "a fall of 3 ends the spectrum": {"end_gap": 3.0},
    "a fall of 100 ends the spectrum": {"end_gap": 100.0},
}
OF_RADII: Variants = {
    FULL: {},
    "rows step once in a pass": {"following_row_steps": ((1.0, 1.0),)},
    "rows step three times, as with weights": {"following_row_steps": ((1.0, 0.5), (1.0, 1.0), (1.0, 1.0))},
    "objectives compared up to a factor of 1.02": {"comparable_prices": 1.02},
    "objectives compared up to a factor of 2": {"comparable_prices": 2.0},
    "prices always take the whole step": {"price_patience": 10**6},
    "prices wait for 3 passes": {"price_patience": 3},
    "prices wait for 12 passes": {"price_patience": 12},
    "a margin of 0.5 % of the gap": {"margin_share": 0.005},
    "a margin of 10 % of the gap": {"margin_share": 0.1},
    "proofs as with weights": {"following_proof_ratio": (3.0, 4.0)},
}
# Side, rank, share of corrupted entries, seed.
PURSUITS = {
    f"{side}, {rank}, {share:.0%}, {seed}": (side, rank, share, seed)
    for side, rank, share, seed in (
        (400, 20, 0.1, 0), (400, 10, 0.2, 0), (600, 30, 0.05, 0), (1000, 10, 0.3, 0), (1000, 50, 0.1, 0),
        (400, 20, 0.1, 1), (400, 10, 0.2, 1), (400, 20, 0.3, 1), (600, 30, 0.05, 1), (600, 6, 0.3, 1),
        (1000, 10, 0.3, 1),
    )
}  # fmt: skip

# Seeds of random radii. Of 100 to 179, 156 and 164 are those where it matters that prices take shorter steps after a
# while.
RANDOM = (100, 120, 156, 164)


@dataclass(frozen=True)
class Case:
    """One column of a table: X, the arguments of ``decompose``, and L where the right one is known."""

    X: data.Array
    arguments: dict[str, Any]
    truth: data.Array | None = None


@dataclass(frozen=True)
class Question:
    """A form of the problem: its columns, how to load one, and what is varied."""

    title: str
    about: str
    columns: Sequence[str]
    load: Callable[[str], Case]
    variants: Variants = field(default_factory=dict)


@lru_cache(maxsize=1)
def with_weights(column: str) -> Case:
    """A recorded matrix, what was observed of it, and the paper's δ."""
    name, _, rho = column.partition(" ")
    if name == "highway":
        video = frames_of("highway", color=False)
        flat = video.reshape(len(video), -1)
        observed = data.observed((flat.shape[0], flat.shape[1]), float(rho), 0)
        return Case(flat, {"observed": observed, "delta": 1e-3})
    X, observed = data.masked(name, float(rho), 0)
    return Case(X, {"observed": observed, "delta": data.DELTA[name]})


@lru_cache(maxsize=1)
def without_noise(column: str) -> Case:
    """A random matrix of ``exact_recovery``, for L + S = M."""
    M, truth = pursuit(*PURSUITS[column])
    return Case(M, {"noise": 0.0}, truth)


@lru_cache(maxsize=1)
def with_radii(column: str) -> Case:
    """A matrix, and shares of the norms that the optimum of some weights has: of both the same, or at random."""
    name, _, share = column.partition(" ")
    if name == "random":
        return _unequal(int(share))
    X, optimum = _norms(name)
    return Case(X, {"radii": tuple(float(share) * norm for norm in optimum)})


def _unequal(seed: int) -> Case:
    """Small and random: radii of 0.1 to 1.4 times the norms of an optimum, each drawn by itself."""
    rng = np.random.default_rng(seed)
    m, n, rank = int(rng.integers(20, 120)), int(rng.integers(15, 60)), int(rng.integers(1, 6))
    X = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n)) + 0.1 * rng.standard_normal((m, n))
    wrong = rng.random((m, n)) < rng.choice([0.05, 0.2])
    X[wrong] += rng.choice([-8.0, 8.0], int(wrong.sum()))
    fit = rw.decompose(X, delta=0.03, tol=1e-5, rng=0)
    return Case(X, {"radii": tuple(np.array(norms(fit)) * 10.0 ** rng.uniform(-1.0, 0.15, 2))})


@lru_cache(maxsize=1)
def _norms(name: str) -> tuple[data.Array, tuple[float, float]]:
    X = data.matrix(name, np.uint8)
    return X, norms(rw.decompose(X, delta=data.DELTA[name], tol=EXACT[name], rng=0))


QUESTIONS = {
    "weights": Question(
        "Given weights",
        "A matrix, and the share of its entries that is observed.",
        [
            f"{name} {rho:g}"
            for name in (*data.FACES, "escalator", "lobby", "highway", "restaurant")
            for rho in (1.0, 0.6, 0.3)
        ],
        with_weights,
        {**HEURISTICS, **CONSTANTS},
    ),
    "pursuit": Question(
        "L + S = M",
        "`noise=0` on random matrices: the side, the rank, the share of corrupted entries, the seed. `×`: the error of "
        "L is above 1e-6.",
        list(PURSUITS),
        without_noise,
        OF_PURSUIT,
    ),
    "radii": Question(
        "Radii",
        "A matrix, and the share of the norms that the optimum of the paper's weights has; `random`: small "
        "matrices with radii that are drawn at random, and the seed.",
        [f"{name} {share:g}" for name in EXACT for share in SHARES] + [f"random {seed}" for seed in RANDOM],
        with_radii,
        OF_RADII,
    ),
}

HEAD = """# What the heuristics of the hybrid are worth

Written by `python -m benchmarks ablation --table`. Passes to a certified relative gap of 1e-3 with each heuristic
switched off alone, or a constant changed alone; `>` where the run was ended there, `–` where it was not run. *worth* is
the geometric mean, over the columns that were run, of the passes without the heuristic over the passes of the hybrid as
it is, less one; a constant is well chosen where no neighbour is worth less than nothing. What is worth less than a
twentieth goes out of the code, unless the text below says why not.
"""

# What the tables do not say.
NOTES = """## What went, and what stayed

Gone, because they were worth less than a twentieth: the limit of momentum that moved between two values with the pace
of the objective, the rule that halved momentum when it was about to ring (without both, and with rows that measure
their curvature, the columns above need 5 % fewer passes), and a limit on what a single failed proof teaches (0 %).

Worth less than a twentieth in the first table, and still there:

- *A share of the rank as probes*: nothing where the rank is small; where it is large, as on Restaurant with 30 %
  observed and on highway in full, a quarter of the passes.
- *Probes for directions that wait*: nothing with given weights; a third of the passes of `noise=0` where 30 % are
  corrupted. Three probes for each direction beyond 0.9 λ_L were chosen on the matrices with seed 0; on those with seed
  1 the best would be the same, four probes, or 0.8: a pass or two more or less.
- *The predictor*: a tenth to a third of the passes of `noise=0`.
- *What failed proofs teach*: nothing but on Restaurant with 30 % observed, a fifth there. It also gives back the
  directions in which a proof failed, without which a run could end at a point that is not optimal.
- *The first fit of the rows at three clip levels*: 2 %, by the rule too little. It is one constant and no code of its
  own, and stays until the tables are made again: without it they would all be those of another solver.
- *Levels of the path that end at a gap of 0.02*: a constant has to be there; five times as much is hardly worse.
- *Prices that take shorter steps after a while*, for radii: nothing on recorded data, but of 80 random problems two do
  not end within 200 passes without it.
- *How far objectives are compared, the margin, how often rows step with radii*: flat, within 3 % around the values.
- *When the end of `noise=0` is tried*: a tenth of a per cent instead of one is a little quicker and once gave an L that
  is not exact (`×`); the other constants of the end change nothing here. A fall by 10 in the spectrum was needed for
  4000 × 4000 with 30 % corrupted (`python -m benchmarks exact_recovery`), which is not in the table.

`–` in the columns of highway and Restaurant: no time; a row takes two to twenty minutes there. Settings that are in no
table: `sample_copies` and `sample_entries` (memory and least size of the sample), `path_share` and `warm_share` (where
a search for weights or a `start` begins: `python -m benchmarks warm_starts`), `smaller_gap`, and limits of rounds and
of rounding. They were set once, and no experiment is on record.
"""


def count_passes(results: Results, question: str, columns: Sequence[str], only: Sequence[str]) -> None:
    """Every combination that is not there yet."""
    asked = QUESTIONS[question]
    for column in asked.columns:
        done = {row["variant"]: row for row in results.rows if _key(row)[:2] == (question, column)}
        wanted = [name for name in asked.variants if name not in done and (name in only or name == FULL)]
        if column not in columns or not wanted:
            continue
        case = asked.load(column)
        for variant in wanted:
            limit = MOST_PASSES if variant == FULL else round(MOST_TIMES * done[FULL]["passes"])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", rw.RankwolfWarning)
                fit = rw.decompose(
                    case.X, tol=TOL, rng=0, method=Hybrid(**asked.variants[variant]),
                    callback=partial(within, limit), **case.arguments,
                )  # fmt: skip
            row: Row = {
                "question": question, "column": column, "variant": variant, "passes": fit.passes,
                "met": fit.status is rw.Status.GAP_REACHED, "gap": fit.relative_gap, "rank": fit.low_rank.rank,
                "right": case.truth is None or error(fit.low_rank, case.truth) <= 1e-6,
            }  # fmt: skip
            done[variant] = results.add(row)
            print(f"{question}, {column}: {fit.passes:4d} passes, {variant}", flush=True)


def within(limit: int, record: rw.Record) -> bool:
    return record.passes < limit


def _key(row: Row) -> tuple[str, str, str]:
    return row["question"], row["column"], row["variant"]


def report(rows: Sequence[Row], question: str) -> str:
    """One line for each variant, one column for each matrix."""
    asked, found = QUESTIONS[question], {_key(row): row for row in rows}
    columns = [column for column in asked.columns if (question, column, FULL) in found]
    lines = []
    for variant in asked.variants:
        cells, ratios = [], []
        for column in columns:
            row, full = found.get((question, column, variant)), found[question, column, FULL]
            cells.append("–" if row is None else _cell(row))
            if row is not None:
                ratios.append(row["passes"] / full["passes"])
        worth = f"{np.exp(np.mean(np.log(ratios))) - 1.0:+.0%}" if ratios and variant != FULL else ""
        lines.append([variant, *cells, worth])
    return table(["without", *columns, "worth"], lines)


def _cell(row: Row) -> str:
    return f"{'' if row['met'] else '>'}{row['passes']}{'' if row.get('right', True) else ' ×'}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options_of(__doc__)
    columns = [column for question in QUESTIONS.values() for column in question.columns]
    names = list(dict.fromkeys(name for question in QUESTIONS.values() for name in question.variants))
    parser.add_argument("--question", nargs="+", choices=list(QUESTIONS), default=list(QUESTIONS))
    parser.add_argument("--columns", nargs="+", choices=columns, default=columns, metavar="COLUMN")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="VARIANT")
    parser.add_argument("--again", action="store_true", help="measure also what was measured before")
    parser.add_argument(
        "--table", action="store_true", help=f"write docs/{DOCUMENT.name} and measure nothing"
    )
    chosen = parser.parse_args(arguments)
    results = Results(NAME, {"tol": TOL})
    results.rows += (load(NAME) or {"rows": []})["rows"]
    if chosen.again:
        wanted = set(product(chosen.question, chosen.columns, chosen.only))
        results.rows = [row for row in results.rows if _key(row) not in wanted]
    if not chosen.table:
        for question in chosen.question:
            count_passes(results, question, chosen.columns, chosen.only)
    texts = {
        name: f"## {asked.title}\n\n{asked.about}\n\n{report(results.rows, name)}\n"
        for name, asked in QUESTIONS.items()
    }
    print("\n".join(texts[question] for question in chosen.question))
    if chosen.table:
        DOCUMENT.write_text("\n".join([HEAD, *texts.values(), NOTES]), encoding="utf-8")


if __name__ == "__main__":
    main()
