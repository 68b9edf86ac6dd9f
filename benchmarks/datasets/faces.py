"""Extended Yale B, one person under 65 lights: 32256 × 65."""

from __future__ import annotations

from benchmarks.datasets import Dataset, recorded


def load(*, seed: int, person: str = "yaleB01", rho: float = 1.0, dtype: str = "float32") -> Dataset:
    return recorded(person, rho, dtype, seed)
