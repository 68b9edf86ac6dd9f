"""What fitted components say about a row: its scores, its fit (the row with these scores), its distance from the fit.

The estimator (:mod:`rankwolf.tables.robust_pca`) finds the components and checks what it is given; here rows are
measured against them, those of the fit and new ones alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwolf.data import InMemory, Source
from rankwolf.data.centred import Centred
from rankwolf.ground.arrays import Array
from rankwolf.passes.coefficients import fit_rows
from rankwolf.passes.trimmed import FEW_ENTRIES, trimmed_scores
from rankwolf.weights.noise import LIMIT_IN_SIGMAS, OUTLIER_IN_SIGMAS

# The entries are divided into so many parts; each is hidden once, and predicted from the others.
FOLDS = 5


@dataclass(frozen=True)
class Scorer:
    """Components (k × n, orthonormal rows), the mean that is subtracted first, and the noise ``sigma`` beside them.

    ``values`` are the singular values of L, which has ``rows`` rows; ``shrinkage`` is added to undo their shrinkage.
    ``convex``: L is the optimum of the convex problem with weights ``lambdas``, not a refit.
    """

    components: Array
    values: Array
    mean: Array
    sigma: float
    rows: float
    lambdas: tuple[float, float]
    shrinkage: float
    convex: bool

    def scores(self, source: Source) -> Array:
        """The scores (rows, k) of each row, by the robust row-local step (:mod:`rankwolf.passes.coefficients`).

        In the convex problem the factor is V√s, and its weight λ_L draws scores to zero. After a refit the factor is V
        times the standard deviations of the scores, and its weight is σ². Where the table then has fewer than 20
        columns for each component, a single outlier could draw the fit of its row to itself: there outliers are found
        one by one, as the refit finds them.
        """
        return self._by_blocks(self._convex_scores if self.convex else self._plain_scores, source)

    def with_scores(self, scores: Array) -> Array:
        """The rows that have these scores: the low-rank part and the mean."""
        rows: Array = scores @ self.components + self.mean
        return rows

    def in_sigmas(self, data: Array, source: Source) -> Array:
        """(data − fit)/σ, where ``data`` are the rows of ``source``. σ is not below the rounding of the data.

        The fit is without shrinkage, even for the convex problem, because σ was measured so: what λ_L takes off L would
        look like outliers.
        """
        fitted = self.with_scores(self._by_blocks(self._plain_scores, source))
        rounding = 100.0 * np.finfo(data.dtype).eps * max(float(np.nanmax(np.abs(data), initial=0.0)), 1e-300)
        return np.asarray((data - fitted) / data.dtype.type(max(self.sigma, rounding)))

    def predicted_share(self, data: Array) -> float:
        """1 − Σ|x − fit| / Σ|x − mean|; each entry x is hidden while its row is fitted, a fifth of them at a time."""
        fold = np.random.default_rng(0).integers(FOLDS, size=data.shape)
        missed = 0.0
        for hidden in (fold == k for k in range(FOLDS)):
            shown = InMemory(np.where(hidden, np.nan, data), None, 1)
            fitted = self.with_scores(self.scores(shown))
            missed += float(np.nansum(np.abs(data - fitted), where=hidden, dtype=np.float64))
        spread = float(np.nansum(np.abs(data - self.mean), dtype=np.float64))
        return 1.0 - missed / spread if spread > 0.0 else 0.0

    def _by_blocks(self, score: Callable[[Any], Array], source: Source) -> Array:
        blocks = Centred(source, self.mean).user_blocks()
        return np.vstack([score(block) for block in blocks]).astype(self.components.dtype, copy=False)

    def _convex_scores(self, block: Any) -> Array:
        sizes = np.sqrt(self.values).astype(self.components.dtype)
        return np.asarray(fit_rows(block, self.components.T * sizes, *self.lambdas) * sizes)

    def _plain_scores(self, block: Any) -> Array:
        """The scores of the rows of ``block`` in components that were not shrunk."""
        deviations = (self.values + self.shrinkage) / max(self.rows, 1.0) ** 0.5
        sizes = deviations.astype(self.components.dtype)
        least = 1e-9 * float(np.max(sizes, initial=0.0))
        sigma = max(self.sigma, least, float(np.finfo(np.float32).tiny))
        count, columns = self.components.shape
        if columns < FEW_ENTRIES * count:
            variances = np.square(sizes, dtype=np.float64)
            return trimmed_scores(block, self.components.T, variances, sigma, OUTLIER_IN_SIGMAS * sigma)
        right = self.components.T * sizes
        return np.asarray(fit_rows(block, right, sigma**2, LIMIT_IN_SIGMAS * sigma) * sizes)
