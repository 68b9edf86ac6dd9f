"""L without shrinkage: least squares at a given rank, on the entries that are not outliers.

The penalty takes λ_L off every singular value of L, and that is half of the error of most fits. Once rank and outliers
are known, neither weight is needed. The model is that of the factors: x = V u + e, u ~ N(0, C), e ~ N(0, σ²) unless
the entry is an outlier; rows and columns whose noise is larger than σ weigh less. A round is one pass:

    rows      u = (Σ v vᵀ + σ²C⁻¹)⁻¹ Σ v x over the entries that count
    entries   x counts while it is within 3.29 standard deviations of what the other entries of its row predict
    columns   v = (Σ u uᵀ)⁻¹ Σ u x;  C = UᵀU/m;  σ from a quantile of all residuals

The error of the result is, up to a few per cent, that of least squares with known outliers. The problem is not convex:
there is no certificate, and the answer rests on the convex fit that it starts from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
import scipy.special

from rankwolf.data import Source, Sums, Task
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank, thin_qr
from rankwolf.ground.once import computed_once
from rankwolf.oracles.nuclear import orthonormal_against
from rankwolf.passes.dual import AppendProducts, MultiplyDual
from rankwolf.passes.tile_steps import sampled_residual
from rankwolf.weights.noise import OUTLIER_IN_SIGMAS, Noise, freedom_of, leverages_of, measure


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
    """In a round, σ falls at most to this share of itself, or to ten times the root mean square by which V has moved L
    in the round if that is lower."""
    weak: float = 0.1
    """For data without noise: a last singular value below this share of the one before is tried without."""
    few_entries: float = 20.0
    """Rows of a dense matrix with more entries than this for each direction do without leverages, which are below a
    twentieth there."""
    numbers: int = 2**23
    """The normal equations of the columns, n·r² numbers, are added up if they are at most so many; otherwise each is
    approximated by its share of UᵀU."""
    power_steps: int = 3
    """Steps of the power method that looks for further directions."""
    spare: int = 4
    """How many more directions the power method follows than are wanted."""


DEFAULT = RefitSettings()
# A ridge relative to the curvature of a row all of whose entries count (V is orthonormal).
RIDGE = 1e-9
# Conjugate-gradient steps for the rows of a dense tile, and decisions which entries of a row count.
ROW_STEPS, DECISIONS = 6, 4
# About so many residuals are kept, of which σ is a quantile: it is known to half a per cent.
RESIDUALS = 2**16
# The products v vᵀ of all columns are made once if they are at most so many numbers.
OUTER_NUMBERS = 2**22
# Numbers in the products of a block of rows.
BLOCK_NUMBERS = 2**18
# The largest size of a column's noise, in units of the usual noise.
MOST_SCALE = 10.0
# A floor for squared singular values where rows are held back, as a share of the sum of all of them.
WEAKEST_DIRECTION = 1e-11
# Entries leave together that are at least this share as far off as the farthest of their row.
FAR_SHARE = 0.5


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


@dataclass
class RefitSums(Sums):
    """The sums of one pass over the entries that count, and a ``sample`` of the residuals of all entries.

    ``moved``, ``turned``, ``left``: ‖ΔU‖², UᵀΔU and UᵀU; ``usual``: UᵀU with very long rows shortened. For each column,
    ``hessians``, ``sides``, ``weights``: Σ w·u uᵀ, Σ w·d·u and Σ w, w = 1 or less in rows of more noise than usual;
    ``near``: Σ(d/limit)² over the entries within the limit, and their number.
    """

    sample: list[Array]
    squared: float
    kept: int
    near: Array
    moved: float
    turned: Array
    left: Array
    usual: Array
    hessians: Array
    sides: Array
    weights: Array


class RefitRows(Task[RefitSums]):
    """One pass: the rows of U·``turn`` move to their least squares. Rows: U; makes the new U.

    ``right`` is V, with orthonormal columns. ``prior`` is σ²C⁻¹, ``scales`` the noise of the columns in units of σ.
    Without ``moves`` the residual is only measured, and an entry counts within the ``limit``. Cost: about
    4r·(``ROW_STEPS`` + 2) operations an entry, and 2r² more for the normal equations of the columns; 4r² for each
    decision in rows with few entries.
    """

    large_sums = True

    def __init__(
        self,
        right: Array,
        turn: Array,
        limit: float,
        *,
        prior: Array | None = None,
        scales: Array | None = None,
        sigma: float = 0.0,
        moves: bool = True,
        stride: float = 1.0,
        settings: RefitSettings = DEFAULT,
    ) -> None:
        n, r = right.shape
        self.right, self.right_t = right, np.ascontiguousarray(right.T)
        self.turn, self.limit, self.moves = turn.astype(right.dtype), limit, moves and r > 0
        self.prior = np.zeros((r, r)) if prior is None else prior
        self.scales = np.ones(n, right.dtype) if scales is None else scales.astype(right.dtype)
        self.scaled = np.ascontiguousarray(right / self.scales[:, None])
        self.sigma, self.stride, self.settings = sigma, stride, settings
        self.makes, self.full = ((r, right.dtype),), n * r * r <= settings.numbers
        self.depth = r
        # The last pass, which counts outliers, counts entries that are out of scale among them.
        self.sees_all = not moves and limit < np.inf

    def start(self) -> RefitSums:
        """Zeros."""
        n, r = self.right.shape
        square = np.zeros((r, r))
        hessians = np.zeros((n, r * r if self.full else 0))
        return RefitSums(
            [],
            0.0,
            0,
            np.zeros((2, n)),
            0.0,
            square,
            square.copy(),
            square.copy(),
            hessians,
            np.zeros((n, r)),
            np.zeros(n),
        )

    def visit(self, sums: RefitSums, tile: Any, *rows: Array) -> tuple[Array]:
        """One tile, dense or sparse. Overflow is allowed: a cell near the largest float counts as infinitely far."""
        left = rows[0] @ self.turn
        with np.errstate(over="ignore"):
            if scipy.sparse.issparse(tile):
                self._visit_stored(sums, tile, left)
            else:
                self._visit_dense(sums, tile, left)
        self._add_rows(sums, left)
        return (left,)

    def _visit_dense(self, sums: RefitSums, tile: Array, left: Array) -> None:
        residual = tile - left @ self.right_t
        live, weights = np.abs(residual) <= self.limit, np.ones((len(left), 1), residual.dtype)
        if self.moves:
            before, seen = left.copy(), tile == tile
            relative = np.abs(residual) / (self.limit * self.scales)
            sizes = self._row_sizes(relative)
            weights /= sizes**2
            live = relative <= sizes
            counts = np.count_nonzero(seen, axis=1)
            few = counts < self.settings.few_entries * left.shape[1]
            poor = np.flatnonzero(~few & (2 * np.count_nonzero(live, axis=1) < counts))
            if poor.size:  # a row with fewer entries within the limit has not been fitted yet
                live[poor] = relative[poor] <= np.nanmedian(relative[poor], axis=1, keepdims=True)
            if not few.all():
                left[~few] += self._steps(residual[~few], live[~few] * weights[~few], left[~few])
            for rows in _blocks(np.flatnonzero(few), self.right.shape[0] + left.shape[1] ** 2):
                entries = np.where(seen[rows], tile[rows] / self.scales, 0.0)
                prior, limit = sizes[rows, :, None] ** 2 * self.prior, sizes[rows] * self.limit
                left[rows], live[rows] = decided_rows(
                    entries, seen[rows], self.scaled, left[rows], prior, limit
                )
            self._note(sums, left - before, left)
            residual = tile - left @ self.right_t
            relative = np.abs(residual) / (self.limit * self.scales * sizes)
            inside = relative <= 1.0
            sums.near += [np.sum(relative**2, axis=0, where=inside), np.count_nonzero(inside, axis=0)]
            if not few.all():
                live[~few] = inside[~few]
        self._measure(sums, residual.ravel(), live.ravel())
        weights = live * weights
        sums.sides += np.where(live, weights * residual, residual.dtype.type(0)).T @ left
        sums.weights += np.sum(weights, axis=0, dtype=np.float64)
        if self.full:
            products = (left[:, :, None] * left[:, None, :]).reshape(left.shape[0], -1)
            sums.hessians += weights.T @ products

    def _row_sizes(self, relative: Array) -> Array:
        """The noise of each row in units of the usual, at least 1, as a column. A round at most doubles it."""
        sizes = np.ones((len(relative), 1), relative.dtype)
        for _ in range(2 if self.limit < np.inf else 0):
            ratios = relative / sizes
            inside = ratios <= 1.0
            squared, counts = np.sum(ratios**2, axis=1, where=inside), np.count_nonzero(inside, axis=1)
            sizes = np.maximum(sizes * noise_scales(squared, counts)[:, None], 1.0)
        return sizes.astype(relative.dtype)

    def _visit_stored(self, sums: RefitSums, tile: Any, left: Array) -> None:
        """A sparse tile: rows of about the same length together. The columns are left to a pass over the transpose."""
        if self.moves:
            before, counts = left.copy(), np.diff(tile.indptr)
            order = np.argsort(counts, kind="stable")
            for rows in _blocks(order, int(counts.max(initial=0)) * left.shape[1]):
                places = tile.indptr[rows][:, None] + np.arange(max(int(counts[rows].max()), 1))
                seen = places < tile.indptr[rows + 1][:, None]
                places[~seen] = 0
                entries = np.where(seen, tile.data[places], 0.0) if tile.nnz else np.zeros(places.shape)
                vectors = (
                    self.right[tile.indices[places]] if tile.nnz else np.zeros((*places.shape, left.shape[1]))
                )
                left[rows] = decided_rows(entries, seen, vectors, left[rows], self.prior, self.limit)[0]
            self._note(sums, left - before, left)
        residual = sampled_residual(tile, left, self.right)
        self._measure(sums, residual, np.abs(residual) <= self.limit)

    def _steps(self, residual: Array, weights: Array, left: Array) -> Array:
        """(Σ w·v vᵀ + P)⁻¹(Σ w·d·v − P u) for each row, P the ``prior``, by conjugate gradients."""
        prior, zero = self.prior.astype(left.dtype), left.dtype.type(0)
        weights = weights / np.square(self.scales)
        gradient = np.where(weights > 0.0, weights * residual, zero) @ self.right - left @ prior
        step, direction = np.zeros_like(gradient), gradient.copy()
        squared = np.sum(np.square(gradient, dtype=np.float64), axis=1)
        for _ in range(min(left.shape[1], ROW_STEPS)):
            bent = ((direction @ self.right_t) * weights) @ self.right + direction @ prior + RIDGE * direction
            curvature = np.sum(direction * bent, axis=1, dtype=np.float64)
            length = np.where(curvature > 0.0, squared / np.where(curvature > 0.0, curvature, 1.0), 0.0)
            length = length[:, None].astype(step.dtype)
            step += length * direction
            gradient -= length * bent
            last, squared = squared, np.sum(np.square(gradient, dtype=np.float64), axis=1)
            ratio = np.where(last > 0.0, squared / np.where(last > 0.0, last, 1.0), 0.0)
            direction = gradient + ratio[:, None].astype(step.dtype) * direction
        return np.asarray(step)

    def _note(self, sums: RefitSums, step: Array, left: Array) -> None:
        sums.moved += float(np.sum(np.square(step, dtype=np.float64)))
        sums.turned += left.T @ step

    def _measure(self, sums: RefitSums, residual: Array, live: Array) -> None:
        """Misfit and number of the entries that count, and a sample of all residuals."""
        sums.squared += float(np.sum(np.square(residual[live], dtype=np.float64)))
        sums.kept += int(np.count_nonzero(live))
        if self.stride > 1.0:
            count = int(np.ceil(residual.size / self.stride))
            residual = residual[np.random.default_rng(0).integers(0, residual.size, count)]
        sums.sample.append(residual[residual == residual])

    def _add_rows(self, sums: RefitSums, left: Array) -> None:
        """Add UᵀU, and UᵀU with every row u shortened that has uᵀPu > limit² + rσ².

        A few rows that fit nothing may be very long. In C they would leave room for more of them.
        """
        sums.left += left.T @ left
        most = self.limit**2 + left.shape[1] * self.sigma**2
        distances: Array = np.asarray(np.sum((left @ self.prior) * left, axis=1, dtype=np.float64))
        shares = np.where(distances > most, most / np.maximum(distances, most), 1.0) if most < np.inf else 1.0
        sums.usual += (left * np.broadcast_to(shares, len(left))[:, None]).T @ left


# Standard deviations of Gaussian noise, in units of a limit, for which the mean square within ±limit is tabulated.
_SIZES = np.geomspace(0.02, 3.0, 400)
_MEAN_SQUARES = _SIZES**2 * (
    1.0 - (2.0 / np.pi) ** 0.5 / _SIZES * np.exp(-0.5 / _SIZES**2) / scipy.special.erf(0.5**0.5 / _SIZES)
)
# The noise of a row or column is measured as if it had this many more entries of the usual noise: a few say little.
USUAL_ENTRIES = 20.0


def noise_scales(squared: Array, counts: Array) -> Array:
    """The size of the noise, in units of the usual one, for which Σ(d/limit)² within the limit is ``squared``.

    ``counts`` entries are within the limit. Their mean square determines the size of Gaussian noise even where much of
    it lies beyond the limit. The result is kept between 0.2 and 2.
    """
    usual = 1.0 / OUTLIER_IN_SIGMAS
    expected = float(np.interp(usual, _SIZES, _MEAN_SQUARES))
    mean = (squared + USUAL_ENTRIES * expected) / (counts + USUAL_ENTRIES)
    return np.asarray(np.clip(np.interp(mean, _MEAN_SQUARES, _SIZES) / usual, 0.2, 2.0))


def _blocks(rows: Array, numbers: int) -> Iterator[Array]:
    """``rows``, a few at a time, where each takes so many numbers."""
    step = max(1, BLOCK_NUMBERS // max(numbers, 1))
    return (rows[start : start + step] for start in range(0, len(rows), step))


def decided_rows(
    entries: Array, seen: Array, vectors: Array, start: Array, prior: Array, limit: Any
) -> tuple[Array, Array]:
    """(U, which entries count) for rows of ``entries``, with the ``vectors`` v of shape (n, r), or (rows, n, r).

    An entry counts while its residual is within ``limit``·√(1 − h), or √(1 + h) if it did not count, h its leverage:
    both are the spread about what the other entries predict. At least half of a row's entries count. It is decided from
    the residuals of ``start``, and from all entries: of the two the row with the lower Σd² + uᵀPu + limit²·(entries
    that do not count) is taken. ``prior`` P and ``limit`` may differ from row to row.
    """
    n, r = vectors.shape[-2:]
    outer = None
    if vectors.ndim == 2 and n * r * r <= OUTER_NUMBERS:
        outer = (vectors[:, :, None] * vectors[:, None, :]).reshape(n, r * r)
    near = seen & (np.abs(entries - _fitted(vectors, start)) <= limit)
    prior = np.broadcast_to(prior, (len(start), r, r))
    limits = np.broadcast_to(limit, (len(start), 1))
    left, live, price = _decided(entries, seen, vectors, outer, start, near, prior, limits)
    others = _decided(entries, seen, vectors, outer, start, seen, prior, limits)
    better = (others[2] < price)[:, None]
    return np.where(better, others[0], left), np.where(better, others[1], live)


def _decided(
    entries: Array,
    seen: Array,
    vectors: Array,
    outer: Array | None,
    start: Array,
    live: Array,
    prior: Array,
    limits: Array,
) -> tuple[Array, Array, Array]:
    """(U, which entries count, the price of each row), decided from ``live`` on. Rows that have settled leave."""
    count, r = len(entries), prior.shape[-1]
    live, left, price = live.copy(), start.copy(), np.zeros(count)
    away, ridge, rows = entries - _fitted(vectors, start), RIDGE * np.eye(r), np.arange(count)
    for number in range(DECISIONS):
        counting, data, held = live[rows], entries[rows], prior[rows]
        own = vectors if vectors.ndim == 2 else vectors[rows]
        turned = np.swapaxes(own, -1, -2)
        if outer is None:
            inverse = np.linalg.inv((turned * counting[:, None, :]) @ own + held + ridge)
            leverage = np.sum((own @ inverse) * own, axis=-1)
        else:
            inverse = np.linalg.inv((counting @ outer).reshape(-1, r, r) + held + ridge)
            leverage = inverse.reshape(-1, r * r) @ outer.T
        sides = (turned @ (away[rows] * counting)[..., None])[..., 0] - _fitted(held, start[rows])
        found = start[rows] + _fitted(inverse, sides)
        residual = np.abs(data - _fitted(own, found))
        dead = np.where(seen[rows], limits[rows] ** 2, 0.0)
        left[rows] = found
        price[rows] = np.sum(np.where(counting, residual**2, dead), axis=1)
        price[rows] += np.sum(_fitted(held, found) * found, axis=1)
        ratios = residual / limits[rows]
        ratios /= np.sqrt(np.maximum(np.where(counting, 1.0 - leverage, 1.0 + leverage), 1e-12))
        farthest = np.max(np.where(counting, ratios, 0.0), axis=1, keepdims=True)
        half = _middle(np.where(seen[rows], ratios, np.inf), np.count_nonzero(seen[rows], axis=1))
        near = seen[rows] & ((ratios < 1.0) | (ratios <= half) | (counting & (ratios < FAR_SHARE * farthest)))
        moving = np.any(near != counting, axis=1)
        rows = rows[moving]
        if rows.size == 0 or number == DECISIONS - 1:
            break
        live[rows] = near[moving]
    return left, live, price


def _middle(values: Array, counts: Array) -> Array:
    """The value in each row below or at which half of its ``counts`` smallest ones lie, as a column."""
    return np.take_along_axis(np.sort(values, axis=1), np.maximum(counts // 2 - 1, 0)[:, None], axis=1)


def _fitted(vectors: Array, left: Array) -> Array:
    return np.asarray((vectors @ left[..., None])[..., 0])


def column_steps(sums: RefitSums, rows: int) -> Array:
    """(Σ w·u uᵀ)⁻¹ Σ w·d·u for each column.

    Where the hessians were too many to be added up, a column's is taken as its share of UᵀU, and the step is at most
    1.8 times the step with all of UᵀU, which cannot overshoot.
    """
    n, r = sums.sides.shape
    ridge = RIDGE * (float(np.trace(sums.left)) + np.finfo(np.float64).tiny) * np.eye(r)
    if sums.hessians.shape[1]:
        hessians = sums.hessians.reshape(n, r, r) + ridge
        return np.asarray(np.linalg.solve(hessians, sums.sides[..., None])[..., 0])
    share = sums.weights / max(rows, 1)
    lengths = np.minimum(1.0 / np.maximum(share, 1e-9), 1.8)
    return np.asarray(lengths[:, None] * np.linalg.solve(sums.left + ridge, sums.sides.T).T)


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
        left = source.run_with_rows(AppendProducts(right, limit, block), left)[1][0]
        return source.low_rank(left, np.hstack([right, block.astype(right.dtype)]))


class _Refit:
    """One refit: the factors, U row-aligned and V orthonormal, and σ.

    The present L is (U·``turn``)Vᵀ, and ``gram`` is UᵀU with very long rows shortened.
    """

    def __init__(
        self, source: Source, low_rank: LowRank, lambda_L: float, settings: RefitSettings, keep_rank: bool
    ) -> None:
        self.source, self.settings, self.sigma = source, settings, 0.0
        self.observed = source.summary.observed
        size = source.summary.norm / max(self.observed, 1) ** 0.5
        self.least = settings.rounding * float(np.finfo(source.dtype).eps) * size
        self.nothing = max(self.least, settings.exact * size)
        values = low_rank.s + lambda_L  # the penalty had taken λ_L off
        left, right = source.factors(LowRank(low_rank.u, values**2, low_rank.vt))
        self.left, self.right = left, np.ascontiguousarray(right / values.astype(right.dtype))
        self.turn, self.gram, self.scales = np.eye(values.size), np.diag(values**2), np.ones(right.shape[0])
        first = self._pass(np.inf, moves=False)
        # With fewer directions σ becomes larger, and then further directions may be too weak.
        while not keep_rank:
            strong = self._strong(low_rank, lambda_L, self._noise(first).sigma)
            if strong >= self.right.shape[1]:
                break
            self.left = self.source.map(partial(_first, strong), self.left)
            self.right = np.ascontiguousarray(self.right[:, :strong])
            self.turn, self.gram = np.eye(strong), self.gram[:strong, :strong]
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
            self.scales = np.clip(self.scales * noise_scales(*sums.near), 1.0, MOST_SCALE)
            falls = self._lower_sigma(self._noise(sums).sigma, drift)
            error = self.settings.settled**2 * self.sigma**2 * self._parameters
            settled = not falls and moved <= max(error, self.settings.exact**2 * float(np.trace(sums.left)))
            stalled = 0 if falls or moved < 0.8 * least else stalled + 1
            least = min(least, moved)
        limit = OUTLIER_IN_SIGMAS * self.sigma
        last = self._pass(limit, moves=False)
        low_rank = self.source.low_rank(self.left, self.right)
        outliers = self.observed - last.kept
        return Refitted(low_rank, self.sigma, limit, outliers, last.squared, rounds, settled)

    def is_exact(self, found: Refitted) -> bool:
        """Whether σ of the residual is no more than rounding beside the data."""
        return bool(found.sigma <= self.nothing)

    def _lower_sigma(self, measured: float, drift: float) -> bool:
        """Set σ to what was measured, or lower it towards that while V still moves; returns whether it falls on.

        With a limit below the residuals that the error of V causes, half of a row would be matched exactly, and the
        other half would be called outliers.
        """
        slowly = min(self.settings.fall * self.sigma, 10.0 * drift)
        self.sigma = max(measured, slowly)
        return slowly > measured

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

    def _noise(self, sums: RefitSums) -> Noise:
        freedom = freedom_of(self.right.shape[1], self.source.shape, self.observed)
        leverages = leverages_of(self.right, freedom)
        return measure(np.concatenate(sums.sample), freedom, self.least, leverages)

    def _task(self, right: Array, turn: Array, limit: float, **options: Any) -> RefitRows:
        stride = self.observed / RESIDUALS
        return RefitRows(
            right, turn, limit, sigma=self.sigma, stride=stride, settings=self.settings, **options
        )

    def _pass(self, limit: float, *, moves: bool = True) -> RefitSums:
        options = {"prior": self._prior(), "scales": self.scales, "moves": moves}
        task = self._task(self.right, self.turn, limit, **options)
        sums, (self.left,) = self.source.run_with_rows(task, self.left)
        self.turn, self.gram = np.eye(self.right.shape[1]), sums.usual
        return sums

    def _prior(self) -> Array:
        """σ²C⁻¹ = σ²·m·(UᵀU)⁻¹ for the U from which the next pass starts.

        A floor under the eigenvalues of UᵀU keeps the inverse positive in floating point where a direction is far below
        the others, as when the rank is too high for data without noise.
        """
        gram = self.turn.T @ self.gram @ self.turn
        values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
        floor = WEAKEST_DIRECTION * (float(np.sum(np.maximum(values, 0.0))) + np.finfo(np.float64).tiny)
        inverse = (vectors / (np.maximum(values, 0.0) + floor)) @ vectors.T
        return np.asarray(self.sigma**2 * self.source.shape[0] * inverse)

    def _move_columns(self, sums: RefitSums) -> tuple[float, float]:
        """Move V to its least squares, and make it orthonormal again.

        Returns ‖ΔU Vᵀ + U ΔVᵀ‖², the square of how far L has moved in this round, and the root mean square of U ΔVᵀ.
        """
        columns = self._columns
        step = (
            column_steps(sums, self.source.shape[0])
            if columns is None
            else self._stored_column_steps(columns)
        )
        of_columns = max(float(np.sum((step @ sums.left) * step)), 0.0)
        change = sums.moved + of_columns
        change += 2.0 * float(np.sum((step.T @ self.right) * sums.turned))
        basis, triangle = thin_qr(self.right + step)
        self.right, self.turn = np.ascontiguousarray(basis, self.source.dtype), triangle.T
        return change, (of_columns / (self.source.shape[0] * self.source.shape[1])) ** 0.5

    def _stored_column_steps(self, columns: Source) -> Array:
        """ΔV for a sparse matrix, by the rows' pass over its transpose. With U = Q T, L = Q(V Tᵀ)ᵀ, and Q is fixed."""
        basis, triangle = thin_qr(self.left)
        basis = np.ascontiguousarray(basis, self.source.dtype)
        task = self._task(basis, triangle.T, OUTLIER_IN_SIGMAS * self.sigma)
        rows = columns.run_with_rows(task, self.right)[1][0]
        self.source.passes += 1
        return np.asarray(np.linalg.solve(triangle, rows.T.astype(np.float64)).T - self.right)

    @computed_once
    def _columns(self) -> Source | None:
        return self.source.by_columns()


def _first(count: int, columns: Array) -> Array:
    return np.ascontiguousarray(columns[:, :count])
