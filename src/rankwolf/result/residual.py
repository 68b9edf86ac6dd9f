"""The residual D = P_Ω(M − L) and its sparse part S = T_θ(D): the one place where a result computes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.data import Source, Sums, Task
from rankwolf.data.tiles import is_sparse, with_entries
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.oracles import l1
from rankwolf.passes import sampled_residual


def residual(tile: Any, left: Array, right: Array) -> Any:
    """D = P_Ω(M − left·rightᵀ) of a tile: an array with NaN outside Ω, or a CSR array with the places of the tile.

    Cost: 2r operations an entry, of a CSR tile only for the observed ones.
    """
    left, right = (np.ascontiguousarray(factor, tile.dtype) for factor in (left, right))
    if is_sparse(tile):
        return with_entries(tile, sampled_residual(tile, left, right))
    difference: Array = tile - left @ right.T
    return difference


def thresholded(tile: Any, left: Array, right: Array, threshold: float, shrinks: bool = True) -> Any:
    """S = T_θ(P_Ω(M − left·rightᵀ)) of a tile: an array with 0 outside Ω, or a CSR array without zeros.

    ``shrinks``: whether T takes θ off entries beyond θ, as in the convex problem, or leaves them as they are, as a
    refit does.
    """
    return sparse_of(residual(tile, left, right), threshold, shrinks)


def sparse_of(rest: Any, threshold: float, shrinks: bool = True) -> Any:
    """S = T_θ(D) of a residual D: an array with 0 where D is NaN, or a CSR array without zeros."""
    if not is_sparse(rest):
        return np.nan_to_num(l1.beyond(rest, threshold, shrinks), copy=False, nan=0.0)
    sparse = with_entries(rest, l1.beyond(rest.data, threshold, shrinks)).copy()  # its places are the data's
    sparse.eliminate_zeros()
    return sparse


def observed_entries(tile: Any) -> Array:
    """The observed entries of a tile, as a vector."""
    entries = tile.data if is_sparse(tile) else tile.ravel()
    return np.asarray(entries[~np.isnan(entries)])


@dataclass
class SparseTiles(Sums):
    """Tiles of S as CSR arrays, from top to bottom."""

    tiles: list[Any] = field(default_factory=list)


class CollectSparse(Task[SparseTiles]):
    """Collect S = T_θ(P_Ω(M − L)), tile by tile. Row-aligned array: ``left``, for L = left·rightᵀ."""

    sees_all = True

    def __init__(self, right: Array, threshold: float, shrinks: bool) -> None:
        self.right, self.threshold, self.shrinks = right, threshold, shrinks

    def start(self) -> SparseTiles:
        """No tiles yet."""
        return SparseTiles()

    def visit(self, sums: SparseTiles, tile: Any, *rows: Array) -> None:
        """Keep S = T_θ(M − L) of one tile."""
        sparse = thresholded(tile, rows[0], self.right, self.threshold, self.shrinks)
        sums.tiles.append(scipy.sparse.csr_array(sparse))


def sparse_part(
    source: Source, low_rank: LowRank, threshold: float, shrinks: bool = True
) -> scipy.sparse.csr_array:
    """S = T_θ(P_Ω(M − L)) as a CSR array; S and L lie as the user's matrix does. One pass."""
    with source.one_blas_thread():
        source.prepare()
        left, right = source.factors(source.as_solver_sees(low_rank))
        tiles = source.run(CollectSparse(right, threshold, shrinks), left).tiles
    stacked = scipy.sparse.vstack(tiles, format="csr", dtype=source.dtype)
    return scipy.sparse.csr_array(stacked.T if source.transposed else stacked)
