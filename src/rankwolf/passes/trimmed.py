"""Passes of a trimmed least-squares fit: entries further than a limit from L = U Vᵀ do not count.

One pass moves the rows of U by their own least squares on the entries that count, measures how far all entries are from
the result, and adds up the normal equations of the columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import scipy.special

from rankwolf import kernels
from rankwolf.data import Sums, Task
from rankwolf.ground.arrays import Array
from rankwolf.passes.tile_steps import sampled_residual

# A magnitude's bin: its exponent and the first bits of its mantissa, as float32 stores them. 32 bins an octave.
SHIFT = 18
BINS = 2 ** (31 - SHIFT)
# The normal equations of the columns, n·r² numbers, are added up if there are at most this many; otherwise each is
# approximated by its share of UᵀU.
MOST_NUMBERS = 2**23
# Where they are more than this, only one copy of the sums is made for each thread.
LARGE_NUMBERS = 2**20
# The most conjugate-gradient steps for a row of U: exact up to this rank, and nearly so beyond.
ROW_STEPS = 6
# A ridge relative to the curvature of a row all of whose entries count (V is orthonormal): where too few entries count,
# it keeps the row where it is.
RIDGE = 1e-9
# In rows with fewer entries than this for each direction, a single outlier draws the fit to itself by more than a
# twentieth, and its distance from the fit does not reveal it.
FEW_ENTRIES = 20.0
# The clip level of the Huber loss, as a share of the limit beyond which an entry does not count: about 2σ/3.29σ.
HUBER = 0.6


# Standard deviations of Gaussian noise, in units of a limit, for which the mean square within ±limit is tabulated.
_SIZES = np.geomspace(0.02, 3.0, 400)
# The noise of a row or column is measured as if it had this many more entries of the usual noise, because a few entries
# alone say little.
USUAL_ENTRIES = 20.0


def _mean_squares(sizes: Array) -> Array:
    """E[x² | |x| ≤ 1] for Gaussian x with mean 0 and these standard deviations."""
    limits = 1.0 / sizes
    inside = scipy.special.erf(limits / 2.0**0.5)
    density = np.exp(-0.5 * limits**2) / (2.0 * np.pi) ** 0.5
    return np.asarray(sizes**2 * (1.0 - 2.0 * limits * density / inside))


def noise_scales(squared: Array, counts: Array, usual: float) -> Array:
    """The size of the noise, in units of the usual one, for which Σ(d/limit)² within the limit is ``squared``.

    ``counts`` entries are within the limit, and ``usual`` is σ/limit. Their mean square determines the size of Gaussian
    noise even where much of it lies beyond the limit. The result is kept between 0.2 and 2.
    """
    expected = float(_mean_squares(np.array([usual]))[0])
    mean = (squared + USUAL_ENTRIES * expected) / (counts + USUAL_ENTRIES)
    sizes = np.interp(mean, _mean_squares(_SIZES), _SIZES)
    return np.asarray(np.clip(sizes / usual, 0.2, 2.0))


def _within(relative: Array, axis: int) -> tuple[Array, Array]:
    """Σx² and the number of the entries x with |x| ≤ 1; NaN does not count."""
    inside = relative <= 1.0
    squared = np.sum(np.square(relative), axis=axis, dtype=np.float64, where=inside)
    return np.asarray(squared), np.count_nonzero(inside, axis=axis).astype(np.float64)


@dataclass(frozen=True)
class Magnitudes:
    """A histogram of the magnitudes of a residual: quantiles and shares to about a thousandth, by interpolation."""

    counts: Array

    def quantile(self, share: float) -> float:
        """The magnitude below which that share of the entries lies."""
        below = np.cumsum(self.counts)
        wanted = share * below[-1]
        place = int(np.searchsorted(below, wanted))
        low, high = _edges(place)
        before = below[place] - self.counts[place]
        return float(low + (high - low) * (wanted - before) / max(self.counts[place], 1.0))

    def beyond(self, value: float) -> float:
        """The share of the entries that are larger than ``value``."""
        place = int(_bins(np.array([value]))[0])
        low, high = _edges(place)
        inside = self.counts[place] * (high - value) / (high - low) if high > low else 0.0
        return float((np.sum(self.counts[place + 1 :]) + inside) / max(float(np.sum(self.counts)), 1.0))


def _bins(magnitudes: Array) -> Array:
    return np.asarray(magnitudes.astype(np.float32).view(np.int32) >> SHIFT)


def _edges(place: int) -> tuple[float, float]:
    edges = (np.array([place, place + 1], np.int64) << SHIFT).astype(np.int32).view(np.float32)
    return float(edges[0]), float(edges[1])


@dataclass
class TrimmedSums(Sums):
    """The sums of one pass; w is the weight of an entry and d its residual.

    ``counts``: a histogram of |d|. ``squared``, ``kept``: misfit and number of the entries that count. ``moved``,
    ``turned``, ``left``: ‖ΔU‖², UᵀΔU and UᵀU. ``usual_left``: UᵀU with very long rows shortened. For each column,
    ``hessians``, ``sides``, ``weights``: Σ w·u uᵀ, Σ w·d·u and Σ w; ``column_squares``, ``column_counts``: Σ(d/limit)²
    over the entries within the limit, and their number.
    """

    counts: Array
    rows: int
    squared: float
    kept: int
    moved: float
    turned: Array
    left: Array
    usual_left: Array
    hessians: Array
    sides: Array
    weights: Array
    column_squares: Array
    column_counts: Array

    @property
    def magnitudes(self) -> Magnitudes:
        """The histogram of |d| over all observed entries, whether they count or not."""
        return Magnitudes(self.counts)


class FitTrimmed(Task[TrimmedSums]):
    """Move the rows of U to their least squares, then measure the residual. Rows: U, first multiplied by ``turn``.

    ``right`` is V, with orthonormal columns; L = (U·``turn``)Vᵀ before the move.

    ``prior`` is σ² times the inverse of the covariance of the rows of U: it holds back a row that too few entries
    determine. ``scales``, at least 1, are the sizes of the columns' noise in units of the usual noise. In a column
    with more noise the limit is larger by this factor, and an entry weighs less by its square; the same holds for rows
    with more noise. Otherwise the noise of the noisiest rows and columns would be trimmed in every round, and L would
    hardly move. A column with less noise than usual gets no larger weight, because L would come to match it exactly.

    ``selects``: the entries of a row that count are chosen one by one, by how the row would change without each of them
    (:mod:`rankwolf.kernels.selection`). Where a row has few entries beside the rank, an outlier draws the row to
    itself, and its distance alone does not reveal it.

    Cost: about 4r·(steps + 2) operations an entry, and 2r² more where the columns' normal equations are added up; about
    6r² an entry where it ``selects``.
    """

    def __init__(
        self,
        right: Array,
        turn: Array,
        limit: float,
        *,
        sigma: float = 0.0,
        prior: Array | None = None,
        scales: Array | None = None,
        moves: bool = True,
        selects: bool = False,
    ) -> None:
        self.selects = selects and moves
        # A last pass, which counts outliers, counts cells that are out of scale among them.
        self.sees_all = not moves and limit < np.inf
        (n, r) = right.shape
        self.sigma, self.usual = sigma, sigma / limit if limit > 0.0 else 0.0
        self.scales = np.ones(n, right.dtype) if scales is None else scales.astype(right.dtype)
        # In float32 a prior with directions of very different lengths would not stay positive definite.
        self.exact_prior = np.zeros((r, r)) if prior is None else prior.astype(np.float64)
        self.prior = self.exact_prior.astype(right.dtype)
        self.right, self.right_t = right, np.ascontiguousarray(right.T)
        self.turn, self.limit, self.steps = turn.astype(right.dtype), limit, min(r, ROW_STEPS) if moves else 0
        self.full = n * r * r <= MOST_NUMBERS
        self.large_sums = n * r * r > LARGE_NUMBERS
        self.depth = r

    def start(self) -> TrimmedSums:
        """Zeros."""
        n, r = self.right.shape
        hessians = np.zeros((n, r * r if self.full else 0))
        return TrimmedSums(
            np.zeros(BINS),
            0,
            0.0,
            0,
            0.0,
            np.zeros((r, r)),
            np.zeros((r, r)),
            np.zeros((r, r)),
            hessians,
            np.zeros((n, r)),
            np.zeros(n),
            np.zeros(n),
            np.zeros(n),
        )

    def visit(self, sums: TrimmedSums, tile: Any, *rows: Array) -> None:
        """One tile, dense or sparse. Overflow is allowed: a cell near the largest float counts as infinitely far."""
        with np.errstate(over="ignore"):
            self._visit(sums, tile, rows[0])

    def _visit(self, sums: TrimmedSums, tile: Any, left: Array) -> None:
        sums.rows += left.shape[0]
        left[...] = left @ self.turn
        if scipy.sparse.issparse(tile):
            self._visit_stored(sums, tile, left)
            return
        if self.selects:
            residual, weights = self._select(sums, tile, left)
        else:
            residual, weights = self._residual(tile, left)
            if self.steps:
                step = self._row_steps(residual, weights, left)
                left += step
                self._note(sums, step, left)
                residual, weights = self._residual(tile, left)
        magnitudes = np.abs(tile - left @ self.right_t)
        sums.counts += np.bincount(_bins(magnitudes[tile == tile]), minlength=BINS)
        if self.steps and self.usual > 0.0:
            relative = magnitudes / (self.limit * self._row_scales(magnitudes) * self.scales)
            squared, counts = _within(relative, axis=0)
            sums.column_squares += squared
            sums.column_counts += counts
        self._measure(sums, residual, weights, left)

    def _add_rows(self, sums: TrimmedSums, left: Array) -> None:
        """Add UᵀU, and UᵀU with every row u shortened that has uᵀPu > limit² + rσ², P the ``prior``.

        A few rows that fit nothing may be very long. In the covariance, from which the next prior is made, they would
        leave room for more of them.
        """
        sums.left += left.T @ left
        distances: Array = np.asarray(np.sum((left @ self.prior) * left, axis=1, dtype=np.float64))
        most = self.limit**2 + left.shape[1] * self.sigma**2
        far = distances > most
        shares = np.ones_like(distances)
        shares[far] = most / distances[far]
        sums.usual_left += (left * shares[:, None].astype(left.dtype)).T @ left

    def _note(self, sums: TrimmedSums, step: Array, left: Array) -> None:
        sums.moved += float(np.sum(np.square(step, dtype=np.float64)))
        sums.turned += left.T @ step

    def _residual(self, tile: Array, left: Array) -> tuple[Array, Array]:
        """w·D and w. w is 0 where an entry does not count, and below 1 where the noise is larger than usual.

        At least half of a row counts: a row with fewer entries within the limit has not been fitted yet.
        """
        residual = tile - left @ self.right_t
        magnitudes = np.abs(residual)
        if not self.steps:
            weights = (magnitudes <= self.limit).astype(residual.dtype)
        else:
            sizes = self._row_scales(magnitudes) * self.scales
            live = magnitudes <= self.limit * sizes
            poor = np.flatnonzero(2 * np.count_nonzero(live, axis=1) < np.count_nonzero(tile == tile, axis=1))
            if poor.size:
                live[poor] = magnitudes[poor] <= np.nanmedian(magnitudes[poor], axis=1, keepdims=True)
            weights = live / np.square(sizes)
        return np.where(weights > 0.0, weights * residual, residual.dtype.type(0)), weights

    def _select(self, sums: TrimmedSums, tile: Array, left: Array) -> tuple[Array, Array]:
        """Move the rows of ``left`` by :func:`trim_rows`; return w·D and w as :meth:`_residual` does."""
        sizes = self._row_scales(np.abs(tile - left @ self.right_t)) * self.scales
        rows, live = stored(tile), np.zeros(tile.shape, tile.dtype)
        before, seen = left.copy(), tile == tile
        live[seen] = trim_rows(rows, self.right, self.exact_prior, self.limit, left, sizes[seen])
        self._note(sums, left - before, left)
        weights = live / np.square(sizes)
        residual = tile - left @ self.right_t
        return np.where(live > 0.0, weights * residual, residual.dtype.type(0)), weights

    def _row_scales(self, magnitudes: Array) -> Array:
        """The size of each row's noise in units of the usual, at least 1, as a column; 1 where σ is not known."""
        scales = np.ones((magnitudes.shape[0], 1))
        if self.usual == 0.0:
            return scales.astype(magnitudes.dtype)
        relative = magnitudes / (self.limit * self.scales)
        for _ in range(2):  # one round at most doubles a scale
            squared, counts = _within(relative / scales, axis=1)
            scales = np.maximum(scales * noise_scales(squared, counts, self.usual)[:, None], 1.0)
        return scales.astype(magnitudes.dtype)

    def _row_steps(self, residual: Array, weights: Array, left: Array) -> Array:
        """(Σ w·v vᵀ + P)⁻¹(Σ w·d·v − P u) for each row, P the ``prior``, by conjugate gradients."""
        gradient = residual @ self.right - left @ self.prior
        step, direction = np.zeros_like(gradient), gradient.copy()
        squared = np.sum(np.square(gradient, dtype=np.float64), axis=1)
        for _ in range(self.steps):
            bent = (
                ((direction @ self.right_t) * weights) @ self.right
                + direction @ self.prior
                + RIDGE * direction
            )
            curvature = np.sum(direction * bent, axis=1, dtype=np.float64)
            length = np.where(curvature > 0.0, squared / np.where(curvature > 0.0, curvature, 1.0), 0.0)
            length = length[:, None].astype(step.dtype)
            step += length * direction
            gradient -= length * bent
            last, squared = squared, np.sum(np.square(gradient, dtype=np.float64), axis=1)
            ratio = np.where(last > 0.0, squared / np.where(last > 0.0, last, 1.0), 0.0)
            direction = gradient + ratio[:, None].astype(step.dtype) * direction
        return np.asarray(step)

    def _measure(self, sums: TrimmedSums, residual: Array, weights: Array, left: Array) -> None:
        """Add the sums of one tile; ``residual`` is w·D. Where no row moves, w is 0 or 1, and Σ(w·d)² is the misfit."""
        sums.squared += float(np.sum(np.square(residual), dtype=np.float64))
        sums.kept += int(np.count_nonzero(weights))
        self._add_rows(sums, left)
        sums.sides += residual.T @ left
        sums.weights += np.sum(weights, axis=0, dtype=np.float64)
        if self.full:
            products = (left[:, :, None] * left[:, None, :]).reshape(left.shape[0], -1)
            sums.hessians += weights.T @ products

    def _visit_stored(self, sums: TrimmedSums, tile: Any, left: Array) -> None:
        """One sparse tile: move its rows, add their sums. The columns' sums are left to a pass over the transpose."""
        residual = sampled_residual(tile, left, self.right)
        if self.selects:
            before = left.copy()
            trim_rows(tile, self.right, self.exact_prior, self.limit, left)
            self._note(sums, left - before, left)
            residual = sampled_residual(tile, left, self.right)
        elif self.steps:
            moved = self._fitted_rows(_only(tile, self._counting(tile, np.abs(residual))), left)
            step = moved - left
            left[...] = moved
            self._note(sums, step, left)
            residual = sampled_residual(tile, left, self.right)
        magnitudes = np.abs(residual)
        live = magnitudes <= self.limit
        sums.counts += np.bincount(_bins(magnitudes), minlength=BINS)
        sums.squared += float(np.sum(np.square(residual[live]), dtype=np.float64))
        sums.kept += int(np.count_nonzero(live))
        self._add_rows(sums, left)

    def _counting(self, tile: Any, magnitudes: Array) -> Array:
        """True for each stored entry that counts: within the limit, or in the better half of a row mostly beyond."""
        live = magnitudes <= self.limit
        totals = np.concatenate([[0], np.cumsum(live)])[tile.indptr]
        for i in np.flatnonzero(2 * np.diff(totals) < np.diff(tile.indptr)):
            row = slice(int(tile.indptr[i]), int(tile.indptr[i + 1]))
            live[row] = magnitudes[row] <= np.median(magnitudes[row])
        return np.asarray(live)

    def _fitted_rows(self, tile: scipy.sparse.csr_array, left: Array) -> Array:
        """Each row's least squares on its stored entries with the prior P: u = R b with RRᵀ = P⁻¹, so uᵀPu = ‖b‖²."""
        root = np.linalg.inv(np.linalg.cholesky(self.exact_prior + RIDGE * np.eye(left.shape[1]))).T
        # In float64: where P is nearly 0, R is large, and in float32 its square would hide the 1 of ‖b‖².
        entries, right = tile.data.astype(np.float64), np.ascontiguousarray(self.right @ root)
        indices, pointers = tile.indices.astype(np.int64), tile.indptr.astype(np.int64)
        scores = np.ascontiguousarray(np.linalg.solve(root, left.T.astype(np.float64)).T)
        kernels.fit_stored_rows(entries, indices, pointers, right, 1.0, np.inf, 1e-9, 2, scores)
        return np.asarray(scores @ root.T, left.dtype)


def stored(tile: Array) -> scipy.sparse.csr_array:
    """The observed entries of a dense tile, as a CSR array."""
    seen = tile == tile
    pointers = np.concatenate([[0], np.cumsum(np.count_nonzero(seen, axis=1))])
    return scipy.sparse.csr_array((tile[seen], np.nonzero(seen)[1], pointers), shape=tile.shape)


def trim_rows(
    rows: scipy.sparse.csr_array,
    right: Array,
    prior: Array,
    limit: float,
    left: Array,
    sizes: Array | None = None,
) -> Array:
    """Move the rows of ``left``, in place, to trimmed fits of the stored entries; returns 1 for each that counts.

    A trimmed fit lowers Σ((x − v·u)/size)² over the entries that count, plus uᵀ``prior``u, plus limit² for each entry
    that does not count. ``sizes`` are the sizes of the entries' noise in units of the usual; without them, 1.
    """
    live = np.zeros(rows.data.size, np.uint8)
    if left.size == 0:
        return live
    # One type for all, so that the kernels are compiled once.
    entries, here = rows.data.astype(np.float64), left.astype(np.float64)
    indices, pointers = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    right = np.ascontiguousarray(right, np.float64)
    ridged = prior + RIDGE * np.eye(len(prior))
    reach = np.sum((right @ np.linalg.inv(ridged)) * right, axis=1)
    # One of the starts is a convex fit. With u = R b and RRᵀ = P⁻¹ the prior is ‖b‖².
    root = np.linalg.inv(np.linalg.cholesky(ridged)).T
    guess = np.ascontiguousarray(np.linalg.solve(root, here.T).T)
    kernels.fit_stored_rows(
        entries, indices, pointers, np.ascontiguousarray(right @ root), 1.0, HUBER * limit, 1e-3, 20, guess
    )
    kernels.trim_stored_rows(
        entries,
        np.ones_like(entries) if sizes is None else sizes.astype(np.float64),
        indices,
        pointers,
        right,
        prior,
        float(limit),
        reach,
        guess @ root.T,
        here,
        live,
    )
    left[...] = here
    return live


def _only(rows: scipy.sparse.csr_array, kept: Array) -> scipy.sparse.csr_array:
    """The CSR array with only those entries where ``kept`` is True."""
    counts = np.concatenate([[0], np.cumsum(kept)])
    parts = (rows.data[kept], rows.indices[kept], counts[rows.indptr].astype(rows.indptr.dtype))
    return scipy.sparse.csr_array(parts, shape=rows.shape)


def column_steps(sums: TrimmedSums) -> Array:
    """The steps (n, r) to the least-squares V for given U, for each column of the data: (Σ w·u uᵀ)⁻¹ Σ w·d·u.

    Where the hessians were too many to be added up, a column's is taken as the share of UᵀU that its weights make up,
    and the step is at most 1.8 times the step with all of UᵀU, which cannot overshoot.
    """
    n, r = sums.sides.shape
    ridge = RIDGE * (float(np.trace(sums.left)) + np.finfo(np.float64).tiny) * np.eye(r)
    if sums.hessians.shape[1]:
        hessians = sums.hessians.reshape(n, r, r) + ridge
        return np.asarray(np.linalg.solve(hessians, sums.sides[..., None])[..., 0])
    share = sums.weights / max(sums.rows, 1)
    lengths = np.minimum(1.0 / np.maximum(share, 1e-9), 1.8)
    return np.asarray(lengths[:, None] * np.linalg.solve(sums.left + ridge, sums.sides.T).T)
