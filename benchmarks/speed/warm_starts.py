"""Passes that an earlier result saves: start=, rw.path and select_delta beside the same runs from nothing.

``start=`` on Lobby: the same frames again, and further ones (the first 1000, then 1100, with the light switched).
``rw.path``: eight δ from 0.1 down, beside each δ alone to the same gap. ``select_delta``: all of its passes, beside
those of decompose at each δ on the same kind of data, to the gap 1e-3 that it once had, and to its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import rankwolf as rw
from benchmarks import data as real
from benchmarks.data import Array
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, table


def synthetic() -> Array:
    """600 × 200, rank 5, noise 0.3, 5 % outliers."""
    rng = np.random.default_rng(0)
    found = rng.standard_normal((600, 5)) @ rng.standard_normal((5, 200))
    found += 0.3 * rng.standard_normal(found.shape)
    found[rng.random(found.shape) < 0.05] += 10.0
    return found


def starts(frames: int, more: int, threads: int) -> list[list[str]]:
    """The same frames again, and more of them; ``--frames 1200 --more 1260`` without a switched light."""
    stack = real.stored_lobby()
    rows = stack.reshape(stack.shape[0], -1)
    first = rw.decompose(rows[:frames], delta=1e-3, rng=0, n_threads=threads)
    again = rw.decompose(rows[:frames], lambdas=first.lambdas, start=first, rng=0, n_threads=threads)
    cold = rw.decompose(rows[:more], lambdas=first.lambdas, rng=0, n_threads=threads)
    warm = rw.decompose(rows[:more], lambdas=first.lambdas, start=first, rng=0, n_threads=threads)
    return [
        [f"start=, Lobby, the same {frames} frames", str(first.passes), str(again.passes)],
        [f"start=, Lobby, {frames} → {more} frames", str(cold.passes), str(warm.passes)],
    ]


def paths(frames: int, threads: int) -> list[list[str]]:
    """A path beside its points one by one."""
    lines = []
    stack = real.frames("lobby")[:frames]
    for name, matrix in (("Lobby", stack.reshape(frames, -1)), ("synthetic", synthetic())):
        deltas = (0.1 / 2.0 ** np.arange(8)).tolist()
        found = rw.path(matrix, deltas=deltas, rng=0, n_threads=threads)
        alone = sum(
            rw.decompose(matrix, delta=delta, tol=1e-2, rng=0, n_threads=threads).passes
            for delta in found.deltas
        )
        lines.append([f"rw.path, {name}, {len(found.points)} δ", str(alone), str(found.passes)])
    return lines


def searches(threads: int) -> list[list[str]]:
    """select_delta, two folds, beside decompose at each of its δ, twice."""
    matrix = synthetic()
    search = rw.select_delta(matrix, folds=2, rng=0, n_threads=threads)
    hidden = np.where(np.random.default_rng(1).random(matrix.shape) < 0.1, np.nan, matrix)
    alone = [
        2
        * sum(rw.decompose(hidden, delta=d, tol=tol, rng=0, n_threads=threads).passes for d in search.deltas)
        for tol in (1e-3, 1e-2)
    ]
    words = "select_delta, synthetic, 9 δ, 2 folds"
    return [
        [f"{words}; alone to 1e-3", str(alone[0]), str(search.passes)],
        [f"{words}; alone to 1e-2", str(alone[1]), str(search.passes)],
    ]


def main() -> None:
    """Print and save the table."""
    parser = options_of(__doc__)
    parser.add_argument("--only", nargs="+", choices=("starts", "paths", "searches"))
    parser.add_argument("--frames", type=int, default=1000)
    parser.add_argument("--more", type=int, default=1100)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    parts: dict[str, Callable[[], list[list[str]]]] = {
        "starts": lambda: starts(chosen.frames, chosen.more, chosen.threads),
        "paths": lambda: paths(300, chosen.threads),
        "searches": lambda: searches(chosen.threads),
    }
    results = Results("warm_starts", {"threads": chosen.threads, "seed": 0})
    lines = [
        line for name, part in parts.items() if not chosen.only or name in chosen.only for line in part()
    ]
    for what, cold, warm in lines:
        results.add({"what": what, "cold": int(cold), "warm": int(warm)})
    print(table(["what", "passes from nothing", "passes warm"], lines))


if __name__ == "__main__":
    main()
