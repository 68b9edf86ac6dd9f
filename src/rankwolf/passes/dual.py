"""Passes over the dual point Y = clip(G − what is too long in it, ±λ_S), for the certificate."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from rankwolf import kernels
from rankwolf.passes.factors import HuberSums
from rankwolf.passes.tiles import clip_tile, dot, sampled_residual, with_entries
from rankwolf.sources import Array, Source, Sums, Task

# Columns of a Gram matrix that are added up together.
BLOCK = 128


def mirror(matrix: Array) -> None:
    """Copy the upper triangle of a square matrix to the lower one, in place."""
    for j in range(matrix.shape[0] - 1):
        matrix[j + 1 :, j] = matrix[j, j + 1 :]


def add_gram(blocks: list[Array], part: Any) -> None:
    """Add partᵀ·part, of some rows of Y, dense or sparse, to the blocks of YᵀY."""
    for block in blocks:
        stop = block.shape[0]
        product: Any = part[:, :stop].T @ part[:, stop - block.shape[1] : stop]
        block += product if isinstance(part, np.ndarray) else product.toarray()


@dataclass
class GramSums(Sums):
    """YᵀY for a matrix Y of the data's size, a few scalars, and a panel where tiles wait.

    ``blocks`` are columns of the Gram matrix, ``BLOCK`` at a time, each as far down as its diagonal: half the memory.
    """

    values: Array
    blocks: list[Array]
    panel: Array
    waiting: int = 0

    def add(self, other: GramSums) -> None:
        """The panels are empty by now."""
        self.values += other.values
        for mine, theirs in zip(self.blocks, other.blocks, strict=True):
            mine += theirs

    def __getstate__(self) -> dict[str, Any]:
        """The panel does not travel."""
        return {**vars(self), "panel": self.panel[:0]}

    def gram(self) -> Array:
        """YᵀY, in float64."""
        n = self.blocks[-1].shape[0] if self.blocks else 0
        matrix = np.empty((n, n), order="F")
        for block in self.blocks:
            stop = block.shape[0]
            matrix[:stop, stop - block.shape[1] : stop] = block
        mirror(matrix)
        return matrix


class GramTask(Task[GramSums]):
    """YᵀY where Y is made from the data tile by tile; tiles are gathered until a product is worth its call.

    Memory for each thread, in the panel's type: half of n × n and a panel of 256 × n.
    """

    large_sums = True
    writes_rows = False

    def __init__(self, source: Source, dtype: np.dtype[np.generic], values: int) -> None:
        self.columns, self.dtype, self.value_count = source.shape[1], dtype, values
        self.panel_rows = 0 if source.sparse else max(-(-source.tile_rows() // 4), min(256, source.shape[0]))

    def start(self) -> GramSums:
        """Zeros, and an empty panel."""
        n = self.columns
        blocks = [np.zeros((min(j + BLOCK, n), min(BLOCK, n - j)), self.dtype) for j in range(0, n, BLOCK)]
        return GramSums(np.zeros(self.value_count), blocks, np.empty((self.panel_rows, n), self.dtype))

    def visit(self, sums: GramSums, tile: Array, *rows: Array) -> None:
        """Make one tile of Y in the panel."""
        if sums.waiting + tile.shape[0] > self.panel_rows:
            self.close(sums)
        self.fill(sums.panel[sums.waiting : sums.waiting + tile.shape[0]], sums.values, tile, *rows)
        sums.waiting += tile.shape[0]

    def close(self, sums: GramSums) -> None:
        """Multiply what waits."""
        if sums.waiting:
            add_gram(sums.blocks, sums.panel[: sums.waiting])
            sums.waiting = 0

    @abstractmethod
    def fill(self, out: Array, values: Array, tile: Array, *rows: Array) -> None:
        """Write the rows of Y that belong to ``tile`` into ``out``; add to ``values``."""


@dataclass(frozen=True)
class Deflation:
    """Directions v, orthonormal, in which G is longer than λ_L, and the share of G·v that is too much.

    A hint for the certificate: Y = clip(P_Ω(G − Σ excess·(G v)vᵀ)) is a better dual point than a scaled G.
    """

    directions: Array
    excess: Array


def dual_tile(
    tile: Any, left: Array, right_t: Array, limit: float, deflation: Deflation | None, values: Array,
    out: Array | None = None,
) -> Any:  # fmt: skip
    """Y for one tile, in ``out`` if that is given; adds ‖G‖², ‖S‖₁, nnz(S), ⟨G, M⟩, ‖Y‖², ⟨Y, M⟩ to ``values``.

    Without a hint Y = G.
    """
    before = values[[0, 3]]
    work = clip_tile(tile, left, right_t, limit, values[:4], out)
    if deflation is None or deflation.excess.size == 0:
        values[4:] += values[[0, 3]] - before
        return work
    along = (work @ deflation.directions) * deflation.excess.astype(work.dtype)
    if isinstance(tile, scipy.sparse.csr_array):
        entries = np.clip(
            sampled_residual(work, along, np.ascontiguousarray(deflation.directions)), -limit, limit
        )
        values[4] += dot(entries, entries)
        values[5] += dot(entries, tile.data)
        return with_entries(tile, entries)
    subtract_product(work, along, deflation.directions)
    kernels.clip_dual(tile, work, limit, values[4:])
    return work


def subtract_product(work: Array, left: Array, right: Array) -> None:
    """work ← work − left·rightᵀ, without a second array of its size."""
    product = scipy.linalg.get_blas_funcs("gemm", dtype=work.dtype)
    # BLAS counts columns first: a C-contiguous array is the transpose of what it sees.
    product(-1.0, right.T, left.T, beta=1.0, c=work.T, trans_a=True, overwrite_c=True)


class GramOfDual(GramTask):
    """YᵀY for the dual point Y at L = left·rightᵀ, with the sums of :func:`dual_tile`. Rows: left."""

    def __init__(self, right: Array, limit: float, deflation: Deflation | None, source: Source) -> None:
        super().__init__(source, source.dtype, values=6)
        self.right, self.limit, self.deflation = np.ascontiguousarray(right.T), limit, deflation

    def visit(self, sums: GramSums, tile: Any, *rows: Array) -> None:
        """A sparse tile is multiplied at once, at the cost of the squares of its rows' counts."""
        if not scipy.sparse.issparse(tile):
            return super().visit(sums, tile, *rows)
        sparse = dual_tile(tile, rows[0], self.right, self.limit, self.deflation, sums.values)
        add_gram(sums.blocks, sparse)
        return None

    def fill(self, out: Array, values: Array, tile: Array, *rows: Array) -> None:
        """One tile of Y."""
        dual_tile(tile, rows[0], self.right, self.limit, self.deflation, values, out)


class MultiplyDual(Task[HuberSums]):
    """YᵀY·block for the same Y, where its Gram matrix would be too large. Rows: left."""

    writes_rows = False

    def __init__(self, right: Array, limit: float, deflation: Deflation | None, block: Array) -> None:
        self.right, self.limit, self.deflation = np.ascontiguousarray(right.T), limit, deflation
        self.block = block.astype(right.dtype)

    def start(self) -> HuberSums:
        """Zeros."""
        return HuberSums(np.zeros(6), np.zeros(self.block.shape))

    def visit(self, sums: HuberSums, tile: Array, *rows: Array) -> None:
        """One tile."""
        work = dual_tile(tile, rows[0], self.right, self.limit, self.deflation, sums.values)
        sums.product += work.T @ (work @ self.block)
