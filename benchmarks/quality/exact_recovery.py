"""Recovery without noise, noise=0: error, rank and passes over sizes, ranks and shares; the phase transition; rivals.

M = L + S with Gaussian factors and a share of the entries changed by numbers that are uniform up to ten times the mean
size of L's. Aims: an error of at most 1e-6, the true rank, at most 60 passes at rank 0.01n and 120 at 0.05n. Where
L and S are too large no method that solves the convex problem can recover them: ``--phase`` draws where that begins.
``--rivals`` adds pyrpca's IALM, ``rpca`` (told the rank) and our FISTA, each in the same process state and threads.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks.data import Array
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, table

RANKS, CORRUPTED = (0.01, 0.05), (0.05, 0.1, 0.3)
MOST_PASSES = {0.01: 60, 0.05: 120}
TOL = 1e-3
# Recovered, in the picture of the phase transition.
RECOVERED = 1e-3
FIGURE = Path(__file__).resolve().parents[2] / "docs" / "figures" / "phase_transition.png"


def problem(n: int, rank: int, corrupted: float, seed: int) -> tuple[Array, Array]:
    """(M, L)."""
    rng = np.random.default_rng([seed, n, rank, round(1000 * corrupted)])
    truth = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n))
    places = rng.random((n, n)) < corrupted
    reach = 10.0 * float(np.mean(np.abs(truth)))
    data = truth.copy()
    data[places] += rng.uniform(-reach, reach, int(np.count_nonzero(places)))
    return data, truth


def error(found: Any, truth: Array) -> float:
    """‖L̂ − L‖/‖L‖."""
    return float(np.linalg.norm(np.asarray(found) - truth) / np.linalg.norm(truth))


def ours(data: Array, truth: Array, threads: int, tol: float = TOL) -> dict[str, Any]:
    """One run with noise=0."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rw.RankwolfWarning)
        fit = rw.decompose(data, noise=0, tol=tol, max_iter=300, rng=0, n_threads=threads)
    seconds = time.perf_counter() - started
    return {
        "method": "rankwolf",
        "seconds": seconds,
        "passes": fit.passes,
        "found_rank": fit.low_rank.rank,
        "error": error(fit.low_rank, truth),
        "relative_gap": fit.relative_gap,
        "in_sparse": fit.sparse.nonzeros / data.size,
        "status": fit.status.name,
    }


def ialm(data: Array, weight: float, tol: float = 1e-7) -> Array:
    """Inexact augmented Lagrange multipliers (Lin, Chen, Ma) with a randomised SVD whose rank follows."""
    from sklearn.utils.extmath import randomized_svd

    norm, size = float(np.linalg.norm(data, 2)), float(np.linalg.norm(data))
    y = data / max(norm, float(np.abs(data).max()) / weight)
    sparse, mu, rank = np.zeros_like(data), 1.25 / norm, 10
    low_rank = np.zeros_like(data)
    for _ in range(500):
        u, s, vt = randomized_svd(data - sparse + y / mu, min(rank, *data.shape), n_iter=2, random_state=0)
        kept = int(np.count_nonzero(s > 1.0 / mu))
        low_rank = (u[:, :kept] * (s[:kept] - 1.0 / mu)) @ vt[:kept]
        rank = kept + 1 if kept < s.size else kept + max(1, round(0.05 * min(data.shape)))
        sparse = data - low_rank + y / mu
        sparse -= np.clip(sparse, -weight / mu, weight / mu)
        rest = data - low_rank - sparse
        y += mu * rest
        mu = min(1.5 * mu, 1e7)
        if np.linalg.norm(rest) <= tol * size:
            break
    return low_rank


def rivals(data: Array, truth: Array, rank: int, threads: int) -> list[dict[str, Any]]:
    """pyrpca's IALM, one with a randomised SVD, rpca told the rank, FISTA at weights whose error is about 1e-6."""
    from pyrpca import rpca_pcp_ialm
    from rpca import RobustPCA

    weight = max(data.shape) ** -0.5
    strength = 1e-7 * float(np.linalg.norm(data))

    def fista() -> Any:
        return rw.decompose(
            data,
            lambdas=(strength, strength * weight),
            method="fista",
            stop="paper",
            tol=0.0,
            max_seconds=60.0,
            rng=0,
            n_threads=threads,
        ).low_rank

    def told() -> Any:
        model = RobustPCA(n_components=rank, verbose=False).fit(data)
        return model.low_rank_ + model.mean_

    def multipliers() -> Any:
        return rpca_pcp_ialm(data, weight, verbose=False)[0]

    rows = []
    ways: dict[str, Callable[[], Any]] = {
        "pyrpca IALM": multipliers,
        "IALM, randomised SVD": lambda: ialm(data, weight),
        "rpca, told the rank": told,
        "our FISTA, 60 s": fista,
    }
    for name, solve in ways.items():
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = solve()
        seconds = time.perf_counter() - started
        rows.append({"method": name, "seconds": seconds, "error": error(found, truth)})
    return rows


def phase(size: int, steps: int, seeds: int, threads: int) -> list[dict[str, Any]]:
    """The share of recovered matrices over a grid of rank and corruption."""
    rows = []
    for rank_share in np.linspace(0.02, 0.4, steps):
        for corrupted in np.linspace(0.02, 0.5, steps):
            rank = max(1, round(rank_share * size))
            found = 0
            for seed in range(seeds):
                data, truth = problem(size, rank, float(corrupted), seed)
                found += ours(data, truth, threads)["error"] <= RECOVERED
            rows.append(
                {"rank_share": rank / size, "corrupted": float(corrupted), "recovered": found / seeds}
            )
    return rows


def draw(rows: list[dict[str, Any]], size: int) -> None:
    """White where every matrix was recovered, black where none was."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    x = np.unique([row["rank_share"] for row in rows])
    y = np.unique([row["corrupted"] for row in rows])
    grid = np.array([row["recovered"] for row in rows]).reshape(x.size, y.size).T
    figure = plt.figure(figsize=(5.0, 4.0), layout="constrained")
    ax = figure.subplots()
    ax.pcolormesh(x, y, grid, cmap="gray", vmin=0.0, vmax=1.0, shading="nearest")
    ax.set(xlabel="rank / n", ylabel="share of corrupted entries", title=f"recovered, n = {size}")
    ax.plot([r for r in RANKS for _ in CORRUPTED], list(CORRUPTED) * 2, "o", color="tab:red", markersize=4)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=120)


def main() -> None:
    """Print and save the tables."""
    parser = options_of(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 4000])
    parser.add_argument("--ranks", type=float, nargs="+", default=list(RANKS))
    parser.add_argument("--corrupted", type=float, nargs="+", default=list(CORRUPTED))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rivals", action="store_true", help="at the given sizes")
    parser.add_argument(
        "--phase", type=int, metavar="N", help="draw the phase transition at this size instead"
    )
    parser.add_argument("--steps", type=int, default=10, help="of the grid, each way")
    parser.add_argument("--seeds", type=int, default=1, help="matrices at each place of the grid")
    chosen = parser.parse_args()
    settings = {"threads": chosen.threads, "seed": chosen.seed}
    if chosen.phase:
        results = Results("phase_transition", {**settings, "size": chosen.phase})
        for row in phase(chosen.phase, chosen.steps, chosen.seeds, chosen.threads):
            results.add(row)
        draw(results.rows, chosen.phase)
        print(FIGURE)
        return
    # Compiled before the clock starts.
    ours(*problem(120, 2, 0.1, 0), chosen.threads)
    results = Results("exact_recovery", settings)
    for n in chosen.sizes:
        for share in chosen.ranks:
            for corrupted in chosen.corrupted:
                rank = max(1, round(share * n))
                data, truth = problem(n, rank, corrupted, chosen.seed)
                labels = {"n": n, "rank": rank, "corrupted": corrupted}
                found = [ours(data, truth, chosen.threads)]
                found += rivals(data, truth, rank, chosen.threads) if chosen.rivals else []
                for row in found:
                    print(
                        _line(results.add({**labels, **row, "most_passes": MOST_PASSES.get(share)})),
                        flush=True,
                    )
    head = ["n", "rank", "corrupted", "method", "error", "rank found", "passes", "aim", "gap", "seconds"]
    print("\n" + table(head, [_line(row) for row in results.rows]))


def _line(row: dict[str, Any]) -> list[str]:
    gap = row.get("relative_gap")
    return [
        str(row["n"]),
        str(row["rank"]),
        f"{row['corrupted']:.0%}",
        row["method"],
        f"{row['error']:.1e}",
        str(row.get("found_rank", "–")),
        str(row.get("passes", "–")),
        "–" if "passes" not in row or row["most_passes"] is None else f"≤ {row['most_passes']}",
        "–" if gap is None else f"{gap:.1e}",
        f"{row['seconds']:.1f}",
    ]


if __name__ == "__main__":
    main()
