"""The only judge: what an L is worth, in float64 with plain NumPy, by none of rankwolf's code.

For min ½‖P_Ω(L + S − M)‖² + λ_L‖L‖_* + λ_S‖S‖₁ the best S for a given L is known, so a contestant hands in L alone and
is credited with that S: D = P_Ω(M − L), G = clip(D, ±λ_S), S = D − G.

The lower bound comes from the dual, max ⟨Y, M⟩ − ½‖Y‖² over Y on Ω with |Y| ≤ λ_S and ‖Y‖₂ ≤ λ_L, at two points: G
scaled until it fits, and G with the excess of its long singular values taken off, clipped again and scaled. Their
spectral norms are exact up to ``EXACT_SIDE`` columns (eigenvalues of the Gram matrix), and beyond that ARPACK's
estimates, in which case the gap is an estimate too and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

Array = np.ndarray[Any, np.dtype[Any]]

EXACT_SIDE = 4096
LONG_VECTORS = 16  # deflated at most, where the Gram matrix is too large to be formed
BLOCK_ENTRIES = 2**21


@dataclass(frozen=True)
class Verdict:
    """``exact`` is False where a spectral norm was estimated; NaN where no bound was asked for."""

    objective: float
    nuclear_norm: float
    rank: int
    nonzeros: int
    gap: float = float("nan")
    relative_gap: float = float("nan")
    exact: bool = True


def paper_weights(matrix: Array, observed: Array | None, delta: float) -> tuple[float, float]:
    """λ_L = δρ‖P_Ω M‖_F and λ_S = δ√ρ‖P_Ω M‖_F/√max(m, n)."""
    squares, count = 0.0, 0
    for rows in _blocks(matrix.shape[0], matrix.shape[1]):
        block, seen = _values(matrix, observed, rows)
        squares += float(np.sum(block**2))
        count += block.size if seen is None else int(np.count_nonzero(seen))
    rho, norm = count / matrix.size, squares**0.5
    return delta * rho * norm, delta * rho**0.5 * norm / max(matrix.shape) ** 0.5


class Judge:
    """Judges L's for one matrix and one pair of weights."""

    def __init__(
        self, matrix: Array, observed: Array | None, weights: tuple[float, float], threads: int = 1
    ) -> None:
        self.turned = matrix.shape[0] < matrix.shape[1]
        self.matrix = matrix.T if self.turned else matrix
        self.observed = None if observed is None else (observed.T if self.turned else observed)
        self.lambda_L, self.lambda_S = weights
        self.threads = threads

    def judge(self, left: Array, right: Array, *, certify: bool = True) -> Verdict:
        """The worth of L = left·rightᵀ; a dense L comes as (L, identity)."""
        if self.turned:
            left, right = right, left
        left, right = left.astype(np.float64), right.astype(np.float64)
        values = _singular_values(left, right)
        residual = _Clipped(self, left, right)
        huber, nonzeros = residual.huber()
        nuclear_norm = float(np.sum(values))
        rank = int(np.count_nonzero(values > 1e-7 * values[0])) if values.size else 0
        objective = huber + self.lambda_L * nuclear_norm
        if not certify:
            return Verdict(objective, nuclear_norm, rank, nonzeros)
        bound, exact = self._lower_bound(residual)
        gap = max(objective - bound, 0.0)
        return Verdict(objective, nuclear_norm, rank, nonzeros, gap, gap / objective, exact)

    def _lower_bound(self, residual: _Clipped) -> tuple[float, bool]:
        exact = self.matrix.shape[1] <= EXACT_SIDE
        lengths, vectors = residual.long_vectors(exact)
        plain = residual.dual_value(lengths[0] if lengths.size else 0.0)
        long = lengths > self.lambda_L
        if not np.any(long):
            return plain, exact
        shorter = residual.deflated(vectors[:, long], 1.0 - self.lambda_L / lengths[long])
        remaining, _ = shorter.long_vectors(exact, values_only=True)
        return max(plain, shorter.dual_value(remaining[0])), exact


class _Clipped:
    """Y = clip(P_Ω(G − G·V·diag(excess)·Vᵀ), ±λ_S) for G = clip(P_Ω(M − L), ±λ_S), a block of rows at a time."""

    def __init__(self, judge: Judge, left: Array, right: Array) -> None:
        self.judge, self.left, self.right = judge, left, right
        self.directions: Array | None = None
        self.excess: Array = np.zeros(0)

    def deflated(self, directions: Array, excess: Array) -> _Clipped:
        other = _Clipped(self.judge, self.left, self.right)
        other.directions, other.excess = directions, excess
        return other

    def huber(self) -> tuple[float, int]:
        """½‖G‖² + λ_S‖S‖₁ and the nonzeros of S."""
        limit = self.judge.lambda_S

        def part(rows: slice) -> Array:
            residual = np.abs(self._residual(rows)[0])
            inside = np.minimum(residual, limit)
            value = 0.5 * np.sum(inside**2) + limit * np.sum(residual - inside)
            return np.array([value, np.count_nonzero(residual > limit)])

        total = self._sum(part)
        return float(total[0]), int(total[1])

    def dual_value(self, spectral_norm: float) -> float:
        """The best multiple of Y that is feasible."""

        def part(rows: slice) -> Array:
            y = self.rows(rows)
            return np.array(
                [np.sum(y * _values(self.judge.matrix, self.judge.observed, rows)[0]), np.sum(y * y)]
            )

        y_dot_m, y_squared = self._sum(part)
        if y_squared == 0.0:
            return 0.0
        most = min(1.0, self.judge.lambda_L / spectral_norm) if spectral_norm > 0.0 else 1.0
        theta = min(most, max(y_dot_m / y_squared, 0.0))
        return float(theta * y_dot_m - 0.5 * theta**2 * y_squared)

    def long_vectors(self, exact: bool, *, values_only: bool = False) -> tuple[Array, Array]:
        """Singular values, descending, and right singular vectors: all of them, or the longest few."""
        if exact:
            gram = self._sum(lambda rows: (lambda y: y.T @ y)(self.rows(rows)))
            if values_only:
                squares, vectors = scipy.linalg.eigvalsh(gram), np.zeros((0, 0))
            else:
                squares, vectors = scipy.linalg.eigh(gram)
        else:
            squares, vectors = self._arpack(1 if values_only else LONG_VECTORS)
        return np.sqrt(np.maximum(squares[::-1], 0.0)), vectors[:, ::-1]

    def _arpack(self, count: int) -> tuple[Array, Array]:
        n = self.judge.matrix.shape[1]
        operator = scipy.sparse.linalg.LinearOperator(
            (n, n), matvec=lambda x: self._sum(lambda rows: self._gram_times(rows, x)), dtype=np.float64
        )
        start = np.random.default_rng(0).standard_normal(n)
        try:
            pairs = scipy.sparse.linalg.eigsh(
                operator, count, v0=start, tol=1e-3, ncv=2 * count + 18, maxiter=5
            )
        except scipy.sparse.linalg.ArpackNoConvergence as error:
            pairs = error.eigenvalues, error.eigenvectors
        order = np.argsort(pairs[0])
        return pairs[0][order], pairs[1][:, order]

    def _gram_times(self, rows: slice, x: Array) -> Array:
        y = self.rows(rows)
        product: Array = (y @ x.ravel()) @ y
        return product

    def rows(self, rows: slice) -> Array:
        limit = self.judge.lambda_S
        residual, seen = self._residual(rows)
        y = np.clip(residual, -limit, limit, out=residual)
        if self.directions is not None:
            y -= ((y @ self.directions) * self.excess) @ self.directions.T
            if seen is not None:
                y[~seen] = 0.0
            np.clip(y, -limit, limit, out=y)
        return y

    def _residual(self, rows: slice) -> tuple[Array, Array | None]:
        block, seen = _values(self.judge.matrix, self.judge.observed, rows)
        block -= self.left[rows] @ self.right.T
        if seen is not None:
            block[~seen] = 0.0
        return block, seen

    def _sum(self, part: Callable[[slice], Array]) -> Array:
        blocks = list(_blocks(*self.judge.matrix.shape))
        with ThreadPoolExecutor(self.judge.threads) as pool:
            total: Array | None = None
            for value in pool.map(part, blocks):
                total = value if total is None else total + value
        return np.zeros(0) if total is None else total


def _blocks(rows: int, columns: int) -> Iterator[slice]:
    step = max(1, BLOCK_ENTRIES // columns)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _values(matrix: Array, observed: Array | None, rows: slice) -> tuple[Array, Array | None]:
    """A block in float64 with zeros where nothing was observed, and where something was."""
    block = matrix[rows].astype(np.float64, order="C")
    seen = None if observed is None else np.asarray(observed[rows])
    if matrix.dtype.kind == "f":
        missing = np.isnan(block)
        if missing.any():
            seen = ~missing if seen is None else seen & ~missing
    if seen is not None:
        block[~seen] = 0.0
    return block, seen


def _singular_values(left: Array, right: Array) -> Array:
    if left.shape[1] == 0:
        return np.zeros(0)
    core = np.linalg.qr(left)[1] @ np.linalg.qr(right)[1].T
    values: Array = scipy.linalg.svdvals(core)
    return values
