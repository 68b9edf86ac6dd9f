"""Closing the gap: over-relaxed primal-dual steps (Chambolle and Pock, 2011; Condat, 2013).

With x = (L, S), Kx = A[L + S] and a dual vector y, which at the optimum is the residual b − Kx:

    x⁺ = prox of γ(λ_L‖L‖_* + λ_S‖S‖₁) at x + γK*y,          K*y = (A*y, A*y)
    y⁺ = (y + σ∘(b − K(2x⁺ − x)))/(1 + σ),                   σ = 1/(2γd), AA* ≼ diag(d)
    (x, y) ← (x, y) + ρ((x⁺, y⁺) − (x, y)),                  0 < ρ < 2

KK* = 2AA* ≼ 2·diag(d), so that the steps γ and σ together satisfy the condition for convergence, for every γ > 0.
Where AA* = diag(d), these are the steps of Douglas-Rachford with parameter γ. Kx is updated by linearity, so that an
iteration costs one product with A and one with A*.
"""

from __future__ import annotations

from math import isnan, log

import numpy as np

from rankwolf import kernels
from rankwolf.data.measurements import Measurements
from rankwolf.ground.arrays import inner
from rankwolf.problem import Penalized
from rankwolf.solvers.primal_dual.settings import PrimalDualSettings
from rankwolf.solvers.primal_dual.state import BOUND_INTERVAL, LEAST_INTERVAL, PrimalDualState, tiles_of


def begin_splitting(data: Measurements, state: PrimalDualState, settings: PrimalDualSettings) -> None:
    """Start the splitting at the state's pair (L, S), with its residual as y, and choose γ. No product with A."""
    for tile in tiles_of(state.sparse):
        state.carried_L[tile] = state.low_rank[tile]
        state.carried_S[tile] = state.sparse[tile]
    state.on_path = False
    loose = min(looseness(data, state), settings.most_looseness) ** settings.looseness_power
    state.gamma = settings.step * state.first_weight / data.norm**2 * loose
    state.splitting_began = state.next_bound = state.last_bound = state.iteration


def looseness(data: Measurements, state: PrimalDualState) -> float:
    """Σd|y|²/‖A*y‖², at least 1: by which factor the bound AA* ≼ diag(d) is too large at the present y."""
    given, used = inner(state.dual, data.row_bound * state.dual), inner(state.gradient, state.gradient)
    return max(given / used, 1.0) if used > 0.0 else 1.0


def splitting_step(
    problem: Penalized, data: Measurements, state: PrimalDualState, settings: PrimalDualSettings
) -> None:
    """One iteration: one product with A, one with A*. Every few iterations a lower bound is made, and γ adapted."""
    gamma, rho, G = state.gamma, settings.relaxation, state.gradient
    kernels.prepare_splitting(G, state.carried_L, state.carried_S, state.sparse, gamma)
    state.low_rank = state.shrink(G, gamma * problem.lambda_L)
    norm, state.nonzeros = 0.0, 0
    for tile in tiles_of(G):
        arrays = (state.sparse[tile], state.carried_L[tile], state.carried_S[tile], G[tile])
        tile_norm, nonzeros = kernels.relax_pair(state.low_rank[tile], *arrays, gamma * problem.lambda_S, rho)
        norm, state.nonzeros = norm + tile_norm, state.nonzeros + nonzeros
    image = data.apply(G)
    state.evaluate(problem, data, image, norm)
    # y + ρ(y⁺ − y) with y⁺ = (y + σ(b − 2Kx⁺ + Kx))/(1 + σ), with few temporary vectors, because b may be long.
    step = image - state.carried_image
    del image
    change = data.b - state.dual
    change -= state.carried_image
    change -= step
    change -= step
    step *= rho
    state.carried_image += step
    del step
    change *= 0.5 * rho / (gamma * data.row_bound + 0.5)
    change += state.dual
    state.dual = change
    del change, G, arrays  # the views in ``arrays`` would keep G alive
    state.gradient = np.zeros((0, data.shape[1]))  # G is freed before the next gradient is made
    state.gradient = data.adjoint(state.dual)
    if state.iteration >= state.next_bound:
        bound = state.update_bound(problem, data)
        _adapt(data, state, settings, bound)
        since = state.iteration - state.splitting_began
        state.last_bound = state.iteration
        state.next_bound = state.iteration + LEAST_INTERVAL + since // BOUND_INTERVAL


def _adapt(data: Measurements, state: PrimalDualState, settings: PrimalDualSettings, bound: float) -> None:
    """Lengthen or shorten γ by comparing the two parts of the gap.

    D(y) = ⟨y, b⟩ − ½‖y‖² is the bound that y would give if it were feasible. The gap consists of D(y) − bound, the loss
    by scaling y until it is feasible, which a larger γ makes smaller, and of |F(x) − D(y)|, which a smaller γ makes
    smaller.
    """
    ideal = inner(state.dual, data.b) - 0.5 * inner(state.dual, state.dual)
    tiny = 1e-12 * state.objective
    ratio = log(max(ideal - bound, tiny, 1e-300) / max(abs(state.objective - ideal), tiny, 1e-300))
    share = settings.memory
    state.imbalance = ratio if isnan(state.imbalance) else share * state.imbalance + (1.0 - share) * ratio
    change = settings.change ** max(1, state.iteration - state.last_bound)
    if state.imbalance > log(settings.too_short):
        state.gamma *= change
    elif state.imbalance < log(settings.too_long):
        state.gamma /= change
