"""What the rivals from PyPI share.

Most of them solve principal component pursuit, min ‖L‖_* + λ‖S‖₁ with L + S = M and λ = 1/√max(m, n): the limit of our
problem for small weights, which keep that ratio. They get a float64 copy, made before the clock starts, and stop by
their own rules, at their own default tolerances unless a file says otherwise.
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


def timed(challenge: Challenge, decompose: Callable[[Array, float], Answer]) -> Outcome:
    """Hand the matrix and λ to ``decompose`` and take the time."""
    if challenge.observed is not None or not np.isfinite(challenge.matrix).all():
        raise ValueError("this rival takes no missing entries")
    matrix = challenge.matrix.astype(np.float64)
    started = time.perf_counter()
    low_rank, iterations = decompose(matrix, challenge.weights[1] / challenge.weights[0])
    seconds = time.perf_counter() - started
    return Outcome(np.asarray(low_rank), None, seconds, seconds, iterations, "own rule", stamps=[seconds])
