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

# The noise of b below this share of its root mean square is taken as that share: weights of zero define no problem.
LEAST_NOISE = 1e-3
# σ has settled when a round lowers it by less than this share; the misfit is met when it is within this share of ε.
SETTLED, MET = 0.03, 0.01
MOST_ROUNDS = 20
# ρ below which λ_S falls no further.
FEW = 0.4

Solve = Callable[[Penalized, Decomposition | None], Decomposition]


def default_weights(data: Measurements, delta: float) -> tuple[float, float]:
    """λ_L = δρ‖A‖‖b‖ and λ_S = δ·max(ρ, 0.4)·‖A‖‖b‖/√max(m, n), with ρ = p/(mn).

    λ_L is the paper's. Its λ_S, with √ρ in the place of max(ρ, 0.4), fails where p is a third to a half of mn;
    λ_L/λ_S = √max(m, n) is the ratio of the theory for random subspaces (Wright, Ganesh, Min, Ma,
    2013). With far fewer measurements that ratio puts aliasing into S, and λ_S stays what it is at ρ = 0.4.

    The gradient A*r scales with ‖A‖·‖b‖, and so do the weights that bound it. The problem for (cA, cb) is therefore
    that for (A, b) with the objective times c², and has the same solution.
    """
    lambda_L = data.norm * paper_weights(data, delta)[0]
    fraction = data.observed_fraction
    return lambda_L, lambda_L * max(fraction, FEW) / fraction / max(data.shape) ** 0.5


def series_weights(data: Measurements, delta: float, rng: np.random.Generator) -> tuple[float, float]:
    """λ_L = δ·max(ρ, κ)·‖A‖‖b‖ and λ_S = λ_L/√max(m, n), κ = ‖A*b‖₂²/(‖A‖‖b‖)², for a run that ends with the path.

    κ is what comes back of the leading direction: ρ·σ₁²/‖M‖² where the measurements are spread evenly, and nearly 1
    for images whose lowest frequencies are all measured. There the paper's ρ takes λ_L far below what aliasing leaves.
    One product with A*.
    """
    scale = data.norm * (data.summary.norm or 1.0)
    leading = _largest_singular_value(data.adjoint(data.b), rng)
    lambda_L = delta * max(data.observed_fraction, (leading / scale) ** 2) * scale
    return lambda_L, lambda_L / max(data.shape) ** 0.5


def weights_for_noise(data: Measurements, sigma: float, rng: np.random.Generator) -> tuple[float, float]:
    """λ_L = ‖A*e‖₂ and λ_S = twice the root mean square of A*e, for a random e with standard deviation σ.

    Noise of that size then stays out of L, and nineteen in twenty of its entries out of S. One product with A*.
    """
    noise = np.asarray(rng.standard_normal(data.b.shape))
    if np.iscomplexobj(data.b):
        noise = (noise + 1j * rng.standard_normal(data.b.shape)) * 0.5**0.5
    image = data.adjoint((sigma * noise).astype(data.b.dtype))
    spread = float(np.linalg.norm(image)) / image.size**0.5
    return _largest_singular_value(image, rng), LIMIT_IN_SIGMAS * spread


def _largest_singular_value(image: Array, rng: np.random.Generator) -> float:
    """‖A*y‖₂, to a per cent."""
    short = image if image.shape[0] <= image.shape[1] else image.T
    start = rng.standard_normal((short.shape[0], min(4, *short.shape)))
    return nuclear.leading_pair(lambda block: short @ (short.conj().T @ block), start, 1e-2, 30, rng).value


def weights_by_descent(
    data: Measurements, solve: Solve, rng: np.random.Generator
) -> tuple[tuple[float, float], float]:
    """Weights from the noise that the data has, and σ: ``delta="auto"``.

    From a σ that is too large: solve with the weights that belong to it, take the root mean square of b − A[L + S] as
    the next, until it stays. Shrinkage leaves some of L and S in the residual, so σ tends to be too large, not too
    small. Cost: a few short runs, each from the end of the last.
    """
    size = data.b.size**0.5
    sigma = float(np.linalg.norm(data.b)) / size
    least = LEAST_NOISE * sigma
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
    """A multiple of ``weights`` at whose optimum ‖b − A[L + S]‖ = ε, to 1 %: the problem with that bound on the misfit.

    min λ_L‖L‖_* + λ_S‖S‖₁ subject to ‖b − A[L + S]‖ ≤ ε has the solution of the penalised problem with c·(λ_L, λ_S) for
    one c, and the misfit grows with c. From above, by the secant of the logarithms, each run from the end of the last.
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
    """Where the line through the last two points is 0; from a single point, where a line of slope 1 is."""
    (x, y), slope = known[-1], 1.0
    if len(known) > 1 and known[-2][0] != x:
        slope = float(np.clip((y - known[-2][1]) / (x - known[-2][0]), 0.2, 2.0))
    return x - float(np.clip(y / slope, -2.5, 2.5))


def misfit(data: Measurements, fit: Decomposition) -> float:
    """‖b − A[L + S]‖. One product with A."""
    low_rank: LowRank = fit.low_rank
    total = np.asarray(low_rank)
    total += np.asarray(fit.sparse)
    return float(np.linalg.norm(data.b - data.apply(total)))
