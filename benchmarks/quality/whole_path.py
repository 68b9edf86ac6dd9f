"""The whole path, δ = 1 … 1e-7, on real and synthetic data: passes, rank and certified gap at each level.

Each level is solved to the given gap from the level above (``rankwolf.path``). On real data the rank grows without end
below the noise, and with it the cost of a pass: a level whose rank is beyond ``--max-rank`` is the last one. The
synthetic matrices are those of ``exact_recovery``, with and without noise.
"""

from __future__ import annotations

import time

import numpy as np

import rankwolf as rw
from benchmarks import data as real
from benchmarks.data import Array
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, table
from benchmarks.quality.exact_recovery import problem

SYNTHETIC = ("synthetic", "synthetic, noise")
DATA = ("lobby", "restaurant", "escalator", "yaleB01", *SYNTHETIC)


def matrix(name: str, frames: int | None) -> Array:
    """Frames as rows; of a video the first ``frames``."""
    if name in SYNTHETIC:
        found = problem(1000, 20, 0.1, 0)[0]
        noise = 0.01 * np.random.default_rng(1).standard_normal(found.shape)
        return found + noise if "noise" in name else found
    stack = real.frames(name)[:frames]
    return stack.reshape(stack.shape[0], -1)


def main() -> None:
    """Print and save a row for each level."""
    parser = options_of(__doc__)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--last", type=float, default=1e-7, help="the smallest δ (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=3, help="levels for each power of ten")
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--max-rank", type=int, default=300)
    parser.add_argument("--max-seconds", type=float, default=300.0, help="for each matrix")
    parser.add_argument("--frames", type=int, help="of a video, the first so many (default: all)")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    deltas = 10.0 ** -np.arange(0.0, -np.log10(chosen.last) + 1e-9, 1.0 / chosen.steps)
    results = Results("whole_path", {"threads": chosen.threads, "seed": 0, "tol": chosen.tol})
    for name in chosen.data:
        started = time.perf_counter()
        found = rw.path(
            matrix(name, chosen.frames),
            deltas=deltas.tolist(),
            tol=chosen.tol,
            max_rank=chosen.max_rank,
            max_seconds=chosen.max_seconds,
            rng=0,
            n_threads=chosen.threads,
        )
        seconds = time.perf_counter() - started
        for point in found.points:
            row = {
                key: getattr(point, key) for key in ("delta", "rank", "share", "relative_residual", "passes")
            }
            results.add(
                {"data": name, **row, "relative_gap": point.relative_gap, "status": point.status.name}
            )
        print(f"\n**{name}**, {found.source.user_shape}, {found.passes} passes, {seconds:.0f} s\n")
        lines = [
            [
                f"{point.delta:.1e}",
                str(point.passes),
                str(point.rank),
                f"{point.share:.1%}",
                f"{point.relative_residual:.2e}",
                f"{point.relative_gap:.1e}",
            ]
            for point in found.points
        ]
        print(table(["δ", "passes", "rank", "in S", "residual", "gap"], lines), flush=True)


if __name__ == "__main__":
    main()
