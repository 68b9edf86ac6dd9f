"""The spectral norm of noise whose strength differs between rows and columns.

Let the entries be independent, with mean 0 and variance a_i·b_j. The largest singular value is then close to √μ,

    μ = min over c > 0 of c / (x·y),   with x, y such that   Σ_i y·a_i / (1 − a_i·y) = c = Σ_j x·b_j / (1 − b_j·x).

This upper edge of the spectrum follows from the Dyson equation of the variances. Where all of them are one number v,
√μ = √v·(√m + √n); where they differ, the noisiest rows and columns push the edge up. In a matrix of finite size the
largest singular value is scattered about √μ, by the law of Tracy and Widom. ``Variances.spectral_norm`` is a bound
that it stays below in 99 of 100 cases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.special

from rankwolf.ground.arrays import Array

# The mean variance is known from a sample of rows and columns; it is taken this many standard errors larger.
CERTAINTY = 2.0
# The 99 % quantile of the Tracy-Widom distribution (β = 1).
TRACY_WIDOM = 2.02
# No variance of a row or column is taken as larger than this quantile of them.
MOST_QUANTILE = 0.97


@dataclass(frozen=True)
class Variances:
    """The variances a_i·b_j of noise, for a sample of rows i and columns j; the mean of a is 1."""

    rows: Array
    columns: Array

    @classmethod
    def of(cls, noise: Array, least: float = 0.0) -> Variances:
        """Variances measured on ``noise``, which is 0 where nothing was observed. No b_j is below ``least``."""
        squares = np.square(noise)
        mean, spread = float(np.mean(squares)), float(np.var(squares))
        rows = _less_chance(np.mean(squares, axis=1), spread / noise.shape[1])
        columns = _less_chance(np.mean(squares, axis=0), spread / noise.shape[0])
        return cls(rows / mean if mean > 0.0 else np.ones_like(rows), np.maximum(columns, least))

    def among(self, rows: Array, columns: Array) -> Variances:
        """These variances within a larger matrix, whose other rows and columns are empty and have variance 0.

        ``rows`` and ``columns`` are true where these variances belong. The variances are divided by the share of such
        rows and columns: they are means per entry over the observed share, which is smaller in the larger matrix.
        """
        of_rows, of_columns = np.zeros(rows.size), np.zeros(columns.size)
        of_rows[rows], of_columns[columns] = self.rows / np.mean(rows), self.columns / np.mean(columns)
        return Variances(of_rows, of_columns)

    def spectral_norm(self, shape: tuple[float, float]) -> float:
        """A bound that the spectral norm of such noise, of that ``shape``, exceeds in one of a hundred cases.

        Cost: some milliseconds.

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
    """The factor above the edge that the norm of noise of one variance exceeds in one of a hundred cases.

    For variance 1, σ₁² is about (√m + √n)² + (√m + √n)(1/√m + 1/√n)^⅓·t, and t has the Tracy-Widom distribution.
    """
    roots = (shape[0] ** 0.5, shape[1] ** 0.5)
    return float((1.0 + TRACY_WIDOM * (1.0 / roots[0] + 1.0 / roots[1]) ** (1.0 / 3.0) / sum(roots)) ** 0.5)


def _spread(rows: Array, count: int) -> Array:
    """At most ``count`` of the ``rows``, evenly spread over their quantiles."""
    return np.asarray(np.sort(rows)[np.linspace(0, rows.size - 1, min(count, rows.size)).astype(int)])


def _less_chance(means: Array, variance: float) -> Array:
    """Measured ``means``, drawn together by as much as chance has spread them; chance alone has this ``variance``.

    The largest are cut at a quantile: a single row or column with large residuals is badly fitted rather than noisy,
    and would decide the norm alone.
    """
    centre, spread = float(np.mean(means)), float(np.var(means))
    share = max(1.0 - variance / spread, 0.0) ** 0.5 if spread > 0.0 else 0.0
    drawn = np.maximum(centre + share * (means - centre), 0.0)
    return np.asarray(np.minimum(drawn, np.quantile(drawn, MOST_QUANTILE)))


def _solved(variances: Array, count: float, values: Array) -> Array:
    """For each c in ``values``, log x with Σ_j x·b_j/(1 − b_j·x) = c; ``variances`` are a sample of ``count`` b_j."""
    points = scipy.special.expit(np.linspace(-16.0, 16.0, 600)) / np.max(variances)
    product = variances * points[:, None]
    sums = count * np.mean(product / (1.0 - product), axis=1)
    return np.asarray(np.interp(np.log(values), np.log(sums), np.log(points)))


def _error_of_mean(variances: Array, count: float) -> float:
    """The relative standard error of the mean of ``count`` variances, estimated from this sample of them."""
    share = max(1.0 - variances.size / count, 0.0)
    return float((share * np.var(variances) / variances.size) ** 0.5 / np.mean(variances))
