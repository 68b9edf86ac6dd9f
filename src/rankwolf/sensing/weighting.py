"""Every entry times a number of its own: a coil's sensitivity, a known phase, a density compensation."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import as_numbers, bad, check_shape
from rankwolf.sensing.base import Sensing


class Weighting(Sensing):
    """A[X] = W∘X as a vector of mn numbers, row after row; made for ``A @ Weighting(…)`` and ``Weighting(…) @ A``.

    ``weights`` has the matrix's shape, or one that NumPy broadcasts to ``shape``: one row for all frames, say.
    ‖A‖ is the largest modulus of a weight. A product costs mn multiplications.

    >>> import numpy as np
    >>> from rankwolf.sensing import Weighting
    >>> Weighting(np.array([1.0, 2.0]), (2, 2)).apply(np.ones((2, 2)))
    array([1., 2., 1., 2.])
    """

    def __init__(self, weights: Any, shape: Any = None) -> None:
        given = as_numbers("weights", weights, "Weighting")
        if given.dtype.kind not in "biufc" or not np.all(np.isfinite(given)):
            raise bad("weights", "an array of finite numbers", f"dtype {given.dtype}", "Weighting")
        wanted = check_shape(given.shape if shape is None else shape, "Weighting")
        try:
            self._weights = np.broadcast_to(given, wanted)
        except ValueError:
            raise bad("weights", f"of a shape that fits {wanted}", f"{given.shape}", "Weighting") from None
        super().__init__(wanted, wanted[0] * wanted[1], np.result_type(given.dtype, np.float64))

    def _like(self, array: Array) -> Array:
        """The weights in the precision of ``array``."""
        single = array.dtype in (np.dtype(np.float32), np.dtype(np.complex64))
        kind = np.complex64 if self.dtype.kind == "c" else np.float32
        return self._weights.astype(kind) if single else self._weights

    def apply(self, matrix: Array) -> Array:
        """W∘X, row after row."""
        return np.asarray(self._like(matrix) * matrix).ravel()

    def adjoint(self, values: Array) -> Array:
        """conj(W)∘Y, where Y is the vector of mn numbers as an m × n matrix."""
        return np.asarray(self._like(values).conj() * values.reshape(self.shape))

    @property
    def norm(self) -> float:
        """‖A‖ = max|W|."""
        return float(np.max(np.abs(self._weights)))

    @property
    def semi_orthogonal(self) -> float | None:
        """c = ``|w|²`` where all weights have the same modulus, else None."""
        squares = np.abs(self._weights) ** 2
        least, most = float(squares.min()), float(squares.max())
        return most if most - least <= 1e-14 * most else None

    def column_bound(self) -> Array:
        """e = ``|W|²``, a matrix: A*A = diag(e)."""
        return np.asarray(np.abs(self._weights) ** 2)

    def row_bound(self, real: bool) -> Array:
        """d = ``|W|²``, a vector: AA* = diag(d)."""
        return np.ravel(np.abs(self._weights) ** 2)
