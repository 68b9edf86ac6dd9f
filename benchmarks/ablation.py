"""What each setting of the hybrid is worth: ``python -m benchmarks ablation``, about half an hour.

Each setting is switched off, or made smaller or larger, alone; counted are the passes to a certified relative gap of
1e-3 at the paper's weights. A run ends after four times the passes of the hybrid as it is, and counts as so many.
``--data`` names the recorded matrices; rendered ones need no files. ``--only`` takes the settings with these names.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks import data
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, table
from rankwolf.solvers import Hybrid

VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "momentum 0": {"momentum": 0.0},
    "momentum .85": {"momentum": 0.85},
    "caution 1": {"caution": 1.0},
    "probe_share 0": {"probe_share": 0.0},
    "probes_for_each 0": {"probes_for_each": 0.0},
    "least_probes 16": {"least_probes": 16},
    "one row step": {"row_steps": ((1.0, 1.0),)},
    "first rows alike": {"first_row_steps": ((1.0, 1.0),)},
    "least_live .1": {"least_live": 0.1},
    "least_live .5": {"least_live": 0.5},
    "no sample": {"sample_rows": float("inf")},
    "sample_share 0": {"sample_share": 0.0},
    "sample_gap .1": {"sample_gap": 0.1},
    "no path": {"path_start": 0.0},
    "path_step 2": {"path_step": 2.0},
    "path_step 10": {"path_step": 10.0},
    "path_gap .1": {"path_gap": 0.1},
    "late proofs": {"proof_ratio": (float("inf"), float("inf"))},
}
RECORDED = (*data.FACES, "escalator", "lobby")


def rendered(seed: int) -> np.ndarray:
    """20,000 × 300 of rank 5 with noise and blocks that move."""
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((20_000, 5)) @ rng.standard_normal((5, 300)) + 0.3 * rng.standard_normal(
        (20_000, 300)
    )
    for j in range(300):
        matrix[60 * j : 60 * j + 1000, j] += 10.0
    return np.asarray(matrix, np.float32)


def passes(matrix: Any, observed: Any, delta: float, settings: dict[str, Any], most: int) -> int:
    """Passes to a certified gap of 1e-3, at most ``most``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rw.RankwolfWarning)
        fit = rw.decompose(
            matrix,
            observed=observed,
            delta=delta,
            method=Hybrid(**settings),
            max_iter=most,
            rng=0,
            refit=False,
        )
    return int(fit.passes) if fit.status.converged else most


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--data", nargs="*", default=list(RECORDED))
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    options = parser.parse_args()
    results = Results("ablation", vars(options))
    problems: dict[str, tuple[Any, Any, float]] = {"rendered": (rendered(0), None, 1e-3)}
    for name in options.data:
        problems[name] = (*data.masked(name, 1.0, 0), data.DELTA[name])
    for label in dict.fromkeys(("as it is", *options.only)):
        row: dict[str, Any] = {"settings": label}
        for name, problem in problems.items():
            most = 300 if label == "as it is" else 4 * results.rows[0][name]
            row[name] = passes(*problem, VARIANTS[label], most)
        results.add(row)
    print(table(["settings", *problems], [[str(value) for value in row.values()] for row in results.rows]))


if __name__ == "__main__":
    main()
