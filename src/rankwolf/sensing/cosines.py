"""Some coefficients of the cosine transform: AA* = I, and A*A is a projection as in the paper's equation (1.4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
import scipy.sparse

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import check_shape
from rankwolf.sensing.base import Products, Sensing
from rankwolf.sensing.masks import check_mask, random_mask


class PartialDCT(Sensing):
    """Some coefficients of the orthonormal two-dimensional cosine transform of the whole matrix, C_m·X·C_nᵀ.

    ``kept`` is a boolean array of the matrix's shape that says which. AA* = I. A product costs O(mn·log(mn)).
    A*y = C_mᵀ·Y·C_n with a sparse Y: its product with a vector costs p operations and two transforms of vectors.

    >>> import numpy as np
    >>> from rankwolf.sensing import PartialDCT
    >>> A = PartialDCT.random(12, (4, 5), seed=0)
    >>> A.size, bool(np.allclose(A.apply(A.adjoint(np.arange(12.0))), np.arange(12.0)))
    (12, True)
    """

    def __init__(self, kept: Any) -> None:
        mask = check_mask("kept", kept, 2, "PartialDCT")
        self._rows, self._columns = np.nonzero(mask)
        super().__init__((mask.shape[0], mask.shape[1]), self._rows.size)

    @classmethod
    def random(cls, size: int, shape: Any, seed: int) -> PartialDCT:
        """An operator that keeps ``size`` coefficients, drawn without replacement."""
        return cls(random_mask(size, check_shape(shape, "PartialDCT.random"), seed))

    def apply(self, matrix: Array) -> Array:
        """The coefficients that are kept, row after row."""
        return np.asarray(scipy.fft.dctn(matrix, norm="ortho")[self._rows, self._columns])

    def adjoint(self, values: Array) -> Array:
        """The inverse transform of the coefficients with zeros for the others."""
        spectrum = np.zeros(self.shape, values.dtype)
        spectrum[self._rows, self._columns] = values
        return np.asarray(scipy.fft.idctn(spectrum, norm="ortho"))

    def apply_factors(self, left: Array, right: Array) -> Array:
        """A[left·rightᵀ]: the factors are transformed, not their product. p·r operations and 2r transforms."""
        left, right = (scipy.fft.dct(factor, axis=0, norm="ortho") for factor in (left, right))
        return np.asarray(np.einsum("kr,kr->k", left[self._rows], right[self._columns]))

    def adjoint_products(self, values: Array) -> Products:
        """Products with A*y = C_mᵀ·Y·C_n: transform the block, multiply by the sparse Y, transform back."""
        sparse = scipy.sparse.csr_array((values.real, (self._rows, self._columns)), shape=self.shape)
        transposed = sparse.T.tocsr()

        def times(spectrum: scipy.sparse.csr_array, block: Array) -> Array:
            product = spectrum @ scipy.fft.dct(block, axis=0, norm="ortho")
            return np.asarray(scipy.fft.idct(product, axis=0, norm="ortho"))

        return Products(lambda block: times(sparse, block), lambda block: times(transposed, block))

    @property
    def semi_orthogonal(self) -> float:
        """c = 1: AA* = I."""
        return 1.0
