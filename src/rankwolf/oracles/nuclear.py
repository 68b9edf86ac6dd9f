"""The nuclear norm: linear minimisation, singular value thresholding, projection (Sections 2.2 and 5.1)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from rankwolf.ground.arrays import Array, conjugate_transpose, namespace
from rankwolf.ground.deadline import patiently
from rankwolf.ground.low_rank import LowRank

GramProduct = Callable[[Array], Array]


def spectral_norm(x: Array) -> float:
    """‖X‖₂ to rounding, by the Gram matrix of the shorter side: mn·min(m, n) operations, memory min(m, n)².

    >>> round(spectral_norm(np.outer([3.0, 4.0], [1.0, 0.0, 0.0])), 12)
    5.0
    """
    tall = x if x.shape[0] >= x.shape[1] else conjugate_transpose(x)
    return max(largest_eigenvalue(conjugate_transpose(tall) @ tall), 0.0) ** 0.5 if 0 not in x.shape else 0.0


def largest_eigenvalue(gram: Array) -> float:
    """The largest eigenvalue of a Hermitian matrix, alone where that pays.

    LAPACK's routine for one eigenvalue gives up on some matrices whose eigenvalues crowd; then all are computed.
    """
    last = len(gram) - 1
    if last >= 64 and isinstance(gram, np.ndarray):
        with suppress(np.linalg.LinAlgError):
            return float(scipy.linalg.eigvalsh(gram, subset_by_index=(last, last))[0])
    return float(namespace(gram).linalg.eigvalsh(gram)[-1])


def shrink_singular_values(x: Array, cut_for: Callable[[Array], float]) -> tuple[Array, LowRank]:
    """The singular values of x less a cut, which ``cut_for`` chooses knowing them: the matrix and its factors.

    By the Gram matrix of the shorter side, for arrays of any library. Singular values below about 1e-8 of the largest
    are lost in it; cuts are above that.

    >>> X, factors = shrink_singular_values(np.diag([3.0, 1.0]), lambda singular: 2.0)
    >>> np.round(X, 12), factors.rank
    (array([[1., 0.],
           [0., 0.]]), 1)
    """
    if x.shape[0] < x.shape[1]:
        matrix, low_rank = shrink_singular_values(conjugate_transpose(x), cut_for)
        u, vt = conjugate_transpose(low_rank.vt), conjugate_transpose(low_rank.u)
        return conjugate_transpose(matrix), LowRank(u, low_rank.s, vt)
    xp = namespace(x)
    squares, vectors = xp.linalg.eigh(conjugate_transpose(x) @ x)
    singular = xp.sqrt(xp.clip(xp.flip(squares), 0.0, None))
    cut = cut_for(singular)
    rank = int(xp.count_nonzero(singular > max(cut, 1e-14 * float(singular[0]))))
    right, shrunk = xp.flip(vectors, axis=1)[:, :rank], singular[:rank] - cut
    left = (x @ right) / singular[:rank]
    rows = conjugate_transpose(right)
    return (left * shrunk) @ rows, LowRank(left, shrunk, rows)


@dataclass(frozen=True)
class SingularPair:
    """An approximate leading right singular vector of G, ``right``, and its singular value.

    ``value`` is a Ritz value, never above ‖G‖₂ but for rounding; some singular value lies in [value, upper]. The
    columns of ``leading`` are this vector and the next Ritz vectors.
    """

    value: float
    upper: float
    right: Array
    leading: Array


class KrylovSpace:
    """A growing subspace in which GᵀG is known: block Lanczos with full orthogonalisation and a warm start.

    The caller makes the products with GᵀG, one for each :meth:`add`, most often by a pass over the data; all else costs
    n·q² operations for q columns. A product that some other pass has made anyway can be added as well.
    """

    def __init__(self, n: int) -> None:
        self._basis: Array = np.zeros((n, 0))
        self._products: Array = np.zeros((n, 0))
        self._projected: Array = np.zeros((0, 0))
        self._values: Array = np.zeros(0)
        self._vectors: Array = np.zeros((0, 0))

    def add(self, block: Array, product: Array) -> None:
        """Take in ``product`` = GᵀG·``block``; ``block`` has orthonormal columns, orthogonal to the space."""
        across = self._basis.conj().T @ product
        within = block.conj().T @ product
        within = 0.5 * (within + within.conj().T)
        self._projected = np.block([[self._projected, across], [across.conj().T, within]])
        self._basis = np.hstack([self._basis, block])
        self._products = np.hstack([self._products, product])
        values, vectors = np.linalg.eigh(self._projected)
        self._values, self._vectors = values[::-1], vectors[:, ::-1]

    def leading_pair(self, count: int = 8) -> SingularPair:
        """The leading Ritz pair of the space, with its residual bound, and the ``count`` leading Ritz vectors."""
        squared, coefficients = max(float(self._values[0]), 0.0), self._vectors[:, 0]
        right = self._basis @ coefficients
        residual = float(np.linalg.norm(self._products @ coefficients - squared * right))
        return SingularPair(squared**0.5, (squared + residual) ** 0.5, right, self.leading_vectors(count))

    def leading_vectors(self, count: int) -> Array:
        """The ``count`` leading Ritz vectors, approximate right singular vectors (fewer where the space is smaller)."""
        return self._basis @ self._vectors[:, :count]

    def next_block(self, count: int, rng: np.random.Generator) -> Array | None:
        """Directions to multiply next: residuals of the leading Ritz pairs. None where the space is complete."""
        n, q = self._basis.shape
        count = min(count, n - q)
        if count == 0:
            return None
        leading = self._vectors[:, :count]
        residuals = self._products @ leading - (self._basis @ leading) * self._values[:count]
        return orthonormal_against(residuals, self._basis, rng)


def orthonormal_against(block: Array, basis: Array, rng: np.random.Generator) -> Array:
    """Orthonormal columns, orthogonal to ``basis``; a column that vanishes is replaced by a random one."""
    block = np.asarray(block, dtype=np.result_type(block.dtype, np.float64))
    lengths = np.linalg.norm(block, axis=0)
    tiny = lengths <= 1e-300
    block = np.where(tiny, rng.standard_normal(block.shape), block / np.where(tiny, 1.0, lengths))
    for _ in range(4):
        block = block - basis @ (basis.conj().T @ block)
        q, r = np.linalg.qr(block)
        weak = np.abs(np.diag(r)) < 0.1
        if not np.any(weak):
            return np.asarray(q - basis @ (basis.conj().T @ q))
        # In a weak column, cancellation has left mostly rounding errors: orthogonalise it once more, or replace it.
        fresh = rng.standard_normal((block.shape[0], block.shape[1]))
        block = np.where(np.abs(np.diag(r)) < 1e-10, fresh / np.linalg.norm(fresh, axis=0), q)
    return np.asarray(np.linalg.qr(block)[0])


def widened(basis: Array, width: int, rng: np.random.Generator) -> Array:
    """The first ``width`` columns of an orthonormal ``basis``; where it has fewer, random ones that keep it so."""
    n, have = basis.shape
    if width <= have:
        return np.ascontiguousarray(basis[:, :width])
    return np.hstack([basis, orthonormal_against(rng.standard_normal((n, width - have)), basis, rng)])


def leading_pair(
    gram_product: GramProduct,
    start: Array,
    tol: float,
    max_products: int,
    rng: np.random.Generator,
    count: int = 8,
) -> SingularPair:
    """The leading right singular vector of G by products with GᵀG, from a warm start, to a relative residual ``tol``.

    With this v and u = Gv/‖Gv‖, τ·u vᵀ minimises ⟨−G, X⟩ over the nuclear ball of radius τ. The paper's footnote 2
    allows an inexact answer. Cost: one product for each added block, most often 2 to 6.
    """
    space = KrylovSpace(start.shape[0])
    block: Array | None = np.linalg.qr(start)[0]
    pair = SingularPair(0.0, 0.0, start[:, 0], start)
    for _ in range(max_products):
        if block is None:
            break
        space.add(block, gram_product(block))
        pair = space.leading_pair(count)
        if pair.upper**2 - pair.value**2 <= tol * pair.value**2:
            break
        block = space.next_block(start.shape[1], rng)
    return pair


def singular_value_threshold(x: Array, weight: float, count: int | None = None) -> tuple[LowRank, int]:
    """D_τ(X) = U·T_τ(Σ)·Vᵀ, the proximal map of τ‖·‖_*, by a partial SVD; and how many singular values exceed τ.

    The partial SVD is an eigendecomposition of the smaller Gram matrix in float64, of which ``count`` leading vectors
    are computed, and twice as many as long as all of them exceed τ. O(mn·min(m, n)), memory min(m, n)².

    >>> L, found = singular_value_threshold(np.diag([3.0, 1.0, 0.5]), 1.0)
    >>> np.round(L.s, 12), found
    (array([2.]), 1)
    """
    if x.shape[0] < x.shape[1]:
        result, found = singular_value_threshold(x.T, weight, count)
        return result.T, found
    wide = x.astype(np.result_type(x.dtype, np.float64), copy=False)
    values, right = leading_eigenpairs(patiently(np.matmul, wide.conj().T, wide), weight**2, count)
    singular = np.sqrt(values)
    keep = singular > weight
    singular, right = singular[keep], right[:, keep]
    left = (wide @ right) / singular
    right_rows = right.conj().T.astype(x.dtype)
    return LowRank(left.astype(x.dtype), singular - weight, right_rows), int(singular.size)


def leading_eigenpairs(gram: Array, cut: float, count: int | None = None) -> tuple[Array, Array]:
    """All eigenpairs of a Hermitian matrix above ``cut``, descending; ``count`` are computed first, then twice that."""
    n = gram.shape[0]
    count = max(1, n // 10) if count is None else max(1, min(count, n))
    while True:
        # Past a third of the spectrum the divide-and-conquer routine for all of it is the faster one.
        if count * 3 >= n:
            values, vectors = patiently(scipy.linalg.eigh, gram, driver="evd", check_finite=False)
        else:
            values, vectors = patiently(
                scipy.linalg.eigh,
                gram,
                subset_by_index=(n - count, n - 1),
                driver="evr",
                check_finite=False,
            )
        above = int(np.count_nonzero(values > cut))
        if above < values.size or values.size == n:
            order = slice(None, values.size - above - 1 if above < values.size else None, -1)
            return values[order], vectors[:, order]
        count = min(2 * count, n)


def projected_svd(gram: Array, cross: Array) -> tuple[Array, Array, Array]:
    """The SVD of ŨŨᵀX for an orthonormal basis Ũ of B = XQ, from BᵀB and XᵀB alone: (turn, σ, V).

    The left singular vectors are B·turn. This is one step of subspace iteration on X with a Rayleigh-Ritz step; it
    costs k³ + nk² operations for k columns.
    """
    return patiently(_projected_svd, gram, cross)


def _projected_svd(gram: Array, cross: Array) -> tuple[Array, Array, Array]:
    values, vectors = np.linalg.eigh(gram)
    used = values > 1e-12 * values[-1] if values.size else np.zeros(0, bool)
    turn = vectors[:, used] / np.sqrt(values[used])
    projected = cross @ turn  # XᵀŨ
    values, vectors = np.linalg.eigh(projected.T @ projected)
    values, vectors = values[::-1], vectors[:, ::-1]
    used = values > 1e-18 * values[0] if values.size else np.zeros(0, bool)
    singular = np.sqrt(values[used])
    return turn @ vectors[:, used], singular, (projected @ vectors[:, used]) / singular
