"""The one contract for measurements: b = A[M], a linear operator on m × n matrices with its adjoint.

Operators are linear over the complex numbers, so that they can be composed. Whether L and S are real or complex, and
what a real unknown makes of a complex operator, is decided in one place,
:class:`rankwolf.data.measurements.Measurements`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwolf.ground.arrays import Array, is_complex, namespace
from rankwolf.ground.complaints import bad

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankwolf.sensing.combined import Composition

# Between these the largest entries of b and of A[X] must lie, so that the powers of A*b that the algorithms and the
# certificate take are within float64's range.
SCALE = (1e-30, 1e30)


@dataclass(frozen=True)
class Products:
    """Two functions that multiply G = Re(A*y), or its transpose, with a block of columns, without making G.

    An operator's ``adjoint_products`` returns them. A column costs fewer operations than the mn of the dense product.

    >>> import numpy as np
    >>> from rankwolf.sensing import Entries
    >>> A = Entries(np.eye(3, 4, dtype=bool))
    >>> A.adjoint_products(np.array([1.0, 2.0, 3.0])).times(np.ones((4, 1))).ravel()
    array([1., 2., 3.])
    """

    times: Callable[[Array], Array]
    transposed_times: Callable[[Array], Array]


def _of_its_shape(method: Any, name: str) -> Any:
    @wraps(method)
    def checked(self: Sensing, array: Array) -> Array:
        wanted: tuple[int, ...] = self.shape if name == "apply" else (self.size,)
        shape = getattr(array, "shape", None)
        if shape is None or tuple(shape) != wanted:
            what = "matrix" if name == "apply" else "values"
            found = type(array).__name__ if shape is None else f"shape {tuple(shape)}"
            raise bad(what, f"of shape {wanted}", found, f"{type(self).__name__}.{name}")
        result: Array = method(self, array)
        return result

    return checked


def real_part(x: Any) -> Any:
    """The real part of an array of any library, as one piece."""
    if isinstance(x, np.ndarray):
        return np.ascontiguousarray(x.real)
    return namespace(x).real(x) if is_complex(x) else x


class Sensing(ABC):
    """A: C^{m×n} → C^p. ``shape`` is (m, n), ``size`` is p, ``dtype`` that of the measurements.

    A subclass must have ``apply`` and ``adjoint``. The other methods work for every operator; one with structure may
    replace them by faster ones or by sharper bounds. Two attributes:

    - ``complex_unknown``: the matrices are complex by nature, such as images with a phase or Fourier coefficients in
      time. ``recover`` then looks for complex L and S.
    - ``sparsifies``: they are coefficients of a series in a basis in which its changes are sparse. ``recover`` then
      ends at the pair that predicts best (``stop="prediction"``).
    - ``takes_tensors``: ``apply`` and ``adjoint`` take tensors of torch or CuPy as well, and return tensors.

    An iteration of ``recover`` costs one ``apply`` and one ``adjoint``.

    >>> import numpy as np
    >>> from rankwolf.sensing import Sensing
    >>> class RowSums(Sensing):
    ...     def __init__(self, shape):
    ...         super().__init__(shape, size=shape[0])
    ...
    ...     def apply(self, matrix):
    ...         return matrix.sum(axis=1)
    ...
    ...     def adjoint(self, vector):
    ...         return np.repeat(vector[:, None], self.shape[1], axis=1)
    >>> RowSums((2, 3)).apply(np.ones((2, 3)))
    array([3., 3.])
    """

    complex_unknown: bool = False
    sparsifies: bool = False
    takes_tensors: bool = False

    def __init__(self, shape: tuple[int, int], size: int, dtype: Any = np.float64) -> None:
        self.shape, self.size, self.dtype = (int(shape[0]), int(shape[1])), int(size), np.dtype(dtype)

    def __init_subclass__(cls, **settings: Any) -> None:
        """Every operator checks the shape of what it is applied to, so that a wrong one is an error in our words."""
        super().__init_subclass__(**settings)
        for name in ("apply", "adjoint"):
            if name in vars(cls):
                setattr(cls, name, _of_its_shape(vars(cls)[name], name))

    @abstractmethod
    def apply(self, matrix: Array) -> Array:
        """A[X], p numbers."""

    @abstractmethod
    def adjoint(self, values: Array) -> Array:
        """A*y, an m × n matrix with ⟨A[X], y⟩ = ⟨X, A*y⟩; complex where A is."""

    def real_adjoint(self, values: Array) -> Array:
        """Re(A*y): the adjoint of A on real matrices, for the inner product Re⟨·, ·⟩ of measurements."""
        return real_part(self.adjoint(values))  # type: ignore[no-any-return]

    def adjoint_on(self, values: Array, real: bool) -> Array:
        """A*y for A on complex matrices, or with ``real`` Re(A*y), for A on real ones."""
        return self.real_adjoint(values) if real else self.adjoint(values)

    def apply_factors(self, left: Array, right: Array) -> Array:
        """A[left·rightᵀ], p numbers. Here through the dense product; operators with structure need not make it."""
        return self.apply(left @ right.T)

    def adjoint_products(self, values: Array) -> Products | None:
        """Products with Re(A*y) at a cost of about p instead of mn; None where the operator has no such structure."""
        return None

    def matrix(self) -> Array | None:
        """A as a p × mn matrix that acts on ``X.ravel()``, where it is at hand; otherwise None."""
        return None

    def groups(self, real: bool) -> Array | None:
        """A whole number for each measurement; those that share it say nearly the same. None where no two do.

        All coils at one place of k-space, for instance. ``real``: for real matrices.
        """
        return None

    def as_vector(self, b: Array) -> Array:
        """The p measurements of ``b``, which may have a shape that the operator knows, such as all of k-space.

        Returns ``b`` itself where the operator knows no shape but that of a vector.
        """
        return b

    def from_list(self, parts: list[Array]) -> Array:
        """Measurements that came as a list, an array for each frame; here put together."""
        if len({part.shape for part in parts}) == 1:
            return self.as_vector(np.stack(parts))
        return np.concatenate([part.ravel() for part in parts])

    @property
    def norm(self) -> float | None:
        """An upper bound on ‖A‖ = max ‖A[X]‖/‖X‖_F where it is known without much work; 1 for a projection."""
        return None if self.semi_orthogonal is None else self.semi_orthogonal**0.5

    @property
    def semi_orthogonal(self) -> float | None:
        """c, where it is known that AA* = c·I: the measurements are orthogonal and of one length. Otherwise None."""
        return None

    def column_bound(self) -> Array | float | None:
        """e ≥ 0 with A*A ≼ diag(e): an array of the matrix's shape, one number for all entries, or None if unknown.

        A stack adds up the e of its parts, which bounds its norm far better than the sum of their norms.
        """
        return None if self.norm is None else self.norm**2

    def row_bound(self, real: bool) -> Array | float | None:
        """d ≥ 0 with AA* ≼ diag(d): p numbers, one for all measurements, or None if unknown.

        It sets the lengths of the solver's dual steps. With ``real``, the bound for A on real matrices.
        """
        return None if self.norm is None else self.norm**2

    def __matmul__(self, inner: Sensing) -> Composition:
        """``outer @ inner``: see :class:`rankwolf.sensing.Composition`."""
        from rankwolf.sensing.combined import Composition  # a Sensing too: its module imports this one

        return Composition(self, inner)

    def __repr__(self) -> str:
        kind = "complex" if self.dtype.kind == "c" else "real"
        return f"{type(self).__name__}({self.size} {kind} measurements of {self.shape[0]} × {self.shape[1]})"
