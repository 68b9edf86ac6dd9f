"""The robust row-local step: the Huber regression of each row on a factor, by Newton's method with a line search."""

from __future__ import annotations

import numpy as np

from rankwolf.kernels.compiling import CHUNK, compiled, inlined, must


@inlined
def step_length(
    residual: np.ndarray, change: np.ndarray, limit: float, start: float, slope: float, curvature: float
) -> float:
    """The t ≥ 0 that minimises Σ Huber(D − t·change) + slope·t + ½curvature·t² for one row.

    The derivative is increasing and piecewise linear, and it is ``start`` at t = 0. Newton's method inside a bracket
    begins at t = 1 and ends when the derivative is at most a tenth of ``start``. NaN in D: not observed.
    """
    if start >= 0.0:
        return 0.0
    zero = residual.dtype.type(0)
    limit_t = residual.dtype.type(limit)
    low = 0.0
    high = np.inf
    t = 1.0
    for _ in range(30):
        t_t = residual.dtype.type(t)
        rise = slope + curvature * t
        bend = curvature
        for first in range(0, residual.size, CHUNK):
            down = zero
            curve = zero
            moving = change[first : first + CHUNK]
            still = residual[first : first + CHUNK]
            for j in range(moving.size):
                q = moving[j]
                d = still[j] - t_t * q
                g = d if d < limit_t else limit_t
                g = g if g > -limit_t else -limit_t
                down += g * q if d == d else zero
                curve += q * q if d == g else zero
            rise -= down
            bend += curve
        if abs(rise) <= -0.1 * start:
            break
        if rise < 0.0:
            low = t
        else:
            high = t
        t = t - rise / bend if bend > 0.0 else np.inf
        if not low < t < high:
            t = 0.5 * (low + high) if high < np.inf else 2.0 * low
    return t


@compiled
def search_rows(
    residual: np.ndarray,
    change: np.ndarray,
    limit: float,
    starts: np.ndarray,
    slopes: np.ndarray,
    curvatures: np.ndarray,
    steps: np.ndarray,
) -> None:
    """Write the :func:`step_length` t of each row into ``steps``, and move D ← D − t·change."""
    must(
        change.shape == residual.shape
        and starts.size == slopes.size == curvatures.size == steps.size == residual.shape[0]
    )
    for i in range(residual.shape[0]):
        steps[i] = step_length(residual[i], change[i], limit, starts[i], slopes[i], curvatures[i])
        t = residual.dtype.type(steps[i])
        for j in range(residual.shape[1]):
            residual[i, j] -= t * change[i, j]


@compiled
def solve_factored(matrix: np.ndarray, side: np.ndarray) -> None:
    """side ← (F Fᵀ)⁻¹·side, where F is the lower triangle of ``matrix``. The matrix is not changed."""
    n = side.size
    for k in range(n):
        for i in range(k):
            side[k] -= matrix[k, i] * side[i]
        side[k] /= matrix[k, k]
    for k in range(n - 1, -1, -1):
        for i in range(k + 1, n):
            side[k] -= matrix[i, k] * side[i]
        side[k] /= matrix[k, k]


@compiled
def solve_positive(matrix: np.ndarray, side: np.ndarray) -> None:
    """side ← matrix⁻¹·side for a positive definite matrix, whose lower triangle becomes its Cholesky factor."""
    n = side.size
    for k in range(n):
        for i in range(k):
            matrix[k, k] -= matrix[k, i] * matrix[k, i]
        matrix[k, k] = max(matrix[k, k], 1e-300) ** 0.5
        for j in range(k + 1, n):
            for i in range(k):
                matrix[j, k] -= matrix[j, i] * matrix[k, i]
            matrix[j, k] /= matrix[k, k]
    solve_factored(matrix, side)


@compiled
def fit_row(
    entries: np.ndarray,
    columns: np.ndarray,
    right: np.ndarray,
    lambda_L: float,
    limit: float,
    tol: float,
    steps: int,
    u: np.ndarray,
    rows: np.ndarray,
    residual: np.ndarray,
    change: np.ndarray,
    hessian: np.ndarray,
    descent: np.ndarray,
    direction: np.ndarray,
) -> None:
    """Move ``u`` towards the minimiser of ½λ_L‖u‖² + Σ Huber(entries − right[columns]·u), for one row.

    Newton's method with a line search takes at most ``steps`` steps, and ends when one is shorter than ``tol``·‖u‖. The
    arrays after ``u`` are working memory; neither what they held before nor their addresses change the result.
    To ensure that, no loop both adds up and writes: LLVM compiles such a loop twice, with and without vector
    instructions, chooses between the two by how far apart the arrays lie, and each rounds its sum differently.
    """
    rank = right.shape[1]
    count = entries.size
    zero = entries.dtype.type(0)
    limit_t = entries.dtype.type(limit)
    for a in range(count):
        for k in range(rank):
            rows[a, k] = right[columns[a], k]
    for a in range(count):
        fitted = zero
        for k in range(rank):
            fitted += rows[a, k] * u[k]
        residual[a] = entries[a] - fitted
    # Far from the answer few entries are inside the limit: where u = 0, the first Hessian counts all of them.
    cold = True
    for k in range(rank):
        cold = cold and u[k] == zero
    for _ in range(steps):
        for k in range(rank):
            descent[k] = -lambda_L * u[k]
            for j in range(k + 1):
                hessian[k, j] = lambda_L if k == j else 0.0
        for a in range(count):
            d = residual[a]
            g = min(max(d, -limit_t), limit_t)
            for k in range(rank):
                descent[k] += g * rows[a, k]
            if d == g or cold:
                for k in range(rank):
                    for j in range(k + 1):
                        hessian[k, j] += rows[a, k] * rows[a, j]
        cold = False
        for k in range(rank):
            direction[k] = descent[k]
        solve_positive(hessian, direction)
        start = 0.0
        slope = 0.0
        curvature = 0.0
        for k in range(rank):
            start -= descent[k] * direction[k]
            slope += lambda_L * u[k] * direction[k]
            curvature += lambda_L * direction[k] * direction[k]
        for a in range(count):
            moved = 0.0
            for k in range(rank):
                moved += rows[a, k] * direction[k]
            change[a] = moved
        t = step_length(residual[:count], change[:count], limit, start, slope, curvature)
        for k in range(rank):
            u[k] += t * direction[k]
        t_t = entries.dtype.type(t)
        for a in range(count):
            residual[a] -= t_t * change[a]
        length = 0.0
        moved = 0.0
        for k in range(rank):
            length += u[k] * u[k]
            moved += t * t * direction[k] * direction[k]
        if moved <= tol * tol * length:
            break


@compiled
def fit_stored_rows(
    entries: np.ndarray,
    columns: np.ndarray,
    pointers: np.ndarray,
    right: np.ndarray,
    lambda_L: float,
    limit: float,
    tol: float,
    steps: int,
    left: np.ndarray,
) -> None:
    """The robust row-local step on the stored entries of a CSR tile: :func:`fit_row` for each row of ``left``.

    Cost of a step of Newton's method: k·r² + r³/3 for a row with k entries.
    """
    must(pointers.size == left.shape[0] + 1 and left.shape[1] == right.shape[1])
    rank = right.shape[1]
    most = 0
    for i in range(left.shape[0]):
        most = max(most, pointers[i + 1] - pointers[i])
    rows = np.empty((most, rank), entries.dtype)
    residual = np.empty(most, entries.dtype)
    change = np.empty(most, entries.dtype)
    hessian = np.empty((rank, rank))
    descent = np.empty(rank)
    direction = np.empty(rank)
    for i in range(left.shape[0]):
        own = slice(pointers[i], pointers[i + 1])
        fit_row(
            entries[own],
            columns[own],
            right,
            lambda_L,
            limit,
            tol,
            steps,
            left[i],
            rows,
            residual,
            change,
            hessian,
            descent,
            direction,
        )
