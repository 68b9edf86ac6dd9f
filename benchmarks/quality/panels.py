"""Tables with 20 % missing and 5 % gross outliers, repaired by RobustPCA and by scikit-learn's own tools.

``python -m benchmarks panels``, below a minute on one core. The tables are those that scikit-learn ships, and one made
with known truth (rank 4 in 40 columns, noise 0.3). Columns are scaled to standard deviation 1 before they are spoiled,
so errors are in standard deviations. Outliers are 5 to 10 off, up or down. Reported, means over the seeds:

- ``missing``: root mean square error on the entries that were hidden, against what they were.
- ``outliers``: the same on the entries that were spoiled; imputers leave those as they are.
- ``factors``: the variance of the clean table along the first three components that were found, as a share of what its
  own first three have; for the imputers, components of PCA on what they return.
- ``scores``: how well |x − fit| ranks the spoiled entries before the others that are shown, as average precision: 1 if
  all of them come first, 0.05 by chance. RobustPCA's are its ``score_cells``.

The oracle knows which entries are spoiled, and the number of components that does best on the hidden ones: least
squares on the others (``auto_delta``), without shrinkage.

PCA and TruncatedSVD see column means in the place of missing entries and, generously, get the number of components, of
1 to 15, that does best on the hidden entries; RobustPCA chooses alone.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks.data import Array
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, table
from benchmarks.quality.auto_delta import Case, oracle

MISSING, OUTLIERS = 0.2, 0.05
FACTORS = 3
TABLES = ("synthetic", "wine", "breast_cancer", "digits", "diabetes")


@dataclass(frozen=True)
class Panel:
    """A clean table, what is shown of it, and which entries were hidden or spoiled."""

    clean: Array
    shown: Array
    hidden: Array
    spoiled: Array


@dataclass(frozen=True)
class Repair:
    """The table as a method sees it: hidden and spoiled entries replaced. ``components``: its own, if it has any."""

    filled: Array
    fitted: Array | None = None
    components: Array | None = None
    scores: Array | None = None


def clean_table(name: str, seed: int) -> Array:
    """Rows are samples; every column has mean 0 and standard deviation 1, constant ones are left out."""
    if name == "synthetic":
        rng = np.random.default_rng([seed, 4])
        data = rng.standard_normal((600, 4)) @ rng.standard_normal((4, 40)) + 0.3 * rng.standard_normal(
            (600, 40)
        )
    else:
        import sklearn.datasets

        data = np.asarray(getattr(sklearn.datasets, f"load_{name}")().data, np.float64)
    spread = data.std(axis=0)
    return np.asarray((data - data.mean(axis=0))[:, spread > 0] / spread[spread > 0])


def spoil(clean: Array, seed: int) -> Panel:
    rng = np.random.default_rng([seed, 20])
    shown = clean.copy()
    spoiled = np.asarray(rng.random(clean.shape) < OUTLIERS)
    size = rng.uniform(5.0, 10.0, clean.shape) * rng.choice([-1.0, 1.0], clean.shape)
    shown[spoiled] += size[spoiled]
    hidden = np.asarray(rng.random(clean.shape) < MISSING)
    shown[hidden] = np.nan
    return Panel(clean, shown, hidden, spoiled & ~hidden)


def repaired(panel: Panel, **options: Any) -> Repair:
    model = rw.RobustPCA(random_state=0, **options).fit(panel.shown)
    fitted = model.inverse_transform(model.transform(panel.shown))
    filled = np.where(np.isnan(panel.shown), fitted, panel.shown)
    return Repair(filled, fitted, model.components_, np.abs(model.score_cells(panel.shown)))


def by_robust_pca(panel: Panel) -> Repair:
    return repaired(panel)


def by_convex_fit(panel: Panel) -> Repair:
    return repaired(panel, refit=False)


def by_search(panel: Panel) -> Repair:
    centred = panel.shown - np.nanmedian(panel.shown, axis=0)
    return repaired(panel, delta=rw.select_delta(centred, folds=2, tol=1e-2, rng=0).delta)


def by_oracle(panel: Panel) -> Repair:
    """Least squares on the entries that are good, with the rank that does best on the hidden ones."""
    good = ~(panel.hidden | panel.spoiled)
    means = np.nanmean(np.where(good, panel.shown, np.nan), axis=0)
    case = Case(panel.shown - means, panel.clean - means, np.zeros_like(panel.clean), panel.spoiled)
    fits = [oracle(case, rank) + means for rank in range(1, min(16, panel.clean.shape[1]))]
    fitted = min(fits, key=lambda fit: float(np.linalg.norm((fit - panel.clean)[panel.hidden])))
    return Repair(np.where(np.isnan(panel.shown), fitted, panel.shown), fitted, leading(fitted))


def by_components(panel: Panel, make: Callable[[int], Any]) -> Repair:
    """Column means in the place of what is missing; the number of components that an oracle would choose."""
    means = np.nanmean(panel.shown, axis=0)
    filled = np.where(np.isnan(panel.shown), means, panel.shown)
    best, least = None, np.inf
    for count in range(1, min(16, filled.shape[1])):
        model = make(count).fit(filled - means)
        fitted = model.inverse_transform(model.transform(filled - means)) + means
        error = float(np.linalg.norm((fitted - panel.clean)[panel.hidden]))
        if error < least:
            best, least = (
                Repair(
                    np.where(panel.hidden, fitted, panel.shown),
                    fitted,
                    model.components_,
                    np.abs(panel.shown - fitted),
                ),
                error,
            )
    assert best is not None
    return best


def by_pca(panel: Panel) -> Repair:
    from sklearn.decomposition import PCA

    return by_components(panel, lambda count: PCA(count, random_state=0))


def by_truncated_svd(panel: Panel) -> Repair:
    from sklearn.decomposition import TruncatedSVD

    return by_components(panel, lambda count: TruncatedSVD(count, random_state=0))


def by_iterative_imputer(panel: Panel) -> Repair:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    return Repair(IterativeImputer(random_state=0, max_iter=10).fit_transform(panel.shown))


def by_knn_imputer(panel: Panel) -> Repair:
    from sklearn.impute import KNNImputer

    return Repair(KNNImputer().fit_transform(panel.shown))


METHODS: dict[str, Callable[[Panel], Repair]] = {
    "RobustPCA": by_robust_pca,
    "RobustPCA, refit=False": by_convex_fit,
    "RobustPCA, δ by select_delta": by_search,
    "PCA": by_pca,
    "TruncatedSVD": by_truncated_svd,
    "IterativeImputer": by_iterative_imputer,
    "KNNImputer": by_knn_imputer,
    "oracle": by_oracle,
}


def leading(data: Array) -> Array:
    return np.asarray(np.linalg.svd(data - data.mean(axis=0), full_matrices=False)[2][:FACTORS])


def judge(panel: Panel, repair: Repair) -> dict[str, float]:
    clean = panel.clean - panel.clean.mean(axis=0)
    found = leading(repair.filled) if repair.components is None else repair.components[:FACTORS]
    kept, most = (float(np.linalg.norm(clean @ vectors.T)) ** 2 for vectors in (found, leading(panel.clean)))

    def error(values: Array, where: Array) -> float:
        return float(np.sqrt(np.mean((values - panel.clean)[where] ** 2)))

    return {
        "missing": error(repair.filled, panel.hidden),
        "outliers": float("nan") if repair.fitted is None else error(repair.fitted, panel.spoiled),
        "factors": kept / most,
        "components": float("nan") if repair.components is None else float(len(repair.components)),
        "scores": float("nan") if repair.scores is None else average_precision(panel, repair.scores),
    }


def average_precision(panel: Panel, scores: Array) -> float:
    """The mean, over the spoiled entries, of the share of spoiled ones among those that score as high."""
    order = np.argsort(-scores[~panel.hidden], kind="stable")
    hits = panel.spoiled[~panel.hidden][order]
    share = np.cumsum(hits) / np.arange(1, hits.size + 1)
    return float(np.mean(share[hits]))


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    options = parser.parse_args()
    by_robust_pca(spoil(clean_table("synthetic", 99), 99))  # compiles the kernels
    results = Results("panels", vars(options))
    for name in options.tables:
        for seed in range(options.seeds):
            panel = spoil(clean_table(name, seed), seed)
            for method, run in METHODS.items():
                started = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # IterativeImputer says that it has not converged
                    repair = run(panel)
                seconds = time.perf_counter() - started
                shape = f"{panel.clean.shape[0]} × {panel.clean.shape[1]}"
                results.add({
                    "table": name, "shape": shape, "seed": seed, "method": method, **judge(panel, repair),
                    "seconds": seconds,
                })  # fmt: skip
    print(render(results.rows))


def render(rows: list[dict[str, Any]]) -> str:
    lines = []
    for name in dict.fromkeys(row["table"] for row in rows):
        for method in METHODS:
            mine = [row for row in rows if (row["table"], row["method"]) == (name, method)]
            keys = ("missing", "outliers", "factors", "scores", "components", "seconds")
            mean = {key: float(np.mean([row[key] for row in mine])) for key in keys}
            lines.append((
                f"{name.replace('_', ' ')}, {mine[0]['shape']}", method, f"{mean['missing']:.2f}",
                _or_dash(mean["outliers"], ".2f"), f"{mean['factors']:.0%}", _or_dash(mean["scores"], ".2f"),
                _or_dash(mean["components"], ".1f"),
                f"{mean['seconds']:.2f}",
            ))  # fmt: skip
    return table(
        ("table", "method", "missing", "outliers", "factors", "scores", "components", "seconds"), lines
    )


def _or_dash(value: float, form: str) -> str:
    return "–" if np.isnan(value) else format(value, form)


if __name__ == "__main__":
    main()
