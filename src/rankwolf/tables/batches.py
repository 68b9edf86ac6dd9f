"""Rows that arrive in batches: what a model remembers of them, and how it learns from the next ones.

With G = clip(P_Ω(M − L), ±λ_S), the matrix Z = L + G is M with outliers clipped and missing entries filled in. At the
optimum L is Z with its singular values lowered by λ_L. So of all rows seen, the model keeps the leading singular values
and right singular vectors of Z, n·k numbers. A new batch is cleaned with them, its rows are stacked under the kept
vectors times their values, and the SVD of the stack is what is kept next. The rows themselves are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from rankwolf.ground.arrays import Array
from rankwolf.passes.coefficients import fit_rows
from rankwolf.weights.noise import Noise, noise_of_residual

# How often a batch is cleaned, each time but the first with the factors that the batch has helped to make.
SWEEPS = 3
# Directions kept beyond the rank: from them new components grow over several batches.
SPARE_DIRECTIONS = 16


@dataclass(frozen=True)
class Totals:
    """The number of rows so far, their observed entries, ‖P_Ω M‖²_F and noise. With forgetting the past counts less."""

    rows: float
    observed: float
    squares: float
    noise: Noise

    def faded(self, forgetting: float) -> Totals:
        """The totals with rows, entries and squares so far multiplied by ``forgetting``; the noise stays."""
        return replace(
            self,
            rows=forgetting * self.rows,
            observed=forgetting * self.observed,
            squares=forgetting * self.squares,
        )

    def plus(self, batch: Array) -> Totals:
        """The totals with the rows of ``batch``, NaN where nothing was observed; its noise is not known yet."""
        observed = float(np.count_nonzero(~np.isnan(batch)))
        squares = float(np.nansum(np.square(batch, dtype=np.float64)))
        return replace(
            self,
            rows=self.rows + batch.shape[0],
            observed=self.observed + observed,
            squares=self.squares + squares,
        )

    def with_noise(self, found: Noise, observed: float) -> Totals:
        """The totals with the noise ``found`` in a batch averaged in; its ``observed`` entries are counted already."""
        if self.observed == 0.0 or observed == 0.0:
            return self
        return replace(self, noise=self.noise.blended(found, observed / self.observed))


@dataclass(frozen=True)
class SeenRows:
    """What is kept of the rows so far: totals, centre, k singular values and right vectors of the cleaned rows.

    Memory: n·k numbers.
    """

    totals: Totals
    mean: Array
    values: Array
    vectors: Array

    def factor(self, lambda_L: float, most: int | None = None) -> Array:
        """V with L = U Vᵀ: columns √(σᵢ − λ_L)·vᵢ for the singular values σᵢ > λ_L, at most ``most`` of them."""
        keep = np.flatnonzero(self.values > lambda_L)[:most]
        return np.ascontiguousarray(self.vectors[keep].T) * np.sqrt(self.values[keep] - lambda_L)


Weights = Callable[[Totals], tuple[float, float]]


def advance(
    past: SeenRows, batch: Array, weights: Weights, *, forgetting: float, center: bool, most: int | None
) -> SeenRows:
    """What is kept after ``batch``, b rows with NaN where entries are missing; ``most`` limits the rank.

    Cost: four fits of the rows, and three SVDs of (k + b + 1) × n.
    """
    totals = past.totals.faded(forgetting).plus(batch - past.mean)
    lambda_L, lambda_S = weights(totals)
    history = (forgetting**0.5 * past.values)[:, None] * past.vectors
    known = forgetting * past.totals.rows
    stream = replace(past, values=forgetting**0.5 * past.values)
    for _ in range(SWEEPS):
        right = stream.factor(lambda_L, most)
        centered = batch - past.mean
        fitted = fit_rows(centered, right, lambda_L, lambda_S) @ right.T
        residual = centered - fitted
        clean = fitted + np.nan_to_num(np.clip(residual, -lambda_S, lambda_S))
        shift = clean.mean(axis=0) if center else np.zeros_like(past.mean)
        # One more row stands for the scatter between the old and the new centre, as in incremental PCA.
        between = (known * batch.shape[0] / (known + batch.shape[0])) ** 0.5 * shift
        values, vectors = leading_right_vectors(
            np.vstack([history, clean - shift, between]),
            int(np.count_nonzero(stream.values > lambda_L)) + SPARE_DIRECTIONS,
        )
        stream = replace(stream, values=values, vectors=vectors)
    # The noise is the residual of a fit with a tenth of λ_L, which hardly shrinks the scores.
    residual = centered - fit_rows(centered, right, 0.1 * lambda_L, lambda_S) @ right.T
    observed, rank = float(np.count_nonzero(~np.isnan(residual))), right.shape[1]
    found = replace(noise_of_residual(residual, rank * batch.shape[0] / max(observed, 1.0)), rank=rank)
    mean = past.mean + (batch.shape[0] / (known + batch.shape[0])) * shift
    return SeenRows(totals.with_noise(found, observed), mean, stream.values, stream.vectors)


def leading_right_vectors(rows: Array, count: int) -> tuple[Array, Array]:
    """The ``count`` largest singular values and, as rows, their right singular vectors, by the smaller Gram matrix.

    Those below 1e-7 of the largest are left out.
    """
    rows = rows.astype(np.float64, copy=False)
    if rows.shape[0] <= rows.shape[1]:
        squares, left = scipy.linalg.eigh(rows @ rows.T)
        vectors = left.T @ rows
    else:
        squares, right = scipy.linalg.eigh(rows.T @ rows)
        vectors = right.T
    order = np.argsort(squares)[::-1][:count]
    values = np.sqrt(np.maximum(squares[order], 0.0))
    good = values > 1e-7 * max(float(values[0]), np.finfo(float).tiny) if values.size else values > 0.0
    vectors = vectors[order[good]]
    return values[good], vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
