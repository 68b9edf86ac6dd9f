"""The type of an array, and the one inner product."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def inner(x: Array, y: Array) -> float:
    """Re⟨x, y⟩, the real inner product of arrays of one size; a complex number counts as a pair of real ones."""
    return float(np.vdot(x, y).real)
