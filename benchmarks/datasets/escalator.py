"""Escalator, the first 200 frames: 20800 × 200."""

from __future__ import annotations

from benchmarks.datasets import Dataset, recorded


def load(*, seed: int, rho: float = 1.0, dtype: str = "float32") -> Dataset:
    return recorded("escalator", rho, dtype, seed)
