"""What several passes do with one tile of the matrix, dense or sparse: G, the residual, the observed share."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from rankwolf import kernels
from rankwolf.data.tiles import with_entries as with_entries
from rankwolf.ground.arrays import Array
from rankwolf.passes.sums import add_clipped


def clip_tile(
    tile: Any,
    left: Array,
    right_t: Array,
    limit: float,
    values: Array | None = None,
    out: Array | None = None,
    nonzeros: Array | None = None,
) -> Any:
    """G = clip(P_Ω(M − left·right_t), ±limit) of one tile; its sums are added to ``values``, if given.

    ``values`` is the array of :class:`~rankwolf.passes.sums.ClippedSums`. G is dense for a dense tile, in ``out`` if
    that is given, and a CSR array with the tile's places for a sparse one. ``nonzeros`` receives the number of nonzeros
    in each row of S, for dense tiles and where ``values`` is given.
    """
    if scipy.sparse.issparse(tile):
        return _clip_sparse_tile(tile, left, right_t, limit, values)
    work: Array = np.matmul(left, right_t, out=out)
    if values is None:
        np.subtract(tile, work, out=work)
        kernels.clip_dual(tile, work, limit, np.zeros(2))
    else:
        counts = np.empty(work.shape[0]) if nonzeros is None else nonzeros
        kernels.clip_residual(tile, work, limit, values, counts)
    return work


def _clip_sparse_tile(tile: Any, left: Array, right_t: Array, limit: float, values: Array | None) -> Any:
    residual = sampled_residual(tile, left, np.ascontiguousarray(right_t.T))
    clipped = np.clip(residual, -limit, limit)
    if values is not None:
        sparse = residual - clipped
        s_norm = float(np.sum(np.abs(sparse), dtype=np.float64))
        nonzeros = int(np.count_nonzero(sparse))
        signs = dot(np.sign(sparse), tile.data)
        add_clipped(values, dot(clipped, clipped), s_norm, nonzeros, dot(clipped, tile.data), signs)
    return with_entries(tile, clipped)


def sampled_residual(tile: Any, left: Array, right: Array) -> Array:
    """M − left·rightᵀ at the stored entries of a CSR tile."""
    kernels.must(right.shape[0] == tile.shape[1])
    residual: Array = np.empty_like(tile.data)
    kernels.subtract_sampled(tile.data, tile.indices, tile.indptr, left, right, residual)
    return residual


def dot(a: Array, b: Array) -> float:
    """⟨a, b⟩, added up in float64."""
    return float(np.einsum("i,i->", a, b, dtype=np.float64))


def observed_share(tile: Array) -> Array:
    """The share of the observed entries in each row, as a column."""
    return np.asarray(np.mean(tile == tile, axis=1, keepdims=True))
