"""Loops over the entries of one tile, dense or CSR. Throughout, NaN in a tile marks an entry outside of Ω."""

from __future__ import annotations

import numpy as np

from rankwolf.kernels.compiling import CHUNK, compiled, must

# The places of the sums that these loops add to: those of G, S and M, and those of a dual point Y and M.
G_SQUARED, S_NORM, NONZEROS, G_DOT_M, SIGN_DOT_M = range(5)
Y_SQUARED, Y_DOT_M = range(2)


@compiled
def move_residual(
    tile: np.ndarray,
    residual: np.ndarray,
    keep: float,
    gain: float,
    rank_one: np.ndarray,
    right: np.ndarray,
    limit: float,
    clipped: np.ndarray,
) -> tuple[float, float, float, float, float, float, float, float]:
    """D ← keep·D + gain·M − rank_one·rightᵀ on Ω, then G = clip(D, ±limit), S = D − G, L = M − D.

    Writes D and G, and returns ‖G‖², ‖S‖₁, ‖S‖₀, ⟨G, M⟩, ‖S‖², ⟨S, L⟩, ⟨G, L⟩, ‖L‖².
    """
    must(residual.shape == tile.shape and clipped.shape == tile.shape)
    must((rank_one.size, right.size) == tile.shape)
    zero = residual.dtype.type(0)
    one = residual.dtype.type(1)
    keep_t = residual.dtype.type(keep)
    gain_t = residual.dtype.type(gain)
    limit_t = residual.dtype.type(limit)
    rows, columns = tile.shape
    g_squared = s_norm = s_squared = s_dot_l = g_dot_l = l_squared = nonzeros = g_dot_m = 0.0
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
            g_squared += gg
            s_norm += s_1
            s_squared += ss
            s_dot_l += sl
            g_dot_l += gl
            l_squared += ll
            nonzeros += count
            g_dot_m += gm
    return g_squared, s_norm, nonzeros, g_dot_m, s_squared, s_dot_l, g_dot_l, l_squared


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
def excess_over(residual: np.ndarray, limit: float) -> tuple[float, float]:
    """Σ max(|D| − limit, 0) and the number of entries with |D| > limit, for a Newton step of the ℓ1 projection."""
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
def proximal_point(
    tile: np.ndarray,
    low_rank: np.ndarray,
    sparse: np.ndarray,
    previous: np.ndarray,
    momentum: float,
    half_weight: float,
    update: bool,
) -> None:
    """One tile of a proximal gradient step with L_f = 2 (Algorithms 7 and 8).

    Ŝ = S + momentum·(S − S₋); R = P_Ω(L̂ + Ŝ − M). ``low_rank`` enters as L̂ and leaves as X = L̂ − R/2.
    With ``update``, ``previous`` leaves as S⁺ = T_{half_weight}(Ŝ − R/2) (0 outside Ω).
    """
    must(low_rank.shape == tile.shape and sparse.shape == tile.shape and previous.shape == tile.shape)
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


@compiled
def misfit(tile: np.ndarray, low_rank: np.ndarray, sparse: np.ndarray) -> tuple[float, float, float]:
    """‖P_Ω(L + S − M)‖², ‖S‖₁ and ‖S‖₀."""
    must(low_rank.shape == tile.shape and sparse.shape == tile.shape)
    zero = low_rank.dtype.type(0)
    one = low_rank.dtype.type(1)
    rows, columns = tile.shape
    squared = s_norm = nonzeros = 0.0
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
            squared += rr
            s_norm += s_1
            nonzeros += count
    return squared, s_norm, nonzeros


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
def align_with(
    tile: np.ndarray,
    residual: np.ndarray,
    limit: float,
    right: np.ndarray,
    left: np.ndarray,
) -> tuple[float, float, float, float]:
    """left ← G·right for one tile, and the inner products of the atom left·rightᵀ that a step size needs.

    With L = M − D, S = D − G on Ω, returns ‖left‖², ‖P_Ω(atom)‖², ⟨atom, L⟩, ⟨atom, S⟩.
    """
    must(residual.shape == tile.shape and (left.shape[0], right.size) == tile.shape and left.shape[1] > 0)
    zero = residual.dtype.type(0)
    limit_t = residual.dtype.type(limit)
    rows, columns = tile.shape
    length_squared = squared = dot_l = dot_s = 0.0
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
        length_squared += u * u
        squared += u * u * observed
        dot_l += u * low
        dot_s += u * sparse
    return length_squared, squared, dot_l, dot_s


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
