"""The paper's algorithms once more, dense and slow, from the paper's own lines and nothing of the package.

Every function takes M, a boolean array of the observed entries and the two parameters, and yields iterates. The tests
compare the solvers with these line by line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.optimize


@dataclass(frozen=True)
class Iterate:
    """(L, S, t_L, t_S), and for FW-T what line 5 left: the half step, and (α, β)."""

    L: np.ndarray
    S: np.ndarray
    t_L: float = 0.0
    t_S: float = 0.0
    half: Iterate | None = None
    steps: tuple[float, float] = (np.nan, np.nan)
    surrogate_gap: float = np.nan


def misfit(M: np.ndarray, seen: np.ndarray, L: np.ndarray, S: np.ndarray) -> float:
    """l(L, S) = ½‖P_Ω(L + S − M)‖²."""
    return 0.5 * float(np.sum((L + S - M)[seen] ** 2))


def objective(
    M: np.ndarray, seen: np.ndarray, L: np.ndarray, S: np.ndarray, lambdas: tuple[float, float]
) -> float:
    """f(L, S), with the true norms."""
    return misfit(M, seen, L, S) + lambdas[0] * nuclear_norm(L) + lambdas[1] * float(np.abs(S).sum())


def epigraph_objective(M: np.ndarray, seen: np.ndarray, x: Iterate, lambdas: tuple[float, float]) -> float:
    """g(L, S, t_L, t_S)."""
    return misfit(M, seen, x.L, x.S) + lambdas[0] * x.t_L + lambdas[1] * x.t_S


def nuclear_norm(L: np.ndarray) -> float:
    return float(np.linalg.svd(L, compute_uv=False).sum())


def soft(x: np.ndarray, weight: float) -> np.ndarray:
    return np.sign(x) * np.maximum(np.abs(x) - weight, 0.0)


def shrink_singular_values(x: np.ndarray, weight: float) -> np.ndarray:
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    return (u * soft(s, weight)) @ vt


def project_l1(x: np.ndarray, radius: float) -> np.ndarray:
    """By bisection on the threshold: slow, and hard to get wrong."""
    if np.abs(x).sum() <= radius:
        return x.copy()
    low, high = 0.0, float(np.abs(x).max())
    for _ in range(70):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.abs(soft(x, middle)).sum() > radius else (low, middle)
    return soft(x, high)


def gradient(M: np.ndarray, seen: np.ndarray, L: np.ndarray, S: np.ndarray) -> np.ndarray:
    return np.where(seen, L + S - np.where(seen, M, 0.0), 0.0)


def nuclear_vertex(R: np.ndarray) -> np.ndarray:
    """D_L: line 3 of Algorithms 3 to 6."""
    u, _, vt = np.linalg.svd(R, full_matrices=False)
    return -np.outer(u[:, 0], vt[0])


def l1_vertex(R: np.ndarray) -> np.ndarray:
    """D_S: line 4 of Algorithms 3 to 6."""
    i, j = np.unravel_index(np.argmax(np.abs(R)), R.shape)
    D = np.zeros_like(R)
    D[i, j] = -np.sign(R[i, j])
    return D


def algorithm_3(
    M: np.ndarray, seen: np.ndarray, tau_L: float, tau_S: float, *, project: bool = False
) -> Iterator[Iterate]:
    """Frank-Wolfe for radii; with ``project`` Algorithm 4, FW-P. Yields x¹, x², … with d of the iterate before."""
    L, S, k = np.zeros(M.shape), np.zeros(M.shape), 0
    while True:
        R = gradient(M, seen, L, S)
        V_L, V_S = tau_L * nuclear_vertex(R), tau_S * l1_vertex(R)
        gap = float(np.sum((L - V_L) * R) + np.sum((S - V_S) * R))
        gamma = 2.0 / (k + 2.0)
        L, S = L + gamma * (V_L - L), S + gamma * (V_S - S)
        if project:
            S = project_l1(S - gradient(M, seen, L, S), tau_S)
        k += 1
        yield Iterate(L, S, steps=(gamma, gamma), surrogate_gap=gap)


def algorithm_4(M: np.ndarray, seen: np.ndarray, tau_L: float, tau_S: float) -> Iterator[Iterate]:
    return algorithm_3(M, seen, tau_L, tau_S, project=True)


def penalized_vertex(
    R: np.ndarray, lambdas: tuple[float, float], bounds: tuple[float, float]
) -> tuple[np.ndarray, float, np.ndarray, float]:
    """Lines 3 to 14 of Algorithm 5.

    After a thresholding step |R| = λ_S wherever S is not zero: in exact arithmetic line 10 answers V_S = 0 then, and in
    floating point only with a tolerance.
    """
    D_L, D_S = nuclear_vertex(R), l1_vertex(R)
    V_tL = 0.0 if lambdas[0] * (1 + 1e-12) >= -np.sum(R * D_L) else bounds[0]
    V_tS = 0.0 if lambdas[1] * (1 + 1e-12) >= -np.sum(R * D_S) else bounds[1]
    return V_tL * D_L, V_tL, V_tS * D_S, V_tS


def surrogate_gap(R, x, vertex, lambdas) -> float:
    """d(x) = ⟨x − v, ∇g(x)⟩ of equation (2.8), in all four variables."""
    V_L, V_tL, V_S, V_tS = vertex
    smooth = np.sum((x.L - V_L) * R) + np.sum((x.S - V_S) * R)
    return float(smooth + lambdas[0] * (x.t_L - V_tL) + lambdas[1] * (x.t_S - V_tS))


def algorithm_5(M: np.ndarray, seen: np.ndarray, lambda_L: float, lambda_S: float) -> Iterator[Iterate]:
    """Frank-Wolfe for weights, with the bounds of equation (4.8)."""
    lambdas = (lambda_L, lambda_S)
    start = misfit(M, seen, np.zeros(M.shape), np.zeros(M.shape))
    bounds = (start / lambda_L, start / lambda_S)
    x, k = Iterate(np.zeros(M.shape), np.zeros(M.shape)), 0
    while True:
        R = gradient(M, seen, x.L, x.S)
        vertex = V_L, V_tL, V_S, V_tS = penalized_vertex(R, lambdas, bounds)
        gap, gamma = surrogate_gap(R, x, vertex, lambdas), 2.0 / (k + 2.0)
        x = Iterate(
            (1 - gamma) * x.L + gamma * V_L, (1 - gamma) * x.S + gamma * V_S,
            (1 - gamma) * x.t_L + gamma * V_tL, (1 - gamma) * x.t_S + gamma * V_tS,
            steps=(gamma, gamma), surrogate_gap=gap,
        )  # fmt: skip
        k += 1
        yield x


def minimize_on_box(Q: np.ndarray, c: np.ndarray) -> np.ndarray:
    """min ½xᵀQx + cᵀx over [0, 1]², as bounded least squares (an active-set method); a zero row of Q is left at 0."""
    free = np.flatnonzero(np.diag(Q) > 0.0)
    x = np.zeros(2)
    if free.size:
        R = np.linalg.cholesky(Q[np.ix_(free, free)]).T
        target = -np.linalg.solve(R.T, c[free])
        x[free] = scipy.optimize.lsq_linear(R, target, bounds=(0.0, 1.0), method="bvls", tol=1e-15).x
    return x


def algorithm_6(M: np.ndarray, seen: np.ndarray, lambda_L: float, lambda_S: float) -> Iterator[Iterate]:
    """FW-T. Yields x¹, x², …, each with its half step."""
    lambdas, x = (lambda_L, lambda_S), Iterate(np.zeros(M.shape), np.zeros(M.shape))
    while True:
        g = epigraph_objective(M, seen, x, lambdas)
        R = gradient(M, seen, x.L, x.S)
        vertex = V_L, V_tL, V_S, V_tS = penalized_vertex(R, lambdas, (g / lambda_L, g / lambda_S))
        gap = surrogate_gap(R, x, vertex, lambdas)
        A, B = np.where(seen, V_L - x.L, 0.0), np.where(seen, V_S - x.S, 0.0)
        Q = np.array([[np.sum(A * A), np.sum(A * B)], [np.sum(A * B), np.sum(B * B)]])
        c = np.array([
            np.sum(A * R) + lambda_L * (V_tL - x.t_L), np.sum(B * R) + lambda_S * (V_tS - x.t_S),
        ])  # fmt: skip
        alpha, beta = minimize_on_box(Q, c)
        half = Iterate(
            (1 - alpha) * x.L + alpha * V_L, (1 - beta) * x.S + beta * V_S,
            (1 - alpha) * x.t_L + alpha * V_tL, (1 - beta) * x.t_S + beta * V_tS,
        )  # fmt: skip
        S = soft(half.S - gradient(M, seen, half.L, half.S), lambda_S)
        x = Iterate(half.L, S, half.t_L, float(np.abs(S).sum()), half, (alpha, beta), gap)
        yield x


def algorithm_8(
    M: np.ndarray, seen: np.ndarray, lambda_L: float, lambda_S: float, *, accelerated: bool = True
) -> Iterator[Iterate]:
    """FISTA; without ``accelerated`` Algorithm 7, ISTA."""
    L = S = hat_L = hat_S = np.zeros(M.shape)
    t = 1.0
    while True:
        R = gradient(M, seen, hat_L, hat_S)
        new_L = shrink_singular_values(hat_L - 0.5 * R, 0.5 * lambda_L)
        new_S = soft(hat_S - 0.5 * R, 0.5 * lambda_S)
        next_t = (1.0 + np.sqrt(1.0 + 4.0 * t * t)) / 2.0
        momentum = (t - 1.0) / next_t if accelerated else 0.0
        hat_L, hat_S = new_L + momentum * (new_L - L), new_S + momentum * (new_S - S)
        L, S, t = new_L, new_S, next_t
        yield Iterate(L, S, nuclear_norm(L), float(np.abs(S).sum()), steps=(0.5, 0.5))


def algorithm_7(M: np.ndarray, seen: np.ndarray, lambda_L: float, lambda_S: float) -> Iterator[Iterate]:
    return algorithm_8(M, seen, lambda_L, lambda_S, accelerated=False)


def corrupted(
    seed: int, m: int, n: int, *, rank: int = 3, share: float = 0.1, noise: float = 0.1, observed: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """A random M = low rank + spikes + noise, and the boolean array of what is observed."""
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n)) + noise * rng.standard_normal((m, n))
    spikes = rng.random((m, n)) < share
    M[spikes] += 5.0 * rng.standard_normal(int(spikes.sum()))
    return M, rng.random((m, n)) < observed


def weights_for(M: np.ndarray, seen: np.ndarray, delta: float) -> tuple[float, float]:
    """Section 5: λ_L = δρ‖P_Ω M‖_F and λ_S = δ√ρ‖P_Ω M‖_F/√max(m, n)."""
    norm, rho = float(np.linalg.norm(M[seen])), float(seen.mean())
    return delta * rho * norm, delta * rho**0.5 * norm / max(M.shape) ** 0.5


def dual_bound(M: np.ndarray, seen: np.ndarray, L: np.ndarray, lambdas: tuple[float, float]) -> float:
    """The dual value of Y = θ·clip(P_Ω(M − L), ±λ_S), by a full SVD: a lower bound on the optimum."""
    G = np.clip(np.where(seen, np.where(seen, M, 0.0) - L, 0.0), -lambdas[1], lambdas[1])
    theta = min(1.0, lambdas[0] / max(np.linalg.norm(G, 2), 1e-300))
    return float(theta * np.sum(G * np.where(seen, M, 0.0)) - 0.5 * theta**2 * np.sum(G * G))


def optimum(
    M: np.ndarray, seen: np.ndarray, lambdas: tuple[float, float], tol: float = 1e-9
) -> tuple[float, float, Iterate]:
    """(lower, upper, the pair) with lower ≤ optimum ≤ upper, by FISTA until they meet to ``tol``."""
    lower, upper, best = 0.0, np.inf, Iterate(np.zeros(M.shape), np.zeros(M.shape))
    for k, x in enumerate(algorithm_8(M, seen, *lambdas)):
        if k % 20 == 19:
            S = soft(np.where(seen, np.where(seen, M, 0.0) - x.L, 0.0), lambdas[1])
            value = objective(M, seen, x.L, S, lambdas)
            lower = max(lower, dual_bound(M, seen, x.L, lambdas))
            if value < upper:
                upper, best = value, Iterate(x.L, S, nuclear_norm(x.L), float(np.abs(S).sum()))
            if upper - lower <= tol * upper or k > 20000:
                return lower, upper, best
    raise AssertionError("unreachable")


def project_nuclear(x: np.ndarray, radius: float) -> np.ndarray:
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    return (u * project_l1(s, radius)) @ vt


def constrained_optimum(
    M: np.ndarray, seen: np.ndarray, tau_L: float, tau_S: float, steps: int = 300
) -> tuple[float, float]:
    """(lower, upper) around min l(L, S) over the two balls, by accelerated projected gradients."""
    L = S = hat_L = hat_S = np.zeros(M.shape)
    t, lower, upper = 1.0, 0.0, np.inf
    for k in range(steps):
        R = gradient(M, seen, hat_L, hat_S)
        new_L, new_S = project_nuclear(hat_L - 0.5 * R, tau_L), project_l1(hat_S - 0.5 * R, tau_S)
        next_t = (1.0 + np.sqrt(1.0 + 4.0 * t * t)) / 2.0
        momentum = (t - 1.0) / next_t
        hat_L, hat_S = new_L + momentum * (new_L - L), new_S + momentum * (new_S - S)
        L, S, t = new_L, new_S, next_t
        if k % 20 == 19:
            R, value = gradient(M, seen, L, S), misfit(M, seen, L, S)
            gap = tau_L * np.linalg.norm(R, 2) + tau_S * np.abs(R).max() + float(np.sum((L + S) * R))
            lower, upper = max(lower, value - gap), min(upper, value)
    return lower, upper
