"""The standard deviation σ of the noise, measured on a submatrix.

The submatrix is fitted robustly with rank 0, then with more and more rank, until the residual M − L looks like noise.
Such a sequence of fits is called a ladder here, and one fit a rung. A rung repeats L ← the best approximation, of its
rank, of L + clip(M − L, ±2σ), and measures σ on the residual as it falls; nothing is shrunk. How far to climb:

- *The spectrum proposes.* Singular values of the clipped residual that are longer than noise of these variances has
  (:mod:`rankwolf.weights.edge`) belong to directions that L still lacks. The next rung has these as well.
- *Prediction disposes.* A tenth of the entries is hidden from the fits. A rung that predicts them worse than the best
  rung so far, by more than chance, has begun to fit noise and outliers. With few columns the spectrum does not show
  that.

The best rung is then fitted once more, to all entries, and σ is measured on its residual. The first σ is too large, the
spread of the widest column, and every later one may only be smaller.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from rankwolf.data import Source
from rankwolf.data.bounded import FindScale
from rankwolf.ground.arrays import Array
from rankwolf.ground.deadline import Deadline
from rankwolf.ground.momentum import Momentum
from rankwolf.weights.noise import (
    LIMIT_IN_SIGMAS,
    Noise,
    freedom_of,
    measure,
    noise_of_residual,
    spread,
    weights_for_noise,
)
from rankwolf.weights.paper import PAPER_DELTA, paper_weights
from rankwolf.weights.sample import sample


@dataclass(frozen=True)
class DescentSettings:
    """The constants of the search for σ. ``python -m benchmarks auto_delta`` makes the figures that chose them."""

    sample_side: int = 400
    """Rows and columns of the submatrix, at most: enough for tens of directions, and a second's work."""
    least_noise: float = 1e-3
    """σ is at least this share of the data's spread. It decides the weights of data without noise, whose L then has a
    relative error of about half of this share, until a refit removes it."""
    out_of_scale: float = 1e4
    """Single cells beyond this many times the spread of the widest column are cut to a bound
    (:mod:`rankwolf.data.bounded`)."""
    most_rank: float = 0.5
    """The highest rank of a rung, as a share of the shorter side: with more, too little residual is left to measure."""
    hidden: float = 0.1
    """The share of the entries that a rung has to predict."""
    standard_errors: float = 2.0
    """A rung is worse than another if its mean prediction error is larger by this many standard errors."""
    patience: int = 1
    """How many rungs in a row may be worse than the best before the ladder ends. With few columns, a direction may help
    only together with the next one."""
    steps: int = 60
    """The most steps of one rung."""
    fall: float = 0.7
    """In a step, σ becomes at most this factor smaller, so that L can follow."""
    settled: float = 0.03
    """A rung ends when a step moves L by less than this share of the error that the noise leaves in L in any case."""
    predicted: float = 0.003
    """A prediction ends when a step moves it by less than this share of that error: rungs may differ by very little."""
    measured_entries: int = 20_000
    """σ is measured on about this many entries in every step, and on all of them at the end."""


SETTINGS = DescentSettings()


def noise_weights(
    source: Source,
    rng: np.random.Generator,
    deadline: Deadline | None = None,
    settings: DescentSettings = SETTINGS,
) -> tuple[float, float]:
    """(λ_L, λ_S) for ``delta="auto"``. Cost: one pass over the data, and about a second on at most 400 × 400 entries.

    Where at least half of the entries of every column are zero, no σ can be measured, and the paper's rule is taken.
    """
    noise = estimate_noise(source, rng, deadline, settings)
    if noise.sigma == 0.0:
        return paper_weights(source, PAPER_DELTA)
    return weights_for_noise(noise, source.shape, source.observed_fraction)


def estimate_noise(
    source: Source,
    rng: np.random.Generator,
    deadline: Deadline | None = None,
    settings: DescentSettings = SETTINGS,
) -> Noise:
    """σ and the share of outliers, from a random submatrix. BLAS keeps to one thread: the matrices are small.

    Side effect: where single cells are far out of scale, ``source`` shows them cut to a bound from then on
    (:mod:`rankwolf.data.bounded`). That costs two more passes.
    """
    with source.one_blas_thread():
        part = sample(source, rng, settings.sample_side)
        limit = settings.out_of_scale * widest_column(part)
        if 0.0 < limit < source.summary.largest:
            scale = source.run(FindScale(limit, source.shape[1]))
            if scale.is_strewn:
                source.set_bound(scale.largest)
        return noise_of_array(part, deadline, settings)


def widest_column(data: Array) -> float:
    """The largest :func:`spread` of a column of ``data``, in which NaN marks what was not observed."""
    return max((spread(column[~np.isnan(column)]) for column in data.T), default=0.0)


def noise_of_array(
    data: Array, deadline: Deadline | None = None, settings: DescentSettings = SETTINGS
) -> Noise:
    """σ and the share of outliers of a small array with NaN where nothing was observed.

    Rows and columns without any entry are left out. When the ``deadline`` passes, the best rung so far is taken; its σ
    tends to be too large.
    """
    seen = ~np.isnan(data)
    rows, columns = np.any(seen, axis=1), np.any(seen, axis=0)
    if not rows.any():
        return Noise(0.0, 0.0)
    noise = Ladder(data[np.ix_(rows, columns)], settings, deadline or Deadline(None)).noise()
    if noise.variances is None:
        return noise
    return replace(noise, variances=noise.variances.among(rows, columns))


@dataclass(frozen=True)
class Rung:
    """A fit L of one rank, its right singular space V (orthonormal columns), and the σ with which it was clipped."""

    low_rank: Array
    right: Array
    sigma: float


class Ladder:
    """The fits of one array, of rising rank from 0 on; entries are observed (``seen``) and ``shown`` or ``hidden``."""

    def __init__(self, data: Array, settings: DescentSettings, deadline: Deadline) -> None:
        self.settings, self.deadline = settings, deadline
        self.seen = ~np.isnan(data)
        self.data = np.where(self.seen, data, 0.0)
        rng = np.random.default_rng(0)
        self.hidden = self.seen & (rng.random(data.shape) < settings.hidden)
        self.shown = self.seen & ~self.hidden
        self.widest = widest_column(data)
        self.least = settings.least_noise * (spread(data[self.seen]) or self.widest)

    def noise(self) -> Noise:
        """The noise in the residual of the best rung, which is first fitted again to all entries."""
        if self.widest == 0.0:
            return Noise(0.0, 0.0)
        best = self._climb()
        if best.right.shape[1]:
            best = self._fit(replace(best, sigma=best.sigma / self.settings.fall), self.seen)
        return self._noise_beside(best, self.seen)

    def _climb(self) -> Rung:
        """The rung that predicts best. The rung after one of rank r has a rank of at most 2r + 1."""
        m, n = self.data.shape
        most = int(self.settings.most_rank * min(m, n))
        rung = best = Rung(np.zeros((m, n)), np.zeros((n, 0)), self.widest)
        errors, worse = np.abs(self.data[self.hidden]), 0
        while worse <= self.settings.patience and not self.deadline.passed:
            rank = rung.right.shape[1]
            fresh = self._missing_directions(rung)[:, : min(most - rank, rank + 1)]
            if fresh.shape[1] == 0:
                break
            right = np.linalg.qr(np.hstack([rung.right, fresh]))[0]
            rung = self._fit(replace(rung, right=right), self.shown)
            found = self._prediction_errors(rung)
            if self._is_worse(found, errors):
                worse += 1
            else:
                best, errors, worse = rung, found, 0
        return best

    def _noise_beside(self, rung: Rung, where: Array) -> Noise:
        rank = rung.right.shape[1]
        residual = np.where(where, self.data - rung.low_rank, np.nan)
        freedom = freedom_of(rank, self.data.shape, int(np.count_nonzero(where)))
        return replace(noise_of_residual(residual, freedom, self.least), rank=rank)

    def _missing_directions(self, rung: Rung) -> Array:
        """Right singular vectors of the clipped residual with singular values above those of noise, largest first."""
        noise = self._noise_beside(rung, self.shown)
        edge = weights_for_noise(noise, self.data.shape, float(np.mean(self.shown)))[0]
        limit = LIMIT_IN_SIGMAS * noise.sigma
        clipped = np.clip(np.where(self.shown, self.data - rung.low_rank, 0.0), -limit, limit)
        wide = clipped.shape[0] < clipped.shape[1]
        gram = clipped @ clipped.T if wide else clipped.T @ clipped
        squares, vectors = scipy.linalg.eigh(gram)
        long = np.flatnonzero(squares > edge**2)[::-1]
        return np.asarray(clipped.T @ vectors[:, long] if wide else vectors[:, long])

    def _fit(self, start: Rung, where: Array) -> Rung:
        """Fit a rung, from ``start`` and with its rank, to the entries ``where``, by projections with momentum."""
        low_rank = point = start.low_rank
        right, sigma, momentum = start.right, start.sigma, Momentum()
        observed = int(np.count_nonzero(where))
        freedom = freedom_of(right.shape[1], self.data.shape, observed)
        places = np.flatnonzero(where)[:: max(1, observed // self.settings.measured_entries)]
        error = self.settings.settled * self._error_of_fit(right, where)
        for _ in range(self.settings.steps):
            residual = np.where(where, self.data - point, 0.0)
            measured = measure(residual.ravel()[places], freedom, self.least).sigma
            sigma = max(min(measured, sigma), self.settings.fall * sigma)
            target = point + np.clip(residual, -LIMIT_IN_SIGMAS * sigma, LIMIT_IN_SIGMAS * sigma)
            left = np.linalg.qr(target @ right)[0]
            right = np.linalg.qr(target.T @ left)[0]
            last, low_rank = low_rank, (target @ right) @ right.T
            length = float(np.linalg.norm(low_rank - point))
            momentum, point = _pushed(momentum, point, last, low_rank)
            still = length <= error * sigma and abs(sigma - measured) <= 0.05 * measured
            if still or self.deadline.passed:
                break
        return Rung(low_rank, right, sigma)

    def _error_of_fit(self, right: Array, where: Array) -> float:
        """The Frobenius norm of the error of L that noise causes, in units of σ: √(number of free parameters)."""
        observed = int(np.count_nonzero(where))
        return float((freedom_of(right.shape[1], self.data.shape, observed) * observed) ** 0.5)

    def _prediction_errors(self, rung: Rung) -> Array:
        """|M − prediction| on the hidden entries, each predicted from the shown entries of its row.

        The coefficients of a row are fitted robustly, with fixed V and σ, and each is shrunk by s²/(s² + σ²), where s
        is its root mean square over all rows: with few columns, plain least squares would predict worse than 0 does.
        """
        predicted = point = rung.low_rank
        right, sigma, momentum = rung.right, rung.sigma, Momentum()
        sizes = np.linalg.norm(rung.low_rank @ right, axis=0) / self.data.shape[0] ** 0.5
        kept = (sizes / np.hypot(sizes, sigma)) ** 2
        error = self.settings.predicted * self._error_of_fit(right, self.shown)
        for _ in range(self.settings.steps):
            residual = np.where(self.shown, self.data - point, 0.0)
            target = point + np.clip(residual, -LIMIT_IN_SIGMAS * sigma, LIMIT_IN_SIGMAS * sigma)
            last, predicted = predicted, (target @ right * kept) @ right.T
            length = float(np.linalg.norm(predicted - point))
            momentum, point = _pushed(momentum, point, last, predicted)
            if length <= error * sigma or self.deadline.passed:
                break
        return np.asarray(np.abs(self.data - predicted)[self.hidden])

    def _is_worse(self, errors: Array, than: Array) -> bool:
        """Whether ``errors`` exceed ``than`` by more than chance; both are cut at 2·median, for outliers' sake."""
        if errors.size == 0:
            return False
        limit = 2.0 * float(np.median(than))
        loss = np.minimum(errors, limit) - np.minimum(than, limit)
        chance = float(np.std(loss)) / errors.size**0.5
        return bool(np.mean(loss) > self.settings.standard_errors * chance)


def _pushed(momentum: Momentum, point: Array, last: Array, low_rank: Array) -> tuple[Momentum, Array]:
    """The next momentum, and the point low_rank + factor·(low_rank − last) from which the next step begins.

    ``last`` is the L before, and the step from ``point`` led to ``low_rank``. Where that step went against the
    momentum, the momentum starts from 0 again.
    """
    if float(np.sum((low_rank - point) * (low_rank - last))) < 0.0:
        momentum = Momentum()
    momentum = momentum.next()
    return momentum, low_rank + min(momentum.factor, 0.9) * (low_rank - last)
