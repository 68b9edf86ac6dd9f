"""Down the path: POGM with weights μ_kλ_L and μ_kλ_S; μ_k falls from where L and S just leave 0 to 1.

POGM (Kim and Fessler, 2018; for L + S: Lin and Fessler, 2019) with h = 1/(2‖A‖²), θ_k = (1 + √(1 + 4θ_{k−1}²))/2 and
proximal steps s_k = h(2θ_{k−1} + θ_k − 1)/θ_k, for x = (L, S) and g_k = h·A*(b − A[L + S]):

    w_k = x_{k−1} + g_k
    z_k = w_k + a_k(w_k − w_{k−1}) + (θ_{k−1}/θ_k)(w_k − x_{k−1}) + (a_k·h/s_{k−1})(z_{k−1} − x_{k−1})
    x_k = prox of μ_k·s_k·(λ_L‖L‖_* + λ_S‖S‖₁) at z_k,  with a_k = (θ_{k−1} − 1)/θ_k

With z_k = c_k + (1 + a_k + θ_{k−1}/θ_k)g_k, all that is carried from one iteration to the next is
c_k = (1 + a_k)x_{k−1} − a_k·w_{k−1} + (a_k·h/s_{k−1})(z_{k−1} − x_{k−1}).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwolf import kernels
from rankwolf.data.measurements import Measurements
from rankwolf.ground.momentum import Momentum
from rankwolf.problem import Penalized
from rankwolf.solvers.primal_dual.settings import PrimalDualSettings
from rankwolf.solvers.primal_dual.state import PrimalDualState, tiles_of


@dataclass(frozen=True)
class Coefficients:
    """The coefficients of the iteration that goes from θ_{k−1} to θ_k."""

    past: float
    """a_k."""
    gradient: float
    """1 + a_k + θ_{k−1}/θ_k."""
    step: float
    """s_k/h."""
    theta: float
    """θ_k."""

    @classmethod
    def after(cls, theta: float) -> Coefficients:
        """The coefficients of the iteration that begins at ``theta`` = θ_{k−1}."""
        following = Momentum(theta).next()
        t = following.t
        return cls(following.factor, 1.0 + following.factor + theta / t, (2.0 * theta + t - 1.0) / t, t)


def path_step(
    problem: Penalized, data: Measurements, state: PrimalDualState, settings: PrimalDualSettings
) -> bool:
    """One iteration of POGM at the present weights, then the weights fall. Returns whether the path has ended.

    Cost: one product with A, one with A*, and one singular value thresholding.
    """
    now = Coefficients.after(state.theta)
    following = Coefficients.after(now.theta)
    h = 0.5 / data.norm**2
    mu, G = state.path_weight, state.gradient
    ratio = following.past / now.step  # a_{k+1}·h/s_k
    kernels.extrapolate_pair(G, state.carried_L, state.carried_S, h * now.gradient)  # z_k in the place of c_k
    old = state.low_rank
    state.low_rank = state.shrink(state.carried_L, mu * problem.lambda_L * h * now.step)
    cut = mu * problem.lambda_S * h * now.step
    norm, state.nonzeros, state.theta = 0.0, 0, now.theta
    for tile in tiles_of(G):
        arrays = (state.sparse[tile], state.carried_L[tile], state.carried_S[tile], G[tile])
        numbers = (cut, ratio, following.past, following.past * h)
        tile_norm, nonzeros = kernels.carry_pair(state.low_rank[tile], old[tile], *arrays, *numbers)
        norm, state.nonzeros = norm + tile_norm, state.nonzeros + nonzeros
    state.carried_image = data.apply(G)
    state.dual = state.evaluate(problem, data, state.carried_image, norm)
    del G, arrays  # the views in ``arrays`` would keep G alive
    state.gradient = np.zeros((0, data.shape[1]))  # G is freed before the next gradient is made
    state.gradient = data.adjoint(state.dual)
    state.settled += mu <= 1.0
    state.path_weight = max(settings.fall * mu, 1.0)
    state.on_path = state.settled < settings.settle
    return not state.on_path
