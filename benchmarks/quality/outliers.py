"""False outliers and found ones, beside the usual detectors: ``python -m benchmarks outliers``, about two minutes.

Tables of rank 3 with noise 1, once clean and once with 5 % of the cells off by 3 to 20 standard deviations of the
noise, up or down. Each method scores every cell; a cell is called an outlier where its score is beyond the method's
own limit:

- RobustPCA: |score_cells| > 3.29, with and without ``refit``, and what the command counts (the S of a refit);
- S of the convex problem: not zero. It is no list of outliers, which the first table shows;
- MAD by column: more than 3.29 robust standard deviations from the column's median;
- PCA reconstruction error: scikit-learn's PCA with the true rank, |error| > 3.29 robust standard deviations;
- IsolationForest: it scores rows, with its own limit (``contamination="auto"``); every cell of an outlying row counts.

Reported: the share of the clean table's cells that are called outliers; of the spoiled table, the share of the spoiled
cells that are found (recall), by size, and the share of those that are called and are spoiled (precision).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

import rankwolf as rw
from benchmarks.data import Array
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, table

SHAPES = ((1000, 20), (500, 60), (300, 200))
RANK, SHARE, LIMIT = 3, 0.05, 3.29
SIZES = ((3.0, 6.0), (6.0, 20.0))


def make(shape: tuple[int, int], seed: int) -> tuple[Array, Array, Array]:
    """(clean, spoiled, size of the error in each cell)."""
    rng = np.random.default_rng([seed, *shape])
    m, n = shape
    clean = 2.0 * rng.standard_normal((m, RANK)) @ rng.standard_normal((RANK, n)) + rng.standard_normal(shape)
    sizes = np.where(rng.random(shape) < SHARE, rng.uniform(3.0, 20.0, shape), 0.0)
    return clean, clean + sizes * rng.choice([-1.0, 1.0], shape), sizes


def by_robust_pca(data: Array) -> Array:
    return np.asarray(np.abs(rw.RobustPCA(random_state=0).fit(data).score_cells(data)) > LIMIT)


def by_robust_pca_shrunk(data: Array) -> Array:
    return np.asarray(np.abs(rw.RobustPCA(random_state=0, refit=False).fit(data).score_cells(data)) > LIMIT)


def by_command(data: Array) -> Array:
    return np.asarray(np.asarray(rw.decompose(data, rng=0).refit().sparse) != 0.0)


def by_convex_s(data: Array) -> Array:
    return np.asarray(np.asarray(rw.decompose(data, rng=0).sparse) != 0.0)


def robust_scores(data: Array) -> Array:
    centre = np.median(data, axis=0)
    return np.asarray(np.abs(data - centre) / (1.4826 * np.median(np.abs(data - centre), axis=0)))


def by_mad(data: Array) -> Array:
    return robust_scores(data) > LIMIT


def by_pca(data: Array) -> Array:
    from sklearn.decomposition import PCA

    model = PCA(RANK, random_state=0).fit(data)
    return robust_scores(data - model.inverse_transform(model.transform(data))) > LIMIT


def by_isolation_forest(data: Array) -> Array:
    from sklearn.ensemble import IsolationForest

    outlying = IsolationForest(random_state=0).fit_predict(data) < 0
    return np.repeat(outlying[:, None], data.shape[1], axis=1)


METHODS: dict[str, Callable[[Array], Array]] = {
    "RobustPCA": by_robust_pca,
    "RobustPCA, refit=False": by_robust_pca_shrunk,
    "the command (decompose, refit)": by_command,
    "S of decompose": by_convex_s,
    "MAD by column": by_mad,
    "PCA reconstruction error": by_pca,
    "IsolationForest": by_isolation_forest,
}


def judge(method: Callable[[Array], Array], shape: tuple[int, int], seed: int) -> dict[str, float]:
    clean, spoiled, sizes = make(shape, seed)
    false, called = float(np.mean(method(clean))), method(spoiled)
    found = {
        f"recall_{low:g}": float(np.mean(called[(sizes >= low) & (sizes < high)])) for low, high in SIZES
    }
    return {
        "false": false,
        **found,
        "precision": float(np.mean(sizes[called] > 0.0)) if called.any() else 0.0,
    }


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    results = Results("outliers", vars(options))
    for shape in SHAPES:
        for name, method in METHODS.items():
            for seed in range(options.seeds):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # there is nothing in the clean tables to be found
                    row = judge(method, shape, seed)
                results.add({"shape": f"{shape[0]} × {shape[1]}", "method": name, "seed": seed, **row})
    lines = []
    for shape in SHAPES:
        for name in METHODS:
            mine = [
                r for r in results.rows if (r["shape"], r["method"]) == (f"{shape[0]} × {shape[1]}", name)
            ]
            mean = {
                key: float(np.mean([row[key] for row in mine])) for key in ("false", *RECALLS, "precision")
            }
            lines.append((mine[0]["shape"], name, f"{mean['false']:.2%}", *(f"{mean[key]:.0%}" for key in RECALLS),
                          f"{mean['precision']:.0%}"))  # fmt: skip
    header = ("table", "method", "called, clean", "found, 3 to 6 σ", "found, 6 to 20 σ", "precision")
    print(table(header, lines))


RECALLS = tuple(f"recall_{low:g}" for low, _ in SIZES)

if __name__ == "__main__":
    main()
