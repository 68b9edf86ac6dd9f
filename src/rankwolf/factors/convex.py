"""The convex problem as the start of a factor model: for sparse matrices always, for others on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rankwolf.api.decompose import decompose_quietly
from rankwolf.data import Source
from rankwolf.data.centred import centred
from rankwolf.data.column_statistics import column_medians
from rankwolf.factors.model import DEFAULT, Fitted, Scatter, _sample, start_of
from rankwolf.factors.parameters import Factors
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import BadParameterError
from rankwolf.result.decomposition import Decomposition

# A column's noise is measured as if it had this many more cells of the usual noise: a few cells say little.
USUAL_CELLS = 5.0


def solved(table: Source, options: Any, rng: np.random.Generator) -> Decomposition:
    """The convex fit of a scaled table; ``options`` are arguments of ``decompose`` as a dict, or a bool."""
    given = dict(options) if isinstance(options, dict) else {}
    try:
        return decompose_quietly(table, **{"rng": rng, "refit": False, **given})
    except BadParameterError as error:  # the user called RobustPCA
        raise BadParameterError(error.name, "RobustPCA", error.words) from None


def convex_start(
    source: Source, center: bool, options: Any, rng: np.random.Generator
) -> tuple[Callable[[Array, Array], Array], Decomposition]:
    """(a function that cleans rows by the convex fit, that fit), for a dense table."""
    count = max(DEFAULT.sample_rows[0], DEFAULT.sample_rows[1] * source.user_shape[1])
    units = start_of(_sample(source, count, np.random.default_rng(0))[1], center, DEFAULT)
    fit = solved(centred(source, units.centre, units.scale), options, rng)
    limit = fit.lambdas[1] if fit.lambdas else np.inf

    def cleaned(numbers: Array, rows: Array) -> Array:
        low = (fit.low_rank.u[numbers] * fit.low_rank.s) @ fit.low_rank.vt
        return np.asarray(low + np.nan_to_num(np.clip(rows - low, -limit, limit)))

    return cleaned, fit


def sparse_factors(
    source: Source, most: int | None, center: bool, options: Any, rng: np.random.Generator
) -> tuple[Fitted, Decomposition]:
    """(model, convex fit) of a sparse matrix of observed entries: the refit of the convex fit, with noise by column."""
    n = source.user_shape[1]
    centre = column_medians(source) if center else np.zeros(n, source.dtype)
    entries = source.read_user(slice(None))
    steps = np.abs(entries.data - centre[entries.indices])
    scale = np.full(n, max(1.4826 * float(np.median(steps)), 1e-300))
    table = centred(source, centre, scale.astype(source.dtype))
    fit = solved(table, options, rng)
    parts = fit.refit()
    low = parts.low_rank if most is None else parts.low_rank.first(most)
    m = source.user_shape[0]
    loadings = np.asarray(low.vt, np.float64).T * (np.asarray(low.s) / m**0.5)
    sigma = max(float(parts.noise_scale or 0.0), 1e-6)
    rows = np.repeat(np.arange(m), np.diff(entries.indptr))
    left = np.asarray(low.u) * low.s
    fitted = np.sum(left[rows] * np.asarray(low.vt).T[entries.indices], axis=1)
    rest = (entries.data - centre[entries.indices]) / scale[0] - fitted
    sigma = max(sigma, 1.4826 * float(np.median(np.abs(rest), axis=None)) if rest.size else 0.0)
    near = np.abs(rest) < DEFAULT.cut * sigma
    squares = np.bincount(entries.indices[near], rest[near] ** 2, n) + USUAL_CELLS * sigma**2
    noise = squares / (np.bincount(entries.indices[near], minlength=n) + USUAL_CELLS)
    ones = np.ones(n)
    factors = Factors(centre.astype(np.float64), scale, loadings, noise, 0.0 * ones, ones, ones, 1.0)
    matrix = m**0.5 * loadings.T
    if n <= DEFAULT.precision_columns:
        matrix = m * (loadings @ loadings.T + np.diag(noise))
    scatter = Scatter(float(m), matrix, m * (np.sum(loadings**2, axis=1) + noise))
    return Fitted(factors, scatter, fit.iterations, np.zeros((0, n)), None), fit
