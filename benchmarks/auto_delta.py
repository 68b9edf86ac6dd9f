"""``delta="auto"`` against the best δ on a grid: ``python -m benchmarks.auto_delta``, about three minutes on one core.

Sixteen settings with known truth: L of rank 1 to 20 with entries of standard deviation √rank, noise from 0.1 to 10,
outliers in 1 to 20 % of the entries, uniform within ten times the larger of noise and signal, some with missing
entries. In six of them the noise differs between columns, or rows and columns: its logarithm is normal, of standard
deviation 0.5 or 1. The grid has 15 values of δ from an eighth to sixteen times the one whose λ_S is that of ``auto``.
Error: ‖L̂ − L‖/‖L‖.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, astuple, dataclass

import numpy as np

import rankwolf as rw
from benchmarks.data import Array
from benchmarks.harness.results import Results, table

GRID = 2.0 ** np.arange(-3.0, 4.5, 0.5)


@dataclass(frozen=True)
class Setting:
    rows: int
    columns: int
    rank: int
    noise: float
    outliers: float
    missing: float = 0.0
    spread: tuple[float, float] = (0.0, 0.0)


SETTINGS = (
    Setting(300, 200, 1, 0.1, 0.01),
    Setting(300, 200, 1, 10.0, 0.05),
    Setting(300, 200, 3, 0.3, 0.10),
    Setting(300, 200, 5, 1.0, 0.05, 0.3),
    Setting(200, 300, 5, 0.1, 0.20),
    Setting(1000, 50, 2, 1.0, 0.10),
    Setting(300, 300, 10, 3.0, 0.05),
    Setting(300, 300, 10, 0.5, 0.20, 0.2),
    Setting(400, 300, 20, 0.1, 0.10),
    Setting(400, 300, 20, 5.0, 0.02),
    Setting(300, 200, 3, 0.3, 0.05, spread=(0.0, 0.5)),
    Setting(300, 200, 3, 1.0, 0.05, 0.2, spread=(0.0, 1.0)),
    Setting(300, 200, 3, 1.0, 0.05, spread=(0.5, 0.5)),
    Setting(2000, 50, 5, 1.0, 0.02, spread=(0.5, 0.0)),
    Setting(200, 4000, 5, 1.0, 0.02, spread=(0.0, 0.5)),
    Setting(200, 4000, 5, 1.0, 0.02, spread=(0.0, 1.0)),
)


def make(setting: Setting, seed: int) -> tuple[Array, Array]:
    """(data, L)."""
    rng = np.random.default_rng([seed, setting.rank])
    m, n = setting.rows, setting.columns
    truth = rng.standard_normal((m, setting.rank)) @ rng.standard_normal((setting.rank, n))
    of_rows, of_columns = (
        np.exp(spread * rng.standard_normal(side)) if spread else np.ones(side)
        for spread, side in zip(setting.spread, (m, n), strict=True)
    )
    data = truth + setting.noise * of_rows[:, None] * rng.standard_normal((m, n)) * of_columns
    spoiled = rng.random((m, n)) < setting.outliers
    size = 10.0 * max(setting.rank**0.5, setting.noise)
    data[spoiled] += rng.uniform(-size, size, np.count_nonzero(spoiled))
    data[rng.random((m, n)) < setting.missing] = np.nan
    return data, truth


def measure(setting: Setting, seed: int) -> dict[str, float]:
    data, truth = make(setting, seed)

    def error(fit: rw.Decomposition) -> float:
        return float(np.linalg.norm(np.asarray(fit.low_rank) - truth) / np.linalg.norm(truth))

    def solve(delta: float | str) -> rw.Decomposition:
        return rw.decompose(data, delta=delta, tol=5e-3, max_seconds=10, rng=0, n_threads=1)

    auto = solve("auto")
    assert auto.lambdas is not None
    seen = float(np.mean(~np.isnan(data)))
    middle = auto.lambdas[1] / (seen**0.5 * np.sqrt(np.nansum(data**2)) / max(data.shape) ** 0.5)
    errors = [error(solve(float(middle * factor))) for factor in GRID]
    best = int(np.argmin(errors))
    return {
        "error": error(auto), "best": errors[best], "ratio": error(auto) / errors[best],
        "rank_found": auto.low_rank.rank, "best_factor": float(GRID[best]),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    results = Results("auto_delta", vars(options))
    for setting in SETTINGS:
        results.add({**asdict(setting), **measure(setting, options.seed)})
    lines = []
    for setting, row in zip(SETTINGS, results.rows, strict=True):
        m, n, rank, noise, outliers, missing, spread = astuple(setting)
        lines.append((
            f"{m} × {n}", str(rank), f"{noise:g}", f"{spread[0]:g}, {spread[1]:g}", f"{outliers:.0%}", f"{missing:.0%}",
            f"{row['error']:.4f}", f"{row['best']:.4f}", f"{row['ratio']:.2f}", str(row["rank_found"]),
            f"{row['best_factor']:.2g}",
        ))  # fmt: skip
    header = (
        "size", "rank", "noise", "differs", "outliers", "missing", "error, auto", "error, best δ", "ratio",
        "rank of auto", "best δ, times auto's",
    )  # fmt: skip
    print(table(header, lines))
    good = sum(row["ratio"] <= 1.5 for row in results.rows)
    print(f"within a factor of 1.5 of the best: {good} of {len(SETTINGS)}")


if __name__ == "__main__":
    main()
