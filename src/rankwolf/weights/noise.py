"""The weights that belong to a noise level, how that level is read from a residual, and what an outlier is.

Let M = L + S + E, E noise of standard deviation σ. The weights should be just large enough to keep E and S out of L:

- λ_S = 2σ. An entry that is further than 2σ from L then pulls at L no more than one that is 2σ away.
- λ_L = ‖G‖₂ with G = clip(E + S, ±λ_S), which is how noise and outliers enter the optimality conditions. A direction
  with a smaller singular value may be noise. The norm depends on how the variances of G differ between rows and columns
  (:mod:`rankwolf.weights.edge`); in tables they do, the more so once columns were scaled.

λ_S alone does not decide what an outlier is: one in twenty entries of pure noise is further than 2σ from L, and so in
S. An entry is *called* an outlier where it is further than ``OUTLIER_IN_SIGMAS``·σ from L.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.special

from rankwolf.ground.arrays import Array
from rankwolf.ground.normal import MEDIAN_OF_NORMAL
from rankwolf.weights.edge import Variances, fluctuation

Quantile = Callable[[float], float]
Share = Callable[[float], float]

# λ_S/σ. Larger values let outliers pull at L, smaller ones call more of the noise an outlier.
LIMIT_IN_SIGMAS = 2.0
# |M − L|/σ from which an entry is called an outlier: one in a thousand entries of Gaussian noise is beyond it.
OUTLIER_IN_SIGMAS = 3.2905
# While σ is measured, entries beyond 3σ are taken for outliers; a share of 0.0027 of Gaussian noise is beyond, too.
TRIM_IN_SIGMAS, TRIMMED = 3.0, 0.0027
# With missing entries: the largest share of the residual that is attributed to shrinkage (weights_for_noise).
MOST_LOSS = 0.5
# The largest share of outliers, among the entries that a fit does not match exactly.
MOST_OUTLIERS = 0.35
# The largest leverage of a column: above it, residuals are too small to say anything about σ.
MOST_LEVERAGE = 0.98
# With more columns than this, as many quantiles of their leverages are used instead.
MOST_LEVERAGES = 200
# The largest share of entries that a fit is taken to match exactly: of more, too little would be left to measure σ.
MOST_FREEDOM = 0.75


@dataclass(frozen=True)
class Noise:
    """σ and the share of outliers among the observed entries.

    ``rank`` is the rank of the L whose residual was measured, ``observed`` the share of entries that were observed in
    rows and columns that have any. ``variances`` are those of the observed entries of clip(E + S, ±2σ), by rows and
    columns; None: the same everywhere.
    """

    sigma: float
    outlier_share: float
    rank: int = 0
    observed: float = 1.0
    variances: Variances | None = None


def weights_for_noise(
    noise: Noise, shape: tuple[float, float], observed_fraction: float
) -> tuple[float, float]:
    """(λ_L, λ_S): λ_S = 2σ, and λ_L is the spectral norm of clipped noise and outliers on the observed entries.

    Where a share 1 − ρ of the entries is missing at random, shrinkage makes each of the r singular values of the fit
    too small by λ_L/ρ. On the observed entries that loss looks like more noise, of variance r·(λ_L/ρ)²/(mn), which λ_L
    has to keep out of L as well.

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


def noise_of_residual(
    residual: Array, freedom: float, least: float = 0.0, leverages: Array | None = None
) -> Noise:
    """σ, the share of outliers and the variances by rows and columns of a residual matrix; NaN: not observed."""
    seen = ~np.isnan(residual)
    noise = measure(residual[seen], freedom, least, leverages)
    if noise.sigma == 0.0:
        return noise
    share_left = _left_over(freedom)
    limit = LIMIT_IN_SIGMAS * noise.sigma * share_left
    clipped = np.clip(np.where(seen, residual, 0.0), -limit, limit) / share_left
    share = float(np.mean(seen))
    return replace(noise, observed=share, variances=Variances.of(clipped / share**0.5, least**2))


def measure(
    residual: Array, freedom: float = 0.0, least: float = 0.0, leverages: Array | None = None
) -> Noise:
    """σ and the share of outliers of a residual D = M − L, by :func:`sigma_and_share`. Cost: |D| is sorted."""
    magnitudes = np.sort(np.abs(residual))
    size = magnitudes.size
    if size == 0:
        return Noise(0.0, 0.0)
    return sigma_and_share(
        lambda share: float(magnitudes[min(int(share * size), size - 1)]),
        lambda value: 1.0 - int(np.searchsorted(magnitudes, value)) / size,
        freedom,
        least,
        leverages,
    )


def sigma_and_share(
    quantile: Quantile,
    beyond: Share,
    freedom: float,
    least: float = 0.0,
    leverages: Array | None = None,
) -> Noise:
    """σ and the share of outliers, from the distribution of |D|, D the residual of a fit.

    ``quantile(p)`` is the magnitude below which a share p of the entries lies, ``beyond(x)`` the share above x.
    ``freedom`` is f, the free parameters of the fit over the number of entries (:func:`freedom_of`). σ is at least
    ``least``. ``leverages`` h, of mean f (:func:`leverages_of`): the residuals of column j have the variance
    (1 − h_j)σ². Without them each has (1 − f)σ².

    σ is read from one quantile of |D|, the median of what is left when two groups are taken off:

    - *The smallest share f.* A fit with so many parameters can match a share f of the entries exactly, whatever they
      are, and a robust fit tends to. The plain median would be too small, and 0 from f = ½ on.
    - *The outliers*, beyond 3σ. Their share and σ depend on each other and are found in turns.

    At most 35 % of the entries that are not matched are called outliers, and σ is made large enough for that.
    Otherwise, in a table half of whose columns are nearly constant, σ would be the noise of that half, and all of the
    other half would be outliers.
    """
    freedom = min(freedom, MOST_FREEDOM)
    deviations = np.sqrt(1.0 - (np.array([freedom]) if leverages is None else leverages))
    typical = _left_over(freedom)
    most = MOST_OUTLIERS * (1.0 - freedom)
    least = max(least, quantile(1.0 - most) / (TRIM_IN_SIGMAS * typical))
    sigma, share = -1.0, 0.0
    for _ in range(20):
        level = 0.5 * (1.0 + freedom - share)
        last, sigma = sigma, max(quantile(level) / _quantile_of(deviations, level / (1.0 - share)), least)
        if sigma in (0.0, last):
            break
        share = min(max(beyond(TRIM_IN_SIGMAS * typical * sigma) - TRIMMED, 0.0), most)
    return Noise(sigma, share)


def _quantile_of(deviations: Array, level: float) -> float:
    """The quantile ``level`` of |x| for an equal mixture of Gaussians x with these standard ``deviations``."""
    low, high = (
        float(extreme) * float(scipy.special.ndtri(0.5 + 0.5 * level))
        for extreme in (np.min(deviations), np.max(deviations))
    )
    for _ in range(40 if high > low else 0):
        middle = 0.5 * (low + high)
        if float(np.mean(scipy.special.erf(middle / (2.0**0.5 * deviations)))) < level:
            low = middle
        else:
            high = middle
    return high


def leverages_of(right: Array, freedom: float) -> Array:
    """The leverage h_j of each column (or quantiles of them), for an L with the orthonormal right factor ``right``.

    h_j is proportional to ‖v_j‖², the share of entry j that a least-squares fit of its row matches whatever the entry
    is. Their mean is ``freedom``, or less where a leverage is cut at its maximum.
    """
    squares = np.sum(np.square(right, dtype=np.float64), axis=1)
    mean = max(float(np.mean(squares)), np.finfo(np.float64).tiny)
    if squares.size > MOST_LEVERAGES:
        squares = np.quantile(squares, (np.arange(MOST_LEVERAGES) + 0.5) / MOST_LEVERAGES)
    return np.asarray(np.minimum(freedom * squares / mean, MOST_LEVERAGE))


def spread(entries: Array) -> float:
    """The standard deviation of ``entries`` about 0, robustly: median|x|/0.6745; 0 where there are no entries."""
    return float(np.median(np.abs(entries)) / MEDIAN_OF_NORMAL) if entries.size else 0.0


def freedom_of(rank: int, shape: tuple[int, int], observed: float) -> float:
    """r(m + n − r)/|Ω|, at most ``MOST_FREEDOM``: the share of the entries that an L of rank r can match exactly."""
    return min(rank * (shape[0] + shape[1] - rank) / max(observed, 1.0), MOST_FREEDOM)


def _left_over(freedom: float) -> float:
    """√(1 − f): the standard deviation of a least-squares fit's residual, over that of the noise."""
    return float((1.0 - min(freedom, MOST_FREEDOM)) ** 0.5)
