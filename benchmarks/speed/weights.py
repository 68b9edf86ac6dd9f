"""Splitting beside the hybrid at given weights: ``python -m benchmarks weights``, about ten minutes; needs the data.

Iterations (passes for the hybrid) and processor seconds to a certified relative gap of 1e-3, at the paper's weights for
several δ, with all entries seen or a share of them. ``auto`` is what a user gets. Each run ends after five minutes.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks import data
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results

METHODS = ("splitting", "hybrid", "auto")
# (data, δ, share seen)
CASES = [
    *[("yaleB01", delta, 1.0) for delta in (1e-2, 1e-4, 1e-5)],
    ("yaleB01", 1e-2, 0.3),
    *[("escalator", delta, 1.0) for delta in (1e-3, 1e-4)],
    *[("panel 30 x 1386", 1e-3, share) for share in (1.0, 0.3, 0.1)],
    ("panel 30 x 1386", 1e-5, 1.0),
    *[("panel 80 x 2700", 1e-3, share) for share in (1.0, 0.3, 0.1)],
    ("panel 80 x 2700", 1e-5, 1.0),
    ("lobby", 1e-3, 1.0),
    ("lobby", 1e-4, 1.0),
]
# The paper's weights, all entries seen: the hybrid's passes must not grow.
PAPER = [
    ("yaleB01", 1e-2, 1.0),
    ("yaleB02", 1e-2, 1.0),
    ("yaleB03", 1e-2, 1.0),
    ("escalator", 1e-3, 1.0),
    ("lobby", 1e-3, 1.0),
    ("restaurant", 1e-3, 1.0),
]


def panel(m: int, n: int) -> Any:
    """Counts of m places over n hours: days and weeks, noise that grows with the count, some sensors broken."""
    rng, hours = np.random.default_rng(m), np.arange(n)
    periods = ((24, 0), (12, 1), (168, 2))
    shapes = [1.0 + np.sin(2.0 * np.pi * hours / period + shift) for period, shift in periods]
    rate = rng.lognormal(3.0, 1.0, (m, 1)) * (rng.dirichlet(np.ones(3), m) @ np.array(shapes))
    counts = rng.poisson(rate).astype(float)
    counts[rng.random(counts.shape) < 0.01] *= 5.0
    return counts


def matrix(name: str) -> Any:
    """Samples in rows."""
    if name.startswith("panel"):
        return panel(*(int(word) for word in name.split() if word.isdigit()))
    return data.matrix(name).T


def measured(name: str, delta: float, share: float, method: str) -> dict[str, Any]:
    """One run."""
    X = np.array(matrix(name))
    mask = data.observed(X.shape, share, 0)
    if mask is not None:
        X[~mask] = np.nan
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = rw.decompose(
            X, delta=delta, method=method, rng=0, max_seconds=300.0, n_threads=1, max_iter=2000
        )
    return {
        "data": name,
        "delta": delta,
        "seen": share,
        "method": method if method != "auto" else f"auto: {fit.method}",
        "iterations": fit.iterations,
        "passes": fit.passes,
        "gap": fit.relative_gap,
        "seconds": time.process_time() - began,
    }


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--paper", action="store_true", help="the hybrid alone, at the paper's weights")
    options = parser.parse_args()
    results = Results("weights", vars(options))
    for name, delta, share in PAPER if options.paper else CASES:
        for method in ("hybrid",) if options.paper else METHODS:
            row = results.add(measured(name, delta, share, method))
            print(
                f"{name:16} {delta:6.0e} {share:4.1f} {row['method']:24} {row['iterations']:5} iterations "
                f"{row['passes']:5} passes  gap {row['gap']:.1e} {row['seconds']:7.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
