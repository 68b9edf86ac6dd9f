"""How L + S meets the data, for splitting: products with A, and the distance from what the data allow.

Written in the functions of the array API: the arrays may be NumPy's, torch's or CuPy's, and stay where they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.linalg

from rankwolf.data import Source
from rankwolf.data.measurements import Measurements
from rankwolf.data.tiles import dense_with_nan, is_sparse
from rankwolf.ground.arrays import Array, inner, like, namespace
from rankwolf.problem import Problem

# Splitting keeps ten arrays of the matrix's size in double precision.
SPLITTING_BYTES = 80
# An operator without orthonormal rows that has at most so many entries as a matrix (160 MB) is made a matrix first.
DENSE_ENTRIES = 20_000_000


class DataTerm(ABC):
    """What F needs of the data: products with A, the distance of A[x] from the data, and ⟨y, b⟩.

    ``bound`` is d with AA* ≼ d·I, and ``bounds``, where the dual step is no projection, d with AA* ≼ diag(d). ``exact``
    says that AA* = d·I, ``identity`` that A changes nothing. ``curvature`` holds w where F is ½Σ wᵢrᵢ² (noise:
    Σ wᵢrᵢ² ≤ ε²), and None where w = 1. ``outside`` is the part of the squared misfit that no x can change.
    """

    bound: float = 1.0
    bounds: Array | None = None
    typical_bound: float = 1.0
    exact: bool = True
    identity: bool = False
    curvature: Array | None = None
    outside: float = 0.0
    b: Any

    @abstractmethod
    def image(self, x: Array) -> Array:
        """A[x]."""

    @abstractmethod
    def adjoint(self, y: Array) -> Array:
        """A*y."""

    def distance(self, t: Array) -> Array:
        """The step from t to the nearest point that the data allow: b − t."""
        rest: Array = self.b - t
        return rest

    def dot(self, y: Array) -> float:
        """Re⟨y, b⟩, or its least value over the b that the data allow."""
        return inner(y, self.b)

    def squared(self, rest: Array) -> float:
        """Σ wᵢrᵢ²."""
        return inner(rest, rest) if self.curvature is None else inner(rest * self.curvature, rest)

    def dual_squared(self, y: Array) -> float:
        """Σ yᵢ²/wᵢ, what the dual charges for y."""
        return inner(y, y) if self.curvature is None else inner(y / self.curvature, y)


class EntriesTerm(DataTerm):
    """P_Ω: the data of each entry is an interval [low, high]; A and A* do nothing, and the distance is 0 off Ω.

    >>> import numpy as np
    >>> EntriesTerm(np.array([[1.0, -np.inf]]), np.array([[1.0, 2.0]])).distance(np.array([[0.0, 5.0]]))
    array([[ 1., -3.]])
    """

    identity = True

    def __init__(self, low: Array, high: Array) -> None:
        self.low, self.high, self.complete = low, high, low is high

    def image(self, x: Array) -> Array:
        """The matrix itself."""
        return x

    def adjoint(self, y: Array) -> Array:
        """The matrix itself: a y is 0 where nothing was observed."""
        return y

    def distance(self, t: Array) -> Array:
        """To the nearest end of the interval."""
        if self.complete:
            return self.low - t
        xp = namespace(t)
        return xp.minimum(xp.maximum(t, self.low), self.high) - t  # type: ignore[no-any-return]

    def dot(self, y: Array) -> float:
        """Σ y·low where y > 0 and Σ y·high where y < 0."""
        if self.complete:
            return inner(y, self.low)
        xp = namespace(y)
        ends = xp.where(y > 0.0, self.low, xp.where(y < 0.0, self.high, xp.zeros_like(y)))
        return inner(y, ends)

    def allowed(self, y: Array) -> Array:
        """y with 0 where its sign has no end of the interval: there it would prove nothing."""
        if self.complete:
            return y
        xp = namespace(y)
        none = xp.zeros_like(y)
        return xp.where(xp.isfinite(xp.where(y > 0.0, self.low, self.high)), y, none)  # type: ignore[no-any-return]


class MeasuredTerm(DataTerm):
    """b = A[M] through the operator of a :class:`Measurements`; AA* = c·I, or AA* ≼ d·I from its bound."""

    def __init__(self, data: Measurements, problem: Problem) -> None:
        self.data, self.b = data, data.b
        self.kept = None if data.held is None else data.native((~data.held).astype(np.float64))
        if self.kept is not None:
            self.b = self.b * self.kept
        scale = data.sensing.semi_orthogonal
        self.exact = scale is not None and data.one_field  # of real matrices, mirror images say the same
        self.bound = float(np.max(data.row_bound) if scale is None else scale) or 1.0
        if scale is None and problem.most_misfit == np.inf and np.ndim(data.row_bound):
            # Where A gives 0 whatever X is, d is 0, and any step will do.
            bounds = np.asarray(data.row_bound, np.float64)
            bounds = np.maximum(bounds, 1e-12 * float(bounds.max()))
            self.bounds, self.typical_bound = data.native(bounds).real, float(np.mean(bounds))
        else:
            self.typical_bound = self.bound

    def image(self, x: Array) -> Array:
        """One product with A; 0 where a measurement is held out."""
        image = self.data.apply(x)
        return image if self.kept is None else image * self.kept

    def adjoint(self, y: Array) -> Array:
        """One product with A*."""
        return self.data.adjoint(y)


class RotatedTerm(DataTerm):
    """A small A in the eigenbasis of AA* = Q·diag(w)·Q*: w^-½Q*A has orthonormal rows, and F is ½Σ wᵢrᵢ².

    An A without orthonormal rows then costs no more iterations than one with them. ``rows`` is A as a matrix, p × mn;
    for a complex A on real matrices, the rows of its real part and then those of its imaginary part.
    """

    def __init__(self, data: Measurements, rows: Array) -> None:
        self.data, b = data, data.b
        self.halved = rows.shape[0] == 2 * b.size
        if self.halved:
            b = np.concatenate([b.real, b.imag])
        if data.held is not None:
            kept = ~(np.tile(data.held, 2) if self.halved else data.held)
            rows, b = rows[kept], b[kept]
        squares, basis = scipy.linalg.eigh(rows @ rows.conj().T)
        kept = squares > 1e-13 * max(float(squares[-1]), 1e-300)
        self.curvature, self.basis = squares[kept], basis[:, kept]
        root, along = np.sqrt(squares[kept]), self.basis.conj().T @ b
        self.rows, self.b = (self.basis.conj().T @ rows) / root[:, None], along / root
        self.rest = b - self.basis @ along
        self.outside = inner(self.rest, self.rest)
        if self.outside <= 1e-20 * inner(b, b):
            self.outside, self.rest = 0.0, np.zeros_like(b)

    def image(self, x: Array) -> Array:
        """One product with the p × mn matrix."""
        self.data.passes += 1
        return np.asarray(self.rows @ x.ravel())

    def adjoint(self, y: Array) -> Array:
        """One product with its adjoint."""
        self.data.passes += 1
        return np.asarray((self.rows.conj().T @ y).reshape(self.data.shape))

    def for_operator(self, y: Array, share: float) -> Array:
        """The y of the operator itself with the image A*y of ``y`` here, and a ``share`` of what A misses."""
        assert self.curvature is not None
        full = self.basis @ (y / np.sqrt(self.curvature)) + share * self.rest
        if self.halved:
            full = full[: full.size // 2] + 1j * full[full.size // 2 :]
        return np.asarray(full.astype(self.data.b.dtype))


def make_term(problem: Problem, data: Any) -> DataTerm:
    """The data term: entries in memory as one array, a small operator as a matrix, any other by its products.

    A ValueError where no pair comes as close to b as ``noise`` asks.
    """
    if isinstance(data, Source):
        check_room(data, SPLITTING_BYTES, "Splitting")
        return EntriesTerm(*intervals(data))
    structured = data.sensing.semi_orthogonal is not None and data.one_field
    rows = None if structured else data.as_matrix(DENSE_ENTRIES)
    if rows is None:
        return MeasuredTerm(data, problem)
    term = RotatedTerm(data, rows)
    if term.outside**0.5 > problem.most_misfit:
        raise ValueError(
            f"The 'noise' parameter of recover must be at least {term.outside**0.5:.6g} here: no L and S come closer "
            f"to b. Got {problem.most_misfit:g}."
        )
    return term


def check_room(source: Source, entry_bytes: int, who: str) -> None:
    """A ValueError where ``max_memory`` leaves less than a method, ``who``, keeps for each entry of the matrix."""
    needed, most = entry_bytes * source.shape[0] * source.shape[1], source.workspace.most_bytes
    if most is not None and needed > most:
        raise ValueError(
            f"{who} keeps {entry_bytes} bytes in memory for each entry of X, {needed / 1e6:,.0f} MB, and max_memory "
            f"leaves {most / 1e6:,.0f} MB. The methods 'hybrid' and 'path' keep none."
        )


def intervals(source: Source, dtype: Any = np.float64) -> tuple[Array, Array]:
    """(low, high) of all entries, as the source sees the matrix; the same array where they agree.

    A missing entry is (−∞, ∞). Reads the data once.
    """
    source.prepare()
    source.passes += 1
    matrix = np.empty(source.shape, dtype)
    for start, stop in source.tiles():
        tile = source.read(start, stop)
        matrix[start:stop] = dense_with_nan(tile) if is_sparse(tile) else tile
    if source.bound < np.inf:
        np.clip(matrix, -source.bound, source.bound, out=matrix)
    missing = np.isnan(matrix)
    limits = source.limits
    if limits is None and not missing.any():
        whole = matrix if source.device is None else like(matrix, source.device)
        return whole, whole
    low, high = np.where(missing, -np.inf, matrix), np.where(missing, np.inf, matrix)
    if limits is not None:
        for ends, given in ((low, limits[0]), (high, limits[1])):
            known = missing & np.isfinite(given)
            ends[known] = given[known]
    return (low, high) if source.device is None else (like(low, source.device), like(high, source.device))
