"""A matrix of low rank, kept as its singular value decomposition."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np
import scipy.linalg

Array = np.ndarray[Any, np.dtype[Any]]


RowKey = slice | SupportsIndex | Array
ColumnKey = slice | int


# Rows that are multiplied at once, where a float64 copy of all of them would be large.
PIECE = 32768


def split_key(key: RowKey | tuple[RowKey, ColumnKey]) -> tuple[RowKey, ColumnKey]:
    """Rows and columns of an index: rows as NumPy has them, then perhaps a slice or a number of columns."""
    rows, columns = key if isinstance(key, tuple) and len(key) == 2 else (key, slice(None))
    if isinstance(rows, tuple) or not isinstance(columns, slice | int | np.integer):
        raise IndexError(
            f"Rows, then perhaps a slice or a number of columns, can be taken. Got {key!r} instead."
        )
    return rows, columns


class LowRank:
    """L = u · diag(s) · vt, with orthonormal columns in ``u`` and rows in ``vt``.

    Memory (m + n + 1)·r. ``np.asarray(L)`` makes the m × n array, ``L[i:j]`` the rows i to j of it as an array,
    ``L[i:j, k:l]`` a part of them, ``L @ x`` costs (m + n)·r.

    >>> import numpy as np
    >>> from rankwolf import LowRank
    >>> L = LowRank.from_factors(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]))
    >>> L.rank, L.shape
    (1, (2, 2))
    >>> np.round(L[1:], 6)
    array([[6., 8.]])
    """

    def __init__(self, u: Array, s: Array, vt: Array) -> None:
        self.u, self.s, self.vt = u, s, vt

    @classmethod
    def from_factors(cls, left: Array, right: Array) -> LowRank:
        """Decompose left · rightᵀ: two thin QR factorisations and a small SVD, (m + n)·r²."""
        if left.shape[1] == 0:
            return cls.zeros((left.shape[0], right.shape[0]), left.dtype)
        q_left, r_left = thin_qr(left)
        q_right, r_right = thin_qr(right)
        u, s, vt = svd_of_triangles(r_left, r_right, left.dtype)
        return cls(
            _turned(q_left, u, left.dtype), s, np.ascontiguousarray(_turned(q_right, vt.T, left.dtype).T)
        )

    @classmethod
    def zeros(cls, shape: tuple[int, int], dtype: Any = np.float64) -> LowRank:
        """The zero matrix."""
        return cls(np.zeros((shape[0], 0), dtype), np.zeros(0), np.zeros((0, shape[1]), dtype))

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        return self.u.shape[0], self.vt.shape[1]

    @property
    def rank(self) -> int:
        """The number of singular values kept."""
        return int(self.s.size)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type of the dense form."""
        return self.u.dtype

    @property
    def T(self) -> LowRank:  # noqa: N802
        """The transpose, without a copy."""
        return LowRank(self.vt.T, self.s, self.u.T)

    @property
    def nuclear_norm(self) -> float:
        """‖L‖_*, the sum of the singular values."""
        return float(np.sum(self.s))

    def factors(self) -> tuple[Array, Array]:
        """(U, V) with L = U Vᵀ and the singular values shared evenly: ‖U‖² = ‖V‖² = ‖L‖_*."""
        root = np.sqrt(self.s).astype(self.dtype)
        return self.u * root, np.ascontiguousarray(self.vt.T) * root

    def __getitem__(self, key: RowKey | tuple[RowKey, ColumnKey]) -> Array:
        rows, columns = split_key(key)
        product: Array = (self.u[rows] * self.s.astype(self.dtype)) @ self.vt[:, columns]
        return product

    def __matmul__(self, other: Array) -> Array:
        product: Array = self.u @ (
            self.s.astype(self.dtype)[:, None] * (self.vt @ other)
            if np.ndim(other) == 2
            else self.s.astype(self.dtype) * (self.vt @ other)
        )
        return product

    def __rmatmul__(self, other: Array) -> Array:
        product: Array = ((other @ self.u) * self.s.astype(self.dtype)) @ self.vt
        return product

    # Let NumPy hand ``array @ L`` to __rmatmul__ instead of making L dense first.
    __array_priority__ = 1000.0
    __array_ufunc__ = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("A LowRank has no dense form to share: np.asarray(L) makes one.")
        dense: Array = np.asarray(self[:])
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def __repr__(self) -> str:
        top = ", ".join(f"{x:.4g}" for x in self.s[:4]) + (", …" if self.rank > 4 else "")
        return f"LowRank({self.shape[0]} × {self.shape[1]}, rank {self.rank}, singular values [{top}])"


def thin_qr(factor: Array) -> tuple[Array, Array]:
    """Q and R of a tall factor in float64; Q takes the place of the one copy that is made."""
    copy = np.array(factor, np.float64, order="F")
    q, r = scipy.linalg.qr(copy, overwrite_a=True, mode="economic", check_finite=False)
    return q, r


def _turned(basis: Array, rotation: Array, dtype: Any) -> Array:
    """basis · rotation, computed in float64 and rounded piece by piece."""
    result = np.empty((basis.shape[0], rotation.shape[1]), dtype)
    for start in range(0, basis.shape[0], PIECE):
        result[start : start + PIECE] = basis[start : start + PIECE] @ rotation
    return result


def svd_of_triangles(r_left: Array, r_right: Array, dtype: Any) -> tuple[Array, Array, Array]:
    """(u, s, vt) of r_left·r_rightᵀ, without what is rounding of factors of that ``dtype``."""
    u, s, vt = scipy.linalg.svd(r_left @ r_right.T, full_matrices=False)
    # Below this, a singular value is rounding of the factors, not part of the matrix. No higher: a direction that
    # is left out of L stands in G, where it counts against λ_L, which may be a thousandth of the leading value.
    floor = s[0] * np.finfo(dtype).eps if s.size else 0.0
    rank = int(np.count_nonzero(s > floor))
    return u[:, :rank], s[:rank].astype(np.float64, copy=False), vt[:rank]
