"""Every compiled kernel, in one place.

Rules: no ``parallel=True`` (tiles are spread over a thread pool instead, which is safe with threads, forks and
Dask), the GIL is released, NaN keeps its meaning (it marks an entry that was not observed), and sums of a long
row are carried to float64 every ``CHUNK`` entries, so that float32 tiles do not cost accuracy in the objective.
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
    keep_t = residual.dtype.type(keep)
    gain_t = residual.dtype.type(gain)
    limit_t = residual.dtype.type(limit)
    rows, columns = tile.shape
    for i in range(rows):
        scale = rank_one[i]
        for start in range(0, columns, CHUNK):
            gg = zero
            s_1 = zero
            ss = zero
            sl = zero
            gl = zero
            ll = zero
            gm = zero
            count = zero
            for j in range(start, min(start + CHUNK, columns)):
                m = tile[i, j]
                d = keep_t * residual[i, j] + (gain_t * m - scale * right[j])
                if m != m:  # NaN: not observed
                    d = zero
                    m = zero
                g = min(max(d, -limit_t), limit_t)
                s = d - g
                low = m - d
                residual[i, j] = d
                clipped[i, j] = g
                gg += g * g
                s_1 += abs(s)
                ss += s * s
                sl += s * low
                gl += g * low
                ll += low * low
                gm += g * m
                count += zero if s == zero else zero + 1
            sums[0] += gg
            sums[1] += s_1
            sums[2] += ss
            sums[3] += sl
            sums[4] += gl
            sums[5] += ll
            sums[6] += count
            sums[7] += gm


@_compiled
def clip_residual(tile: np.ndarray, low_rank: np.ndarray, limit: float, sums: np.ndarray) -> None:
    """D = M − L on Ω (0 elsewhere); overwrite ``low_rank`` by G = clip(D, ±limit).

    Adds to ``sums``: ‖G‖², ‖S‖₁, nnz(S), ⟨G, M⟩ with S = D − G.
    """
    zero = low_rank.dtype.type(0)
    limit_t = low_rank.dtype.type(limit)
    rows, columns = tile.shape
    for i in range(rows):
        for start in range(0, columns, CHUNK):
            gg = zero
            s_1 = zero
            gm = zero
            count = zero
            for j in range(start, min(start + CHUNK, columns)):
                m = tile[i, j]
                d = m - low_rank[i, j]
                if m != m:
                    d = zero
                    m = zero
                g = min(max(d, -limit_t), limit_t)
                low_rank[i, j] = g
                gg += g * g
                s_1 += abs(d - g)
                gm += g * m
                count += zero if d == g else zero + 1
            sums[0] += gg
            sums[1] += s_1
            sums[2] += count
            sums[3] += gm


@_compiled
def clip_dual(tile: np.ndarray, dual: np.ndarray, limit: float, sums: np.ndarray) -> None:
    """Y ← clip(P_Ω(Y), ±limit) in place; adds ‖Y‖² and ⟨Y, M⟩ to ``sums``."""
    zero = dual.dtype.type(0)
    limit_t = dual.dtype.type(limit)
    rows, columns = tile.shape
    for i in range(rows):
        for start in range(0, columns, CHUNK):
            yy = zero
            ym = zero
            for j in range(start, min(start + CHUNK, columns)):
                m = tile[i, j]
                y = min(max(dual[i, j], -limit_t), limit_t)
                if m != m:
                    y = zero
                    m = zero
                dual[i, j] = y
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
    limit_t = residual.dtype.type(limit)
    rows, columns = residual.shape
    for i in range(rows):
        for start in range(0, columns, CHUNK):
            part = zero
            above = zero
            for j in range(start, min(start + CHUNK, columns)):
                x = abs(residual[i, j]) - limit_t
                part += max(x, zero)
                above += zero + 1 if x > zero else zero
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
        for j in range(matrix.shape[1]):
            x = abs(matrix[i, j])
            if x > best:
                best = x
                row = i
                column = j
    return row, column


@_compiled
def describe_tile(tile: np.ndarray) -> tuple[float, int, int, float]:
    """‖P_Ω M‖²_F, the number of observed entries, the number of infinite ones, and max |M| over Ω."""
    total = 0.0
    observed = 0
    infinite = 0
    largest = 0.0
    for i in range(tile.shape[0]):
        for j in range(tile.shape[1]):
            x = float(tile[i, j])
            if x == x:
                observed += 1
                total += x * x
                largest = max(largest, abs(x))
                if x - x != 0.0:
                    infinite += 1
    return total, observed, infinite, largest


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
    rows, columns = tile.shape
    for i in range(rows):
        for j in range(columns):
            m = tile[i, j]
            s = sparse[i, j] + beta * (sparse[i, j] - previous[i, j])
            r = half * (low_rank[i, j] + s - m)
            if m != m:
                r = zero
                s = zero
            low_rank[i, j] -= r
            if update:
                y = s - r
                previous[i, j] = y - min(max(y, -weight), weight)


@_compiled
def misfit(tile: np.ndarray, low_rank: np.ndarray, sparse: np.ndarray, sums: np.ndarray) -> None:
    """Add ‖P_Ω(L + S − M)‖², ‖S‖₁ and nnz(S) to ``sums``."""
    zero = low_rank.dtype.type(0)
    rows, columns = tile.shape
    for i in range(rows):
        for start in range(0, columns, CHUNK):
            rr = zero
            s_1 = zero
            count = zero
            for j in range(start, min(start + CHUNK, columns)):
                m = tile[i, j]
                s = sparse[i, j]
                r = low_rank[i, j] + s - m
                if m != m:
                    r = zero
                rr += r * r
                s_1 += abs(s)
                count += zero if s == zero else zero + 1
            sums[0] += rr
            sums[1] += s_1
            sums[2] += count


@_compiled
def cast_transposed(columns: np.ndarray, tile: np.ndarray) -> None:
    """tile ← columnsᵀ, in blocks that stay in cache, converted to the tile's type."""
    block = 32
    n, b = columns.shape
    for j0 in range(0, n, block):
        for i in range(b):
            for j in range(j0, min(j0 + block, n)):
                tile[i, j] = columns[j, i]


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
        seen = 0.0
        low = 0.0
        sparse = 0.0
        for start in range(0, columns, CHUNK):
            u_c = zero
            seen_c = zero
            low_c = zero
            sparse_c = zero
            for j in range(start, min(start + CHUNK, columns)):
                m = tile[i, j]
                d = residual[i, j]
                v = right[j]
                g = min(max(d, -limit_t), limit_t)
                u_c += g * v
                sparse_c += (d - g) * v
                if m == m:
                    seen_c += v * v
                    low_c += (m - d) * v
            u += u_c
            seen += seen_c
            low += low_c
            sparse += sparse_c
        left[i, 0] = u
        sums[0] += u * u
        sums[1] += u * u * seen
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
def search_rows(
    residual: np.ndarray, change: np.ndarray, limit: float, starts: np.ndarray, slopes: np.ndarray,
    curvatures: np.ndarray, steps: np.ndarray,
) -> None:  # fmt: skip
    """For each row the step t ≥ 0 that minimises Σ Huber(D − t·change) + slope·t + ½curvature·t², and D moved by it.

    Its derivative is increasing and piecewise linear, and ``starts`` at t = 0: Newton's method inside a bracket from
    t = 1, until the derivative is a tenth of what it was; t = 1 is kept where it is exact. NaN in D: not observed.
    """
    zero = residual.dtype.type(0)
    limit_t = residual.dtype.type(limit)
    rows, columns = residual.shape
    for i in range(rows):
        low = 0.0
        high = np.inf
        t = 1.0 if starts[i] < 0.0 else 0.0
        for _ in range(30):
            if t == 0.0:
                break
            t_t = residual.dtype.type(t)
            slope = slopes[i] + curvatures[i] * t
            bend = curvatures[i]
            for start in range(0, columns, CHUNK):
                down = zero
                curve = zero
                for j in range(start, min(start + CHUNK, columns)):
                    q = change[i, j]
                    d = residual[i, j] - t_t * q
                    g = min(max(d, -limit_t), limit_t)
                    down += g * q if d == d else zero
                    curve += q * q if d == g else zero
                slope -= down
                bend += curve
            if abs(slope) <= -0.1 * starts[i]:
                break
            if slope < 0.0:
                low = t
            else:
                high = t
            t = t - slope / bend if bend > 0.0 else np.inf
            if not low < t < high:
                t = 0.5 * (low + high) if high < np.inf else 2.0 * low
        steps[i] = t
        t_t = residual.dtype.type(t)
        for j in range(columns):
            residual[i, j] -= t_t * change[i, j]
