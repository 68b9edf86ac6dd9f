"""What the rivals from PyPI share.

Most of them solve principal component pursuit, min ‖L‖_* + λ‖S‖₁ with L + S = M and λ = 1/√max(m, n): the limit of our
problem for small weights, which keep that ratio. They get a float64 copy, made before the clock starts, and stop by
their own rules. ``settings`` may have ``weight``, a multiple of that λ, and a rival's own names for its tolerance and
its pace; what is not there is its own default.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.contestants import Challenge, Outcome
from benchmarks.data import Array

# A rival's answer: L, dense, and how many iterations it took if it says so.
Answer = tuple[Any, int | None]


def chosen(challenge: Challenge, *names: str) -> dict[str, Any]:
    """Those of the settings that have these names."""
    return {name: challenge.settings[name] for name in names if name in challenge.settings}


def timed(challenge: Challenge, decompose: Callable[[Array, float], Answer]) -> Outcome:
    """Hand the matrix and λ to ``decompose`` and take the time."""
    if challenge.observed is not None or not np.isfinite(challenge.matrix).all():
        raise ValueError("this rival takes no missing entries")
    matrix = challenge.matrix.astype(np.float64)
    weight = challenge.settings.get("weight", 1.0) * challenge.weights[1] / challenge.weights[0]
    started = time.perf_counter()
    low_rank, iterations = decompose(matrix, weight)
    seconds = time.perf_counter() - started
    return Outcome(np.asarray(low_rank), None, seconds, seconds, iterations, "own rule", stamps=[seconds])
