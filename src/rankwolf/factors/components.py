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
    """``vectors`` (k × n, orthonormal) and the model's ``variances`` along them, in the units of the data.

    The first ones are principal directions of V Vᵀ, and the scores in them are u·``turn``. Those beyond ``turn`` are
    weak directions of what V leaves over; the scores in them are plain projections of that. ``spreads`` are the
    variances of the scores, and ``total`` is the variance of all columns together.
    """

    vectors: Array
    variances: Array
    spreads: Array
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
        k = int(enough[0]) + 1 if enough.size else self.variances.size
        return Components(
            self.vectors[:k], self.variances[:k], self.spreads[:k], self.turn[:, :k], self.total
        )


def components_of(factors: Factors, strong: int, least: int | float) -> Components:
    """The components of the ``strong`` first directions of a model, and so many weak ones that there are ``least``.

    A share for ``least``: so many that they explain this share of the variance.
    """
    right = factors.scale[:, None] * factors.loadings[:, :strong]
    vectors, sizes, turn = np.linalg.svd(right, full_matrices=False)
    # In columns of very different units, some directions may be lost in rounding: weak ones take their place.
    count = int(np.count_nonzero(sizes > 1e-14 * np.max(sizes, initial=0.0)))
    vectors, turn = vectors[:, :count].T, turn[:count].T
    variances = _variances(factors, vectors)
    order = np.argsort(-variances, kind="stable")
    vectors, variances, turn = vectors[order], variances[order], turn[:, order]
    total = float(np.sum(factors.scale**2 * (np.sum(factors.loadings**2, axis=1) + factors.noise)))
    if isinstance(least, float):
        least = strong if float(variances.sum()) >= least * total else len(right)
    if len(vectors) < least:
        vectors = np.vstack([vectors, _weak_directions(factors, vectors, int(least) - len(vectors))])
        variances = _variances(factors, vectors)
    signs = signs_of(vectors)
    vectors, turn = signs[:, None] * vectors, sizes[:count][order] * signs[:count] * turn
    posterior = np.eye(strong) - np.linalg.inv(factors.core)[:strong, :strong]
    weak = vectors[count:] * factors.scale
    weak = weak - (weak @ factors.loadings[:, :strong]) @ factors.gain[:, :strong].T
    spreads = np.concatenate(
        [
            np.sum((posterior @ turn) * turn, axis=0),
            np.sum((weak @ factors.loadings) ** 2, axis=1) + weak**2 @ factors.noise,
        ]
    )
    return Components(vectors, variances, spreads, turn, total)


def _variances(factors: Factors, vectors: Array) -> Array:
    """The variance of the model along each of the ``vectors``."""
    scaled = vectors * factors.scale
    return np.asarray(np.sum((scaled @ factors.loadings) ** 2, axis=1) + scaled**2 @ factors.noise)


def _weak_directions(factors: Factors, known: Array, count: int) -> Array:
    """The strongest ``count`` directions of the covariance that are orthogonal to the ``known`` ones."""
    basis = np.linalg.qr(known.T, mode="complete")[0][:, len(known) :]
    inner = (factors.scale[:, None] * basis).T
    turn = np.linalg.eigh(inner @ factors.covariance() @ inner.T)[1]
    return np.asarray((basis @ turn[:, ::-1][:, :count]).T)


def signs_of(vectors: Array) -> Array:
    """±1 for each row, so that its entry of largest magnitude becomes positive: runs and versions agree."""
    if vectors.size == 0:
        return np.ones(vectors.shape[0], vectors.dtype)
    largest = np.take_along_axis(vectors, np.argmax(np.abs(vectors), axis=1)[:, None], axis=1)[:, 0]
    return np.where(largest < 0, -1, 1).astype(vectors.dtype)
