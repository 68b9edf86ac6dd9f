"""Operators from elsewhere: arrays, sparse matrices, lists of sensing matrices, LinearOperators, lists by frames."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad, check_shape
from rankwolf.sensing.adapters import Shaped, check_image_shape, recognised
from rankwolf.sensing.base import Sensing
from rankwolf.sensing.combined import Blocks


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


_KINDS = (
    "an operator of rankwolf.sensing, SigPy, PyLops or mri-nufft, a list of sensing matrices or of an operator for "
    "each frame, a pair (forward, adjoint) of functions, or anything that scipy.sparse.linalg.aslinearoperator takes"
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


def as_sensing(sensing: Any, shape: Any = None, b: Any = None) -> Sensing:
    """The operator that :func:`rankwolf.recover` makes of its second argument; ``shape`` is (frames, …image).

    ``shape`` may be left out for operators that know it: those of :mod:`rankwolf.sensing`, of SigPy and PyLops, lists
    of sensing matrices, and lists with an operator for each frame. Functions get tensors where ``b`` is one.
    Cost: none for an operator, which is returned as it is; a list of sensing matrices is copied into one array.

    >>> import numpy as np
    >>> from rankwolf.sensing import as_sensing
    >>> as_sensing(np.ones((1, 6)), (2, 3))
    LinearSensing(1 real measurements of 2 × 3)
    """
    wanted = None if shape is None else check_image_shape(shape)
    known: Sensing | None = None
    if isinstance(sensing, Sensing):
        known = sensing
    elif (
        isinstance(sensing, list)
        and sensing
        and not hasattr(sensing[0], "__array__")
        and _is_operator(sensing[0])
    ):
        frame = None if wanted is None else (1, *wanted[1:])
        known = Blocks([_frame(part, frame, b) for part in sensing])
    elif isinstance(sensing, list) or (isinstance(sensing, np.ndarray) and sensing.ndim == 3):
        known = sensing_matrices(sensing)
    elif isinstance(sensing, tuple) and (len(sensing) != 2 or not all(map(callable, sensing))):
        raise bad("sensing", _KINDS, f"a tuple of {len(sensing)}", "recover")
    elif not (isinstance(sensing, np.ndarray) or scipy.sparse.issparse(sensing)):
        known = recognised(sensing, wanted, b)
    if known is None:
        return LinearSensing(sensing, matrix_shape(_needed(wanted)))
    if wanted is not None and known.shape != matrix_shape(wanted):
        raise bad(
            "shape", f"that of the matrices which sensing measures, {known.shape}", str(wanted), "recover"
        )
    return known


def _is_operator(part: Any) -> bool:
    return isinstance(part, Sensing) or callable(part) or hasattr(part, "op") or hasattr(part, "rmatvec")


def _frame(part: Any, shape: tuple[int, ...] | None, b: Any) -> Sensing:
    """The operator of one frame, on an image without an axis for frames."""
    if isinstance(part, Sensing):
        return part
    if hasattr(part, "ishape") and hasattr(part, "oshape"):
        image, adjoint = tuple(part.ishape), part.H
        return Shaped(
            lambda x: part(x.reshape(image)),
            lambda y: adjoint(y),
            (1, *image),
            tuple(part.oshape),
            np.complex128,
            dtypes=(np.complex128, np.complex128),
            complex_unknown=True,
        )
    if hasattr(part, "dims") and hasattr(part, "rmatvec"):
        return as_sensing(part, (1, *part.dims), b)
    if hasattr(part, "adj_op"):
        return as_sensing(part, (1, *part.shape), b)
    return as_sensing(part, shape, b)


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """(frames, pixels) of (frames, …image)."""
    return shape[0], prod(shape[1:])


def _needed(shape: tuple[int, ...] | None) -> tuple[int, ...]:
    if shape is None:
        raise bad(
            "shape", "given, as (frames, …image), for an operator that does not know it", "None", "recover"
        )
    return shape


def _dense(matrix: Any) -> Array:
    sparse = scipy.sparse.issparse(matrix)
    return np.asarray(matrix.toarray() if sparse else matrix)
