"""Where a primal-dual run is, and the loop over tiles that both of its phases share."""

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
from rankwolf.solvers.iterates.base import Oracle
from rankwolf.solvers.iterates.nuclear_oracle import NuclearOracle

# Rows and columns that are worked on at once.
TILE = (128, 512)
# ‖A*y‖₂ comes from a Gram matrix where the shorter side is at most so long, or that takes so few operations.
GRAM_SIDE, GRAM_OPERATIONS = 128, 1e8
# How exactly it is asked for otherwise: the lower bound depends on it.
BOUND_ORACLE = Oracle(tol=1e-3, products=20)
# In the splitting a bound is made every third iteration, and the interval grows by one after every so many of them.
LEAST_INTERVAL, BOUND_INTERVAL = 3, 12


@dataclass(kw_only=True)
class PrimalDualState:
    """The pair (L, S) that the last proximal maps gave, and what the next step starts from.

    Four arrays have the matrix's size: S, ``gradient`` = A*y, and for each part one ``carried``: the relaxed iterate of
    the splitting, or on the path what POGM's next extrapolation takes from the past. L is factored.
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
    """μ₀, at which L = S = 0 is optimal."""
    settled: int = 0
    """Iterations of the path at μ = 1."""
    theta: float = 1.0
    """θ_k of POGM, the accelerated method of the path."""
    on_path: bool = True
    gamma: float = nan
    """The primal step of the splitting."""
    imbalance: float = nan
    """The smoothed logarithm by which γ is changed."""
    nonzeros: int = 0
    lower_bound: float = 0.0
    iteration: int = 0
    splitting_began: int = 0
    next_bound: int = 0
    last_bound: int = 0

    def evaluate(self, problem: Penalized, data: Measurements, image: Array, l1_norm: float) -> Array:
        """The objective of (L, S), from A[L + S] = ``image``; the residual is returned."""
        residual = data.b - image
        self.objective = problem.objective(inner(residual, residual), self.low_rank.nuclear_norm, l1_norm)
        return residual

    def largest_entry(self) -> float:
        """max|A*y|."""
        return max(float(np.max(np.abs(self.gradient[tile]))) for tile in tiles_of(self.gradient))

    def spectral_norm(self, data: Measurements) -> float:
        """‖A*y‖₂, never far below: exactly where that is cheap, else with an error of about a tenth of the gap."""
        short, long = sorted(self.gradient.shape)
        if short <= GRAM_SIDE or short**2 * long <= GRAM_OPERATIONS:
            return nuclear.spectral_norm(self.gradient)
        tol = BOUND_ORACLE.tol_at(self.objective, self.lower_bound)
        return self.oracle.leading_pair(data, self.dual, self.gradient, tol, BOUND_ORACLE.products).upper

    def update_bound(self, problem: Penalized, data: Measurements) -> float:
        """The lower bound that y proves, as far as the norm of A*y is known."""
        return self.bound_by(problem, data, self.spectral_norm(data), self.largest_entry())

    def bound_by(self, problem: Penalized, data: Measurements, norm: float, largest: float) -> float:
        """The lower bound that y proves, given ‖A*y‖₂ and max|A*y|; the best so far and its y are kept."""
        y_dot_b, squared = inner(self.dual, data.b), inner(self.dual, self.dual)
        bound = problem.lower_bound(y_dot_b, squared, norm, largest)
        if bound > self.lower_bound:
            self.lower_bound, self.best_dual = bound, self.dual
        return bound


def tiles_of(matrix: Array) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of pieces that, with their temporaries, stay in a core's cache.

    Wide pieces of few rows would read all of L's right factor for each of them.
    """
    (m, n), (height, width) = matrix.shape, TILE
    for top in range(0, m, height):
        for left in range(0, n, width):
            yield slice(top, top + height), slice(left, left + width)
