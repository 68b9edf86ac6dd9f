"""What an iteration on measurements costs beside its transforms: 500 frames of 128 × 128, rank below 30, in one run.

``python -m benchmarks measured_iteration``, two minutes. The time inside A and A* is taken in the same run, so that the
ratio says the same on a busy machine; the peak of memory is that of a second, shorter run.
"""

from __future__ import annotations

import time
import tracemalloc

import numpy as np

import rankwolf as rw
from benchmarks.data import Array
from benchmarks.datasets.mri import radial_mask
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, Row, table
from rankwolf.sensing import PartialFourier


class Timed(PartialFourier):
    """Counts the seconds inside."""

    inside = 0.0

    def apply(self, matrix: Array) -> Array:
        started = time.perf_counter()
        result = super().apply(matrix)
        self.inside += time.perf_counter() - started
        return result

    def real_adjoint(self, values: Array) -> Array:
        started = time.perf_counter()
        result = super().real_adjoint(values)
        self.inside += time.perf_counter() - started
        return result


def smooth_series(frames: int, side: int, rank: int) -> Array:
    """Blobs that come and go, one after the other: about ``rank`` singular values that matter."""
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    rng, moments = np.random.default_rng(0), np.arange(frames) / frames
    places = rng.uniform(-0.8, 0.8, (rank, 2))
    images = [np.exp(-((y - a) ** 2 + (x - b) ** 2) / 0.05).ravel() for a, b in places]
    curves = [np.exp(-(((moments - k / rank) / 0.1) ** 2)) for k in range(rank)]
    return np.asarray(np.stack(curves, axis=1) @ np.stack(images))


def cost_of_iterations(frames: int, side: int, lines: int, iterations: int) -> Row:
    M = smooth_series(frames, side, 24)
    A = Timed(radial_mask(frames, side, lines))
    b = A.apply(M)
    points: list[tuple[float, float, int]] = []
    rw.recover(
        b, A, tol=0.0, max_iter=iterations, rng=0, n_threads=1,
        callback=lambda record: points.append((record.seconds, A.inside, record.rank)),
    )  # fmt: skip
    steps = np.diff(np.array([point[:2] for point in points]), axis=0)
    tracemalloc.start()
    rw.recover(b, A, tol=0.0, max_iter=iterations // 2, rng=0, n_threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "frames": frames, "side": side, "lines": lines, "rank": points[-1][2],
        "milliseconds": round(1e3 * float(steps[:, 0].mean()), 1),
        "transforms": round(1e3 * float(steps[:, 1].mean()), 1),
        "ratio": round(float(steps[:, 0].sum() / steps[:, 1].sum()), 2),
        "matrices": round(peak / M.nbytes, 2),
    }  # fmt: skip


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--frames", type=int, default=500)
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--lines", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--iterations", type=int, default=40)
    options = parser.parse_args()
    results = Results("measured_iteration", vars(options))
    rows = [
        results.add(cost_of_iterations(options.frames, options.side, lines, options.iterations))
        for lines in options.lines
    ]
    print(table(rows[0], [[str(value) for value in row.values()] for row in rows]))


if __name__ == "__main__":
    main()
