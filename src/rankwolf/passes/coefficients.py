"""The robust row-local step: coefficients of rows for a given factor V, in spite of outliers and missing entries.

For a row m and the factor V of L = U Vᵀ it finds min over u of Σ_Ω Huber_{λ_S}(m − V u) + (λ_L/2)‖u‖². With it samples
are scored that a model has not seen, and new frames of a video are separated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf import kernels
from rankwolf.ground.arrays import Array

# Rows worked on together: enough for BLAS to reuse V, few enough for their residuals to stay near the cache.
BATCH_BYTES = 8 * 1024 * 1024
# If all products v_j v_jᵀ are at most this many numbers, they are made once, and one matrix product gives the Hessians
# of all rows.
OUTER_PRODUCTS = 256 * 1024


def fit_rows(
    rows: Any,
    right: Array,
    lambda_L: float,
    lambda_S: float,
    *,
    start: Array | None = None,
    tol: float = 1e-6,
    max_iter: int = 50,
) -> Array:
    """The coefficients (b, r) that fit each of b rows by ``right`` (n, r); NaN marks what is missing.

    In a CSR array only the stored entries count.

    Newton's method with a line search on the piecewise quadratic loss: it ends after a few steps with the exact
    answer. A row is done when its last step was below ``tol`` of its length; no smaller ``tol`` than rounding is used.
    With ``lambda_S`` = ∞ this is least squares. With ``lambda_L`` = 0 a row needs as many observed entries as there
    are columns in ``right``.

    Cost of a step: two products of the rows with ``right``, and a small Hessian for each row. Memory: a few MB.

    >>> import numpy as np
    >>> row = np.array([[2.0, np.nan, 2.0, 99.0, 2.0]])
    >>> fit_rows(row, np.ones((5, 1)), lambda_L=1e-9, lambda_S=0.3).round(1)
    array([[2.1]])
    """
    dtype = np.result_type(right.dtype, np.float32)
    right = np.ascontiguousarray(right, dtype)
    result = np.zeros((rows.shape[0], right.shape[1]), dtype)
    if result.size == 0:
        return result
    if scipy.sparse.issparse(rows):
        return _fit_stored(rows, right, lambda_L, lambda_S, result if start is None else start, tol, max_iter)
    model = _RowModel.of(right, float(lambda_L), float(lambda_S))
    step = max(1, BATCH_BYTES // (right.shape[0] * dtype.itemsize))
    for first in range(0, rows.shape[0], step):
        batch = np.ascontiguousarray(rows[first : first + step], dtype)
        guess = model.solve(np.nan_to_num(batch) @ right) if start is None else start[first : first + step]
        result[first : first + step] = _fit_batch(model, batch, guess, tol, max_iter)
    return result


def _fit_stored(
    rows: Any, right: Array, lambda_L: float, lambda_S: float, start: Array, tol: float, max_iter: int
) -> Array:
    """Coefficients of the rows of a CSR array, each from its stored entries."""
    left = np.array(start, right.dtype, order="C")
    entries = np.ascontiguousarray(rows.data, right.dtype)
    # Without a weight on u, a row with few entries has many minimisers; a tiny ridge picks a short one.
    ridge = max(lambda_L, float(np.finfo(right.dtype).eps) * float(np.sum(right * right)))
    kernels.fit_stored_rows(entries, rows.indices, rows.indptr, right, ridge, lambda_S, tol, max_iter, left)
    return left


@dataclass(frozen=True)
class _RowModel:
    """What all rows share: V, VᵀV, the ridge λ_L·I and, where V is small, the products v_j v_jᵀ."""

    right: Array
    transposed: Array
    gram: Array
    ridge: Array
    outer: Array | None
    lambda_L: float
    lambda_S: float

    @classmethod
    def of(cls, right: Array, lambda_L: float, lambda_S: float) -> _RowModel:
        n, r = right.shape
        gram = (right.T @ right).astype(np.float64)
        # A floor at rounding level keeps the Hessian invertible where λ_L = 0 and V is rank deficient.
        floor = np.finfo(right.dtype).eps * max(float(np.trace(gram)), np.finfo(right.dtype).tiny)
        outer = None
        if n * r * r <= OUTER_PRODUCTS:
            outer = np.ascontiguousarray((right[:, :, None] * right[:, None, :]).reshape(n, r * r))
        transposed = np.ascontiguousarray(right.T)
        return cls(right, transposed, gram, (lambda_L + floor) * np.eye(r), outer, lambda_L, lambda_S)

    def solve(self, sides: Array, inside: Array | None = None) -> Array:
        """(Σ_j w_j v_j v_jᵀ + λ_L I)⁻¹·side for each row; the weights w are 0 or 1, ``inside``, or all 1 without it."""
        if inside is None:
            return np.linalg.solve(self.gram + self.ridge, sides.T.astype(np.float64)).T
        solved: Array = np.linalg.solve(self._hessians(inside), sides[..., None].astype(np.float64))[..., 0]
        return solved

    def _hessians(self, inside: Array) -> Array:
        b, r = inside.shape[0], self.right.shape[1]
        if self.outer is not None:
            return (inside @ self.outer).reshape(b, r, r) + self.ridge
        return np.stack([self._hessian(row) for row in inside])

    def _hessian(self, inside: Array) -> Array:
        """One row's Hessian: a sum over the entries inside, or VᵀV less those outside, whichever are fewer."""
        hessian: Array
        lost = np.flatnonzero(inside == 0)
        if 2 * lost.size <= inside.size:
            absent = self.right[lost]
            hessian = self.gram + self.ridge - absent.T @ absent
            return hessian
        present = self.right[np.flatnonzero(inside)]
        hessian = self.ridge + present.T @ present
        return hessian

    def lengths(self, left: Array) -> Array:
        """‖V u‖² for each row."""
        return np.asarray(np.einsum("ij,jk,ik->i", left, self.gram, left))


def _fit_batch(model: _RowModel, batch: Array, start: Array, tol: float, max_iter: int) -> Array:
    """Coefficients of a batch of rows; rows that are done leave the batch as soon as they make up half of it."""
    tol = max(tol, 4.0 * float(np.finfo(batch.dtype).eps))
    result = np.array(start, np.float64)
    active, left = np.arange(batch.shape[0]), result.copy()
    residual = batch - left.astype(batch.dtype) @ model.transposed
    space = np.empty((2, *residual.shape), residual.dtype)
    for iteration in range(max_iter):
        work, inside = space[:, : active.size]
        # G = clip(D, ±λ_S), and 1 where |D| ≤ λ_S, the diagonal of the Huber loss's Hessian. NaN in D: 0 in both.
        np.copyto(work, residual)
        kernels.clip_dual(residual, work, model.lambda_S, np.zeros(2))
        np.equal(residual, work, out=inside)
        descent = work @ model.right - model.lambda_L * left
        # Far from the answer few entries are inside the limit, and so the first Hessian counts all of them.
        direction = model.solve(descent, inside if iteration else None)
        np.matmul(direction.astype(batch.dtype), model.transposed, out=work)
        steps = np.empty(active.size)
        kernels.search_rows(
            residual,
            work,
            model.lambda_S,
            -np.sum(descent * direction, axis=1),
            model.lambda_L * np.sum(left * direction, axis=1),
            model.lambda_L * np.sum(direction**2, axis=1),
            steps,
        )
        direction *= steps[:, None]
        left += direction
        result[active] = left
        done = (model.lengths(direction) <= tol * tol * model.lengths(left)) & (iteration > 0)
        if done.all():
            break
        if 2 * np.count_nonzero(done) >= done.size:
            active, residual, left = active[~done], residual[~done], left[~done]
    return result.astype(batch.dtype)
