"""Principal components of a factor model, in the units of the data: how many, their signs, what they explain."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from rankwolf.factors.parameters import Factors
from rankwolf.factors.rows import CompletedRows, scores
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad


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


@dataclass(frozen=True)
class Components:
    """``vectors`` (k × n, orthonormal) and the ``variances`` along them, in the units of the data.

    The first ones are principal directions of V Vᵀ, and the scores in them are u·``turn``. Those beyond ``turn`` are
    weak directions of what V leaves over; the scores in them are plain projections of that. ``total`` is the variance
    of all columns together.
    """

    vectors: Array
    variances: Array
    turn: Array
    total: float

    def scores(self, made: CompletedRows, factors: Factors) -> Array:
        """The scores of completed rows."""
        strong = self.turn.shape[0]
        found = scores(made, factors)[:, :strong]
        across = found @ self.turn
        weak = self.vectors[self.turn.shape[1] :]
        if not len(weak):
            return np.asarray(across)
        over = (made.values - found @ factors.loadings[:, :strong].T) * factors.scale
        return np.hstack([across, over @ weak.T])

    def kept(self, n_components: int | float | None) -> Components:
        """As few of the components as explain the share ``n_components``; all of them otherwise."""
        if not isinstance(n_components, float):
            return self
        enough = np.flatnonzero(np.cumsum(self.variances) >= n_components * self.total)
        count = int(enough[0]) + 1 if enough.size else self.variances.size
        return Components(self.vectors[:count], self.variances[:count], self.turn[:, :count], self.total)


def components_of(factors: Factors, strong: int, least: int) -> Components:
    """The components of the ``strong`` first directions of a model, and as many weak ones as make ``least`` of them."""
    right = factors.scale[:, None] * factors.loadings[:, :strong]
    variances, turn = np.linalg.eigh(right.T @ right)
    good = variances > 1e-14 * max(float(variances[-1]), 1e-300) if strong else variances > 0.0
    variances, turn = variances[good][::-1], turn[:, good][:, ::-1]
    vectors = (right @ turn / np.sqrt(variances)).T
    own = factors.scale**2 * (np.einsum("ij,ij->i", factors.loadings, factors.loadings) + factors.noise)
    if len(vectors) < least:
        weak, theirs = _weak_directions(factors, vectors, least - len(vectors))
        vectors, variances = np.vstack([vectors, weak]), np.concatenate([variances, theirs])
    vectors = signs_of(vectors)[:, None] * vectors
    count = int(np.count_nonzero(good))
    return Components(vectors, variances, right.T @ vectors[:count].T, float(own.sum()))


def _weak_directions(factors: Factors, known: Array, count: int) -> tuple[Array, Array]:
    """The strongest ``count`` directions of the covariance that are orthogonal to the ``known`` ones."""
    n = len(factors.scale)
    basis = np.linalg.qr(known.T, mode="complete")[0][:, len(known) :] if len(known) else np.eye(n)
    inner = (factors.scale[:, None] * basis).T
    covariance = inner @ factors.covariance() @ inner.T
    values, turn = np.linalg.eigh(covariance)
    return (basis @ turn[:, ::-1][:, :count]).T, np.maximum(values[::-1][:count], 0.0)


def signs_of(vectors: Array) -> Array:
    """±1 for each row, so that its entry of largest magnitude becomes positive: runs and versions agree."""
    if vectors.size == 0:
        return np.ones(vectors.shape[0], vectors.dtype)
    largest = np.take_along_axis(vectors, np.argmax(np.abs(vectors), axis=1)[:, None], axis=1)[:, 0]
    return np.where(largest < 0, -1, 1).astype(vectors.dtype)
