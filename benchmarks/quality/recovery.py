"""How many measurements are enough? ``python -m benchmarks recovery``, about half an hour on one core.

M = L₀ + S₀ of 60 × 60, rank 2, 5 % gross errors of ±10 beside entries of standard deviation √2, no noise; p/(mn) from
0.3 to 1. A run is a success where the relative error of L is below 2 %. Two pairs of weights: the default of
``recover``, with λ_L/λ_S = √max(m, n), the ratio of the theory for random subspaces (Wright, Ganesh, Min, Ma, 2013),
and the paper's, with its factor √ρ in that ratio. Every run has its own operator and its own matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks.data import Array
from benchmarks.harness.options import options_of
from benchmarks.harness.results import FOLDER, Results, Row, table
from rankwolf.api.measured_weights import default_weights
from rankwolf.data.measurements import Measurements
from rankwolf.sensing import Gaussian, PartialDCT, Sensing
from rankwolf.weights.paper import paper_weights

SIDE, RANK, SHARE, MAGNITUDE = 60, 2, 0.05, 10.0
FRACTIONS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
GOOD = 0.02
OPERATORS: dict[str, Callable[[int, int], Sensing]] = {
    "cosines": lambda size, seed: PartialDCT.random(size, (SIDE, SIDE), seed=seed),
    "gaussian": lambda size, seed: Gaussian(size, (SIDE, SIDE), seed=seed, stored=True),
}
WEIGHTS = ("default", "paper")


def matrix(seed: int) -> tuple[Array, Array]:
    """(L₀, S₀)."""
    rng = np.random.default_rng([seed, 2016])
    low_rank = rng.standard_normal((SIDE, RANK)) @ rng.standard_normal((RANK, SIDE))
    signs = rng.choice([-1.0, 1.0], (SIDE, SIDE))
    return low_rank, np.where(rng.random((SIDE, SIDE)) < SHARE, MAGNITUDE * signs, 0.0)


def recover_both(name: str, A: Sensing, seed: int) -> Iterator[Row]:
    """One operator and one matrix, with both pairs of weights."""
    L_0, S_0 = matrix(seed)
    b, fraction = A.apply(L_0 + S_0), A.size / SIDE**2
    data = Measurements(b, A)
    paper = paper_weights(data, 1e-3)
    pairs = {"default": default_weights(data, 1e-3), "paper": (data.norm * paper[0], data.norm * paper[1])}
    for weights, pair in pairs.items():
        fit = rw.recover(b, A, lambdas=pair, tol=2e-3, rng=0, n_threads=1)
        yield {
            "operator": name, "fraction": round(fraction, 4), "seed": seed, "weights": weights,
            "error_L": float(np.linalg.norm(np.asarray(fit.low_rank) - L_0) / np.linalg.norm(L_0)),
            "error_S": float(np.linalg.norm(np.asarray(fit.sparse) - S_0) / np.linalg.norm(S_0)),
            "rank": fit.low_rank.rank, "relative_gap": fit.relative_gap, "status": fit.status.name,
            "iterations": fit.iterations, "seconds": round(fit.seconds, 2),
        }  # fmt: skip


def rates(rows: list[Row]) -> dict[tuple[str, str], list[tuple[float, int, int, float]]]:
    """(operator, weights) → (fraction, successes, runs, median error of L) in order."""
    result: dict[tuple[str, str], list[tuple[float, int, int, float]]] = {}
    for key in product(OPERATORS, WEIGHTS):
        mine = [row for row in rows if (row["operator"], row["weights"]) == key]
        for fraction in sorted({row["fraction"] for row in mine}):
            errors = [row["error_L"] for row in mine if row["fraction"] == fraction]
            good = sum(error < GOOD for error in errors)
            result.setdefault(key, []).append((fraction, good, len(errors), float(np.median(errors))))
    return result


def draw(rows: list[Row], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 7), sharex=True, layout="constrained")
    colours = {"cosines": "tab:blue", "gaussian": "tab:orange"}
    for (operator, weights), points in rates(rows).items():
        fractions, good, runs, errors = zip(*points, strict=True)
        style: dict[str, Any] = {
            "color": colours[operator], "linestyle": "-" if weights == "default" else ":",
            "marker": "o" if operator == "cosines" else "s", "markersize": 4,
            "label": f"{operator}, {'default' if weights == 'default' else 'the paper’s'} weights",
        }  # fmt: skip
        top.plot(fractions, [g / r for g, r in zip(good, runs, strict=True)], **style)
        bottom.semilogy(fractions, errors, **style)
    top.set_ylabel(f"share of runs with\nerror of $L$ below {GOOD:.0%}")
    top.set_ylim(-0.04, 1.04)
    top.legend(loc="lower right")
    bottom.axhline(GOOD, color="grey", linewidth=0.8)
    bottom.set_ylabel(r"median of $\Vert L - L_0\Vert_F / \Vert L_0\Vert_F$")
    bottom.set_xlabel("measurements per entry, $p/(mn)$")
    top.set_title(f"{SIDE} × {SIDE}, rank {RANK}, {SHARE:.0%} gross errors, no noise")
    for axis in (top, bottom):
        axis.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--fractions", type=float, nargs="+", default=list(FRACTIONS))
    parser.add_argument("--operators", nargs="+", choices=list(OPERATORS), default=list(OPERATORS))
    parser.add_argument("--output", type=Path, default=FOLDER / "recovery.png")
    options = parser.parse_args()
    results = Results("recovery", {**vars(options), "output": None}, options.output.with_suffix(".json"))
    for name, fraction in product(options.operators, options.fractions):
        for seed in range(options.seeds):
            for row in recover_both(name, OPERATORS[name](round(fraction * SIDE**2), seed), seed):
                results.add(row)
        print(f"{name} {fraction:.2f}", flush=True)
    lines = [
        (operator, weights, f"{fraction:.2f}", f"{good}/{runs}", f"{error:.4f}")
        for (operator, weights), points in rates(results.rows).items()
        for fraction, good, runs, error in points
    ]
    print(table(("operator", "weights", "p/(mn)", "error of L < 2 %", "median error of L"), lines))
    draw(results.rows, options.output)
    print(options.output)


if __name__ == "__main__":
    main()
