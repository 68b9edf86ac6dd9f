"""The row step: what the cells of a row that count say about each of its cells.

A row is standardised, (x − c)/s, and has the covariance V Vᵀ + D. Each cell is predicted from the *other* cells of its
row that count, whether it counts itself or not, so that an outlier with leverage does not hide itself. The cells that
do not count are replaced by their prediction; then every row is complete, and the column step needs only sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwolf.factors.parameters import Factors
from rankwolf.ground.arrays import Array

# Numbers that the products of a group of rows may take.
GROUP_NUMBERS = 2**17
# Cells leave together that are at least this share as far off as the farthest of their row.
FAR_SHARE = 0.5
# Standardised cells are kept within this, so that their squares stay finite.
FARTHEST = 1e8


@dataclass
class CompletedRows:
    """Rows without gaps.

    ``values``: the standardised rows, with predictions in place of cells that do not count. ``ratios``: each cell less
    what the other cells that count predict, over the standard deviation of that. ``covariance``: the sum over rows of
    what is unknown about the replaced cells, n × n, or its diagonal.
    """

    live: Array
    values: Array
    ratios: Array
    covariance: Array


def standardised(rows: Array, factors: Factors, dtype: Any = np.float64) -> Array:
    """(x − c)/s, no farther than the squares of numbers reach; NaN where nothing was observed."""
    made: Array = np.subtract(rows, factors.centre, dtype=np.float64)
    made *= 1.0 / factors.scale
    return np.clip(made, -FARTHEST, FARTHEST, out=made).astype(dtype, copy=False)


def completed(rows: Array, live: Array, factors: Factors, precise: bool) -> CompletedRows:
    """The standardised ``rows`` completed from their cells that count.

    ``precise``: by the n × n precision matrix, else by the factors. Cost: n operations an entry (r for factors), and
    for a row in which g cells do not count g²(g + n) more (r²n for factors).
    """
    return by_precision(rows, live, factors) if precise else by_factors(rows, live, factors)


def cells_that_count(
    made: CompletedRows, factors: Factors, cut: float, precise: bool, back: float = 1.0
) -> Array:
    """Which cells count by their residuals: those within ``cut`` standard deviations.

    One gross cell i makes others of its row look wrong. So of the cells that counted, the farthest leaves, and those
    leave with it that are at least half as far and would still be beyond the limit without it: the residual r_j is then
    (r_j − ρr_i)/√(1 − ρ²), ρ = Ω_ij/√(Ω_ii Ω_jj). In wide tables ρ is small, and not looked at. A cell that did not
    count comes ``back`` only within this share of the limit: some would change for ever.
    """
    limits = factors.limits(cut)
    # NaN is not within a limit: a missing cell never counts.
    kept = made.live & (np.abs(made.ratios) < limits)
    doubtful = rows_of(~kept)
    if doubtful.size:
        residuals, live = made.ratios[doubtful], made.live[doubtful]
        ratios, rows = np.abs(residuals) / limits, np.arange(doubtful.size)
        farthest = np.argmax(np.where(live, ratios, 0.0), axis=1)
        leaves = live & (ratios >= np.maximum(FAR_SHARE * ratios[rows, farthest][:, None], 1.0))
        if precise:
            root = np.sqrt(np.diag(factors.precision))
            shared = factors.precision[farthest] / (root * root[farthest][:, None])
            shared[rows, farthest] = 0.0
            rest = residuals - shared * residuals[rows, farthest][:, None]
            rest[rows, farthest] = residuals[rows, farthest]
            leaves &= np.abs(rest) >= limits * np.sqrt(np.maximum(1.0 - shared**2, 0.0))
        kept[doubtful] = np.where(live, ~leaves, ratios < back)
    return kept


def by_precision(rows: Array, live: Array, factors: Factors) -> CompletedRows:
    """Completed rows by Ω = (V Vᵀ + D)⁻¹: a cell's residual is (z Ω)_j/Ω_jj, with variance 1/Ω_jj.

    The cells m of a row that do not count are −Ω_mm⁻¹ Ω_mo z_o, with covariance Ω_mm⁻¹. They take Ω_jm Ω_mm⁻¹ Ω_mj off
    the Ω_jj of the others.
    """
    n, dtype = rows.shape[1], rows.dtype
    precision, squared = factors.precision.astype(dtype, copy=False), factors.resolution.astype(dtype) ** 2
    known = np.diag(precision)
    # Ω_jj times the deviation, for rows all of whose cells count.
    usual = known * np.sqrt(1.0 / known + squared)
    places = np.flatnonzero(~live)
    values, covariance = rows, np.zeros(n * n)
    if places.size:
        values = rows.copy()
        values.ravel()[places] = 0.0
    corrections = []
    for at, cells in _groups(places, n):
        across = precision[cells]
        inverse = np.linalg.inv(precision[cells[:, :, None], cells[:, None, :]])
        missed = -np.matmul(inverse, np.matmul(across, values[at][:, :, None]))[:, :, 0]
        values[at[:, None], cells] = missed
        covariance += np.bincount((cells[:, :, None] * n + cells[:, None, :]).ravel(), inverse.ravel(), n * n)
        left = known - np.einsum("bgn,bgn->bn", across, np.matmul(inverse, across))
        left = np.where(left > 0.0, left, 1.0)
        deviations = np.sqrt(np.einsum("bgg->bg", inverse) + squared[cells])
        corrections.append(
            (
                at,
                cells,
                usual / np.sqrt(left + left**2 * squared),
                (rows[at[:, None], cells] - missed) / deviations,
            )
        )
    ratios = values @ (precision / usual)
    for at, cells, stretch, apart in corrections:
        ratios[at] *= stretch
        ratios[at[:, None], cells] = apart
    return CompletedRows(live, values, ratios, covariance.reshape(n, n))


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
    return CompletedRows(live, values, residuals / np.sqrt(variances + factors.resolution**2), covariance)


def scores(made: CompletedRows, factors: Factors) -> Array:
    """The posterior mean of u for completed rows: the prediction of a cell from the others changes nothing in it."""
    return np.asarray(made.values @ factors.gain)


def squared_distances(values: Array, factors: Factors) -> Array:
    """zᵀ(V Vᵀ + D)⁻¹z for complete rows z: Σ z²/D − ‖z D⁻¹V H^(−½)‖²."""
    scores = np.square(values @ factors.half_gain)
    squares = np.square(values) @ (1.0 / factors.noise) - scores @ np.ones(scores.shape[1])
    return np.asarray(np.maximum(squares, 0.0))


def log_likelihoods(made: CompletedRows, seen: Array, factors: Factors, cut: float) -> Array:
    """log p of the cells of each row that count; and for each other ``seen`` one, log p of a cell at the limit.

    For the cells o that count and m that do not, z_oᵀC_oo⁻¹z_o = zᵀΩz for the completed row z, and
    log|C_oo| = log|C| + log|Ω_mm|.
    """
    n = made.values.shape[1]
    logs = np.sum(np.log(factors.noise)) + np.linalg.slogdet(factors.core)[1]
    found = squared_distances(made.values, factors) + logs
    found += np.log(2.0 * np.pi) * np.count_nonzero(seen, axis=1)
    whitened = factors.loadings / factors.noise[:, None]
    for at, cells in _groups(np.flatnonzero(~made.live), n):
        block = -factors.gain[cells] @ np.swapaxes(whitened[cells], 1, 2)
        block[:, range(cells.shape[1]), range(cells.shape[1])] += 1.0 / factors.noise[cells]
        variances = np.einsum("bgg->bg", np.linalg.inv(block)) + factors.resolution[cells] ** 2
        there = seen[at[:, None], cells]
        found[at] += np.linalg.slogdet(block)[1] + np.sum(np.log(variances) + cut**2, axis=1, where=there)
    return np.asarray(-0.5 * (found + 2.0 * np.sum(np.log(factors.scale) * seen, axis=1)))


def rows_of(marked: Array) -> Array:
    """The numbers of the rows in which a cell is True, ascending. Few are, so places are looked up."""
    return np.unique(np.flatnonzero(marked) // marked.shape[1])


def _groups(places: Array, n: int) -> Iterator[tuple[Array, Array]]:
    """(numbers of rows, their cells) for rows of ``n`` cells with equally many ``places``, not too many at once."""
    if not places.size:
        return
    numbers, starts, counts = np.unique(places // n, return_index=True, return_counts=True)
    for count in np.unique(counts).tolist():
        same = np.flatnonzero(counts == count)
        step = max(1, GROUP_NUMBERS // (count * n))
        for first in range(0, same.size, step):
            part = same[first : first + step]
            yield numbers[part], places[starts[part, None] + np.arange(count)] % n
