"""Products with A and A* to a certified gap, ours against FISTA: Fourier and cosines 300², the brain series, random A.

``python -m benchmarks measured_gap``: FISTA on the brain series takes minutes, and is cut off at ``--most`` products.
The last column is the share of the processor's time that lower bounds and proofs take in a run of ours.
``--rule`` instead compares choices of the first primal step and of its change, and leaves one problem out at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any
from unittest import mock

import numpy as np

import rankwolf as rw
from benchmarks.data import Array
from benchmarks.datasets.mri import series
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, Row, table
from rankwolf.run import loop
from rankwolf.run.judge import assess
from rankwolf.sensing import Gaussian, PartialDCT, PartialFourier, Sensing, Temporal
from rankwolf.solvers import PrimalDual, Solver
from rankwolf.solvers.primal_dual.state import PrimalDualState

TARGETS = (1e-2, 1e-3)
# What --rule tries: every combination.
CANDIDATES = {
    "step": (0.01, 0.02, 0.05, 0.1),
    "too_short": (10.0, 20.0, 50.0),
    "change": (1.0, 1.05, 1.08),
}


@dataclass(frozen=True)
class Case:
    """A problem."""

    b: Array
    sensing: Sensing
    delta: float


def matrix(side: int, rank: int, seed: int, noise: float) -> Array:
    """Low rank, 5 % gross errors, noise."""
    rng = np.random.default_rng(seed)
    M: Array = rng.standard_normal((side, rank)) @ rng.standard_normal((rank, side))
    M += np.where(rng.random(M.shape) < 0.05, 10.0 * rng.standard_normal(M.shape), 0.0)
    return M + noise * rng.standard_normal(M.shape)


def fourier(delta: float, seed: int) -> Case:
    M = matrix(300, 5, seed, 0.1)
    A = PartialFourier.random(M.size // 2, 300, (15, 20), seed)
    return Case(A.apply(M), A, delta)


def cosines(delta: float, seed: int) -> Case:
    M = matrix(300, 5, seed, 0.1)
    A = PartialDCT.random(M.size // 2, M.shape, seed)
    return Case(A.apply(M), A, delta)


def gaussian(delta: float, seed: int) -> Case:
    M = matrix(60, 2, seed, 0.0)
    A = Gaussian(M.size // 2, M.shape, seed, stored=True)
    return Case(A.apply(M), A, delta)


def brain(lines: int, transform: str | None, coils: int = 1, frames: int | None = None) -> Case:
    case = series(lines, coils, frames)
    sensing = case.sensing
    if transform is not None:
        sensing = sensing @ Temporal(transform, sensing.shape).inverse
    return Case(case.b, sensing, 1e-3)


CASES: dict[str, Callable[[int], Case]] = {
    "Fourier 300², δ = 1e-2": lambda seed: fourier(1e-2, seed),
    "Fourier 300², δ = 1e-3": lambda seed: fourier(1e-3, seed),
    "cosines 300², δ = 1e-2": lambda seed: cosines(1e-2, seed),
    "cosines 300², δ = 1e-3": lambda seed: cosines(1e-3, seed),
    "Gaussian 60², δ = 1e-2": lambda seed: gaussian(1e-2, seed),
    "Gaussian 60², δ = 1e-3": lambda seed: gaussian(1e-3, seed),
    "brain, 8 lines": lambda seed: brain(8, None),
    "brain, 8 lines, cosines in time": lambda seed: brain(8, "cosine"),
    "brain, 8 lines, Fourier in time": lambda seed: brain(8, "fourier"),
    "brain, 4 lines, cosines in time": lambda seed: brain(4, "cosine"),
    "brain, 8 coils, 10 frames": lambda seed: brain(8, None, 8, 10),
}


@contextmanager
def timed_proofs() -> Iterator[list[float]]:
    """The processor's seconds inside lower bounds and proofs, one number for each of them."""
    spent: list[float] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            started = time.process_time()
            try:
                return function(*arguments, **keywords)
            finally:
                spent.append(time.process_time() - started)

        return call

    with (
        mock.patch.object(PrimalDualState, "update_bound", timed(PrimalDualState.update_bound)),
        mock.patch.object(loop, "assess", timed(assess)),
    ):
        yield spent


def run(case: Case, method: str | Solver[Any, Any], most: int) -> Row:
    """Products to each target by the solver's own bounds, and to the proof of the last."""
    started = time.process_time()
    with timed_proofs() as proofs:
        fit = rw.recover(
            case.b, case.sensing, delta=case.delta, method=method, tol=TARGETS[-1], rng=0, n_threads=1,
            max_iter=most // 2,
        )  # fmt: skip
    row: Row = {
        "proofs": round(sum(proofs) / (time.process_time() - started), 3),
        "passes": fit.passes,
        "gap": fit.relative_gap,
        "status": fit.status.name,
        "rank": fit.low_rank.rank,
    }
    for target in TARGETS:
        reached = [record for record in fit.history if record.relative_gap <= target]
        proved = fit.relative_gap <= target
        row[f"{target:g}"] = reached[0].passes if reached and proved else None
        row[f"{target:g} s"] = round(reached[0].seconds, 2) if reached and proved else None
    if fit.relative_gap <= TARGETS[-1]:
        row[f"{TARGETS[-1]:g}"] = fit.passes
    return row


def compare(names: list[str], methods: list[str], seed: int, most: int) -> None:
    results = Results("measured_gap", {"seed": seed, "most": most})
    rows = []
    for name, method in product(names, methods):
        row = results.add({"case": name, "method": method, **run(CASES[name](seed), method, most)})
        cells = [f"{row[f'{t:g}'] or '>' + str(most)} ({row[f'{t:g} s'] or '-'} s)" for t in TARGETS]
        rows.append((name, method, *cells, f"{row['gap']:.1e}", f"{row['proofs']:.1%}"))
        print(rows[-1], flush=True)
    print(table(("problem", "method", *(f"to {t:g}" for t in TARGETS), "gap at the end", "proofs"), rows))


def try_rules(names: list[str], seeds: list[int], most: int) -> None:
    """Mean logarithm of the products to the last target over all problems but one, for each candidate."""
    results = Results("measured_rule", {"seeds": seeds, "most": most})
    costs: dict[tuple[float, ...], list[float]] = {}
    for values in product(*CANDIDATES.values()):
        solver = PrimalDual(**dict(zip(CANDIDATES, values, strict=True)))
        for name, seed in product(names, seeds):
            row = run(CASES[name](seed), solver, most)
            cost = row[f"{TARGETS[-1]:g}"] or 2 * most  # what did not arrive counts as twice the limit
            costs.setdefault(values, []).append(float(np.log(cost)))
            results.add(
                {"case": name, "seed": seed, **dict(zip(CANDIDATES, values, strict=True)), "cost": cost}
            )
        print(values, [round(float(np.exp(cost))) for cost in costs[values]], flush=True)
    every = np.array(list(costs.values()))
    choices = list(costs)
    print("best on all:", choices[int(np.argmin(every.mean(axis=1)))])
    for left_out, name in enumerate(names):
        columns = [k for k in range(every.shape[1]) if k // len(seeds) != left_out]
        chosen = int(np.argmin(every[:, columns].mean(axis=1)))
        here = every[:, left_out * len(seeds) : (left_out + 1) * len(seeds)].mean(axis=1)
        print(f"without {name}: {choices[chosen]}, which costs {np.exp(here[chosen]):.0f} there; "
              f"the best for it alone {np.exp(here.min()):.0f}")  # fmt: skip


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--methods", nargs="+", default=["primal-dual", "fista"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--most", type=int, default=2000, help="products of a run")
    parser.add_argument("--rule", action="store_true", help="compare choices of the step's rule")
    options = parser.parse_args()
    if options.rule:
        try_rules(options.cases, options.seeds, options.most)
    else:
        compare(options.cases, options.methods, options.seeds[0], options.most)


if __name__ == "__main__":
    main()
