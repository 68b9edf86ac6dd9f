"""Passes of the other forms of the problem: ``python -m benchmarks forms``, two minutes.

``radii``: at the norms of the penalised optimum (tolerance 1e-4, faces 1e-5) and at 0.9 and 0.5 of them, against the
penalised run itself. All to a certified relative gap of 1e-3, each of its own objective.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import rankwolf as rw
from benchmarks import data
from benchmarks.harness.options import options_of
from benchmarks.harness.results import table

SHARES = (1.0, 0.9, 0.5)
EXACT = {"yaleB01": 1e-5, "escalator": 1e-4, "lobby": 1e-4}


def norms(fit: rw.Decomposition) -> tuple[float, float]:
    """‖L‖_* and ‖S‖₁."""
    rows = range(0, fit.low_rank.shape[0], 1000)
    total = sum(float(np.abs(np.asarray(fit.sparse[i : i + 1000])).sum(dtype=np.float64)) for i in rows)
    return fit.low_rank.nuclear_norm, total


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options_of(__doc__)
    parser.add_argument("--data", nargs="+", choices=list(EXACT), default=list(EXACT))
    rows = []
    for name in parser.parse_args(arguments).data:
        X, delta = data.matrix(name, np.uint8), data.DELTA[name]
        weights = rw.decompose(X, delta=delta, tol=1e-3, rng=0)
        tau_L, tau_S = norms(rw.decompose(X, delta=delta, tol=EXACT[name], rng=0))
        for share in SHARES:
            fit = rw.decompose(X, radii=(share * tau_L, share * tau_S), tol=1e-3, rng=0)
            cells = f"{share:g}", str(weights.passes), str(fit.passes), str(fit.low_rank.rank)
            rows.append((name, *cells, f"{fit.relative_gap:.1e}", fit.status.name))
            print(rows[-1], flush=True)
    print(table(("data", "of the norms", "passes, weights", "passes, radii", "rank", "gap", "status"), rows))


if __name__ == "__main__":
    main()
