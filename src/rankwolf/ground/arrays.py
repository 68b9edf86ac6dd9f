"""The type of an array, and the one inner product."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def inner(x: Array, y: Array) -> float:
    """Re⟨x, y⟩, the inner product of real vectors and of complex ones as pairs of real numbers."""
    return float(np.vdot(x, y).real)
