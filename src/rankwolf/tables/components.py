"""How many components, and how much of the variance they explain, in the words of scikit-learn's PCA."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad


def check_components(n_components: Any) -> int | float | None:
    """None, a whole number of at least 1, or a share of the variance between 0 and 1."""
    if n_components is None:
        return None
    if not isinstance(n_components, bool | np.bool_):
        if isinstance(n_components, Integral) and int(n_components) >= 1:
            return int(n_components)
        if isinstance(n_components, Real) and 0.0 < float(n_components) < 1.0:
            return float(n_components)
    rule = "None, a whole number of at least 1, or a share of the variance between 0 and 1"
    raise bad("n_components", rule, repr(n_components), "RobustPCA")


def variances(values: Array, rows: float) -> Array:
    """Of the scores of each component, from the singular values of L: s²/(m − 1)."""
    return np.asarray(values, np.float64) ** 2 / max(rows - 1.0, 1.0)


def total_variance(explained: Array, sigma: float, columns: int) -> float:
    """Of the table without its outliers: what all components that were found explain, and noise in the other n − r.

    As in probabilistic PCA. Outliers count nowhere; neither does it matter how many entries are missing.
    """
    return float(np.sum(explained)) + max(columns - explained.size, 0) * sigma**2


def count_to_keep(n_components: int | float | None, shares: Array) -> int:
    """How many of the components, the strongest first, whose ``shares`` of the variance are these.

    Of a share: as few as explain it, or all where all of them explain less.
    """
    if n_components is None:
        return shares.size
    if isinstance(n_components, int):
        return min(n_components, shares.size)
    enough = np.flatnonzero(np.cumsum(shares) >= n_components)
    return int(enough[0]) + 1 if enough.size else shares.size
