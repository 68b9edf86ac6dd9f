"""Is ``max_seconds`` kept? ``python -m benchmarks time_limits``, about ten minutes, on an idle machine.

4000 × 4000 entries of noise with δ = 1e-5, weights so small that nothing is reached in any time, by every method for
weights and, with radii, by the others; also with the weights from the noise. Limits of 1, 5 and 20 seconds. Reported:
the wall time of the call over the limit, and what the result says about it.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, table

LIMITS = (1.0, 5.0, 20.0)
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("hybrid", {"delta": 1e-5}),
    ("hybrid", {"delta": "auto"}),
    ("fista", {"delta": 1e-5}),
    ("ista", {"delta": 1e-5}),
    ("fw-t", {"delta": 1e-5}),
    ("fw", {"delta": 1e-5}),
    ("fw-p", {"radii": (1e4, 1e6)}),
)


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--side", type=int, default=4000)
    options = parser.parse_args()
    data = np.random.default_rng(0).standard_normal((options.side, options.side))
    results = Results("time_limits", vars(options))
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method, weights in CASES:
            rw.decompose(data[:200, :100], method=method, max_iter=2, **weights)  # compiles the kernels
            for limit in LIMITS:
                started = time.perf_counter()
                fit = rw.decompose(data, method=method, max_seconds=limit, rng=0, **weights)
                wall = time.perf_counter() - started
                row = {"method": method, "weights": str(weights), "limit": limit, "wall": wall, "said": fit.seconds,
                       "over": wall - limit, "status": fit.status.name, "iterations": fit.iterations}  # fmt: skip
                results.add(row)
                lines.append(
                    (
                        method,
                        str(next(iter(weights.values()))),
                        f"{limit:g}",
                        f"{wall:.2f}",
                        f"{fit.seconds:.2f}",
                        f"{wall - limit:+.2f}",
                        str(fit.iterations),
                        fit.status.name,
                    )
                )
    header = ("method", "weights", "limit, s", "wall, s", "said, s", "over, s", "iterations", "status")
    print(table(header, lines))
    print(f"at most {max(row['over'] for row in results.rows):.2f} s over the limit")


if __name__ == "__main__":
    main()
