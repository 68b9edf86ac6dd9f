"""From b = A[M] to P_Q[M]: the paper's footnote on Gram-Schmidt, done by a Householder QR factorisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad
from rankwolf.sensing.base import Sensing
from rankwolf.sensing.checks import check_linear, check_measurements
from rankwolf.sensing.linear import as_sensing


class Orthonormal(Sensing):
    """Measurements in an orthonormal basis of the span Q of real sensing matrices: A*A = P_Q, AA* = I.

    A[X] are the coordinates of P_Q[X]. :func:`orthonormalize` makes it. Memory p·mn numbers; a product costs 2p·mn
    operations.

    >>> import numpy as np
    >>> from rankwolf.sensing import Gaussian, orthonormalize
    >>> Q = orthonormalize(Gaussian(5, (3, 4), seed=0))
    >>> y = np.arange(5.0)
    >>> bool(np.allclose(Q.apply(Q.adjoint(y)), y))
    True
    """

    def __init__(self, basis: Array, mixing: Array, original: Sensing) -> None:
        super().__init__(original.shape, basis.shape[1])
        self._basis, self._mixing, self._original = basis, mixing, original

    def apply(self, matrix: Array) -> Array:
        """Qᵀ·vec(X), the coordinates of P_Q[X] in the orthonormal basis: 2pmn operations."""
        return np.asarray(self._basis.T @ np.ravel(matrix))

    def adjoint(self, values: Array) -> Array:
        """The matrix in Q with these coordinates."""
        return np.asarray(self._basis @ values).reshape(self.shape)

    def transform(self, b: Any) -> Array:
        """Measurements b = A[M] of the original operator, turned into the coordinates of P_Q[M].

        Where the original sensing matrices are linearly dependent, the least-squares answer.
        """
        values = check_measurements(b, self._original, "transform")
        complex_valued = self._original.dtype.kind == "c"
        if not complex_valued and np.any(values.imag):
            raise bad("b", "real, as the operator's measurements are", f"dtype {values.dtype}", "transform")
        given = _real_rows(values.astype(np.complex128) if complex_valued else values.real)
        answer = scipy.linalg.lstsq(self._mixing, given, lapack_driver="gelsy")[0]
        return np.asarray(answer)

    @property
    def semi_orthogonal(self) -> float:
        """c = 1: AA* = I."""
        return 1.0


def orthonormalize(sensing: Any, shape: Any = None) -> Orthonormal:
    """An operator with orthonormal sensing matrices and the same span as ``sensing``, for moderate p.

    Both arguments are as in :func:`rankwolf.recover`: an operator, a list of sensing matrices, a matrix with ``shape``.
    The rows of A are collected (p products with the adjoint, 8·p·mn bytes; a complex row counts as two real ones), and
    a QR factorisation with column pivoting, Aᵀ = Q·R, gives b = Rᵀ·(Qᵀx): O(p²·mn). Then
    ``recover(Q.transform(b), Q)`` solves the paper's problem (1.4) in place of (1.1). In both, the same M fit the
    measurements exactly, {M : A[M] = b}, but noise is weighed differently: (1.1) trusts the measurements as they come,
    (1.4) undoes their correlations, and amplifies noise along directions that A hardly sees.

    >>> import numpy as np
    >>> from rankwolf.sensing import Gaussian, orthonormalize
    >>> A = Gaussian(8, (3, 4), seed=0)
    >>> Q = orthonormalize(A)
    >>> X = np.arange(12.0).reshape(3, 4)
    >>> bool(np.allclose(Q.transform(A.apply(X)), Q.apply(X)))
    True
    """
    sensing = as_sensing(sensing, shape)
    check_linear(sensing, "orthonormalize")
    m, n = sensing.shape
    columns = np.empty((m * n, sensing.size), sensing.dtype)
    for k in range(sensing.size):
        unit = np.zeros(sensing.size, sensing.dtype)
        unit[k] = 1.0
        columns[:, k] = sensing.adjoint(unit).ravel().conj()
    rows = _real_rows(columns.T)
    basis, upper, order = scipy.linalg.qr(rows.T, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(upper))
    rank = int(np.count_nonzero(diagonal > diagonal[0] * np.finfo(np.float64).eps * max(rows.shape)))
    mixing = np.empty((rows.shape[0], rank))
    mixing[order] = upper[:rank].T
    return Orthonormal(np.ascontiguousarray(basis[:, :rank]), mixing, sensing)


def _real_rows(values: Array) -> Array:
    """Complex rows as twice as many real ones: all real parts, then all imaginary parts. Real rows as they are."""
    return np.concatenate([values.real, values.imag]) if np.iscomplexobj(values) else values
