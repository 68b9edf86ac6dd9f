"""The score of a row: its Mahalanobis distance under the factor model of the most central rows.

A cluster of rows that lie together draws the model to itself. So the model of rows is fitted again on two thirds of
them, those with the smallest distances, chosen anew a few times (the concentration steps of the minimum covariance
determinant), with the same prior on loadings.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rankwolf.factors.columns import LEAST_VARIANCE, loadings_and_noise
from rankwolf.factors.parameters import Factors, FactorSettings
from rankwolf.factors.rows import completed, squared_distances
from rankwolf.ground.arrays import Array

# Numbers of a block of rows whose distances are computed together.
BLOCK_NUMBERS = 2**16


def core_factors(factors: Factors, values: Array, most: int, settings: FactorSettings) -> Factors:
    """The factors of the central rows of ``values``, which are standardised and completed.

    Cost: a product of the rows with an n × n matrix and an eigendecomposition a step. Wide tables keep the factors.
    """
    m, n = values.shape
    if n > settings.precision_columns:
        return factors
    count = max(min(m, n + 2), int(settings.core_share * m))
    core, middle, step = factors, np.zeros(n), max(1, BLOCK_NUMBERS // n)
    for _ in range(settings.core_steps):
        parts = [squared_distances(values[k : k + step] - middle, core) for k in range(0, m, step)]
        central = np.argpartition(np.concatenate(parts), count - 1)[:count]
        part = values[central]
        middle = part.mean(axis=0)
        covariance = (part.T @ part) / count - np.outer(middle, middle)
        diagonal = np.maximum(np.diag(covariance), LEAST_VARIANCE)
        covariance[np.diag_indices(n)] = diagonal
        prior = factors.strength * n / count
        loadings, noise = loadings_and_noise(covariance, diagonal, core.noise, prior, most, settings.floor)
        core = replace(factors, loadings=loadings, noise=noise)
    return replace(core, centre=factors.centre + factors.scale * middle)


def distances(rows: Array, factors: Factors, settings: FactorSettings) -> Array:
    """The Mahalanobis distances of standardised ``rows``, as if all cells of a row had been observed.

    Cells that are missing are predicted; then the distance is that of the observed ones, and it is scaled up by the
    root of n over their number. A row without any has the distance 0.
    """
    seen = rows == rows
    if not seen.all():
        precise = rows.shape[1] <= settings.precision_columns
        rows = completed(rows, seen, factors, precise).values
    squares = squared_distances(rows, factors) * rows.shape[1] / np.maximum(np.count_nonzero(seen, axis=1), 1)
    return np.asarray(np.sqrt(squares))
