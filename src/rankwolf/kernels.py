"""Every compiled kernel, in one place.

Rules: no ``parallel=True`` (tiles are spread over a thread pool instead, which is safe with threads, forks and
Dask), the GIL is released, NaN keeps its meaning (it marks an entry that was not observed), and sums of a long
row are carried to float64 every ``CHUNK`` entries, so that float32 tiles do not cost accuracy in the objective.

The inner loops run over slices of a row and choose with ``a if c else b``: so written they become vector instructions
(0.2 ns an entry); indexed in two dimensions, or with ``min`` and ``max``, they do not (2.6 ns).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

CHUNK = 512
# Everything of fastmath but "no NaN" and "no infinity": a NaN is data here.
_REORDER = {"reassoc", "contract", "nsz", "arcp"}

F = TypeVar("F", bound=Callable[..., Any])


def _compiled(function: F) -> F:
    """Compile with a cache on disk, or without one where no folder can be written."""
    options: dict[str, Any] = {"nogil": True, "fastmath": _REORDER, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # "no locator available": a read-only install without a home folder
        return numba.njit(**options)(function)  # type: ignore[no-any-return]


@_compiled
def move_residual(
    tile: np.ndarray, residual: np.ndarray, keep: float, gain: float, rank_one: np.ndarray, right: np.ndarray,
    limit: float, clipped: np.ndarray, sums: np.ndarray,
) -> None:  # fmt: skip
    """D ← keep·D + gain·M − rank_one·rightᵀ on Ω, then G = clip(D, ±limit), S = D − G, L = M − D.

    Writes D and G, and adds to ``sums``: ‖G‖², ‖S‖₁, ‖S‖², ⟨S, L⟩, ⟨G, L⟩, ‖L‖², nnz(S), ⟨G, M⟩.
    """
    zero = residual.dtype.type(0)
    one = residual.dtype.type(1)
    keep_t = residual.dtype.type(keep)
    gain_t = residual.dtype.type(gain)
    limit_t = residual.dtype.type(limit)
    rows, columns = tile.shape
    for i in range(rows):
        scale = rank_one[i]
        for start in range(0, columns, CHUNK):
            data = tile[i, start : start + CHUNK]
            moved = residual[i, start : start + CHUNK]
            out = clipped[i, start : start + CHUNK]
            vector = right[start : start + CHUNK]
            gg = zero
            s_1 = zero
            ss = zero
            sl = zero
            gl = zero
            ll = zero
            gm = zero
            count = zero
            for j in range(data.size):
                m = data[j]
                seen = m == m
                d = keep_t * moved[j] + (gain_t * m - scale * vector[j])
                d = d if seen else zero
                m = m if seen else zero
                g = d if d < limit_t else limit_t
                g = g if g > -limit_t else -limit_t
                s = d - g
                low = m - d
                moved[j] = d
                out[j] = g
                gg += g * g
                s_1 += abs(s)
                ss += s * s
                sl += s * low
                gl += g * low
                ll += low * low
                gm += g * m
                count += zero if s == zero else one
            sums[0] += gg
            sums[1] += s_1
            sums[2] += ss
            sums[3] += sl
            sums[4] += gl
            sums[5] += ll
            sums[6] += count
            sums[7] += gm


@_compiled
def clip_residual(
    tile: np.ndarray, low_rank: np.ndarray, limit: float, sums: np.ndarray, nonzeros: np.ndarray
) -> None:
    """D = M − L on Ω (0 elsewhere); overwrite ``low_rank`` by G = clip(D, ±limit).

    Adds to ``sums``: ‖G‖², ‖S‖₁, nnz(S), ⟨G, M⟩ with S = D − G; ``nonzeros`` becomes nnz of each row of S.
    """
    zero = low_rank.dtype.type(0)
    one = low_rank.dtype.type(1)
    limit_t = low_rank.dtype.type(limit)
    rows, columns = tile.shape
    for i in range(rows):
        nonzeros[i] = 0
        for start in range(0, columns, CHUNK):
            data = tile[i, start : start + CHUNK]
            out = low_rank[i, start : start + CHUNK]
            gg = zero
            s_1 = zero
            gm = zero
            count = zero
            for j in range(data.size):
                m = data[j]
                seen = m == m
                d = m - out[j]
                d = d if seen else zero
                m = m if seen else zero
                g = d if d < limit_t else limit_t
                g = g if g > -limit_t else -limit_t
                out[j] = g
                gg += g * g
                s_1 += abs(d - g)
                gm += g * m
                count += zero if d == g else one
            sums[0] += gg
            sums[1] += s_1
            sums[2] += count
            sums[3] += gm
            nonzeros[i] += count


@_compiled
def clip_only(tile: np.ndarray, low_rank: np.ndarray, limit: float) -> None:
    """The same overwriting without the sums."""
    zero = low_rank.dtype.type(0)
    limit_t = low_rank.dtype.type(limit)
    for i in range(tile.shape[0]):
        data = tile[i]
        out = low_rank[i]
        for j in range(data.size):
            d = data[j] - out[j]
            g = d if d < limit_t else limit_t
            g = g if g > -limit_t else -limit_t
            out[j] = g if d == d else zero


@_compiled
def clip_dual(tile: np.ndarray, dual: np.ndarray, limit: float, sums: np.ndarray) -> None:
    """Y ← clip(P_Ω(Y), ±limit) in place; adds ‖Y‖² and ⟨Y, M⟩ to ``sums``."""
    zero = dual.dtype.type(0)
    limit_t = dual.dtype.type(limit)
    rows, columns = tile.shape
    for i in range(rows):
        for start in range(0, columns, CHUNK):
            data = tile[i, start : start + CHUNK]
            out = dual[i, start : start + CHUNK]
            yy = zero
            ym = zero
            for j in range(data.size):
                m = data[j]
                seen = m == m
                y = out[j]
                y = y if y < limit_t else limit_t
                y = y if y > -limit_t else -limit_t
                y = y if seen else zero
                m = m if seen else zero
                out[j] = y
                yy += y * y
                ym += y * m
            sums[0] += yy
            sums[1] += ym


@_compiled
def excess_over(residual: np.ndarray, limit: float) -> tuple[float, float]:
    """Σ max(|D| − limit, 0) and the number of entries above ``limit``: what the ℓ1 projection's Newton step asks."""
    total = 0.0
    count = 0.0
    zero = residual.dtype.type(0)
    one = residual.dtype.type(1)
    limit_t = residual.dtype.type(limit)
    rows, columns = residual.shape
    for i in range(rows):
        for start in range(0, columns, CHUNK):
            data = residual[i, start : start + CHUNK]
            part = zero
            above = zero
            for j in range(data.size):
                x = abs(data[j]) - limit_t
                part += x if x > zero else zero
                above += one if x > zero else zero
            total += part
            count += above
    return total, count


@_compiled
def largest_entry(matrix: np.ndarray) -> tuple[int, int]:
    """Row and column of the first entry of largest magnitude; NaN never wins."""
    best = -1.0
    row = 0
    column = 0
    for i in range(matrix.shape[0]):
        values = matrix[i]
        top = -1.0
        for j in range(values.size):
            x = abs(values[j])
            top = x if x > top else top
        if top > best:
            best = top
            row = i
            for j in range(values.size):
                if abs(values[j]) == best:
                    column = j
                    break
    return row, column


@_compiled
def describe_tile(tile: np.ndarray) -> tuple[float, int]:
    """‖P_Ω M‖²_F and the number of observed entries."""
    total = 0.0
    missing = 0.0
    for i in range(tile.shape[0]):
        data = tile[i]
        for j in range(data.size):
            x = float(data[j])
            seen = x == x
            x = x if seen else 0.0
            # Counted in float64, as the rest is, so that one kind of vector holds both.
            missing += 0.0 if seen else 1.0
            total += x * x
    return total, tile.size - int(missing)


@_compiled
def proximal_point(
    tile: np.ndarray, low_rank: np.ndarray, sparse: np.ndarray, previous: np.ndarray, momentum: float,
    half_weight: float, update: bool,
) -> None:  # fmt: skip
    """One tile of a proximal gradient step with L_f = 2 (Algorithms 7 and 8).

    Ŝ = S + momentum·(S − S₋); R = P_Ω(L̂ + Ŝ − M). ``low_rank`` enters as L̂ and leaves as X = L̂ − R/2.
    With ``update``, ``previous`` leaves as S⁺ = T_{half_weight}(Ŝ − R/2) (0 outside Ω).
    """
    zero = low_rank.dtype.type(0)
    half = low_rank.dtype.type(0.5)
    beta = low_rank.dtype.type(momentum)
    weight = low_rank.dtype.type(half_weight)
    for i in range(tile.shape[0]):
        data = tile[i]
        low = low_rank[i]
        now = sparse[i]
        old = previous[i]
        for j in range(data.size):
            m = data[j]
            seen = m == m
            s = now[j] + beta * (now[j] - old[j])
            r = half * (low[j] + s - m)
            r = r if seen else zero
            low[j] -= r
            y = s - r
            y = y if seen else zero
            clipped = y if y < weight else weight
            clipped = clipped if clipped > -weight else -weight
            old[j] = y - clipped if update else old[j]


@_compiled
def misfit(tile: np.ndarray, low_rank: np.ndarray, sparse: np.ndarray, sums: np.ndarray) -> None:
    """Add ‖P_Ω(L + S − M)‖², ‖S‖₁ and nnz(S) to ``sums``."""
    zero = low_rank.dtype.type(0)
    one = low_rank.dtype.type(1)
    rows, columns = tile.shape
    for i in range(rows):
        for start in range(0, columns, CHUNK):
            data = tile[i, start : start + CHUNK]
            low = low_rank[i, start : start + CHUNK]
            now = sparse[i, start : start + CHUNK]
            rr = zero
            s_1 = zero
            count = zero
            for j in range(data.size):
                m = data[j]
                s = now[j]
                r = low[j] + s - m
                r = r if m == m else zero
                rr += r * r
                s_1 += abs(s)
                count += zero if s == zero else one
            sums[0] += rr
            sums[1] += s_1
            sums[2] += count


@_compiled
def cast_transposed(columns: np.ndarray, tile: np.ndarray) -> None:
    """tile ← columnsᵀ, in blocks that stay in cache, converted to the tile's type."""
    block = 16
    n, b = columns.shape
    for j0 in range(0, n, block):
        part = columns[j0 : j0 + block]
        for i in range(b):
            out = tile[i, j0 : j0 + block]
            for j in range(out.size):
                out[j] = part[j, i]


@_compiled
def align_with(
    tile: np.ndarray,
    residual: np.ndarray,
    limit: float,
    right: np.ndarray,
    left: np.ndarray,
    sums: np.ndarray,
) -> None:
    """left ← G·right for one tile, and the inner products of the atom left·rightᵀ that a step size needs.

    With L = M − D, S = D − G on Ω, adds to ``sums``: ‖left‖², ‖P_Ω(atom)‖², ⟨atom, L⟩, ⟨atom, S⟩.
    """
    zero = residual.dtype.type(0)
    limit_t = residual.dtype.type(limit)
    rows, columns = tile.shape
    for i in range(rows):
        u = 0.0
        observed = 0.0
        low = 0.0
        sparse = 0.0
        for start in range(0, columns, CHUNK):
            data = tile[i, start : start + CHUNK]
            moved = residual[i, start : start + CHUNK]
            vector = right[start : start + CHUNK]
            u_c = zero
            observed_c = zero
            low_c = zero
            sparse_c = zero
            for j in range(data.size):
                m = data[j]
                seen = m == m
                d = moved[j]
                v = vector[j]
                m = m if seen else d
                w = v if seen else zero
                g = d if d < limit_t else limit_t
                g = g if g > -limit_t else -limit_t
                u_c += g * v
                sparse_c += (d - g) * v
                observed_c += w * w
                low_c += (m - d) * v
            u += u_c
            observed += observed_c
            low += low_c
            sparse += sparse_c
        left[i, 0] = u
        sums[0] += u * u
        sums[1] += u * u * observed
        sums[2] += u * low
        sums[3] += u * sparse


@_compiled
def clip_rows(residual: np.ndarray, limit: float, clipped: np.ndarray, inside: np.ndarray) -> None:
    """G = clip(D, ±limit), and 1 where |D| ≤ limit, the diagonal of the Huber loss's Hessian. NaN in D: 0 in both."""
    zero = residual.dtype.type(0)
    one = residual.dtype.type(1)
    limit_t = residual.dtype.type(limit)
    rows, columns = residual.shape
    for i in range(rows):
        for j in range(columns):
            d = residual[i, j]
            g = min(max(d, -limit_t), limit_t)
            clipped[i, j] = g if d == d else zero
            inside[i, j] = one if d == g else zero


@_compiled
def step_length(
    residual: np.ndarray, change: np.ndarray, limit: float, start: float, slope: float, curvature: float
) -> float:
    """The t ≥ 0 that minimises Σ Huber(D − t·change) + slope·t + ½curvature·t² for one row.

    The derivative is increasing and piecewise linear, and ``start`` at t = 0: Newton's method inside a bracket from
    t = 1, until the derivative is a tenth of what it was; t = 1 is kept where it is exact. NaN in D: not observed.
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
            for j in range(first, min(first + CHUNK, residual.size)):
                q = change[j]
                d = residual[j] - t_t * q
                g = min(max(d, -limit_t), limit_t)
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


@_compiled
def search_rows(
    residual: np.ndarray, change: np.ndarray, limit: float, starts: np.ndarray, slopes: np.ndarray,
    curvatures: np.ndarray, steps: np.ndarray,
) -> None:  # fmt: skip
    """The :func:`step_length` of each row, and D moved by it."""
    for i in range(residual.shape[0]):
        steps[i] = step_length(residual[i], change[i], limit, starts[i], slopes[i], curvatures[i])
        t = residual.dtype.type(steps[i])
        for j in range(residual.shape[1]):
            residual[i, j] -= t * change[i, j]


@_compiled
def solve_positive(matrix: np.ndarray, side: np.ndarray) -> None:
    """side ← matrix⁻¹·side for a positive definite matrix, by Cholesky; both are overwritten."""
    n = side.size
    for k in range(n):
        for i in range(k):
            matrix[k, k] -= matrix[k, i] * matrix[k, i]
        matrix[k, k] = max(matrix[k, k], 1e-300) ** 0.5
        for j in range(k + 1, n):
            for i in range(k):
                matrix[j, k] -= matrix[j, i] * matrix[k, i]
            matrix[j, k] /= matrix[k, k]
    for k in range(n):
        for i in range(k):
            side[k] -= matrix[k, i] * side[i]
        side[k] /= matrix[k, k]
    for k in range(n - 1, -1, -1):
        for i in range(k + 1, n):
            side[k] -= matrix[i, k] * side[i]
        side[k] /= matrix[k, k]


@_compiled
def fit_stored_rows(
    entries: np.ndarray, columns: np.ndarray, pointers: np.ndarray, right: np.ndarray, lambda_L: float, limit: float,
    tol: float, steps: int, left: np.ndarray,
) -> None:  # fmt: skip
    """The robust row-local step on the stored entries of a CSR tile: ``left`` moves to the minimiser, row by row.

    Newton's method with a line search, at most ``steps`` times, until a step is below ``tol`` of its length. Cost of a
    step: k·r² + r³/3 for a row with k entries.
    """
    rank = right.shape[1]
    zero = entries.dtype.type(0)
    limit_t = entries.dtype.type(limit)
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
        count = pointers[i + 1] - pointers[i]
        u = left[i]
        for a in range(count):
            column = columns[pointers[i] + a]
            fitted = zero
            for k in range(rank):
                rows[a, k] = right[column, k]
                fitted += right[column, k] * u[k]
            residual[a] = entries[pointers[i] + a] - fitted
        # Far from the answer few entries are inside the limit: from nothing, the first Hessian counts them all.
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
            direction[:] = descent
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
            length = 0.0
            moved = 0.0
            for k in range(rank):
                u[k] += t * direction[k]
                length += u[k] * u[k]
                moved += t * t * direction[k] * direction[k]
            t_t = entries.dtype.type(t)
            for a in range(count):
                residual[a] -= t_t * change[a]
            if moved <= tol * tol * length:
                break


@_compiled
def subtract_sampled(
    entries: np.ndarray, columns: np.ndarray, pointers: np.ndarray, left: np.ndarray, right: np.ndarray,
    result: np.ndarray,
) -> None:  # fmt: skip
    """result = M − left·rightᵀ at the stored entries of a CSR tile; r multiplications an entry."""
    zero = entries.dtype.type(0)
    rank = left.shape[1]
    for i in range(left.shape[0]):
        for place in range(pointers[i], pointers[i + 1]):
            j = columns[place]
            fitted = zero
            for k in range(rank):
                fitted += left[i, k] * right[j, k]
            result[place] = entries[place] - fitted
