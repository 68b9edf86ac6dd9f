"""The state of a primal-dual run, and the division into tiles that both of its phases use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import nan

import numpy as np

from rankwolf.data.measurements import Measurements
from rankwolf.ground.arrays import Array, inner
from rankwolf.ground.low_rank import LowRank
from rankwolf.oracles import nuclear
from rankwolf.oracles.subspace import WarmThreshold
from rankwolf.problem import Penalized
from rankwolf.solvers.iterates.base import BOUND_ORACLE
from rankwolf.solvers.iterates.nuclear_oracle import NuclearOracle

# The height and width of a tile.
TILE = (128, 512)
# ‖A*y‖₂ is computed from a Gram matrix where the shorter side, or the number of operations, is at most this;
# otherwise by Lanczos steps.
GRAM_SIDE, GRAM_OPERATIONS = 128, 1e8
# In the splitting a lower bound is made every 3 iterations, and the interval grows by 1 with every 12 iterations.
LEAST_INTERVAL, BOUND_INTERVAL = 3, 12


@dataclass(kw_only=True)
class PrimalDualState:
    """The pair (L, S) that the last proximal maps gave, and what the next step starts from.

    Four arrays have the matrix's size: S, ``gradient`` = A*y, ``carried_L`` and ``carried_S``. In the splitting the
    carried pair is the relaxed iterate x; on the path it is POGM's c_k. L is kept as factors. ``best_dual`` is the y
    that gave ``lower_bound``.
    """

    low_rank: LowRank
    sparse: Array
    carried_L: Array
    carried_S: Array
    carried_image: Array
    """A[L + S] of the carried pair in the splitting, of the pair itself on the path."""
    dual: Array
    gradient: Array
    best_dual: Array
    shrink: WarmThreshold
    oracle: NuclearOracle
    objective: float
    path_weight: float
    """μ: the weights of the path are μλ_L and μλ_S."""
    first_weight: float
    """μ₀ = min(‖A*b‖₂/λ_L, max|A*b|/λ_S)."""
    settled: int = 0
    """The number of iterations of the path at μ = 1."""
    theta: float = 1.0
    """θ_k of POGM, the accelerated method of the path."""
    on_path: bool = True
    gamma: float = nan
    """The primal step of the splitting."""
    imbalance: float = nan
    """The smoothed logarithm of a ratio that decides whether γ changes (``splitting._adapt``)."""
    nonzeros: int = 0
    lower_bound: float = 0.0
    iteration: int = 0
    splitting_began: int = 0
    next_bound: int = 0
    last_bound: int = 0

    def evaluate(self, problem: Penalized, data: Measurements, image: Array, l1_norm: float) -> Array:
        """Renew the objective of (L, S), from A[L + S] = ``image`` and ‖S‖₁; returns the residual b − image."""
        residual = data.b - image
        self.objective = problem.objective(inner(residual, residual), self.low_rank.nuclear_norm, l1_norm)
        return residual

    def largest_entry(self) -> float:
        """max|A*y|."""
        return max(float(np.max(np.abs(self.gradient[tile]))) for tile in tiles_of(self.gradient))

    def spectral_norm(self, data: Measurements) -> float:
        """‖A*y‖₂: exact where that is cheap, else the upper estimate of a Ritz pair, to a tenth of the relative gap."""
        short, long = sorted(self.gradient.shape)
        if short <= GRAM_SIDE or short**2 * long <= GRAM_OPERATIONS:
            return nuclear.spectral_norm(self.gradient)
        tol = BOUND_ORACLE.tol_at(self.objective, self.lower_bound)
        return self.oracle.leading_pair(data, self.dual, self.gradient, tol, BOUND_ORACLE.products).upper

    def update_bound(self, problem: Penalized, data: Measurements) -> float:
        """The lower bound from y and its ‖A*y‖₂, which may be an estimate; the best so far is kept."""
        return self.bound_by(problem, data, self.spectral_norm(data), self.largest_entry())

    def bound_by(self, problem: Penalized, data: Measurements, norm: float, largest: float) -> float:
        """The lower bound from y, given ‖A*y‖₂ and max|A*y|; the best so far and its y are kept."""
        y_dot_b, squared = inner(self.dual, data.b), inner(self.dual, self.dual)
        bound = problem.lower_bound(y_dot_b, squared, norm, largest)
        if bound > self.lower_bound:
            self.lower_bound, self.best_dual = bound, self.dual
        return bound


def tiles_of(matrix: Array) -> Iterator[tuple[slice, slice]]:
    """The slices of rows and columns of tiles that, with their temporaries, stay in a core's cache.

    Tiles of all columns and few rows would read all of L's right factor again and again.
    """
    (m, n), (height, width) = matrix.shape, TILE
    for top in range(0, m, height):
        for left in range(0, n, width):
            yield slice(top, top + height), slice(left, left + width)
