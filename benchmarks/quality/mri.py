"""Dynamic MRI: zero filling, five methods from their papers, and ours at its defaults.

``python -m benchmarks mri --lines 8 --coils 1 8 --noise 0 30 --sampling radial cartesian`` takes the brain series,
``--series rat heart speech`` others (``--series all``: every one of them). Noise is in decibels below b; 0 is none. At
the end: in how many cells ours is at least as good as the best rival, and how far behind it is at most. Each method
gives an error after every iteration; seconds are those of the processor on one thread, without the evaluation. The
rivals run at their published settings and at the best of a grid of thresholds, chosen by the error, which needs the
truth; ours has its defaults, with and without a Fourier transform along time, which the rivals have as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product

import numpy as np

import rankwolf as rw
from benchmarks.contestants.mri import (
    PUBLISHED,
    PUBLISHED_ITERATIONS,
    Thresholds,
    altgdmin,
    kt_focuss,
    lin_fessler,
    locally_low_rank,
    otazo,
    zero_filled,
)
from benchmarks.data import Array
from benchmarks.datasets.mri import Series, brain, measured, rat, smaller
from benchmarks.datasets.phantoms import phantoms
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, Row, table
from rankwolf.ground.blas import one_blas_thread
from rankwolf.sensing import Temporal

RIVALS = {
    "otazo": otazo,
    "lin_fessler": lin_fessler,
    "kt_focuss": kt_focuss,
    "llr": locally_low_rank,
    "altgdmin": altgdmin,
}
LOW_RANK, SPARSE = (0.0003, 0.001, 0.003, 0.01, 0.03), (0.001, 0.003, 0.01, 0.03)
# The thresholds that are tried for the best by the truth.
GRID: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "otazo": (LOW_RANK, SPARSE),
    "lin_fessler": (LOW_RANK, SPARSE),
    "kt_focuss": ((0.0,), (1e-4, 1e-3, 0.01, 0.1)),
    "llr": ((0.001, 0.003, 0.01, 0.03, 0.1), (0.0,)),
    "altgdmin": ((0.03, 0.1, 0.2, 0.4, 0.8), (0.0,)),
}


def curve(case: Series, images: Iterator[Array]) -> list[tuple[float, float]]:
    """(seconds, error) after each iteration; the clock stands still while the error is computed."""
    points, started = [], time.process_time()
    for image in images:
        seconds = time.process_time() - started
        points.append((seconds, case.error(image)))
        started = time.process_time() - seconds
    return points


def rival(case: Series, name: str, thresholds: Thresholds, iterations: int) -> Row:
    with one_blas_thread():
        points = curve(case, RIVALS[name](case.b, case.sensing, thresholds, iterations))
    return {"thresholds": (thresholds.low_rank, thresholds.sparse), **_last(points)}


def best_rival(case: Series, name: str, iterations: int) -> Row:
    """The thresholds of the grid with the smallest error after the same number of iterations.

    From the published ones along one axis of the grid, then the other, until neither finds better.
    """
    rows: dict[tuple[float, float], Row] = {}

    def error(pair: tuple[float, float]) -> float:
        if pair not in rows:
            rows[pair] = rival(case, name, Thresholds(*pair), iterations)
        return float(rows[pair]["error"])

    best, before = (PUBLISHED[name].low_rank, PUBLISHED[name].sparse), None
    while best != before:
        before = best
        best = min((best, *((value, best[1]) for value in GRID[name][0])), key=error)
        best = min((best, *((best[0], value) for value in GRID[name][1])), key=error)
    return rows[best]


def ours(case: Series, transform: Temporal | None) -> Row:
    """``recover`` at its defaults, with or without a transform along time."""
    points: list[tuple[float, float]] = []
    sensing = case.sensing if transform is None else case.sensing @ transform.inverse
    started = time.process_time()

    def see(record: rw.Record, pair: object) -> None:
        nonlocal started
        seconds = time.process_time() - started
        total = np.asarray(pair.low_rank) + pair.sparse  # type: ignore[attr-defined]
        points.append((seconds, case.error(total if transform is None else transform.frames(total))))
        started = time.process_time() - seconds

    fit = rw.recover(case.b, sensing, rng=0, n_threads=1, callback=rw.callbacks.WithIterate(see))
    points[-1] = (time.process_time() - started, points[-1][1])  # with the proof at the end
    return {**_last(points), "passes": fit.passes, "gap": fit.relative_gap, "rank": fit.low_rank.rank}


def _last(points: list[tuple[float, float]]) -> Row:
    """The end of a curve, the curve itself, and when it was within 1 % of its end."""
    seconds, error = points[-1]
    near = next(k for k, point in enumerate(points) if point[1] <= 1.01 * error)
    return {
        "error": error, "seconds": round(seconds, 2), "iterations": len(points), "near": near + 1,
        "near_seconds": round(points[near][0], 2), "curve": [(round(s, 3), round(e, 5)) for s, e in points],
    }  # fmt: skip


def chosen(names: list[str], side: int) -> dict[str, Array]:
    """The series by name: rendered, or the brain."""
    rendered = phantoms(side)
    names = [*rendered, "brain", "rat"] if names == ["all"] else names
    recorded = {"brain": lambda: smaller(brain(), side), "rat": rat}
    return {name: recorded[name]() if name in recorded else rendered[name] for name in names}


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--lines", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--coils", type=int, nargs="+", default=[1, 8])
    parser.add_argument(
        "--series",
        nargs="+",
        default=["brain"],
        choices=["all", "brain", "rat", *phantoms(8)],
        metavar="NAME",
    )
    parser.add_argument("--side", type=int, default=128, help="of the images, in pixels")
    parser.add_argument(
        "--noise", type=float, nargs="+", default=[0.0], help="in decibels below b; 0 is none"
    )
    parser.add_argument("--sampling", nargs="+", default=["radial"], choices=["radial", "cartesian"])
    parser.add_argument("--frames", type=int, help="the first so many alone")
    parser.add_argument("--iterations", type=int, default=50, help="of the rivals at their best thresholds")
    parser.add_argument(
        "--in-time", action="store_true", help="leave out ours without a transform: minutes with coils"
    )
    options = parser.parse_args()
    results = Results("mri", vars(options))
    images = chosen(options.series, options.side)
    small = measured(phantoms(16)["heart"], 2)
    ours(small, small.transform)  # kernels are loaded before the clock runs
    behind: list[float] = []
    for series, coils, lines, noise, sampling in product(
        images, options.coils, options.lines, options.noise, options.sampling
    ):
        case = measured(images[series][: options.frames], lines, coils, noise, sampling)
        rows: dict[str, Row] = {
            "zero filling": {
                "error": case.error(zero_filled(case.b, case.sensing)),
                "iterations": 1,
                "seconds": 0.0,
            }
        }
        for name in RIVALS:
            rows[f"{name}, published"] = rival(case, name, PUBLISHED[name], PUBLISHED_ITERATIONS[name])
            rows[f"{name}, best"] = best_rival(case, name, options.iterations)
        if not options.in_time:
            rows["ours"] = ours(case, None)
        rows["ours, in time"] = ours(case, case.transform)
        for name, row in rows.items():
            results.add({"series": series, "coils": coils, "lines": lines, "noise": noise, "sampling": sampling,
                         "method": name, **row})  # fmt: skip
        best = min(float(row["error"]) for name, row in rows.items() if name.endswith("best"))
        behind.append(float(rows["ours, in time"]["error"]) / best - 1.0)
        lines_of_table = [
            (name, f"{row['error']:.4f}", str(row["iterations"]), f"{row['seconds']:.1f}",
             f"{row['near']} ({row['near_seconds']:.1f} s)" if "near" in row else "", str(row.get("thresholds", "")))
            for name, row in rows.items()
        ]  # fmt: skip
        words = f"{sampling}, " + (f"noise of -{noise:g} dB" if noise else "no noise")
        print(f"\n{series}, {coils} coil{'s' * (coils > 1)}, {lines} lines a frame, {words}")
        header = ("method", "error", "iterations", "seconds", "within 1 % of it after", "thresholds")
        print(table(header, lines_of_table), flush=True)
    ahead = sum(share <= 0.0 for share in behind)
    print(
        f"\nOurs in time is the best in {ahead} of {len(behind)} cells, and {100 * max(behind):.1f} % behind at most."
    )


if __name__ == "__main__":
    main()
