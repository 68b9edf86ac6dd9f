"""A matrix of low rank, kept as its singular value decomposition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from rankwolf.ground.arrays import Array, is_on_device, like, to_numpy
from rankwolf.ground.matrix import ColumnKey, Matrix, RowKey, split_key
from rankwolf.ground.table_frame import Frame

# Rows of a piece of a tall factor, at least; pieces are factorised one at a time.
PIECE = 4096

Allocate = Callable[[tuple[int, int], Any], Array]


class LowRank(Matrix):
    """L = u · diag(s) · vt, with orthonormal columns in ``u`` and rows in ``vt``, real or complex.

    Memory (m + n + 1)·r. ``np.asarray(L)`` makes the m × n array, ``L[i:j]`` the rows i to j of it as an array,
    ``L[i:j, k:l]`` a part of them, ``L.to_frame()`` a table with the names of the data's rows and columns.
    ``L @ x`` and ``x @ L`` cost (m + n)·r; ``L + S``, ``X - L`` and the like give dense arrays.

    >>> import numpy as np
    >>> from rankwolf import LowRank
    >>> L = LowRank.from_factors(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]))
    >>> L.rank, L.shape
    (1, (2, 2))
    >>> np.round(L[1:], 6)
    array([[6., 8.]])
    """

    def __init__(self, u: Array, s: Array, vt: Array, frame: Frame | None = None) -> None:
        self.u, self.s, self.vt, self.frame = u, s, vt, frame

    @classmethod
    def from_factors(
        cls,
        left: Array,
        right: Array,
        allocate: Allocate = np.empty,
        done: Callable[[int, int], object] = lambda start, stop: None,
    ) -> LowRank:
        """The decomposition of left · rightᵀ, by two thin QR factorisations and a small SVD: O((m + n)·r²) operations.

        ``left`` may be larger than the memory. Its QR is made in two rounds: of each piece of its rows, then of the
        triangles R of all pieces. ``allocate`` makes the two arrays of m rows, one of them in double precision;
        ``done(start, stop)`` is called for rows that are not needed for now.
        """
        (m, r), dtype = left.shape, left.dtype
        if r == 0:
            return cls.zeros((m, right.shape[0]), dtype)
        pieces, triangles = pieces_of(m, r), []
        basis = allocate((m, min(m, r)), np.result_type(dtype, np.float64))
        for start, stop in pieces:
            basis[start:stop], triangle = thin_qr(left[start:stop])
            triangles.append(triangle)
            done(start, stop)
        q_left, r_left = thin_qr(np.vstack(triangles))
        q_right, r_right = thin_qr(right)
        u, s, vt = svd_of_triangles(r_left, r_right, dtype)
        turned = allocate((m, s.size), dtype)
        for (start, stop), turn in zip(pieces, np.split(q_left @ u, len(pieces)), strict=True):
            turned[start:stop] = basis[start:stop] @ turn
            done(start, stop)
        return cls(turned, s, np.ascontiguousarray((vt @ q_right.T).astype(dtype, copy=False)))

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
        return int(self.s.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type of the dense form."""
        return self.u.dtype if isinstance(self.u.dtype, np.dtype) else to_numpy(self.u[:0]).dtype

    @property
    def T(self) -> LowRank:  # noqa: N802
        """The transpose, without a copy and without names."""
        return LowRank(self.vt.T, self.s, self.u.T)

    @property
    def nuclear_norm(self) -> float:
        """‖L‖_*, the sum of the singular values."""
        return float(self.s.sum())

    def first(self, count: int) -> LowRank:
        """L with its ``count`` largest singular values alone, without a copy."""
        return LowRank(self.u[:, :count], self.s[:count], self.vt[:count], self.frame)

    def labelled(self, frame: Frame | None) -> LowRank:
        """L with the names of ``frame``, without a copy."""
        return LowRank(self.u, self.s, self.vt, frame)

    def on_host(self) -> LowRank:
        """L with factors of NumPy, for L itself where they are."""
        if not is_on_device(self.u):
            return self
        return LowRank(to_numpy(self.u), to_numpy(self.s), to_numpy(self.vt), self.frame)

    def like(self, device: Any) -> LowRank:
        """L with factors of the library and on the device of an array; L itself for None."""
        if device is None:
            return self
        u, s, vt = (like(x.astype(self.dtype), device) for x in (self.u, self.s, self.vt))
        return LowRank(u, s, vt, self.frame)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "u": np.asarray(self.u)}  # fetched, where it is on a cluster

    def factors(self) -> tuple[Array, Array]:
        """(U, V) with L = U Vᵀ and the singular values shared evenly: ‖U‖² = ‖V‖² = ‖L‖_*."""
        root = np.sqrt(self.s).astype(self.dtype)
        return self.u * root, np.ascontiguousarray(self.vt.T) * root

    def __getitem__(self, key: RowKey | tuple[RowKey, ColumnKey]) -> Array:
        rows, columns = split_key(key)
        product: Array = (self.u[rows] * self._weights) @ self.vt[:, columns]
        return product

    def toarray(self) -> Array:
        """The dense array, in the memory of the host."""
        return to_numpy(self[:])

    @property
    def _weights(self) -> Array:
        return self.s.astype(self.dtype) if isinstance(self.s, np.ndarray) else self.s

    def _left_of(self, other: Any) -> Array:
        product: Array = (self.u * self._weights) @ (self.vt @ other)
        return product

    def _right_of(self, other: Array) -> Array:
        product: Array = ((other @ self.u) * self._weights) @ self.vt
        return product

    def __repr__(self) -> str:
        top = ", ".join(f"{x:.4g}" for x in self.s[:4]) + (", …" if self.rank > 4 else "")
        return f"LowRank({self.shape[0]} × {self.shape[1]}, rank {self.rank}, singular values [{top}])"


def thin_qr(factor: Array) -> tuple[Array, Array]:
    """(Q, R) of a tall factor in double precision, 4m·r² operations; the one copy that is made becomes Q."""
    copy = np.array(factor, np.result_type(factor.dtype, np.float64), order="F")
    q, r = scipy.linalg.qr(copy, overwrite_a=True, mode="economic", check_finite=False)
    return q, r


def pieces_of(rows: int, width: int = 0) -> list[tuple[int, int]]:
    """(start, stop) of pieces of about equal height, at least ``PIECE`` and 2·width rows, or of all rows as one piece.

    They are at least √(rows·width) high, too: then the width × width triangles of all pieces together take no more
    memory than one piece.
    """
    count = max(1, rows // max(PIECE, 2 * width, round((rows * width) ** 0.5)))
    return [(rows * k // count, rows * (k + 1) // count) for k in range(count)]


def svd_of_triangles(r_left: Array, r_right: Array, dtype: Any) -> tuple[Array, Array, Array]:
    """(u, s, vt) of r_left·r_rightᵀ, without singular values that are mere rounding of factors in ``dtype``."""
    u, s, vt = scipy.linalg.svd(r_left @ r_right.T, full_matrices=False)
    # Below this, a singular value is rounding of the factors, not part of the matrix. No higher: a direction that
    # is left out of L stands in G, where it counts against λ_L, which may be a thousandth of the leading value.
    floor = s[0] * np.finfo(dtype).eps if s.size else 0.0
    rank = int(np.count_nonzero(s > floor))
    return u[:, :rank], s[:rank].astype(np.float64, copy=False), vt[:rank]
