"""L as a sum of rank-one matrices, as which the Frank-Wolfe methods keep it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank


@dataclass
class Atoms:
    """L = Σ wᵢ uᵢ vᵢᵀ. Scaling L costs one operation an atom, and adding an atom costs next to nothing.

    >>> import numpy as np
    >>> atoms = Atoms((2, 2))
    >>> atoms.blend(0.0, 2.0, np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    >>> np.asarray(atoms.low_rank(float))
    array([[0., 2.],
           [0., 0.]])
    """

    shape: tuple[int, int]
    left: list[Array] = field(default_factory=list)
    right: list[Array] = field(default_factory=list)
    weights: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def rank(self) -> int:
        """An upper bound on the rank: the number of atoms with a weight, at most min(m, n)."""
        return min(int(np.count_nonzero(self.weights)), *self.shape)

    def blend(self, keep: float, weight: float, u: Array, v: Array) -> None:
        """L ← keep·L + weight·u vᵀ. 64 atoms more than the rank can be are made singular vectors again."""
        self.weights = self.weights * keep
        if weight == 0.0:
            return
        if len(self.weights) >= min(self.shape) + 64:
            compact = self.low_rank(u.dtype)
            self.left, self.right, self.weights = list(compact.u.T), list(compact.vt), compact.s.copy()
        self.left.append(u)
        self.right.append(v)
        self.weights = np.append(self.weights, weight)

    def low_rank(self, dtype: np.dtype[np.generic] | type) -> LowRank:
        """The singular value decomposition of the sum; (m + n)·k² operations for k atoms."""
        if not self.left:
            return LowRank.zeros(self.shape, dtype)
        left = np.column_stack(self.left) * self.weights
        return LowRank.from_factors(left.astype(dtype), np.column_stack(self.right).astype(dtype))
