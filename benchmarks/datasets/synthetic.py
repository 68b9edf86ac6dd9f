"""A recovery problem with known truth: Gaussian factors, gross errors in a few entries, a little noise.

The weights suit the noise: λ_L = σ(√m + √n), about the norm of the noise, and λ_S = λ_L/√max(m, n).
"""

from __future__ import annotations

import numpy as np

from benchmarks.datasets import Dataset


def load(
    *,
    seed: int,
    size: int = 2000,
    rank: int = 20,
    corrupted: float = 0.05,
    noise: float = 0.01,
    dtype: str = "float64",
) -> Dataset:
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((size, rank)) / rank**0.5, rng.standard_normal((size, rank))
    matrix = left @ right.T + noise * rng.standard_normal((size, size))
    matrix += (rng.random((size, size)) < corrupted) * rng.uniform(-10.0, 10.0, (size, size))
    lambda_L = noise * 2.0 * size**0.5
    return Dataset("synthetic", matrix.astype(dtype), None, (lambda_L, lambda_L / size**0.5), (left, right))
