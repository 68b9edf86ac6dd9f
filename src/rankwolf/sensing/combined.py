"""Operators made of operators: ``Composition``, ``Stack`` (all on one matrix) and ``Blocks`` (each on its own rows)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from rankwolf.ground.arrays import Array, namespace
from rankwolf.ground.complaints import bad
from rankwolf.sensing.base import Products, Sensing


class Composition(Sensing):
    """outer[inner[X]], written ``outer @ inner``: what ``inner`` gives is reshaped to the matrix that ``outer`` takes.

    For a temporal transform or coil sensitivities before a Fourier transform, a blur before sampling, or weights for
    measurements. ‖A‖ is bounded by ‖outer‖·‖inner‖ where both are known. A product costs one of each operator.

    >>> import numpy as np
    >>> from rankwolf.sensing import Entries, PartialDCT
    >>> transform = PartialDCT(np.ones((3, 4), dtype=bool))
    >>> (Entries(np.eye(3, 4, dtype=bool)) @ transform).size
    3
    """

    def __init__(self, outer: Sensing, inner: Sensing) -> None:
        for name, part in (("outer", outer), ("inner", inner)):
            if not isinstance(part, Sensing):
                raise bad(
                    name,
                    "a sensing operator",
                    type(part).__name__,
                    "Composition",
                    "LinearSensing makes one of a matrix; A.apply(X) measures X.",
                )
        if outer.shape[0] * outer.shape[1] != inner.size:
            m, n = outer.shape
            raise bad(
                "outer",
                f"an operator on as many numbers as inner measures, {inner.size}",
                f"one on {m} × {n} matrices",
                "Composition",
            )
        super().__init__(inner.shape, outer.size, np.result_type(outer.dtype, inner.dtype))
        self.outer, self.inner = outer, inner
        self.sparsifies = inner.sparsifies
        self.takes_tensors = outer.takes_tensors and inner.takes_tensors
        self.complex_unknown = inner.complex_unknown or (outer.complex_unknown and inner.dtype.kind != "c")

    def apply(self, matrix: Array) -> Array:
        """outer[inner[X]]."""
        return self.outer.apply(self.inner.apply(matrix).reshape(self.outer.shape))

    def adjoint(self, values: Array) -> Array:
        """inner*(outer*(y))."""
        return self.inner.adjoint(self.outer.adjoint(values).reshape(-1))

    def real_adjoint(self, values: Array) -> Array:
        """Re(inner*(outer*(y))), for which ``inner`` may know a way of its own."""
        return self.inner.real_adjoint(self.outer.adjoint(values).reshape(-1))

    def apply_factors(self, left: Array, right: Array) -> Array:
        """outer[inner[left·rightᵀ]], with the structure of ``inner``."""
        return self.outer.apply(self.inner.apply_factors(left, right).reshape(self.outer.shape))

    def adjoint_products(self, values: Array) -> Products | None:
        """Products with Re(inner*(outer*(y))), where ``inner`` has such; None otherwise."""
        return self.inner.adjoint_products(self.outer.adjoint(values).ravel())

    def groups(self, real: bool) -> Array | None:
        """Those of ``outer``."""
        return self.outer.groups(real and self.inner.dtype.kind != "c")

    def as_vector(self, b: Array) -> Array:
        """The measurements as a vector; ``b`` has any shape that ``outer`` knows."""
        return self.outer.as_vector(b)

    @property
    def norm(self) -> float | None:
        """‖outer‖·‖inner‖, an upper bound; None where one is unknown."""
        outer, inner = self.outer.norm, self.inner.norm
        return None if outer is None or inner is None else outer * inner

    @property
    def semi_orthogonal(self) -> float | None:
        """The product of the two constants, because A(BB*)A* = c·AA* where BB* = c·I; None where one is unknown."""
        outer, inner = self.outer.semi_orthogonal, self.inner.semi_orthogonal
        return None if outer is None or inner is None else outer * inner

    def column_bound(self) -> Array | float | None:
        """‖A‖² times the column bound of B, for A = outer and B = inner, because B*(A*A)B ≼ ‖A‖²·B*B."""
        outer, inner = self.outer.norm, self.inner.column_bound()
        return None if outer is None or inner is None else outer**2 * inner

    def row_bound(self, real: bool) -> Array | float | None:
        """‖B‖² times the row bound of A, for A = outer and B = inner, because A(BB*)A* ≼ ‖B‖²·AA*.

        With ``real``, ``outer`` sees real matrices if ``inner`` is a real operator.
        """
        still_real = real and self.inner.dtype.kind != "c"
        inner, outer = self.inner.norm, self.outer.row_bound(still_real)
        return None if outer is None or inner is None else inner**2 * outer


class Stack(Sensing):
    """Several operators that measure the same matrix; b holds the measurements of the first, then of the second, …

    Where every part knows A_i*A_i ≼ diag(e_i), ‖A‖² is at most the largest entry of Σe_i. For coils written as
    ``Stack([F @ Weighting(map) for map in maps])`` that is the largest Σ|map|² of a pixel. b is complex where any
    operator is. A product costs one of each part.

    >>> import numpy as np
    >>> from rankwolf.sensing import Gaussian, PartialDCT, Stack
    >>> Stack([Gaussian(7, (3, 4), seed=0), PartialDCT.random(5, (3, 4), seed=0)]).size
    12
    """

    def __init__(self, parts: Sequence[Sensing]) -> None:
        parts = _check_parts(parts, "Stack")
        shapes = [part.shape for part in parts]
        if len(set(shapes)) > 1:
            raise bad("parts", "operators on matrices of one shape", str(shapes), "Stack")
        ends = np.cumsum([0] + [part.size for part in parts])
        super().__init__(shapes[0], int(ends[-1]), np.result_type(*(part.dtype for part in parts)))
        self.parts = parts
        self.complex_unknown = any(part.complex_unknown for part in parts)
        self.takes_tensors = all(part.takes_tensors for part in parts)
        self._slices = _slices(ends)

    def apply(self, matrix: Array) -> Array:
        """The measurements of every part, one after the other."""
        return joined([part.apply(matrix) for part in self.parts])

    def adjoint(self, values: Array) -> Array:
        """The sum of the parts' adjoints."""
        shares = [part.adjoint(values[where]) for part, where in zip(self.parts, self._slices, strict=True)]
        return sum(shares[1:], start=shares[0])

    def real_adjoint(self, values: Array) -> Array:
        """The sum of the parts' real adjoints."""
        shares = [
            part.real_adjoint(values[where]) for part, where in zip(self.parts, self._slices, strict=True)
        ]
        return sum(shares[1:], start=shares[0])

    def apply_factors(self, left: Array, right: Array) -> Array:
        """The measurements of left·rightᵀ by every part, through its own structure."""
        return joined([part.apply_factors(left, right) for part in self.parts])

    def adjoint_products(self, values: Array) -> Products | None:
        """Sums of the parts' products, where every part has them; else None."""
        shares = [
            part.adjoint_products(values[where]) for part, where in zip(self.parts, self._slices, strict=True)
        ]
        known = [share for share in shares if share is not None]
        if len(known) < len(shares):
            return None
        return Products(
            lambda block: np.asarray(sum(share.times(block) for share in known)),
            lambda block: np.asarray(sum(share.transposed_times(block) for share in known)),
        )

    def groups(self, real: bool) -> Array | None:
        """Those of the parts, one after the other."""
        return _groups(self.parts, real)

    @property
    def norm(self) -> float | None:
        """√max Σe_i, with e_i the column bounds of the parts; None where one is unknown."""
        bound = self.column_bound()
        return None if bound is None else float(np.max(bound) ** 0.5)

    def column_bound(self) -> Array | float | None:
        """Σe_i, with e_i the column bounds of the parts; None where one is unknown."""
        bounds = [part.column_bound() for part in self.parts]
        known = [bound for bound in bounds if bound is not None]
        return sum(known[1:], start=known[0]) if len(known) == len(bounds) else None


class Blocks(Sensing):
    """An operator for each group of rows: the first measures the first rows of the matrix, the second the next, …

    For frames that were measured in different ways. ‖A‖ is the largest of the norms, and AA* = c·I where all parts have
    the same c. A product costs one of each part.

    >>> import numpy as np
    >>> from rankwolf.sensing import Blocks, Entries, PartialDCT
    >>> Blocks([Entries(np.ones((2, 3), bool)), PartialDCT.random(4, (5, 3), seed=0)])
    Blocks(10 real measurements of 7 × 3)
    """

    def __init__(self, parts: Sequence[Sensing]) -> None:
        parts = _check_parts(parts, "Blocks")
        widths = sorted({part.shape[1] for part in parts})
        if len(widths) > 1:
            raise bad("parts", "operators on matrices with the same number of columns", str(widths), "Blocks")
        ends = np.cumsum([0] + [part.size for part in parts])
        rows = np.cumsum([0] + [part.shape[0] for part in parts])
        dtype = np.result_type(*(part.dtype for part in parts))
        super().__init__((int(rows[-1]), widths[0]), int(ends[-1]), dtype)
        self.parts = parts
        self.complex_unknown = any(part.complex_unknown for part in parts)
        self.takes_tensors = all(part.takes_tensors for part in parts)
        self._slices = _slices(ends)
        self._rows = _slices(rows)

    def apply(self, matrix: Array) -> Array:
        """The measurements of every group of rows, one group after the other."""
        pairs = zip(self.parts, self._rows, strict=True)
        return joined([part.apply(matrix[rows]) for part, rows in pairs])

    def adjoint(self, values: Array) -> Array:
        """The adjoints of the parts, one below the other."""
        pairs = zip(self.parts, self._slices, strict=True)
        return joined([part.adjoint(values[where]) for part, where in pairs])

    def real_adjoint(self, values: Array) -> Array:
        """The real adjoints of the parts, one below the other."""
        pairs = zip(self.parts, self._slices, strict=True)
        return joined([part.real_adjoint(values[where]) for part, where in pairs])

    def apply_factors(self, left: Array, right: Array) -> Array:
        """The measurements of left·rightᵀ by every part, through its own structure."""
        pairs = zip(self.parts, self._rows, strict=True)
        return joined([part.apply_factors(left[rows], right) for part, rows in pairs])

    def as_vector(self, b: Array) -> Array:
        """The measurements of the parts, one after the other, from an array with an axis for them."""
        if b.ndim > 1 and len(b) == len(self.parts):
            return self.from_list(list(b))
        return b

    def from_list(self, parts: list[Array]) -> Array:
        """The measurements of each part, in a shape that it knows."""
        if len(parts) != len(self.parts):
            rule = f"a list of {len(self.parts)} arrays, one for each part of the operator"
            raise bad("b", rule, f"{len(parts)} arrays", "recover")
        return np.concatenate([part.as_vector(b) for part, b in zip(self.parts, parts, strict=True)])

    def groups(self, real: bool) -> Array | None:
        """Those of the parts, one after the other."""
        return _groups(self.parts, real)

    @property
    def norm(self) -> float | None:
        """The largest of the parts' norms; None where one is unknown."""
        norms = [part.norm for part in self.parts]
        known = [norm for norm in norms if norm is not None]
        return max(known) if len(known) == len(norms) else None

    @property
    def semi_orthogonal(self) -> float | None:
        """The c that all parts have; None where they differ or are unknown."""
        constants = {part.semi_orthogonal for part in self.parts}
        return constants.pop() if len(constants) == 1 else None

    def row_bound(self, real: bool) -> Array | float | None:
        """The row bounds of the parts, one after the other; None where one is unknown."""
        bounds = [part.row_bound(real) for part in self.parts]
        sizes = [part.size for part in self.parts]
        known = [bound for bound in bounds if bound is not None]
        if len(known) < len(bounds):
            return None
        return np.concatenate([np.broadcast_to(d, size) for d, size in zip(known, sizes, strict=True)])


def _check_parts(parts: Sequence[Sensing], where: str) -> tuple[Sensing, ...]:
    if not isinstance(parts, list | tuple):
        raise bad("parts", "a list of at least one sensing operator", type(parts).__name__, where)
    if not parts or any(not isinstance(part, Sensing) for part in parts):
        kinds = [type(part).__name__ for part in parts]
        raise bad(
            "parts",
            "a list of at least one sensing operator",
            str(kinds),
            where,
            "LinearSensing makes one of a matrix.",
        )
    return tuple(parts)


def _groups(parts: tuple[Sensing, ...], real: bool) -> Array | None:
    found = [part.groups(real) for part in parts]
    if all(group is None for group in found):
        return None
    joined, first = [], 0
    for part, group in zip(parts, found, strict=True):
        numbers = np.arange(part.size) if group is None else group
        joined.append(first + numbers)
        first += int(numbers.max()) + 1
    return np.concatenate(joined)


def joined(parts: list[Array]) -> Array:
    """Arrays of any library, one after the other."""
    together: Array = namespace(parts[0]).concat(parts)
    return together


def _slices(ends: Array) -> list[slice]:
    return [slice(int(start), int(stop)) for start, stop in pairwise(ends)]
