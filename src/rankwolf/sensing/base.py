"""The one contract for measurements: b = A[M], a linear operator on m × n matrices with its adjoint.

Operators are linear over the complex numbers, so that they can be composed; L and S are real, and what a real unknown
makes of a complex operator is decided in one place, :class:`rankwolf.sensing.measurements.Measurements`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankwolf.sensing.combined import Composition

Array = np.ndarray[Any, np.dtype[Any]]
# Of b and of A, each: the powers of A*b that the algorithms and the certificate take then neither overflow nor vanish.
SCALE = (1e-30, 1e30)


@dataclass(frozen=True)
class Products:
    """G = Re(A*y) as products with it and with its transpose, blocks of columns at a time; G itself is not made."""

    times: Callable[[Array], Array]
    transposed_times: Callable[[Array], Array]


class Sensing(ABC):
    """A: R^{m×n} → R^p or C^p. ``shape`` is (m, n), ``size`` is p, ``dtype`` that of the measurements.

    A subclass gives ``apply`` and ``adjoint``. The other methods have general answers, which an operator with structure
    may replace by cheaper ones.
    """

    def __init__(self, shape: tuple[int, int], size: int, dtype: Any = np.float64) -> None:
        self.shape, self.size, self.dtype = (int(shape[0]), int(shape[1])), int(size), np.dtype(dtype)

    @abstractmethod
    def apply(self, matrix: Array) -> Array:
        """A[X], p numbers."""

    @abstractmethod
    def adjoint(self, values: Array) -> Array:
        """A*y, an m × n matrix with ⟨A[X], y⟩ = ⟨X, A*y⟩; complex where A is."""

    def real_adjoint(self, values: Array) -> Array:
        """Re(A*y): the adjoint of A on real matrices, for the inner product Re⟨·, ·⟩ of measurements."""
        return np.ascontiguousarray(self.adjoint(values).real)

    def apply_factors(self, left: Array, right: Array) -> Array:
        """A[left·rightᵀ]."""
        return self.apply(left @ right.T)

    def adjoint_products(self, values: Array) -> Products | None:
        """Products with Re(A*y) that cost about p and not mn; None where the operator has no such structure."""
        return None

    @property
    def norm(self) -> float | None:
        """An upper bound on ‖A‖ = max ‖A[X]‖/‖X‖_F where it is known without any work; 1 for a projection."""
        return None

    def __matmul__(self, inner: Sensing) -> Composition:
        """``outer @ inner``: see :class:`rankwolf.sensing.Composition`."""
        from rankwolf.sensing.combined import Composition

        return Composition(self, inner)

    def __repr__(self) -> str:
        kind = "complex" if self.dtype.kind == "c" else "real"
        return f"{type(self).__name__}({self.size} {kind} measurements of {self.shape[0]} × {self.shape[1]})"


def bad(name: str, rule: str, got: object, where: str, remedy: str = "") -> ValueError:
    """A complaint in the form of :func:`rankwolf.validation.bad`, which this folder is below."""
    return ValueError(
        f"The '{name}' parameter of {where} must be {rule}. Got {got} instead.{' ' + remedy if remedy else ''}"
    )


def check_whole(name: str, value: Any, least: int, where: str) -> int:
    """A whole number of at least ``least``."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise bad(name, f"a whole number of at least {least}", repr(value), where)
    return int(value)


def check_shape(shape: Any, where: str) -> tuple[int, int]:
    """Two whole numbers of at least 1."""
    try:
        m, n = (int(side) for side in shape)
        whole = m == shape[0] and n == shape[1] and m >= 1 and n >= 1
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise bad("shape", "(m, n), two whole numbers of at least 1", repr(shape), where)
    return m, n
