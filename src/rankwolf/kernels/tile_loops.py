"""Loops over the entries of one tile, dense or CSR. Throughout, NaN in a tile marks an entry outside of Ω."""

from __future__ import annotations

import numpy as np

from rankwolf.kernels.compiling import CHUNK, compiled, must

# The places of the sums that these loops add to: those of G, S and M, and those of a dual point Y and M.
G_SQUARED, S_NORM, NONZEROS, G_DOT_M, SIGN_DOT_M = range(5)
Y_SQUARED, Y_DOT_M = range(2)


@compiled
def clip_residual(
    tile: np.ndarray, low_rank: np.ndarray, limit: float, sums: np.ndarray, nonzeros: np.ndarray
) -> None:
    """D = M − L on Ω (0 elsewhere); overwrite ``low_rank`` by G = clip(D, ±limit).

    Adds to ``sums``: ‖G‖², ‖S‖₁, ‖S‖₀, ⟨G, M⟩, ⟨sign S, M⟩ with S = D − G; ``nonzeros`` becomes ‖·‖₀ of each row of S.
    """
    must(low_rank.shape == tile.shape and nonzeros.size == tile.shape[0] and sums.size >= 5)
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
            zm = zero
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
                sign = one if d > g else zero
                sign = sign if d >= g else -one
                zm += sign * m
                count += zero if d == g else one
            sums[G_SQUARED] += gg
            sums[S_NORM] += s_1
            sums[NONZEROS] += count
            sums[G_DOT_M] += gm
            sums[SIGN_DOT_M] += zm
            nonzeros[i] += count


@compiled
def clip_dual(tile: np.ndarray, dual: np.ndarray, limit: float, sums: np.ndarray) -> None:
    """Y ← clip(P_Ω(Y), ±limit) in place; adds ‖Y‖² and ⟨Y, M⟩ to ``sums``."""
    must(dual.shape == tile.shape and sums.size >= 2)
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
            sums[Y_SQUARED] += yy
            sums[Y_DOT_M] += ym


@compiled
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


@compiled
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
            # Counted in float64, like the sum, so that both use the same kind of vector register.
            missing += 0.0 if seen else 1.0
            total += x * x
    # An int for Python; Numba compiles int() as one more function, which the first call would wait for.
    return total, tile.size - np.int64(missing)  # type: ignore[return-value]


@compiled
def cast_transposed(columns: np.ndarray, tile: np.ndarray) -> None:
    """tile ← columnsᵀ, in blocks that stay in cache, converted to the tile's type."""
    must(columns.T.shape == tile.shape)
    block = 16
    n, b = columns.shape
    for j0 in range(0, n, block):
        part = columns[j0 : j0 + block]
        for i in range(b):
            out = tile[i, j0 : j0 + block]
            for j in range(out.size):
                out[j] = part[j, i]


@compiled
def subtract_sampled(
    entries: np.ndarray,
    columns: np.ndarray,
    pointers: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    result: np.ndarray,
) -> None:
    """result = M − left·rightᵀ at the stored entries of a CSR tile; r multiplications an entry."""
    must(
        pointers.size == left.shape[0] + 1 and left.shape[1] == right.shape[1] and result.size == entries.size
    )
    zero = entries.dtype.type(0)
    rank = left.shape[1]
    for i in range(left.shape[0]):
        for place in range(pointers[i], pointers[i + 1]):
            j = columns[place]
            fitted = zero
            for k in range(rank):
                fitted += left[i, k] * right[j, k]
            result[place] = entries[place] - fitted
