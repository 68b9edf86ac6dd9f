"""The entry-wise parts of an iteration on measurements, each in one read of its arrays.

They take real and complex numbers: T_cut shrinks a number's modulus by ``cut``. ‖S‖₀ is the number of nonzeros.
"""

from __future__ import annotations

import numpy as np

from rankwolf.kernels.compiling import compiled, must


@compiled
def prepare_splitting(
    gradient: np.ndarray, carried_L: np.ndarray, carried_S: np.ndarray, sparse: np.ndarray, gamma: float
) -> None:
    """sparse = carried_S + γ·gradient, and gradient ← carried_L + γ·gradient."""
    must(
        carried_L.shape == gradient.shape
        and carried_S.shape == gradient.shape
        and sparse.shape == gradient.shape
    )
    for i in range(gradient.shape[0]):
        g, left, right, target = gradient[i], carried_L[i], carried_S[i], sparse[i]
        for j in range(g.size):
            step = gamma * g[j]
            target[j] = right[j] + step
            g[j] = left[j] + step


@compiled
def relax_pair(
    low_rank: np.ndarray,
    sparse: np.ndarray,
    carried_L: np.ndarray,
    carried_S: np.ndarray,
    total: np.ndarray,
    cut: float,
    rho: float,
) -> tuple[float, int]:
    """S = T_cut(sparse) in place; both carried parts move by ρ towards (L, S); total = L + S.

    Returns ‖S‖₁ and ‖S‖₀.
    """
    must(low_rank.shape == sparse.shape and total.shape == sparse.shape)
    must(carried_L.shape == sparse.shape and carried_S.shape == sparse.shape)
    norm, nonzeros, keep = 0.0, 0, 1.0 - rho
    for i in range(sparse.shape[0]):
        low, s, left, right, t = low_rank[i], sparse[i], carried_L[i], carried_S[i], total[i]
        row_norm, row_nonzeros = 0.0, 0
        for j in range(s.size):
            modulus = abs(s[j])
            above = modulus - cut if modulus > cut else 0.0
            value = s[j] * (above / modulus if modulus > cut else 0.0)
            row_norm += above
            row_nonzeros += 1 if modulus > cut else 0
            s[j] = value
            left[j] = keep * left[j] + rho * low[j]
            right[j] = keep * right[j] + rho * value
            t[j] = low[j] + value
        norm += row_norm
        nonzeros += row_nonzeros
    return norm, nonzeros


@compiled
def extrapolate_pair(gradient: np.ndarray, carried_L: np.ndarray, carried_S: np.ndarray, step: float) -> None:
    """carried_L += step·gradient and carried_S += step·gradient."""
    must(carried_L.shape == gradient.shape and carried_S.shape == gradient.shape)
    for i in range(gradient.shape[0]):
        g, left, right = gradient[i], carried_L[i], carried_S[i]
        for j in range(g.size):
            move = step * g[j]
            left[j] += move
            right[j] += move


@compiled
def carry_pair(
    low_rank: np.ndarray,
    old: np.ndarray,
    sparse: np.ndarray,
    carried_L: np.ndarray,
    carried_S: np.ndarray,
    gradient: np.ndarray,
    cut: float,
    ratio: float,
    past: float,
    step: float,
) -> tuple[float, int]:
    """S = T_cut(carried_S); for both parts carried ← ratio·carried + (1 + past − ratio)·new − past·old − step·gradient.

    ``low_rank`` is the new L and ``old`` the one before. ``sparse`` comes in as the old S and leaves as the new one;
    ``gradient`` leaves as L + S, both new. Returns ‖S‖₁ and ‖S‖₀.
    """
    must(low_rank.shape == sparse.shape and old.shape == sparse.shape and gradient.shape == sparse.shape)
    must(carried_L.shape == sparse.shape and carried_S.shape == sparse.shape)
    norm, nonzeros, keep = 0.0, 0, 1.0 + past - ratio
    for i in range(sparse.shape[0]):
        new, before, s, left, right, g = (
            low_rank[i],
            old[i],
            sparse[i],
            carried_L[i],
            carried_S[i],
            gradient[i],
        )
        row_norm, row_nonzeros = 0.0, 0
        for j in range(s.size):
            modulus = abs(right[j])
            above = modulus - cut if modulus > cut else 0.0
            value = right[j] * (above / modulus if modulus > cut else 0.0)
            row_norm += above
            row_nonzeros += 1 if modulus > cut else 0
            move = step * g[j]
            left[j] = ratio * left[j] + keep * new[j] - past * before[j] - move
            right[j] = ratio * right[j] + keep * value - past * s[j] - move
            s[j] = value
            g[j] = new[j] + value
        norm += row_norm
        nonzeros += row_nonzeros
    return norm, nonzeros
