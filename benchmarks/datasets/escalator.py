"""Escalator, the first 200 frames: 20800 × 200; with ``every``, that many times fewer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.datasets import Dataset, recorded


def load(*, seed: int, rho: float = 1.0, dtype: str = "float32", every: int = 1) -> Dataset:
    data = recorded("escalator", rho, dtype, seed)
    if every == 1:
        return data
    observed = None if data.observed is None else np.ascontiguousarray(data.observed[:, ::every])
    return replace(data, matrix=np.ascontiguousarray(data.matrix[:, ::every]), observed=observed)
