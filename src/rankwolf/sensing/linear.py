"""Operators from elsewhere: arrays, sparse matrices, lists of sensing matrices, LinearOperators, pairs of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad, check_shape
from rankwolf.sensing.base import Sensing


class LinearSensing(Sensing):
    """A p × mn operator that acts on ``X.ravel()``, the entries of the matrix row after row.

    ``operator`` is anything that ``scipy.sparse.linalg.aslinearoperator`` takes: an array, a sparse matrix, a
    LinearOperator, an operator of PyLops. A product costs what the operator's own does, 2p·mn operations for an array.

    >>> import numpy as np
    >>> from rankwolf.sensing import LinearSensing
    >>> LinearSensing(np.ones((1, 6)), (2, 3)).apply(np.arange(6.0).reshape(2, 3))
    array([15.])
    """

    def __init__(self, operator: Any, shape: Any) -> None:
        from scipy.sparse.linalg import aslinearoperator

        m, n = check_shape(shape, "LinearSensing")
        try:
            linear = aslinearoperator(operator)
        except (TypeError, ValueError):
            raise bad("sensing", _KINDS, type(operator).__name__, "recover") from None
        if linear.shape[1] != m * n:
            raise bad(
                "sensing",
                f"an operator on {m * n} numbers, the entries of a {m} × {n} matrix",
                f"one of shape {tuple(linear.shape)}",
                "recover",
            )
        super().__init__((m, n), linear.shape[0], np.result_type(linear.dtype, np.float64))
        self._operator = linear

    def apply(self, matrix: Array) -> Array:
        """The operator's product with ``X.ravel()``."""
        return np.ravel(self._by_parts(self._operator.matvec, np.ravel(matrix)))

    def adjoint(self, values: Array) -> Array:
        """The product with the operator's adjoint, as an m × n matrix."""
        try:
            product = self._by_parts(self._operator.rmatvec, values)
        except (NotImplementedError, RecursionError, TypeError) as error:
            remedy = "Give a LinearOperator with rmatvec, or a pair (forward, adjoint) of functions."
            got = f"one whose rmatvec fails ({error})"
            raise bad("sensing", "an operator with an adjoint", got, "recover", remedy) from error
        return product.reshape(self.shape)

    def _by_parts(self, product: Callable[[Array], Any], vector: Array) -> Array:
        """The product; for a real operator and a complex vector, those of its real and imaginary parts put together."""
        if self.dtype.kind != "c" and np.iscomplexobj(vector):
            return np.asarray(product(np.ascontiguousarray(vector.real))) + 1j * np.asarray(
                product(np.ascontiguousarray(vector.imag))
            )
        return np.asarray(product(vector))


class FunctionSensing(Sensing):
    """Two functions: ``forward`` makes p numbers, in any shape, of an m × n array; ``backward`` is its adjoint.

    ``backward`` gets the p numbers as a vector and returns the mn entries in any shape. Arguments and results are
    copied, so that a function may overwrite its argument or return the same array every time. A product costs one call.

    >>> import numpy as np
    >>> from rankwolf.sensing import FunctionSensing
    >>> A = FunctionSensing(lambda X: X.sum(axis=0), lambda y: np.tile(y, (2, 1)), (2, 3))
    >>> A.apply(np.ones((2, 3))), A.size
    (array([2., 2., 2.]), 3)
    """

    def __init__(self, forward: Callable[[Array], Any], backward: Callable[[Array], Any], shape: Any) -> None:
        shape = check_shape(shape, "recover")
        first = np.ravel(np.asarray(forward(np.zeros(shape))))
        if first.dtype.kind not in "biufc":
            raise bad(
                "sensing",
                "a pair (forward, adjoint) whose first function gives numbers",
                f"dtype {first.dtype}",
                "recover",
            )
        super().__init__(shape, first.size, np.result_type(first.dtype, np.float64))
        self._forward, self._backward = forward, backward

    def apply(self, matrix: Array) -> Array:
        """What ``forward`` returns, as a vector."""
        values = np.array(self._forward(matrix.copy())).ravel()
        if values.size != self.size:
            raise bad(
                "sensing",
                f"a function with {self.size} values for every matrix",
                f"{values.size} values",
                "recover",
            )
        return values

    def adjoint(self, values: Array) -> Array:
        """What ``backward`` returns, as an m × n matrix."""
        matrix = np.array(self._backward(values.copy()))
        if matrix.size != self.shape[0] * self.shape[1]:
            raise bad(
                "sensing",
                f"a pair (forward, adjoint) whose second function gives a {self.shape[0]} × "
                f"{self.shape[1]} matrix",
                f"an array of shape {matrix.shape}",
                "recover",
            )
        return matrix.reshape(self.shape)


_KINDS = (
    "a rankwolf.sensing operator, a list of sensing matrices, a pair (forward, adjoint) of functions, or anything that "
    "scipy.sparse.linalg.aslinearoperator takes"
)


def sensing_matrices(matrices: Any) -> LinearSensing:
    """The operator b_k = ⟨A_k, X⟩ for a list of matrices A_k, dense or sparse, or an array of shape (p, m, n).

    Memory: p·mn numbers, or the stored entries of sparse matrices. A product costs twice as many operations.

    >>> import numpy as np
    >>> from rankwolf.sensing import sensing_matrices
    >>> sensing_matrices([np.eye(2), np.ones((2, 2))]).apply(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([ 5., 10.])
    """
    parts: list[Any] = list(matrices)
    if not parts:
        raise bad("sensing", "a list of at least one matrix", "an empty list", "recover")
    if not all(scipy.sparse.issparse(part) for part in parts):
        parts = [_dense(part) for part in parts]
    shapes = {tuple(part.shape) for part in parts}
    if len(shapes) > 1 or any(len(shape) != 2 for shape in shapes):
        raise bad("sensing", "a list of matrices of one shape", f"shapes {sorted(shapes)}", "recover")
    m, n = parts[0].shape
    if scipy.sparse.issparse(parts[0]):
        rows = [scipy.sparse.csr_array(part).reshape((1, m * n)) for part in parts]
        return LinearSensing(scipy.sparse.vstack(rows, format="csr"), (m, n))
    stacked = np.array(parts).reshape(len(parts), m * n)
    if stacked.dtype.kind not in "biufc":
        raise bad("sensing", "a list of matrices of numbers", f"dtype {stacked.dtype}", "recover")
    return LinearSensing(stacked.astype(np.result_type(stacked.dtype, np.float64), copy=False), (m, n))


def as_sensing(sensing: Any, shape: Any = None) -> Sensing:
    """The operator that :func:`rankwolf.recover` makes of its second argument; ``shape`` is that of the matrix.

    ``shape`` may be left out for operators of :mod:`rankwolf.sensing` and lists of sensing matrices, which know it.
    Cost: none for an operator, which is returned as it is; a list of sensing matrices is copied into one array.

    >>> import numpy as np
    >>> from rankwolf.sensing import as_sensing
    >>> as_sensing(np.ones((1, 6)), (2, 3))
    LinearSensing(1 real measurements of 2 × 3)
    """
    wanted = None if shape is None else check_shape(shape, "recover")
    if isinstance(sensing, Sensing):
        found = sensing
    elif isinstance(sensing, list) or (isinstance(sensing, np.ndarray) and sensing.ndim == 3):
        found = sensing_matrices(sensing)
    elif isinstance(sensing, tuple):
        if len(sensing) != 2 or not all(map(callable, sensing)):
            raise bad("sensing", _KINDS, f"a tuple of {len(sensing)}", "recover")
        found = FunctionSensing(*sensing, shape=_needed(wanted))
    else:
        found = LinearSensing(sensing, _needed(wanted))
    if wanted is not None and found.shape != wanted:
        raise bad(
            "shape", f"that of the matrices which sensing measures, {found.shape}", str(wanted), "recover"
        )
    return found


def _needed(shape: tuple[int, int] | None) -> tuple[int, int]:
    if shape is None:
        raise bad("shape", "given, as (m, n), for an operator that does not know it", "None", "recover")
    return shape


def _dense(matrix: Any) -> Array:
    sparse = scipy.sparse.issparse(matrix)
    return np.asarray(matrix.toarray() if sparse else matrix)
