"""Operators made of operators: one after the other, and one beside the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from rankwolf.sensing.base import Array, Products, Sensing, bad


class Composition(Sensing):
    """outer[inner[X]]: what ``inner`` measures, reshaped to the matrix that ``outer`` expects, is measured again.

    Coil sensitivities before a Fourier transform, a blur before sampling, a whitening of measurements that are there.
    ‖A‖ ≤ ‖outer‖·‖inner‖ where both are known.

    >>> import numpy as np
    >>> from rankwolf.sensing import Entries, PartialDCT
    >>> transform = PartialDCT(np.ones((3, 4), dtype=bool))
    >>> (Entries(np.eye(3, 4, dtype=bool)) @ transform).size
    3
    """

    def __init__(self, outer: Sensing, inner: Sensing) -> None:
        for name, part in (("outer", outer), ("inner", inner)):
            if not isinstance(part, Sensing):
                raise bad(name, "a sensing operator", type(part).__name__, "Composition",
                          "LinearSensing makes one of a matrix; A.apply(X) measures X.")  # fmt: skip
        if outer.shape[0] * outer.shape[1] != inner.size:
            m, n = outer.shape
            raise bad("outer", f"an operator on as many numbers as inner measures, {inner.size}",
                      f"one on {m} × {n} matrices", "Composition")  # fmt: skip
        super().__init__(inner.shape, outer.size, np.result_type(outer.dtype, inner.dtype))
        self.outer, self.inner = outer, inner

    def apply(self, matrix: Array) -> Array:
        """The inner one first."""
        return self.outer.apply(self.inner.apply(matrix).reshape(self.outer.shape))

    def adjoint(self, values: Array) -> Array:
        """The outer one's adjoint first."""
        return self.inner.adjoint(self.outer.adjoint(values).ravel())

    def real_adjoint(self, values: Array) -> Array:
        """The inner operator may know a cheaper way to the real part."""
        return self.inner.real_adjoint(self.outer.adjoint(values).ravel())

    def apply_factors(self, left: Array, right: Array) -> Array:
        """With the inner operator's structure."""
        return self.outer.apply(self.inner.apply_factors(left, right).reshape(self.outer.shape))

    def adjoint_products(self, values: Array) -> Products | None:
        """The inner operator's."""
        return self.inner.adjoint_products(self.outer.adjoint(values).ravel())

    @property
    def norm(self) -> float | None:
        """The product of the two bounds."""
        outer, inner = self.outer.norm, self.inner.norm
        return None if outer is None or inner is None else outer * inner


class Stack(Sensing):
    """All measurements of several operators on the same matrix, one after the other in b.

    ‖A‖² ≤ Σ‖A_i‖² where all are known. Measurements are complex where any of the operators is; the adjoint of a real
    operator takes the real part of its share for real matrices, as it has to.

    >>> import numpy as np
    >>> from rankwolf.sensing import Gaussian, PartialDCT, Stack
    >>> Stack([Gaussian(7, (3, 4), seed=0), PartialDCT.random(5, (3, 4), seed=0)]).size
    12
    """

    def __init__(self, parts: Sequence[Sensing]) -> None:
        if not isinstance(parts, list | tuple) or not parts or any(not isinstance(x, Sensing) for x in parts):
            kinds = (
                [type(x).__name__ for x in parts] if isinstance(parts, list | tuple) else type(parts).__name__
            )
            raise bad("parts", "a list of at least one sensing operator", kinds, "Stack",
                      "LinearSensing makes one of a matrix.")  # fmt: skip
        shapes = [part.shape for part in parts]
        if len(set(shapes)) > 1:
            raise bad("parts", "operators on matrices of one shape", str(shapes), "Stack")
        ends = np.cumsum([0] + [part.size for part in parts])
        super().__init__(shapes[0], int(ends[-1]), np.result_type(*(part.dtype for part in parts)))
        self.parts = tuple(parts)
        self._slices = [slice(int(start), int(stop)) for start, stop in pairwise(ends)]

    def apply(self, matrix: Array) -> Array:
        """Every part."""
        return np.concatenate([part.apply(matrix) for part in self.parts])

    def adjoint(self, values: Array) -> Array:
        """The sum of the parts' adjoints."""
        shares = [part.adjoint(values[where]) for part, where in zip(self.parts, self._slices, strict=True)]
        return np.asarray(sum(shares[1:], start=shares[0]))

    def real_adjoint(self, values: Array) -> Array:
        """The sum of the parts' real adjoints."""
        shares = [
            part.real_adjoint(values[where]) for part, where in zip(self.parts, self._slices, strict=True)
        ]
        return np.asarray(sum(shares[1:], start=shares[0]))

    def apply_factors(self, left: Array, right: Array) -> Array:
        """Every part with its structure."""
        return np.concatenate([part.apply_factors(left, right) for part in self.parts])

    def adjoint_products(self, values: Array) -> Products | None:
        """Where every part has them."""
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

    @property
    def norm(self) -> float | None:
        """The root of the sum of squares."""
        norms = [part.norm for part in self.parts]
        known = [norm for norm in norms if norm is not None]
        return float(np.linalg.norm(known)) if len(known) == len(norms) else None
