"""Which weights for measurements: the paper's rule, the noise in b, or a bound on the misfit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rankwolf.data.measurements import Measurements
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.oracles import nuclear
from rankwolf.problem import Penalized
from rankwolf.result import Decomposition
from rankwolf.weights.noise import LIMIT_IN_SIGMAS
from rankwolf.weights.paper import paper_weights

# σ is at least this share of the root mean square of b: without noise the weights would be zero, and define no problem.
LEAST_NOISE_SHARE = 1e-3
# σ has settled when a round lowers it by less than this share; the misfit is met when it is within this share of ε.
SETTLED, MET = 0.03, 0.01
MOST_ROUNDS = 20
# λ_S is proportional to ρ above this ρ, and constant below it.
FEW = 0.4

Solve = Callable[[Penalized, Decomposition | None], Decomposition]


def default_weights(data: Measurements, delta: float) -> tuple[float, float]:
    """λ_L = δρ‖A‖‖b‖ and λ_S = δ·max(ρ, 0.4)·‖A‖‖b‖/√max(m, n), with ρ = p/(mn).

    λ_L is the paper's. The paper's λ_S, which has √ρ in the place of max(ρ, 0.4), fails where p is a third to a half of
    mn. So from ρ = 0.4 on λ_L/λ_S = √max(m, n), the ratio of the theory for random subspaces (Wright, Ganesh, Min, Ma,
    2013). With far fewer measurements that ratio would put aliasing into S: below ρ = 0.4, λ_S stays as it is there.

    The gradient A*r scales with ‖A‖·‖b‖, and so do the weights that bound it. Multiplying A and b by c multiplies the
    whole objective by c², and leaves the solution as it is.
    """
    lambda_L = data.norm * paper_weights(data, delta)[0]
    fraction = data.observed_fraction
    return lambda_L, lambda_L * max(fraction, FEW) / fraction / max(data.shape) ** 0.5


def series_weights(data: Measurements, delta: float, rng: np.random.Generator) -> tuple[float, float]:
    """λ_L = δ·max(ρ, κ)·‖A‖‖b‖ and λ_S = λ_L/√max(m, n), κ = ‖A*b‖₂²/(‖A‖‖b‖)², for a run that ends with the path.

    κ is the share of the leading direction that A*A gives back: ρ·σ₁²/‖M‖² where the measurements are spread evenly,
    and nearly 1 for images whose lowest frequencies are all measured. For such images λ_L with the paper's ρ would be
    far below the aliasing. Cost: one product with A*.
    """
    scale = data.norm * (data.summary.norm or 1.0)
    leading = _largest_singular_value(data.adjoint(data.b), rng)
    lambda_L = delta * max(data.observed_fraction, (leading / scale) ** 2) * scale
    return lambda_L, lambda_L / max(data.shape) ** 0.5


def weights_for_noise(data: Measurements, sigma: float, rng: np.random.Generator) -> tuple[float, float]:
    """λ_L = ‖A*e‖₂ and λ_S = twice the root mean square of A*e, for a random e with standard deviation σ.

    Noise of that size then stays out of L, and nineteen in twenty of its entries out of S. Cost: one product with A*.
    """
    noise = np.asarray(rng.standard_normal(data.b.shape))
    if np.iscomplexobj(data.b):
        noise = (noise + 1j * rng.standard_normal(data.b.shape)) * 0.5**0.5
    image = data.adjoint((sigma * noise).astype(data.b.dtype))
    spread = float(np.linalg.norm(image)) / image.size**0.5
    return _largest_singular_value(image, rng), LIMIT_IN_SIGMAS * spread


def _largest_singular_value(image: Array, rng: np.random.Generator) -> float:
    """‖image‖₂, for the image A*y of a vector of measurements; σ₁² is accurate to about a per cent."""
    short = image if image.shape[0] <= image.shape[1] else image.T
    start = rng.standard_normal((short.shape[0], min(4, *short.shape)))
    return nuclear.leading_pair(lambda block: short @ (short.conj().T @ block), start, 1e-2, 30, rng).value


def weights_by_descent(
    data: Measurements, solve: Solve, rng: np.random.Generator
) -> tuple[tuple[float, float], float]:
    """((λ_L, λ_S), σ), from the noise in the data: ``delta="auto"``.

    Begin with a σ that is too large, the root mean square of b. Solve with the weights that belong to σ, and take the
    root mean square of b − A[L + S] as the next σ, until it hardly falls. Shrinkage leaves some of L and S in the
    residual, so σ tends to be too large, not too small. Cost: a few short runs of ``solve``, which is given the last
    solution each time.
    """
    size = data.b.size**0.5
    sigma = float(np.linalg.norm(data.b)) / size
    least = LEAST_NOISE_SHARE * sigma
    fit: Decomposition | None = None
    unit = weights_for_noise(data, 1.0, rng)
    for _ in range(MOST_ROUNDS):
        if sigma <= least:
            break
        fit = solve(Penalized(sigma * unit[0], sigma * unit[1]), fit)
        found = max(misfit(data, fit) / size, least)
        before, sigma = sigma, min(found, sigma)
        if sigma > (1.0 - SETTLED) * before:
            break
    return (sigma * unit[0], sigma * unit[1]), sigma


def weights_for_misfit(
    data: Measurements, epsilon: float, weights: tuple[float, float], solve: Solve
) -> tuple[float, float]:
    """c·(λ_L, λ_S), with the c at whose optimum ‖b − A[L + S]‖ = ε, to 1 %; ``weights`` are (λ_L, λ_S).

    That optimum solves min λ_L‖L‖_* + λ_S‖S‖₁ subject to ‖b − A[L + S]‖ ≤ ε. The misfit grows with c, so c is found by
    the secant method on the logarithms of both, from c = 1. Cost: at most 20 short runs of ``solve``, which is given
    the last solution each time.
    """
    factor, known = 1.0, list[tuple[float, float]]()
    fit: Decomposition | None = None
    for _ in range(MOST_ROUNDS):
        fit = solve(Penalized(factor * weights[0], factor * weights[1]), fit)
        reached = max(misfit(data, fit), 1e-300)
        if abs(reached - epsilon) <= MET * epsilon:
            break
        known.append((float(np.log(factor)), float(np.log(reached / epsilon))))
        factor = float(np.exp(_secant(known)))
    return factor * weights[0], factor * weights[1]


def _secant(known: list[tuple[float, float]]) -> float:
    """The x at which the line through the last two points (x, y) is 0; with one point, the line of slope 1 through it.

    The slope is kept between 0.2 and 2, and a step is at most 2.5 long.
    """
    (x, y), slope = known[-1], 1.0
    if len(known) > 1 and known[-2][0] != x:
        slope = float(np.clip((y - known[-2][1]) / (x - known[-2][0]), 0.2, 2.0))
    return x - float(np.clip(y / slope, -2.5, 2.5))


def misfit(data: Measurements, fit: Decomposition) -> float:
    """‖b − A[L + S]‖. Cost: one product with A."""
    low_rank: LowRank = fit.low_rank
    total = np.asarray(low_rank)
    total += np.asarray(fit.sparse)
    return float(np.linalg.norm(data.b - data.apply(total)))
