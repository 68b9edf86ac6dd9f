"""Which weights when nothing is said? ``python -m benchmarks default_weights``, about five minutes; needs the videos.

The default of ``decompose``, ``RobustPCA`` and ``rankwolf decompose`` is δ = "auto", from the noise; that of the paper
for video is δ = 1e-3. Both on scikit-learn's tables (spoiled and with gaps; the root mean square error of L on the
hidden entries, in standard deviations of a column) and on the first 300 frames of three videos. Reported: the rank of
L, the share of the entries in S, passes, and for tables the error.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks.data import Array, frames
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, table
from benchmarks.quality.tables import hide, tables

FRAMES = 300
TABLES = ("wine", "breast cancer", "digits", "diabetes")
VIDEOS = ("escalator", "lobby", "restaurant")


def fitted(data: Array, delta: float | str) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that δ does not fit is what the table shows
        fit = rw.decompose(data, delta=delta, tol=1e-2, rng=0, refit=False)
    observed = np.count_nonzero(~np.isnan(data)) if data.dtype.kind == "f" else data.size
    return {
        "fit": fit,
        "rank": fit.low_rank.rank,
        "share": fit.sparse.nonzeros / observed,
        "passes": fit.passes,
    }


def error(clean: Array, hidden: Array, centre: Array, fit: rw.Decomposition) -> float:
    wrong = np.asarray(fit.low_rank) + centre - clean
    return float(np.sqrt(np.mean(wrong[hidden] ** 2)))


def main() -> None:
    options_of(__doc__).parse_args()
    results = Results("default_weights", {})
    known = tables()
    for name in TABLES:
        clean = (known[name] - known[name].mean(axis=0)) / known[name].std(axis=0)
        shown, hidden = hide(clean, 0, 0.05)
        centre = np.nanmedian(shown, axis=0)
        for delta in ("auto", 1e-3):
            row = fitted(shown - centre, delta)
            wrong, refitted = (
                error(clean, hidden, centre, fit) for fit in (row["fit"], row.pop("fit").refit())
            )
            results.add({"data": name, "delta": str(delta), **row, "error": wrong, "refit": refitted})
    for name in VIDEOS:
        video = frames(name)[:FRAMES]
        for delta in ("auto", 1e-3):
            row = fitted(video.reshape(len(video), -1), delta)
            row.pop("fit")
            results.add(
                {"data": name, "delta": str(delta), **row, "error": float("nan"), "refit": float("nan")}
            )
    lines = [
        (r["data"].replace("_", " "), r["delta"], str(r["rank"]), f"{r['share']:.0%}", str(r["passes"]),
         *("–" if np.isnan(r[key]) else f"{r[key]:.2f}" for key in ("error", "refit")))
        for r in results.rows
    ]  # fmt: skip
    print(table(("data", "δ", "rank", "in S", "passes", "error", "error, refit"), lines))


if __name__ == "__main__":
    main()
