"""Sums of atoms, as which the Frank-Wolfe methods keep L (rank-one matrices) and S (single entries)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.data import Source
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank


class Atoms:
    """L = Σ wᵢ aᵢ bᵢᵀ. Scaling L costs one operation an atom, and adding an atom costs next to nothing.

    Methods take the ``source`` to which the row-aligned left vectors belong; None where they are plain arrays.
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[np.generic]) -> None:
        self._left: list[Any] = []
        self._right: list[Array] = []
        self._weights: Array = np.zeros(0)
        self._shape, self._dtype = shape, np.dtype(dtype)
        # The rank is at most min(shape), so that an SVD of this many atoms frees at least 64 places, and is needed once
        # in 64 steps at most.
        self._shorter, self._most = min(shape), min(shape) + 64

    @property
    def count(self) -> int:
        """An upper bound on the rank: the number of atoms with a weight, at most min(m, n)."""
        return min(int(np.count_nonzero(self._weights)), self._shorter)

    def blend(
        self, keep: float, weight: float, left: Any, right: Array, source: Source | None = None
    ) -> None:
        """L ← keep·L + weight·left·rightᵀ. ``left`` (m, 1) and ``right`` (n,) are kept: they must not change later."""
        self._weights = self._weights * keep
        if weight == 0.0:
            return
        if self._weights.size >= self._most:
            self._compress(source)
        self._left.append(left)
        self._right.append(right[:, None].astype(self._dtype, copy=False))
        self._weights = np.append(self._weights, weight)

    def to_low_rank(self, source: Source | None = None) -> LowRank:
        """The singular value decomposition of the sum; (m + n)·k² operations for k atoms."""
        if not self._left:
            return LowRank.zeros(self._shape, self._dtype)
        weighted = partial(_side_by_side, self._weights.astype(self._dtype))
        right = np.hstack(self._right)
        if source is None:
            return LowRank.from_factors(weighted(*self._left), right)
        return source.low_rank(source.map(weighted, *self._left), right)

    def _compress(self, source: Source | None) -> None:
        compact = self.to_low_rank(source)
        self._left, self._right = [compact.u], [np.ascontiguousarray(compact.vt.T)]
        self._weights = compact.s.copy()


def _side_by_side(weights: Array, *columns: Array) -> Array:
    stacked = np.hstack(columns)
    stacked *= weights
    return stacked


class SparseAtoms:
    """S = Σ wᵢ e_{rᵢ} e_{cᵢ}ᵀ, in a dictionary with one common scale."""

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[np.generic]) -> None:
        self.shape, self.dtype = shape, dtype
        self.entries: dict[tuple[int, int], float] = {}
        self.scale = 1.0

    def blend(self, keep: float, place: tuple[int, int], weight: float) -> None:
        """S ← keep·S + weight·e_r e_cᵀ for ``place`` = (r, c)."""
        self.scale *= keep
        if self.scale < 1e-100:  # before it underflows; it is exactly 0 after a step of length 1
            self.entries = {place: value * self.scale for place, value in self.entries.items() if self.scale}
            self.scale = 1.0
        if weight != 0.0:
            self.entries[place] = self.entries.get(place, 0.0) + weight / self.scale

    def to_scipy(self) -> scipy.sparse.csr_array:
        """S as a CSR array, without entries that have become zero."""
        places = np.array(list(self.entries), dtype=np.int64).reshape(-1, 2)
        values = (np.array(list(self.entries.values())) * self.scale).astype(self.dtype)
        matrix = scipy.sparse.csr_array(
            scipy.sparse.coo_array((values, (places[:, 0], places[:, 1])), shape=self.shape)
        )
        matrix.eliminate_zeros()
        return matrix
