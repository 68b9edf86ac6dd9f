"""Components in the words of scikit-learn's PCA: how many, their signs, how much of the variance they explain."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad
from rankwolf.ground.low_rank import LowRank


def check_components(n_components: Any, shape: tuple[int, int] | None = None) -> int | float | None:
    """None, a whole number of at least 1, or a share of the variance between 0 and 1.

    A table of this ``shape`` has at most min(shape) components: asking for more is a mistake, as it is with PCA.
    """
    if n_components is None:
        return None
    if not isinstance(n_components, bool | np.bool_):
        if isinstance(n_components, Integral) and int(n_components) >= 1:
            if shape is not None and int(n_components) > min(shape):
                rule = f"at most min(n_samples, n_features) = {min(shape)}"
                remedy = "None keeps all components that stand out of the noise."
                raise bad("n_components", rule, repr(n_components), "RobustPCA", remedy)
            return int(n_components)
        if isinstance(n_components, Real) and 0.0 < float(n_components) < 1.0:
            return float(n_components)
    rule = "None, a whole number of at least 1, or a share of the variance between 0 and 1"
    raise bad("n_components", rule, repr(n_components), "RobustPCA")


def variances(values: Array, rows: float) -> Array:
    """The variance of the scores of each component, s²/(m − 1), from the singular values s of L."""
    return np.asarray(values, np.float64) ** 2 / max(rows - 1.0, 1.0)


def total_variance(explained: Array, sigma: float, columns: int) -> float:
    """The variance of the table without outliers: what the r components explain, and σ² for each of the n − r others.

    As in probabilistic PCA. How many entries are missing does not change it.
    """
    return float(np.sum(explained)) + max(columns - explained.size, 0) * sigma**2


def count_to_keep(n_components: int | float | None, shares: Array) -> int:
    """How many of the strongest components to keep; ``shares`` are their shares of the variance.

    Where ``n_components`` is a share: as few as explain that much, or all where they explain less.
    """
    if n_components is None:
        return shares.size
    if isinstance(n_components, int):
        return min(n_components, shares.size)
    enough = np.flatnonzero(np.cumsum(shares) >= n_components)
    return int(enough[0]) + 1 if enough.size else shares.size


def signs_of(vectors: Array) -> Array:
    """±1 for each row, so that its entry of largest magnitude becomes positive: runs and versions agree."""
    if vectors.size == 0:
        return np.ones(vectors.shape[0], vectors.dtype)
    largest = np.take_along_axis(vectors, np.argmax(np.abs(vectors), axis=1)[:, None], axis=1)[:, 0]
    return np.where(largest < 0, -1, 1).astype(vectors.dtype)


def tidied(low_rank: LowRank, weakest: float) -> LowRank:
    """L without the directions whose singular value is at most ``weakest``; signs are those of :func:`signs_of`."""
    kept = low_rank.first(int(np.count_nonzero(low_rank.s > weakest)))
    vectors = np.asarray(kept.vt)
    signs = signs_of(vectors)
    return LowRank(np.asarray(kept.u) * signs, kept.s, signs[:, None] * vectors, low_rank.frame)
