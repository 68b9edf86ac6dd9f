"""The spectral norm of noise whose strength differs between rows and columns.

Entries that are independent, of mean 0 and variance a_i·b_j, make a matrix whose norm is close to √μ, μ the least of

    c / (x·y)   over c > 0,   where   Σ_i y·a_i / (1 − a_i·y) = c = Σ_j x·b_j / (1 − b_j·x):

the upper edge of the spectrum, from the Dyson equation of that profile of variances. Where all are one v, it is
√v·(√m + √n). How the sizes of the noise differ counts much: the noisiest rows and columns push the edge up. The largest
singular value of a matrix of finite size is scattered about the edge as Tracy and Widom found; what is taken for the
norm is above it in 99 of 100 cases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.special

from rankwolf.ground.arrays import Array

# Standard errors of a mean variance, taken from a sample of the rows and columns, by which the true one may be larger.
CERTAINTY = 2.0
# The 99 % quantile of the Tracy-Widom distribution (β = 1).
TRACY_WIDOM = 2.02
# Variances above this quantile are taken as it.
MOST_QUANTILE = 0.97


@dataclass(frozen=True)
class Variances:
    """a_i, with mean 1, and b_j, of a sample of rows and columns."""

    rows: Array
    columns: Array

    @classmethod
    def of(cls, noise: Array, least: float = 0.0) -> Variances:
        """From the noise itself, zero where nothing was observed; no column's is below ``least``."""
        squares = np.square(noise)
        mean, spread = float(np.mean(squares)), float(np.var(squares))
        rows = _less_chance(np.mean(squares, axis=1), spread / noise.shape[1])
        columns = _less_chance(np.mean(squares, axis=0), spread / noise.shape[0])
        return cls(rows / mean if mean > 0.0 else np.ones_like(rows), np.maximum(columns, least))

    def among(self, rows: Array, columns: Array) -> Variances:
        """The same where ``rows`` and ``columns`` are true, among others without an entry.

        They are of an observed entry still: the share of those is smaller now.
        """
        of_rows, of_columns = np.zeros(rows.size), np.zeros(columns.size)
        of_rows[rows], of_columns[columns] = self.rows / np.mean(rows), self.columns / np.mean(columns)
        return Variances(of_rows, of_columns)

    def blended(self, found: Variances, share: float) -> Variances:
        """These, and those of further rows of the same columns, which are that ``share`` of all rows.

        Of both, as many rows are kept as their share of the sample says.
        """
        count = max(self.rows.size, found.rows.size)
        kept = [_spread(self.rows, round((1.0 - share) * count)), _spread(found.rows, round(share * count))]
        return Variances(np.concatenate(kept), (1.0 - share) * self.columns + share * found.columns)

    def spectral_norm(self, shape: tuple[float, float]) -> float:
        """Of noise of that ``shape``, of which these rows and columns are a sample.

        >>> round(Variances(np.ones(2), np.full(3, 4.0)).spectral_norm((900, 100)), 1)  # 2·(30 + 10), and a little
        81.0
        """
        (m, n), largest = shape, float(np.max(self.columns, initial=0.0))
        if largest == 0.0:
            return 0.0
        values = np.geomspace(1e-3, 1e3, 800) * (m * n) ** 0.5
        edge = np.log(values) - _solved(self.rows, m, values) - _solved(self.columns, n, values)
        error = np.hypot(_error_of_mean(self.rows, m), _error_of_mean(self.columns, n))
        return float(np.exp(0.5 * np.min(edge)) * (1.0 + CERTAINTY * error) ** 0.5 * fluctuation(shape))


def fluctuation(shape: tuple[float, float]) -> float:
    """By which factor the norm of even noise of that ``shape`` is above the edge in one of a hundred cases.

    σ₁² is scattered by (√m + √n)(1/√m + 1/√n)^⅓ times the Tracy-Widom distribution about (√m + √n)².
    """
    roots = (shape[0] ** 0.5, shape[1] ** 0.5)
    return float((1.0 + TRACY_WIDOM * (1.0 / roots[0] + 1.0 / roots[1]) ** (1.0 / 3.0) / sum(roots)) ** 0.5)


def _spread(rows: Array, count: int) -> Array:
    """About ``count`` of the sorted ``rows``, spread evenly."""
    return np.asarray(np.sort(rows)[np.linspace(0, rows.size - 1, min(count, rows.size)).astype(int)])


def _less_chance(means: Array, variance: float) -> Array:
    """Means drawn together by as much as chance, of that ``variance``, has spread them, and the few largest cut off.

    A single row or column of large residuals is a bad fit rather than noise, and would set the norm alone.
    """
    centre, spread = float(np.mean(means)), float(np.var(means))
    share = max(1.0 - variance / spread, 0.0) ** 0.5 if spread > 0.0 else 0.0
    drawn = np.maximum(centre + share * (means - centre), 0.0)
    return np.asarray(np.minimum(drawn, np.quantile(drawn, MOST_QUANTILE)))


def _solved(variances: Array, count: float, values: Array) -> Array:
    """log x, for each of the ``values``, with Σ x·b/(1 − b·x) equal to it; ``count`` variances like these."""
    points = scipy.special.expit(np.linspace(-16.0, 16.0, 600)) / np.max(variances)
    product = variances * points[:, None]
    sums = count * np.mean(product / (1.0 - product), axis=1)
    return np.asarray(np.interp(np.log(values), np.log(sums), np.log(points)))


def _error_of_mean(variances: Array, count: float) -> float:
    """The standard error, relative, of the mean of ``count`` variances of which these are a sample."""
    share = max(1.0 - variances.size / count, 0.0)
    return float((share * np.var(variances) / variances.size) ** 0.5 / np.mean(variances))
