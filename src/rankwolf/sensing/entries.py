"""Some entries of the matrix itself: the measurements of matrix completion, and of ``decompose(observed=…)``."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.ground.arrays import Array
from rankwolf.sensing.base import Products, Sensing
from rankwolf.sensing.masks import check_mask


class Entries(Sensing):
    """A[X] = X[observed], row after row. A*A = P_Ω is a projection, AA* = I, ‖A‖ = 1.

    A*y is a sparse matrix: its product with a vector costs p operations, and so does A[u vᵀ].

    >>> import numpy as np
    >>> from rankwolf.sensing import Entries
    >>> Entries(np.array([[True, False], [False, True]])).apply(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([1., 4.])
    """

    def __init__(self, observed: Any) -> None:
        mask = check_mask("observed", observed, 2, "Entries")
        self._rows, self._columns = np.nonzero(mask)
        super().__init__(mask.shape, self._rows.size)

    def apply(self, matrix: Array) -> Array:
        """The observed entries of X, row after row."""
        return np.asarray(matrix[self._rows, self._columns])

    def adjoint(self, values: Array) -> Array:
        """The values in their places, zeros elsewhere."""
        result = np.zeros(self.shape, values.dtype)
        result[self._rows, self._columns] = values
        return result

    def apply_factors(self, left: Array, right: Array) -> Array:
        """A[left·rightᵀ], at the observed places alone: p·r operations for factors of r columns."""
        return np.asarray(np.einsum("kr,kr->k", left[self._rows], right[self._columns]))

    def adjoint_products(self, values: Array) -> Products:
        """Products with A*y as a sparse matrix: p operations a column."""
        sparse = scipy.sparse.csr_array((values.real, (self._rows, self._columns)), shape=self.shape)
        transposed = sparse.T.tocsr()
        return Products(lambda block: sparse @ block, lambda block: transposed @ block)

    @property
    def semi_orthogonal(self) -> float:
        """c = 1: AA* = I."""
        return 1.0
