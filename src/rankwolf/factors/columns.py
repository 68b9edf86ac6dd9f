"""The column step: loadings and noise from the covariance of completed rows.

In units of the noise the covariance has the eigenvalues λ_k, and the most likely loadings are its eigenvectors times
√a_k. A normal prior on each direction, whose own scale is estimated (automatic relevance determination), adds
−(ρ/2)·log a_k for each row: then a_k solves (1 + ρ)a² − (λ − 1 − 2ρ)a + ρ = 0, and weak directions vanish.
"""

from __future__ import annotations

import numpy as np

from rankwolf.ground.arrays import Array

# The variance of a constant column, in units of its own scale: it has nothing to share with others.
LEAST_VARIANCE = 1e-3
# The noise of a column changes at most by this factor in a step, and at least this share of it counts as free.
MOST_CHANGE, LEAST_FREE = 10.0, 0.02


def strengths(values: Array, prior: float) -> Array:
    """a_k for the eigenvalues λ_k and ρ = ``prior``; 0 where no real solution is left.

    >>> strengths(np.array([0.5, 2.0, 9.0]), 0.0).tolist()
    [0.0, 1.0, 8.0]
    """
    half = values - 1.0 - 2.0 * prior
    root = half * half - 4.0 * prior * (1.0 + prior)
    real = (half > 0.0) & (root >= 0.0)
    return np.where(real, (half + np.sqrt(np.maximum(root, 0.0))) / (2.0 * (1.0 + prior)), 0.0)


def loadings_and_noise(
    covariance: Array, diagonal: Array, noise: Array, prior: float, most: int, floor: float
) -> tuple[Array, Array]:
    """(V, D): loadings of at most ``most`` directions, the strongest first, and the noise of the columns.

    ``covariance`` is n × n or, with fewer rows than columns, a matrix F with covariance FᵀF up to its ``diagonal``.
    ``noise`` is D so far; D stays above the share ``floor`` of the diagonal. Cost: an eigendecomposition of the
    smaller side.
    """
    root = np.sqrt(noise)
    values, vectors = _whitened(covariance, root)
    return _parts(values[:most], vectors, root, diagonal, prior, floor)


def _parts(
    values: Array, vectors: Array, root: Array, diagonal: Array, prior: float, floor: float
) -> tuple[Array, Array]:
    """(V, D): the noise is the variance of what is left of a column, over the share of it that no direction follows.

    Along a direction, λ/(1 + a)² is left, and a share a/(1 + a) is followed. The fixed points are those of EM, which is
    far slower where a column has little noise.
    """
    found = strengths(values, prior)
    count = int(np.count_nonzero(found))
    found, values = found[:count], values[:count]
    directions = root[:, None] * vectors[:, :count]
    squares, noise = directions * directions, root * root
    left = diagonal - squares @ (values - values / (1.0 + found) ** 2)
    free = 1.0 - (squares / noise[:, None]) @ (found / (1.0 + found))
    noise = np.clip(left / np.maximum(free, LEAST_FREE), noise / MOST_CHANGE, noise * MOST_CHANGE)
    return directions * np.sqrt(found), np.maximum(noise, floor * diagonal)


def _whitened(covariance: Array, root: Array) -> tuple[Array, Array]:
    """Eigenvalues, descending, and eigenvectors of D^(−½) C D^(−½)."""
    if covariance.shape[0] == 0:
        return np.zeros(0), np.zeros((len(root), 0))
    if covariance.shape[0] == covariance.shape[1]:
        scaled = covariance / root
        scaled /= root[:, None]
        values, vectors = np.linalg.eigh(scaled)
        return values[::-1], vectors[:, ::-1]
    rows = covariance / root
    values, left = np.linalg.eigh(rows @ rows.T)
    good = values > 1e-12 * max(float(values[-1]), 1e-300)
    values, left = values[good][::-1], left[:, good][:, ::-1]
    return values, (rows.T @ left) / np.sqrt(values)
