"""Restaurant: 19200 × 3055, rank about 280 at the optimum."""

from __future__ import annotations

from benchmarks.datasets import Dataset, recorded


def load(*, seed: int, rho: float = 1.0, dtype: str = "float32") -> Dataset:
    return recorded("restaurant", rho, dtype, seed)
