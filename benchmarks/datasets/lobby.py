"""Lobby, the first 1000 frames: 20480 × 1000, rank about 9 at the optimum."""

from __future__ import annotations

from benchmarks.datasets import Dataset, recorded


def load(*, seed: int, rho: float = 1.0, dtype: str = "float32") -> Dataset:
    return recorded("lobby", rho, dtype, seed)
