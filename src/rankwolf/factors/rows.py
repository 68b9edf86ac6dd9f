"""The row step: what the cells of a row that count say about each of its cells.

A row is standardised, (x − c)/s, and has the covariance V Vᵀ + D. Each cell is predicted from the *other* cells of its
row that count, whether it counts itself or not, so that an outlier with leverage does not hide itself. The cells that
do not count are replaced by their prediction; then every row is complete, and the column step needs only sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rankwolf.factors.parameters import Factors
from rankwolf.ground.arrays import Array

# Numbers that the products of a group of rows may take.
GROUP_NUMBERS = 2**17
# Cells leave together that are at least this share as far off as the farthest of their row.
FAR_SHARE = 0.5


@dataclass
class CompletedRows:
    """Rows without gaps.

    ``values``: the standardised rows, with predictions in place of cells that do not count. ``residuals`` and
    ``deviations``: cell less prediction, and the standard deviation of that (one row where all rows share it).
    ``covariance``: the sum over rows of what is unknown about the replaced cells, n × n, or its diagonal.
    """

    live: Array
    values: Array
    residuals: Array
    deviations: Array
    covariance: Array


def standardised(rows: Array, factors: Factors) -> Array:
    """(x − c)/s in float64; NaN where nothing was observed."""
    made: Array = np.subtract(rows, factors.centre, dtype=np.float64)
    made /= factors.scale
    return made


def completed(rows: Array, live: Array, factors: Factors, precise: bool) -> CompletedRows:
    """The standardised ``rows`` completed from their cells that count.

    ``precise``: by the n × n precision matrix, else by the factors. Cost: n operations an entry (r for factors), and
    for a row in which g cells do not count g²(g + n) more (r²n for factors).
    """
    return by_precision(rows, live, factors) if precise else by_factors(rows, live, factors)


def cells_that_count(made: CompletedRows, factors: Factors, cut: float, back: float = 1.0) -> Array:
    """Which cells count by their residuals: those within ``cut`` standard deviations.

    One gross cell makes others of its row look wrong, so of the cells that counted, only those leave that are at least
    half as far beyond the limit as the farthest of their row. A cell that did not count comes ``back`` only within this
    share of the limit: some would change for ever.
    """
    with np.errstate(invalid="ignore"):
        ratios = np.abs(made.residuals) / (made.deviations * factors.limits(cut))
    if back == 1.0 and made.live.all() and ratios.max(initial=0.0) < 1.0:
        return made.live
    farthest = np.max(np.where(made.live, ratios, 0.0), axis=1, keepdims=True)
    return np.asarray(np.where(made.live, (ratios < 1.0) | (ratios < FAR_SHARE * farthest), ratios < back))


def by_precision(rows: Array, live: Array, factors: Factors) -> CompletedRows:
    """Completed rows by Ω = (V Vᵀ + D)⁻¹: a cell's residual is (z Ω)_j/Ω_jj, with variance 1/Ω_jj.

    The cells m of a row that do not count are −Ω_mm⁻¹ Ω_mo z_o, with covariance Ω_mm⁻¹.
    """
    precision, n = factors.precision, rows.shape[1]
    values = rows if live.all() else np.where(live, rows, 0.0)
    known, covariance = np.diag(precision)[None], np.zeros(n * n)
    unknown = np.zeros((1, n))
    dead = ~live
    if values is not rows:
        known, unknown = np.repeat(known, len(rows), axis=0), np.zeros(rows.shape)
    for at, cells in _groups(dead):
        across = precision[cells]
        inverse = np.linalg.inv(precision[cells[:, :, None], cells[:, None, :]])
        sides = np.matmul(across, values[at][:, :, None])
        values[at[:, None], cells] = -np.matmul(inverse, sides)[:, :, 0]
        unknown[at[:, None], cells] = np.einsum("bgg->bg", inverse)
        known[at] -= np.einsum("bgn,bgn->bn", across, np.matmul(inverse, across))
        places = cells[:, :, None] * n + cells[:, None, :]
        covariance += np.bincount(places.ravel(), inverse.ravel(), n * n)
    residuals = values @ precision
    residuals /= np.where(known > 0.0, known, 1.0) if values is not rows else known
    variances = 1.0 / np.where(known > 0.0, known, 1.0)
    if values is not rows:
        residuals = np.where(live, residuals, rows - values)
        variances = np.where(live, variances, unknown)
    deviations = np.sqrt(variances + factors.resolution**2)
    return CompletedRows(live, values, residuals, deviations, covariance.reshape(n, n))


def by_factors(rows: Array, live: Array, factors: Factors) -> CompletedRows:
    """Completed rows by u = H⁻¹ V_oᵀ D_o⁻¹ z_o, H = I + V_oᵀ D_o⁻¹ V_o, o the cells that count.

    With h_j = v_jᵀ H⁻¹ v_j, a cell that counts has the residual (z_j − v_j·u)/(1 − h_j/D_j) without its own part, with
    variance D_j/(1 − h_j/D_j); one that does not has variance D_j + h_j. Only the diagonal of their covariance is kept.
    """
    right, noise = factors.loadings, factors.noise
    values = np.where(live, rows, 0.0)
    whole = live.all(axis=1)
    fitted, spread = np.empty_like(values), np.empty_like(values)
    fitted[whole] = (values[whole] @ factors.gain) @ right.T
    spread[whole] = np.sum((right @ np.linalg.inv(factors.core)) * right, axis=1)
    for i in np.flatnonzero(~whole).tolist():
        seen = live[i]
        part = right[seen]
        inverse = np.linalg.inv(np.eye(part.shape[1]) + part.T @ (part / noise[seen, None]))
        fitted[i] = right @ (inverse @ (part.T @ (values[i, seen] / noise[seen])))
        spread[i] = np.sum((right @ inverse) * right, axis=1)
    free = np.maximum(1.0 - spread / noise, 1e-12)
    residuals = np.where(live, (rows - fitted) / free, rows - fitted)
    variances = np.where(live, noise / free, noise + spread)
    values[~live] = fitted[~live]
    covariance = np.sum(variances, axis=0, where=~live)
    return CompletedRows(live, values, residuals, np.sqrt(variances + factors.resolution**2), covariance)


def scores(made: CompletedRows, factors: Factors) -> Array:
    """The posterior mean of u for completed rows: the prediction of a cell from the others changes nothing in it."""
    return np.asarray(made.values @ factors.gain)


def _groups(dead: Array) -> Iterator[tuple[Array, Array]]:
    """(numbers of rows, their cells) for the rows that have the same number of True cells, not too many at a time."""
    counts = np.count_nonzero(dead, axis=1)
    for count in np.unique(counts).tolist():
        if count == 0:
            continue
        rows = np.flatnonzero(counts == count)
        step = max(1, GROUP_NUMBERS // (count * dead.shape[1]))
        for start in range(0, rows.size, step):
            at = rows[start : start + step]
            yield at, np.nonzero(dead[at])[1].reshape(at.size, count)
