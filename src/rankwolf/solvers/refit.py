"""L without shrinkage: least squares at a given rank, on the entries that are not outliers.

The penalty takes λ_L off every singular value of L, and that is half of the error of most fits. Once rank and outliers
are known, neither weight is needed: L = U Vᵀ minimises ½Σ(M − L)² over the entries that are within 3.29σ of it, by
alternating least squares. In every round σ is measured on all residuals, and the outliers are decided anew. A row u of
U is held back by the penalty σ²·uᵀC⁻¹u, where C is the covariance of all rows, so that a row with too few entries left
does not run away; V makes up for what all rows lose by it. The error of the result is, up to a few per cent, that of
least squares with known outliers.

The problem is not convex: there is no certificate, and the answer rests on the convex fit that it starts from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from rankwolf.data import Source
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank, thin_qr
from rankwolf.ground.once import computed_once
from rankwolf.oracles.nuclear import orthonormal_against
from rankwolf.passes.dual import AppendProducts, MultiplyDual
from rankwolf.passes.trimmed import FEW_ENTRIES, FitTrimmed, TrimmedSums, column_steps, noise_scales
from rankwolf.weights.noise import OUTLIER_IN_SIGMAS, Noise, freedom_of, leverages_of, sigma_and_share

# The largest size of a column's noise, in units of the usual noise.
MOST_SCALE = 10.0
# A floor for squared singular values where rows are held back, as a share of the sum of all of them.
WEAKEST_DIRECTION = 1e-11


@dataclass(frozen=True)
class RefitSettings:
    """When a refit ends, how fast σ falls, and what counts as rounding."""

    most_rounds: int = 50
    settled: float = 0.02
    """The refit ends when a round moves L by less than this share of the error that the noise leaves in it anyway."""
    exact: float = 1e-10
    """It also ends when a round moves L by less than this share of ‖L‖_F: data without noise."""
    patience: int = 6
    """It also ends after so many rounds in which L moves no less than before: single entries may change for ever
    between outlier and not."""
    rounding: float = 100.0
    """σ is at least this many times the rounding error of the data's root mean square."""
    fall: float = 0.5
    """In a round, σ falls at most to this share of itself, or to the limit by ``drifts`` if that is lower."""
    drifts: float = 10.0
    """The limit by ``drifts``: this many times the root mean square by which V has moved L in the round."""
    weak: float = 0.1
    """For data without noise: a last singular value below this share of the one before is tried without."""
    few_entries: float = FEW_ENTRIES
    """Rows with fewer entries than this for each direction have their outliers chosen one by one."""
    power_steps: int = 3
    """Steps of the power method that looks for further directions."""
    spare: int = 4
    """How many more directions the power method follows than are wanted."""


@dataclass(frozen=True)
class Refitted:
    """L as the source sees it, σ of the residual, the ``limit`` beyond which entries are outliers, and their number.

    ``misfit_squared`` is over the entries that are no outliers. ``settled``: the refit ended because L moved no more.
    """

    low_rank: LowRank
    sigma: float
    limit: float
    outliers: int
    misfit_squared: float
    rounds: int
    settled: bool


DEFAULT = RefitSettings()


def refit(
    source: Source,
    low_rank: LowRank,
    lambda_L: float = 0.0,
    settings: RefitSettings = DEFAULT,
    *,
    keep_rank: bool = False,
) -> Refitted:
    """Fit ``low_rank``, as the source sees it, again without shrinkage.

    Directions that are weaker than their own error (:func:`least_strength`) are dropped first, unless ``keep_rank``.
    Where the data have no noise, no direction is too weak by that rule. There a fit without a last direction that is
    far below the others is tried, and taken if it matches the data as exactly with at most m + n more outliers, as many
    as the direction has numbers. Cost: a pass a round (two for a sparse matrix), and two or more around them.
    """
    with source.one_blas_thread():
        run = _Refit(source, low_rank, lambda_L, settings, keep_rank)
        found = run.run()
        while not keep_rank and run.is_exact(found) and _ends_weakly(found.low_rank, settings):
            low_rank = source.leading(low_rank, found.low_rank.rank - 1)
            fewer = _Refit(source, low_rank, lambda_L, settings, keep_rank=True)
            other = fewer.run()
            if not fewer.is_exact(other) or other.outliers > found.outliers + sum(source.shape):
                break
            run, found = fewer, other
        return found


def _ends_weakly(low_rank: LowRank, settings: RefitSettings) -> bool:
    """Whether the last singular value is far below the one before it."""
    values = low_rank.s
    return values.size > 1 and float(values[-1]) < settings.weak * float(values[-2])


def least_strength(shape: tuple[int, int]) -> float:
    """Singular values below this, in units of the noise's norm, are better left out of an L that is not shrunk.

    It is the optimal hard threshold for singular values (Gavish and Donoho, 2014) over the edge 1 + √β of the noise,
    β = min(m, n)/max(m, n): from 1.155 for a square matrix to 1.414 for a very long one.

    >>> round(least_strength((500, 500)), 3)
    1.155
    """
    beta = min(shape) / max(shape)
    root = (beta**2 + 14.0 * beta + 1.0) ** 0.5
    return float((2.0 * (beta + 1.0) + 8.0 * beta / (beta + 1.0 + root)) ** 0.5 / (1.0 + beta**0.5))


def extended(
    source: Source,
    low_rank: LowRank,
    limit: float,
    rank: int,
    rng: np.random.Generator,
    settings: RefitSettings = DEFAULT,
) -> LowRank:
    """``low_rank``, as the source sees it, with further directions up to ``rank``: where a refit of more rank begins.

    They are the leading singular directions of G = clip(M − L, ±limit) that are orthogonal to those of L. For a convex
    fit, these would enter L first if λ_L fell. By power iterations: ``power_steps`` + 2 passes of 2r + 4q operations an
    entry, where r is the rank of L and q the number of directions that are followed.
    """
    extra = rank - low_rank.rank
    with source.one_blas_thread():
        left, right = source.factors(low_rank)
        known = np.asarray(low_rank.vt, np.float64).T
        count = min(extra + settings.spare, source.shape[1] - low_rank.rank)
        block = orthonormal_against(rng.standard_normal((source.shape[1], count)), known, rng)
        for _ in range(settings.power_steps):
            product = source.run(MultiplyDual(right, limit, None, block), left).product
            block = orthonormal_against(product, known, rng)
        product = source.run(MultiplyDual(right, limit, None, block), left).product
        block = (block @ np.linalg.eigh(block.T @ product)[1])[:, ::-1][:, :extra]
        left = source.map(partial(_with_zeros, extra), left)
        source.run(AppendProducts(right, limit, block), left)
        return source.low_rank(left, np.hstack([right, block.astype(right.dtype)]))


class _Refit:
    """One refit: the factors, U row-aligned and V orthonormal, and σ.

    The present L is (U·``turn``)Vᵀ, and ``gram`` is UᵀU with very long rows shortened.
    """

    def __init__(
        self, source: Source, low_rank: LowRank, lambda_L: float, settings: RefitSettings, keep_rank: bool
    ) -> None:
        self.source, self.settings = source, settings
        self.observed, self.sigma, self.scales = source.summary.observed, 0.0, np.ones(source.shape[1])
        size = source.summary.norm / max(self.observed, 1) ** 0.5
        self.least = settings.rounding * float(np.finfo(source.dtype).eps) * size
        self.nothing = max(self.least, settings.exact * size)
        self._take(low_rank, lambda_L)
        first = self._pass(np.inf, moves=False)
        # With fewer directions σ becomes larger, and then further directions may be too weak.
        while not keep_rank:
            strong = self._strong(low_rank, lambda_L, self._noise(first).sigma)
            if strong >= self.right.shape[1]:
                break
            self._keep(strong)
            first = self._pass(np.inf, moves=False)
        self.sigma = self._noise(first).sigma

    def run(self) -> Refitted:
        """Rounds until L has settled, and a last pass that counts the outliers."""
        rounds, settled = 0, self.right.shape[1] == 0
        least, stalled = np.inf, 0
        while not settled and stalled < self.settings.patience and rounds < self.settings.most_rounds:
            rounds += 1
            sums = self._pass(OUTLIER_IN_SIGMAS * self.sigma)
            moved, drift = self._move_columns(sums)
            self._learn_scales(sums)
            falls = self._lower_sigma(self._noise(sums).sigma, drift)
            length = float(np.trace(sums.left))
            error = self.settings.settled**2 * self.sigma**2 * self._parameters
            settled = not falls and moved <= max(error, self.settings.exact**2 * length)
            stalled = 0 if falls or moved < 0.8 * least else stalled + 1
            least = min(least, moved)
        limit = OUTLIER_IN_SIGMAS * self.sigma
        self.scales = np.ones_like(self.scales)  # outliers are called by one limit in all columns
        last = self._pass(limit, moves=False)
        outliers = self.observed - last.kept
        low_rank = self.source.low_rank(self.left, self.right)
        return Refitted(low_rank, self.sigma, limit, outliers, last.squared, rounds, settled)

    def is_exact(self, found: Refitted) -> bool:
        """Whether σ of the residual is no more than rounding beside the data."""
        return bool(found.sigma <= self.nothing)

    def _lower_sigma(self, measured: float, drift: float) -> bool:
        """Set σ to what was measured, or lower it towards that while V still moves; returns whether it falls on.

        With a limit below the residuals that the error of V causes, half of a row would be matched exactly, and the
        other half would be called outliers.
        """
        slowly = min(self.settings.fall * self.sigma, self.settings.drifts * drift)
        self.sigma = max(measured, slowly)
        return slowly > measured

    def _take(self, low_rank: LowRank, lambda_L: float) -> None:
        """Take U and V from L, its singular values raised by λ_L, which the penalty had taken off."""
        values = low_rank.s + lambda_L
        left, right = self.source.factors(LowRank(low_rank.u, values**2, low_rank.vt))
        self.left, self.right = left, np.ascontiguousarray(right / values.astype(right.dtype))
        self.turn, self.gram = np.eye(values.size), np.diag(values**2)

    def _keep(self, count: int) -> None:
        """Keep the first ``count`` directions, which are the strongest."""
        self.left = self.source.map(partial(_first, count), self.left)
        self.right = np.ascontiguousarray(self.right[:, :count])
        self.turn, self.gram = np.eye(count), self.gram[:count, :count]

    def _strong(self, low_rank: LowRank, lambda_L: float, sigma: float) -> int:
        """How many singular values stand out from the noise, both as they are on the observed entries."""
        m, n = self.source.shape
        share = self.source.observed_fraction
        edge = sigma * share**0.5 * (m**0.5 + n**0.5)
        strength = share * low_rank.s + lambda_L
        return int(np.count_nonzero(strength > max(least_strength((m, n)) * edge, (1.0 + 1e-2) * lambda_L)))

    @property
    def _parameters(self) -> int:
        rank = int(self.right.shape[1])
        return rank * (sum(self.source.shape) - rank)

    def _noise(self, sums: TrimmedSums) -> Noise:
        freedom = freedom_of(self.right.shape[1], self.source.shape, self.observed)
        magnitudes = sums.magnitudes
        leverages = leverages_of(self.right, freedom)
        return sigma_and_share(magnitudes.quantile, magnitudes.beyond, freedom, self.least, leverages)

    def _pass(self, limit: float, *, moves: bool = True) -> TrimmedSums:
        task = FitTrimmed(
            self.right,
            self.turn,
            limit,
            sigma=self.sigma,
            prior=self._prior(),
            scales=self.scales,
            moves=moves,
            selects=self.observed < self.settings.few_entries * self.right.shape[1] * self.source.shape[0],
        )
        sums = self.source.run(task, self.left)
        self.turn, self.gram = np.eye(self.right.shape[1]), sums.usual_left
        return sums

    def _prior(self) -> Array:
        """σ²·m·(UᵀU)⁻¹ for the U from which the next pass starts.

        ``WEAKEST_DIRECTION`` is a floor under the eigenvalues of UᵀU. It keeps the inverse positive in floating point
        where a direction is far below the others, as when the rank is too high for data without noise.
        """
        gram = self.turn.T @ _without_negative(self.gram) @ self.turn
        floor = WEAKEST_DIRECTION * (float(np.trace(gram)) + np.finfo(np.float64).tiny)
        inverse = np.linalg.inv(0.5 * (gram + gram.T) + floor * np.eye(len(gram)))
        return np.asarray(0.5 * self.sigma**2 * self.source.shape[0] * (inverse + inverse.T))

    def _learn_scales(self, sums: TrimmedSums) -> None:
        """Update the sizes of the columns' noise, in units of the usual, from the entries within the limit."""
        grown = noise_scales(sums.column_squares, sums.column_counts, 1.0 / OUTLIER_IN_SIGMAS)
        self.scales = np.clip(self.scales * grown, 1.0, MOST_SCALE)

    def _move_columns(self, sums: TrimmedSums) -> tuple[float, float]:
        """Move V to its least squares, and make it orthonormal again.

        Returns ‖ΔU Vᵀ + U ΔVᵀ‖², the square of how far L has moved in this round, and the root mean square of U ΔVᵀ.
        """
        step = column_steps(sums) if self._columns is None else self._stored_column_steps(self._columns)
        of_columns = max(float(np.sum((step @ sums.left) * step)), 0.0)
        change = sums.moved + of_columns
        change += 2.0 * float(np.sum((step.T @ self.right) * sums.turned))
        basis, triangle = thin_qr(self.right + step)
        self.right, self.turn = np.ascontiguousarray(basis, self.source.dtype), triangle.T
        return change, (of_columns / (self.source.shape[0] * self.source.shape[1])) ** 0.5

    def _stored_column_steps(self, columns: Source) -> Array:
        """ΔV for a sparse matrix, by the rows' pass over its transpose. With U = Q T, L = Q(V Tᵀ)ᵀ, and Q is fixed."""
        dtype = self.source.dtype
        basis, triangle = thin_qr(self.left)
        rows = self.right.copy()
        task = FitTrimmed(np.ascontiguousarray(basis, dtype), triangle.T, OUTLIER_IN_SIGMAS * self.sigma)
        columns.run(task, rows)
        self.source.passes += 1
        return np.asarray(np.linalg.solve(triangle, rows.T.astype(np.float64)).T - self.right)

    @computed_once
    def _columns(self) -> Source | None:
        return self.source.by_columns()


def _without_negative(gram: Array) -> Array:
    """UᵀU with 0 for eigenvalues that rounding, of float32 above all, has made negative; itself if there are none."""
    values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
    if not values.size or values[0] >= 0.0:
        return gram
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _first(count: int, columns: Array) -> Array:
    return np.ascontiguousarray(columns[:, :count])


def _with_zeros(count: int, columns: Array) -> Array:
    return np.hstack([columns, np.zeros((columns.shape[0], count), columns.dtype)])
