"""Which λ? The weights from the data's own noise.

With M = L + S + E, E of standard deviation σ, the weights have to be just large enough to keep E and S out of L.
λ_S = 2σ calls an entry an outlier where it is off by more than two standard deviations. Noise and outliers then enter
the optimality conditions as G = clip(E + S, ±λ_S), a matrix of independent entries; singular directions as long as
‖G‖₂ are noise, and λ_L is set to it. Its norm follows from how its variances are spread over rows and columns
(:mod:`rankwolf.variances`): tables have columns that are noisier than others, the more so when they have been scaled.
For a stream, of which only σ and the share s of outliers are kept, they are taken as equal, (1 − s)·σ_c² + s·λ_S² with
σ_c² the variance of a clipped Gaussian.

All that the data has to tell is σ and the variances. They are found on a random submatrix, going down from values that
are too large: fit L with the weights that belong to the present ones, take those of the residual as the next. Where the
residual is noise alone, they stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.special

from rankwolf.oracles import nuclear
from rankwolf.problem import paper_weights
from rankwolf.sources import Array, Source, SparseObserved, Sums, Task
from rankwolf.variances import Variances

# The submatrix on which σ is found: large enough for some tens of directions, small enough for a second.
SAMPLE_SIDE = 400
# λ_S/σ. Larger values let outliers pull at L, smaller ones call more of the noise an outlier.
LIMIT_IN_SIGMAS = 2.0
# Noise below this fraction of the data's own spread is taken as that fraction: weights of zero define no problem.
LEAST_NOISE = 1e-3
# Past these the submatrix is not low-rank plus sparse, and what is left over is no noise: the descent ends before.
MOST_RANK, MOST_OUTLIERS = 0.3, 0.3
# Of a sparse matrix, the fullest submatrix must hold this share of its entries.
LEAST_SHARE = 0.1
# The paper's choice for video; used where half of the entries are zero or fitted exactly: no noise to measure.
PAPER_DELTA = 1e-3
MEDIAN_OF_NORMAL = 0.6744897501960817  # of |x|, x standard normal


@dataclass(frozen=True)
class Noise:
    """σ and the share of outliers among the observed entries.

    Of a submatrix also the rank that its L had, and the variances of an observed entry of clip(E + S, ±2σ).
    """

    sigma: float
    outlier_share: float
    rank: int = 0
    variances: Variances | None = None


def noise_weights(source: Source, rng: np.random.Generator) -> tuple[float, float]:
    """(λ_L, λ_S) for ``delta="auto"``. One pass over the data, and work on a submatrix of at most 400 × 400."""
    noise = estimate_noise(source, rng)
    if noise.sigma == 0.0:
        return paper_weights(source, PAPER_DELTA)
    return weights_for_noise(noise, source.shape, source.observed_fraction)


def weights_for_noise(
    noise: Noise, shape: tuple[float, float], observed_fraction: float
) -> tuple[float, float]:
    """λ_S = 2σ, and λ_L = the spectral norm of the clipped noise and outliers.

    >>> lambda_L, lambda_S = weights_for_noise(Noise(1.0, 0.05), (400, 100), 1.0)
    >>> round(lambda_L, 1), lambda_S
    (31.1, 2.0)
    """
    lambda_S = LIMIT_IN_SIGMAS * noise.sigma
    if noise.variances is None:
        share = min(noise.outlier_share, 0.5)
        variance = (1.0 - share) * noise.sigma**2 * clipped_variance(LIMIT_IN_SIGMAS) + share * lambda_S**2
        norm = variance**0.5 * (shape[0] ** 0.5 + shape[1] ** 0.5)
    else:
        norm = noise.variances.spectral_norm(shape)
    return float(observed_fraction**0.5 * norm), float(lambda_S)


def clipped_variance(limit: float) -> float:
    """The variance of clip(x, ±limit) for a standard normal x."""
    inside = float(scipy.special.erf(limit / 2.0**0.5))
    density = float(np.exp(-0.5 * limit**2) / (2.0 * np.pi) ** 0.5)
    return inside - 2.0 * limit * density + limit**2 * (1.0 - inside)


def estimate_noise(source: Source, rng: np.random.Generator) -> Noise:
    """σ and the outliers' share, from a random submatrix."""
    return noise_of_array(sample(source, rng))


def noise_of_array(data: Array) -> Noise:
    """The same from a small array, NaN where nothing was observed. Rows and columns without an entry say nothing."""
    seen = ~np.isnan(data)
    rows, columns = np.any(seen, axis=1), np.any(seen, axis=0)
    noise = _come_down(data[np.ix_(rows, columns)])
    if noise.variances is None:
        return noise
    return replace(noise, variances=noise.variances.among(rows, columns))


def _come_down(data: Array) -> Noise:
    """From a σ that is too large to one that stays.

    Each round fits L by accelerated proximal steps L ← D_λL[L + G], G = clip(P_Ω(M − L), ±λ_S), from the L before it;
    the noise is measured on the residual of L with its singular values not shrunk, and corrected for the directions
    that were fitted.
    """
    seen = ~np.isnan(data)
    fraction, start = float(np.mean(seen)) if seen.size else 0.0, _spread(np.abs(data[seen]))
    noise = Noise(start, 0.0)
    low_rank, least = np.zeros_like(data), LEAST_NOISE * start
    for _ in range(60):
        if start == 0.0:
            break
        weights = weights_for_noise(noise, data.shape, fraction)
        low_rank, plain, rank = _fit(data, seen, low_rank, *weights)
        if rank > max(1.0, MOST_RANK * min(data.shape)):
            break
        freedom = rank * (data.shape[0] + data.shape[1] - rank) / np.count_nonzero(seen)
        found = noise_of_residual(data - plain, freedom, least)
        if found.outlier_share > MOST_OUTLIERS:
            break
        before, noise = noise.sigma, replace(found, rank=rank)
        if noise.sigma > 0.98 * before:
            break
    return noise


def _fit(
    data: Array, seen: Array, start: Array, lambda_L: float, lambda_S: float, steps: int = 60
) -> tuple[Array, Array, int]:
    """L, L with its singular values not shrunk, and its rank."""
    low_rank = point = start
    t = 1.0
    for _ in range(steps):
        clipped = np.where(seen, np.clip(data - point, -lambda_S, lambda_S), 0.0)
        shrunk, rank = nuclear.singular_value_threshold(point + clipped, lambda_L)
        last, low_rank = low_rank, np.asarray(shrunk)
        change = float(np.linalg.norm(low_rank - point))
        if float(np.sum((point - low_rank) * (low_rank - last))) > 0.0:  # the momentum points uphill
            t = 1.0
        t, momentum = (1.0 + (1.0 + 4.0 * t * t) ** 0.5) / 2.0, t - 1.0
        point = low_rank + (momentum / t) * (low_rank - last)
        if change <= 1e-3 * float(np.linalg.norm(low_rank)):
            break
    plain = (shrunk.u * (shrunk.s + lambda_L)) @ shrunk.vt
    return low_rank, plain, rank


def noise_of_residual(residual: Array, freedom: float, least: float = 0.0) -> Noise:
    """What :func:`measure` finds, and the variances; NaN where nothing was observed."""
    seen = ~np.isnan(residual)
    noise = measure(residual[seen], freedom, least)
    if noise.sigma == 0.0:
        return noise
    limit = LIMIT_IN_SIGMAS * noise.sigma
    clipped = np.clip(np.where(seen, residual, 0.0) / _left_over(freedom), -limit, limit)
    return replace(noise, variances=Variances.of(clipped / np.mean(seen) ** 0.5, least**2))


def measure(residual: Array, freedom: float = 0.0, least: float = 0.0) -> Noise:
    """σ from the median of |D|, the median being taken of what is not beyond 3σ, and the share of what is.

    ``freedom`` is the share of the entries that the fit could have matched whatever they were; σ is at least ``least``.
    """
    magnitudes = np.sort(np.abs(residual))
    if magnitudes.size == 0:
        return Noise(0.0, 0.0)
    sigma, share = max(_spread(magnitudes), least), 0.0
    for _ in range(10):
        if sigma == 0.0:
            break
        beyond = magnitudes.size - int(np.searchsorted(magnitudes, 3.0 * sigma))
        share = max(beyond / magnitudes.size - 0.0027, 0.0)
        sigma = max(_spread(magnitudes[: max(1, round((1.0 - share) * magnitudes.size))]), least)
    return Noise(float(sigma / _left_over(freedom)), share)


def _left_over(freedom: float) -> float:
    """By how much noise shrinks in the residual of a fit."""
    return float(max(1.0 - freedom, 0.25) ** 0.5)


def _spread(magnitudes: Array) -> float:
    return float(np.median(magnitudes)) / MEDIAN_OF_NORMAL


@dataclass
class Rows(Sums):
    """Sampled rows, in their order."""

    parts: list[Array] = field(default_factory=list)


class SampleRows(Task[Rows]):
    """Some columns of some rows. Rows: a mark, not zero on the rows that are wanted."""

    writes_rows = False

    def __init__(self, columns: Array) -> None:
        self.columns = columns

    def start(self) -> Rows:
        """Nothing yet."""
        return Rows()

    def visit(self, sums: Rows, tile: Array, *rows: Array) -> None:
        """Copy what is wanted."""
        wanted = np.flatnonzero(rows[0][:, 0])
        if wanted.size:
            sums.parts.append(tile[np.ix_(wanted, self.columns)].astype(np.float64))


def sample(source: Source, rng: np.random.Generator) -> Array:
    """A submatrix of random rows and columns, in float64, with NaN where nothing was observed. One pass.

    Of a sparse matrix, the rows and columns with the most entries.
    """
    if isinstance(source, SparseObserved):
        dense = source.densest(SAMPLE_SIDE).astype(np.float64)
        share = float(np.mean(~np.isnan(dense)))
        if share < LEAST_SHARE:
            raise ValueError(
                "The 'delta' parameter must be a number for this matrix: even its fullest rows and columns hold "
                f"{share:.1%} of their entries, too few to measure the noise. Give delta or lambdas."
            )
        return dense
    m, n = source.shape
    columns = np.sort(rng.choice(n, min(n, SAMPLE_SIDE), replace=False))
    marks = np.zeros((m, 1), bool)
    marks[rng.choice(m, min(m, SAMPLE_SIDE), replace=False)] = True
    return np.vstack(source.run(SampleRows(columns), marks).parts)
