"""A sparse matrix of 1,000,000 × 100,000 with 10 million observed entries, and a small one against a dense run.

``python -m benchmarks sparse_run`` makes ratings with a known low-rank part (rank 3), noise and 5 % gross outliers,
decomposes them to a certified gap, and prints time, peak memory and the error on entries that were not observed.
``--quick`` takes a hundredth of the size.
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

import rankwolf as rw
from benchmarks.harness.options import options_of

RANK, SIGMA, OUTLIERS = 3, 0.3, 0.05


@dataclass(frozen=True)
class Ratings:
    """A sparse matrix and the factors that it was made from."""

    matrix: scipy.sparse.csr_array
    left: np.ndarray[Any, np.dtype[Any]]
    right: np.ndarray[Any, np.dtype[Any]]


def make_ratings(m: int, n: int, count: int, seed: int) -> Ratings:
    """``count`` entries at random places; made in pieces, so that making them does not set the peak."""
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((m, RANK)), rng.standard_normal((n, RANK))
    rows, columns = rng.integers(m, size=count, dtype=np.int32), rng.integers(n, size=count, dtype=np.int32)
    values = np.empty(count)
    for first in range(0, count, 10**6):
        part = slice(first, first + 10**6)
        values[part] = np.einsum("ij,ij->i", left[rows[part]], right[columns[part]])
    values += SIGMA * rng.standard_normal(count)
    spoiled = rng.random(count) < OUTLIERS
    values[spoiled] += rng.uniform(-10.0, 10.0, np.count_nonzero(spoiled))
    matrix = scipy.sparse.csr_array(scipy.sparse.coo_array((values, (rows, columns)), shape=(m, n)))
    return Ratings(matrix, left, right)


def weights(matrix: scipy.sparse.csr_array) -> tuple[float, float]:
    """λ_S = 2σ; λ_L from the norm of noise on the places that are observed, with room for uneven rows."""
    m, n = matrix.shape
    density = matrix.nnz / (m * n)
    return 1.4 * 1.1 * SIGMA * density**0.5 * (m**0.5 + n**0.5), 2.0 * SIGMA


def error_on_unseen(ratings: Ratings, low_rank: rw.LowRank) -> float:
    """‖L̂ − L‖/‖L‖ on 200,000 random places."""
    rng = np.random.default_rng(1)
    rows = rng.integers(ratings.matrix.shape[0], size=200_000)
    columns = rng.integers(ratings.matrix.shape[1], size=200_000)
    truth = np.einsum("ij,ij->i", ratings.left[rows], ratings.right[columns])
    fitted = np.einsum("ij,ij->i", low_rank.u[rows] * low_rank.s, low_rank.vt.T[columns])
    return float(np.linalg.norm(fitted - truth) / np.linalg.norm(truth))


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def large_run(m: int, n: int, count: int, threads: int | None) -> None:
    started = time.perf_counter()
    ratings = make_ratings(m, n, count, 0)
    print(f"{m:,} × {n:,} with {ratings.matrix.nnz:,} entries: made in {time.perf_counter() - started:.0f} s, "
          f"peak so far {peak_gb():.2f} GB")  # fmt: skip
    started = time.perf_counter()
    fit = rw.decompose(
        ratings.matrix, lambdas=weights(ratings.matrix), tol=1e-2, rng=0, n_threads=threads,
        callback=rw.callbacks.LogTable(),
    )  # fmt: skip
    seconds = time.perf_counter() - started
    print(fit)
    sparse = fit.sparse.to_scipy()
    print(f"seconds {seconds:.0f}, peak {peak_gb():.2f} GB, S has {sparse.nnz:,} entries, "
          f"error of L on unseen entries {error_on_unseen(ratings, fit.low_rank):.3f}")  # fmt: skip


def against_dense(m: int = 600, n: int = 400, count: int = 60_000) -> float:
    """The relative difference between L of a sparse run and of a dense run of the same data."""
    matrix = make_ratings(m, n, count, 2).matrix
    dense = np.full(matrix.shape, np.nan)
    places = matrix.tocoo()
    dense[places.row, places.col] = places.data
    settings: dict[str, Any] = {"lambdas": weights(matrix), "tol": 1e-9, "rng": 0}
    sparse_fit, dense_fit = rw.decompose(matrix, **settings), rw.decompose(dense, **settings)
    one, other = np.asarray(sparse_fit.low_rank), np.asarray(dense_fit.low_rank)
    difference = float(np.linalg.norm(one - other) / np.linalg.norm(other))
    print(f"{m} × {n} with {matrix.nnz:,} entries: objective {sparse_fit.objective:.10g} sparse, "
          f"{dense_fit.objective:.10g} dense; relative difference of L {difference:.1e}")  # fmt: skip
    return difference


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    difference = against_dense()
    assert difference < 1e-5, difference
    if arguments.quick:
        large_run(100_000, 10_000, 1_000_000, arguments.threads)
    else:
        large_run(1_000_000, 100_000, 10_000_000, arguments.threads)


if __name__ == "__main__":
    main()
