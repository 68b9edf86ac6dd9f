"""Sensing matrices with independent Gaussian entries: the operator of the theory that the paper cites."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad, check_shape, check_whole
from rankwolf.sensing.base import Sensing

# Numbers of a block, where the operator is generated and not stored: 32 MB; two blocks are in memory at a time.
BLOCK_NUMBERS = 2**22
# P(‖A‖ > deviation·(√p + √(mn) + t)) ≤ exp(−t²/2) (Davidson and Szarek): below 1e-13 for this t.
NORM_MARGIN = 8.0


class Gaussian(Sensing):
    """b_k = ⟨A_k, X⟩ with independent entries N(0, deviation²) in every A_k.

    ``stored=True`` keeps the p × mn numbers, 8·p·mn bytes. Otherwise they are generated again for each product, in
    blocks of 32 MB, two of them at a time, at about 10 ns a number. The same ``seed`` gives the same operator either
    way.

    ``deviation`` is 1/√(mn) by default: every A_k then has a norm of about 1, as the rows of a projection have. The
    paper's N(0, 1) is ``deviation=1``. A product costs 2p·mn operations.

    >>> import numpy as np
    >>> from rankwolf.sensing import Gaussian
    >>> A = Gaussian(50, (6, 10), seed=1)
    >>> stored = Gaussian(50, (6, 10), seed=1, stored=True)
    >>> bool(np.allclose(A.apply(np.eye(6, 10)), stored.apply(np.eye(6, 10))))
    True
    """

    def __init__(
        self, size: int, shape: Any, seed: int, *, deviation: float | None = None, stored: bool = False
    ) -> None:
        super().__init__(check_shape(shape, "Gaussian"), check_whole("size", size, 1, "Gaussian"))
        self._seed, self._entries = check_whole("seed", seed, 0, "Gaussian"), self.shape[0] * self.shape[1]
        given = self._entries**-0.5 if deviation is None else deviation
        self.deviation = float(given) if isinstance(given, Real) else 0.0
        if not 0.0 < self.deviation < np.inf:
            raise bad("deviation", "a positive number", repr(deviation), "Gaussian")
        self._stored = np.vstack([block for _, block in self._generate()]) if stored else None

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        if self._stored is None:
            yield from self._generate()
        else:
            yield slice(0, self.size), self._stored

    def _generate(self) -> Iterator[tuple[slice, Array]]:
        rows = max(1, BLOCK_NUMBERS // self._entries)
        for start in range(0, self.size, rows):
            stop = min(start + rows, self.size)
            block = np.random.default_rng([self._seed, start]).standard_normal((stop - start, self._entries))
            block *= self.deviation
            yield slice(start, stop), block

    def matrix(self) -> Array:
        """The p × mn matrix, generated unless it is ``stored``."""
        return np.vstack([block for _, block in self._blocks()])

    def apply(self, matrix: Array) -> Array:
        """⟨A_k, X⟩ for every k."""
        flat = np.ravel(matrix)
        return np.concatenate([block @ flat for _, block in self._blocks()])

    def adjoint(self, values: Array) -> Array:
        """Σ_k y_k·A_k."""
        total = np.zeros(self._entries, values.dtype)
        for rows, block in self._blocks():
            total += values[rows] @ block
        return total.reshape(self.shape)

    @property
    def norm(self) -> float:
        """deviation·(√p + √(mn) + 8), which ‖A‖ exceeds with probability below 1e-13."""
        return float(self.deviation * (self.size**0.5 + self._entries**0.5 + NORM_MARGIN))
