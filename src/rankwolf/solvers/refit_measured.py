"""L and S without shrinkage from measurements: least squares at the rank and the support that were found.

min ‖b − A[L + S]‖² over L = U·W and S on its support, by conjugate gradients from the fit, with U fixed; then over
L = Z·V^H with V fixed; and so on, until a round hardly lowers the misfit. Where the unknowns are fewer than the
measurements, the result is about the least-squares fit for known rank and support. Where they are not, least squares
has many solutions, and conjugate gradients go to the one nearest to the given fit.

The problem is not convex: there is no certificate, and the answer rests on the convex fit that it starts from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwolf.data.measurements import Measurements
from rankwolf.ground.arrays import Array, inner, to_numpy
from rankwolf.ground.low_rank import LowRank


@dataclass(frozen=True)
class MeasuredRefitSettings:
    """When a refit from measurements ends. A round fits the right factor with S, then the left factor with S."""

    most_rounds: int = 10
    steps: int = 15
    """The most steps of conjugate gradients for one factor; each is one product with A and one with A*."""
    accurate: float = 1e-3
    """The steps for one factor end when the gradient has fallen to this share of its first length."""
    settled: float = 0.01
    """The refit ends when a round lowers ‖b − A[L + S]‖ by less than this share."""
    exact: float = 1e-12
    """It also ends when ‖b − A[L + S]‖ is at most this share of ‖b‖: data without noise."""


DEFAULT = MeasuredRefitSettings()


@dataclass(frozen=True)
class RefittedMeasured:
    """The pair, ‖b − A[L + S]‖², and the σ of a measurement's noise, None unless unknowns are fewer than equations."""

    low_rank: LowRank
    sparse: Array
    misfit_squared: float
    sigma: float | None
    rounds: int


def refit_measured(
    data: Measurements,
    low_rank: LowRank,
    sparse: Array,
    noise: float | None = None,
    settings: MeasuredRefitSettings = DEFAULT,
) -> RefittedMeasured:
    """Fit the pair again without shrinkage. Where it could match b exactly, it ends at ‖b − A[L + S]‖ = ``noise``·√p.

    p is the number of measurements. Cost: about 30 to 100 products with A and A*; memory for five matrices.
    """
    low_rank = LowRank(to_numpy(low_rank.u), to_numpy(low_rank.s), to_numpy(low_rank.vt))
    sparse = to_numpy(sparse)
    support, sparse = sparse != 0, sparse.astype(data.dtype)
    unknowns, equations = _counts(data, low_rank, sparse)
    noise = 0.0 if noise is None or unknowns < equations else noise
    with data.one_blas_thread():
        residual = data.b - data.apply(np.asarray(low_rank) + sparse)
        enough = max(noise**2 * data.b.size, (settings.exact * data.summary.norm) ** 2)
        misfit, rounds = inner(residual, residual), 0
        while misfit > enough and rounds < settings.most_rounds:
            rounds, before = rounds + 1, misfit
            for free in ("right", "left"):
                problem = _LeastSquares(data, low_rank, sparse, support, residual, free)
                problem.solve(enough, settings)
                low_rank, sparse, residual = problem.low_rank, problem.sparse, problem.residual
            misfit = inner(residual, residual)
            if misfit > (1.0 - settings.settled) ** 2 * before:
                break
    sigma = None
    if unknowns < equations:
        sigma = (misfit / data.b.size * equations / (equations - unknowns)) ** 0.5
    return RefittedMeasured(low_rank, sparse, misfit, sigma, rounds)


def freedom(data: Measurements, low_rank: LowRank, sparse: Array) -> float:
    """The unknowns of a refit, as a share of the equations."""
    unknowns, equations = _counts(data, low_rank, to_numpy(sparse))
    return unknowns / equations


def _counts(data: Measurements, low_rank: LowRank, sparse: Array) -> tuple[int, int]:
    """Unknowns and equations. A complex measurement of real matrices is two equations."""
    rank, (m, n) = low_rank.rank, data.shape
    unknowns = rank * (m + n - rank) + int(np.count_nonzero(sparse))
    return unknowns, data.size * (2 if data.real and data.complex_b else 1)


class _LeastSquares:
    """min ‖b − A[L + S]‖² over one factor of L, ``free``, and S on its support, by conjugate gradients."""

    def __init__(
        self, data: Measurements, low_rank: LowRank, sparse: Array, support: Array, residual: Array, free: str
    ) -> None:
        self.data, self.sparse, self.support, self.residual = data, sparse, support, residual
        self.right_is_free = free == "right"
        values = low_rank.s.astype(low_rank.u.dtype)
        self.left = low_rank.u if self.right_is_free else low_rank.u * values
        self.right = values[:, None] * low_rank.vt if self.right_is_free else low_rank.vt

    def solve(self, enough: float, settings: MeasuredRefitSettings) -> None:
        """Step until the gradient is small, or ‖residual‖² ≤ ``enough``. One product with A and one with A* a step."""
        step = gradient = self._gradient()
        length = first = sum(inner(part, part) for part in gradient)
        for _ in range(settings.steps):
            if length <= settings.accurate**2 * first or inner(self.residual, self.residual) <= enough:
                break
            factor, entries = step
            change = self.left @ factor if self.right_is_free else factor @ self.right
            image = self.data.apply(change + entries)
            size = inner(image, image)
            if size == 0.0:
                break
            alpha = length / size
            if self.right_is_free:
                self.right = self.right + alpha * factor
            else:
                self.left = self.left + alpha * factor
            self.sparse = self.sparse + alpha * entries
            self.residual = self.residual - alpha * image
            gradient = self._gradient()
            following = sum(inner(part, part) for part in gradient)
            beta, length = following / length, following
            step = (gradient[0] + beta * factor, gradient[1] + beta * entries)

    def _gradient(self) -> tuple[Array, Array]:
        """Minus the gradient, in the free factor and in S."""
        image = self.data.adjoint(self.residual)
        factor = self.left.conj().T @ image if self.right_is_free else image @ self.right.conj().T
        return factor, np.where(self.support, image, image.dtype.type(0))

    @property
    def low_rank(self) -> LowRank:
        """left·right, as a singular value decomposition."""
        return LowRank.from_factors(self.left, self.right.T)
