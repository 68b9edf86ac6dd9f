"""What noise is: its size in a residual, what counts as an outlier beside it, and the weights that belong to it.

With M = L + S + E, E of standard deviation σ, the weights have to be just large enough to keep E and S out of L.
λ_S = 2σ: what is further than 2σ from L pulls at it no more than what is 2σ away. Noise and outliers then enter the
optimality conditions as G = clip(E + S, ±λ_S), a matrix of independent entries; singular directions as long as ‖G‖₂ are
noise, and λ_L is set to it. Its norm follows from how its variances are spread over rows and columns
(:mod:`rankwolf.weights.edge`): tables have columns that are noisier than others, the more so once they are scaled.

λ_S = 2σ is a weight, not a verdict: one in twenty entries of pure noise is beyond it, and so in S. An entry is *called*
an outlier where it is further than ``OUTLIER_IN_SIGMAS``·σ from L.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.special

from rankwolf.ground.arrays import Array
from rankwolf.weights.edge import Variances, fluctuation

Quantile = Callable[[float], float]
Share = Callable[[float], float]

# λ_S/σ. Larger values let outliers pull at L, smaller ones call more of the noise an outlier.
LIMIT_IN_SIGMAS = 2.0
# |M − L|/σ from which an entry is called an outlier: one in a thousand entries of Gaussian noise is beyond it.
OUTLIER_IN_SIGMAS = 3.2905
# While σ is measured, what is beyond so many σ is left out; of a Gaussian this share is.
TRIM_IN_SIGMAS, TRIMMED = 3.0, 0.0027
# Of what is beside L on the observed entries, this share at most is taken for the loss by shrinkage.
MOST_LOSS = 0.5
# Of the entries that a fit has not matched exactly, no larger share is taken for outliers.
MOST_OUTLIERS = 0.35
# A fit may have matched more than this share of the entries whatever they were; σ is then not known any better.
MOST_FREEDOM = 0.75


@dataclass(frozen=True)
class Noise:
    """σ and the share of outliers among the observed entries.

    ``rank`` is that of the L beside which they were measured, ``observed`` the share of the entries that were observed,
    rows and columns without any left out. ``variances`` are those of an observed entry of clip(E + S, ±2σ), by rows and
    columns; without them the noise is taken as even.
    """

    sigma: float
    outlier_share: float
    rank: int = 0
    observed: float = 1.0
    variances: Variances | None = None

    def blended(self, found: Noise, share: float) -> Noise:
        """This noise and that of further rows, which are that ``share`` of all; of the same columns."""
        mine, theirs = self.variances, found.variances
        return Noise(
            ((1.0 - share) * self.sigma**2 + share * found.sigma**2) ** 0.5,
            (1.0 - share) * self.outlier_share + share * found.outlier_share,
            found.rank,
            (1.0 - share) * self.observed + share * found.observed,
            None if mine is None or theirs is None else mine.blended(theirs, share),
        )


def weights_for_noise(
    noise: Noise, shape: tuple[float, float], observed_fraction: float
) -> tuple[float, float]:
    """λ_S = 2σ, and λ_L = the spectral norm of the clipped noise and outliers on the observed entries.

    Where a share 1 − ρ is missing at random, the fit is λ_L/ρ too short in each of its r directions, and the observed
    part of that loss looks like noise of variance r·(λ_L/ρ)²/(mn), beside the true one. λ_L has to keep it out of L as
    well.

    >>> lambda_L, lambda_S = weights_for_noise(Noise(1.0, 0.05), (400, 100), 1.0)
    >>> round(lambda_L, 1), lambda_S
    (31.6, 2.0)
    """
    lambda_S = LIMIT_IN_SIGMAS * noise.sigma
    if noise.variances is None:
        share = min(noise.outlier_share, 0.5)
        variance = (1.0 - share) * noise.sigma**2 * clipped_variance(LIMIT_IN_SIGMAS) + share * lambda_S**2
        norm = variance**0.5 * (shape[0] ** 0.5 + shape[1] ** 0.5) * fluctuation(shape)
    else:
        norm = noise.variances.spectral_norm(shape)
    missing = 1.0 / noise.observed - 1.0
    loss = missing * noise.rank * (shape[0] ** -0.5 + shape[1] ** -0.5) ** 2
    return float(observed_fraction**0.5 * norm / (1.0 - min(loss, MOST_LOSS)) ** 0.5), float(lambda_S)


def clipped_variance(limit: float) -> float:
    """The variance of clip(x, ±limit) for a standard normal x."""
    inside = float(scipy.special.erf(limit / 2.0**0.5))
    density = float(np.exp(-0.5 * limit**2) / (2.0 * np.pi) ** 0.5)
    return inside - 2.0 * limit * density + limit**2 * (1.0 - inside)


def noise_of_residual(residual: Array, freedom: float, least: float = 0.0) -> Noise:
    """What :func:`measure` finds, and the variances by rows and columns; NaN where nothing was observed."""
    seen = ~np.isnan(residual)
    noise = measure(residual[seen], freedom, least)
    if noise.sigma == 0.0:
        return noise
    limit = LIMIT_IN_SIGMAS * noise.sigma
    clipped = np.clip(np.where(seen, residual, 0.0) / _left_over(freedom), -limit, limit)
    share = float(np.mean(seen))
    return replace(noise, observed=share, variances=Variances.of(clipped / share**0.5, least**2))


def measure(residual: Array, freedom: float = 0.0, least: float = 0.0) -> Noise:
    """σ and the share of outliers from a residual D = M − L: :func:`sigma_and_share` of the sorted |D|."""
    magnitudes = np.sort(np.abs(residual))
    size = magnitudes.size
    if size == 0:
        return Noise(0.0, 0.0)
    return sigma_and_share(
        lambda share: float(magnitudes[min(int(share * size), size - 1)]),
        lambda value: 1.0 - int(np.searchsorted(magnitudes, value)) / size,
        freedom,
        least,
    )


def sigma_and_share(quantile: Quantile, beyond: Share, freedom: float, least: float = 0.0) -> Noise:
    """σ from a quantile of |D|, outliers left out, and the share of outliers.

    ``quantile(p)`` is the magnitude below which a share p of the entries lies, ``beyond(x)`` the share above x.

    A fit with a share f of free parameters can match a share f of the entries exactly, whatever they are; a robust fit
    tends to, and least squares spreads the same loss over all entries, which have the variance (1 − f)σ² then. The
    median of all residuals would be too small in the first case, and zero from f = ½ on. So the median is taken of
    those beyond the smallest share f, as is usual for least absolute deviations, and compared with the same quantile
    of Gaussian residuals.

    σ is at least such that a share 0.35 of the entries that were not matched is beyond 3σ. Without that, σ would be
    the noise of the quiet half of a table whose other half has much more (columns that are nearly constant), and all of
    the other half would be outliers.
    """
    freedom = min(freedom, MOST_FREEDOM)
    most = MOST_OUTLIERS * (1.0 - freedom)
    least = max(least * _left_over(freedom), quantile(1.0 - most) / TRIM_IN_SIGMAS)
    sigma, share = -1.0, 0.0
    for _ in range(20):
        level = 0.5 * (1.0 + freedom - share)
        expected = float(scipy.special.ndtri(0.5 + 0.5 * level / (1.0 - share)))
        last, sigma = sigma, max(quantile(level) / expected, least)
        if sigma in (0.0, last):
            break
        share = min(max(beyond(TRIM_IN_SIGMAS * sigma) - TRIMMED, 0.0), most)
    return Noise(sigma / _left_over(freedom), share)


def spread(entries: Array) -> float:
    """σ of entries around 0, from the median of their magnitudes; 0 of none."""
    return float(np.median(np.abs(entries)) / scipy.special.ndtri(0.75)) if entries.size else 0.0


def freedom_of(rank: int, shape: tuple[int, int], observed: float) -> float:
    """r(m + n − r)/|Ω|: the share of the observed entries that an L of this rank matches whatever they are."""
    return min(rank * (shape[0] + shape[1] - rank) / max(observed, 1.0), MOST_FREEDOM)


def _left_over(freedom: float) -> float:
    """By how much noise shrinks in the residual of a fit."""
    return float((1.0 - min(freedom, MOST_FREEDOM)) ** 0.5)
