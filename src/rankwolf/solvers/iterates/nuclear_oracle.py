"""The nuclear ball's oracle for measurements: the leading singular pair of G = A*r, by products with G."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwolf.data.measurements import Measurements
from rankwolf.ground.arrays import Array
from rankwolf.oracles import nuclear


@dataclass(frozen=True)
class Pair:
    """A leading singular pair of G = A*r (its real part where L is real): G ≈ σ·left·rightᵀ, σ in [value, upper]."""

    value: float
    upper: float
    left: Array
    right: Array


class NuclearOracle:
    """Line 3 of Algorithms 3 to 6: the leading singular pair of G = A*r, by products with G, from a warm start.

    It works with singular vectors on the shorter side of G. The warm start is the last two answers and a random vector.
    """

    def __init__(self, shape: tuple[int, int], rng: np.random.Generator, dtype: Any = np.float64) -> None:
        self._wide, self._rng = shape[0] < shape[1], rng
        self._warm = rng.standard_normal((min(shape), min(3, *shape))).astype(dtype)

    def leading_pair(self, data: Measurements, r: Array, G: Array, tol: float, most: int) -> Pair:
        """The leading singular pair, to a relative residual ``tol`` of GᵀG, with at most ``most`` products with GᵀG."""
        products = data.products(r, G)
        times, back = products.times, products.transposed_times
        if self._wide:
            times, back = back, times
        found = nuclear.leading_pair(lambda block: back(times(block)), self._warm, tol, most, self._rng)
        fresh = self._rng.standard_normal(self._warm.shape)
        self._warm = np.column_stack([found.right, self._warm[:, :1], fresh])[:, : self._warm.shape[1]]
        other = times(found.right[:, None])[:, 0]
        length = float(np.linalg.norm(other))
        if length > 0.0:
            other /= length
        left, right = (found.right, other) if self._wide else (other, found.right)
        # G ≈ σ·u·v^H, and an atom is left·rightᵀ: so right is the conjugate of v.
        return Pair(length, max(found.upper, length), left, right.conj())
