"""Products with A and A* to a certified relative gap of 1e-3, at given weights: ``python -m benchmarks measured``.

Fourier samples and cosines of 300 × 300 matrices, a random A, and the brain series (which needs the data) with and
without a transform along time. ``--methods`` compares others, such as fista. About two minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks.datasets.mri import series
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results
from rankwolf.sensing import Gaussian, PartialDCT, PartialFourier, Temporal

Problem = tuple[Any, Any, float]


def matrix(side: int, rank: int, seed: int, noise: float) -> Any:
    """Low rank, 5 % gross errors, noise."""
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((side, rank)) @ rng.standard_normal((rank, side))
    M += np.where(rng.random(M.shape) < 0.05, 10.0 * rng.standard_normal(M.shape), 0.0)
    return M + noise * rng.standard_normal(M.shape)


def sampled(kind: str, delta: float, seed: int) -> Problem:
    M = matrix(60, 2, seed, 0.0) if kind == "gaussian" else matrix(300, 5, seed, 0.1)
    A: Any
    if kind == "gaussian":
        A = Gaussian(M.size // 2, M.shape, seed, stored=True)
    elif kind == "fourier":
        A = PartialFourier.random(M.size // 2, 300, (15, 20), seed)
    else:
        A = PartialDCT.random(M.size // 2, M.shape, seed)
    return A.apply(M), A, delta


def brain(lines: int, transform: str | None) -> Problem:
    case = series(lines, 1, None)
    A: Any = case.sensing
    if transform is not None:
        A = A @ Temporal(transform, A.shape).inverse
    return case.b, A, 1e-3


CASES: dict[str, Callable[[int], Problem]] = {
    **{
        f"{kind}, δ = {delta:g}": partial(sampled, kind, delta)
        for kind in ("fourier", "cosines", "gaussian")
        for delta in (1e-2, 1e-3)
    },
    "brain, 8 lines": lambda seed: brain(8, None),
    "brain, 8 lines, cosines in time": lambda seed: brain(8, "cosine"),
    "brain, 8 lines, Fourier in time": lambda seed: brain(8, "fourier"),
    "brain, 4 lines, cosines in time": lambda seed: brain(4, "cosine"),
}


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--methods", nargs="+", default=["auto"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    results = Results("measured", vars(options))
    for name, case in CASES.items():
        for method in options.methods:
            b, A, delta = case(options.seed)
            began = time.process_time()
            fit = rw.recover(b, A, delta=delta, method=method, tol=1e-3, stop="gap", rng=0, n_threads=1)
            seconds = time.process_time() - began
            results.add({"case": name, "method": method, "products": fit.passes, "gap": fit.relative_gap})
            print(
                f"{name:34} {method:10} {fit.passes:5} products  gap {fit.relative_gap:.1e} {seconds:6.1f} s"
            )


if __name__ == "__main__":
    main()
