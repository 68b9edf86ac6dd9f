"""Passes over the certificate's dual point Y = clip(G − E, ±λ_S), where E is the excess of G's long directions."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from rankwolf import kernels
from rankwolf.data import Source, Task
from rankwolf.ground.arrays import Array
from rankwolf.passes.sums import DUAL_VALUES, DualSums
from rankwolf.passes.tile_steps import clip_tile, dot, sampled_residual, with_entries
from rankwolf.platform import mapped_memory

# Columns in a block of a Gram matrix.
BLOCK = 128
# Blocks of at least this size are memory mappings of their own.
MAPPED_BYTES = 2**20


def mirror(matrix: Array) -> None:
    """Copy the upper triangle of a square matrix to the lower one, in place."""
    for j in range(matrix.shape[0] - 1):
        matrix[j + 1 :, j] = matrix[j, j + 1 :]


def _zeros(shape: tuple[int, int], dtype: np.dtype[np.generic]) -> Array:
    """An array of zeros whose memory goes back to the system once freed; C's allocator would keep it for its thread."""
    size = shape[0] * shape[1] * dtype.itemsize
    return np.zeros(shape, dtype) if size < MAPPED_BYTES else np.ndarray(shape, dtype, mapped_memory(size))


def add_gram(blocks: list[Array], part: Any) -> None:
    """Add partᵀ·part to the blocks of YᵀY; ``part`` is some rows of Y, dense or sparse."""
    for block in blocks:
        stop = block.shape[0]
        product: Any = part[:, :stop].T @ part[:, stop - block.shape[1] : stop]
        block += product if isinstance(part, np.ndarray) else product.toarray()


@dataclass
class GramSums(DualSums):
    """YᵀY for a matrix Y of the data's size, the sums of Y where it is a dual point, and a panel that collects tiles.

    ``blocks`` are the columns of the Gram matrix, ``BLOCK`` at a time, down to the diagonal only: half the memory.
    ``waiting`` is the number of rows in the panel that are not multiplied yet.
    """

    blocks: list[Array]
    panel: Array
    waiting: int = 0

    def add(self, other: GramSums) -> None:
        """Add the Gram matrices and the sums. Called after ``close``, when both panels are empty."""
        self.values += other.values
        for mine, theirs in zip(self.blocks, other.blocks, strict=True):
            mine += theirs

    def __getstate__(self) -> dict[str, Any]:
        """The state without the panel, which is not sent between processes."""
        return {**vars(self), "panel": self.panel[:0]}

    def take_gram(self) -> Array:
        """YᵀY in float64, n × n. Each block is freed once it is copied, so this can be called only once."""
        n = self.blocks[-1].shape[0] if self.blocks else 0
        matrix = np.empty((n, n), order="F")
        while self.blocks:
            block = self.blocks.pop()
            stop = block.shape[0]
            matrix[:stop, stop - block.shape[1] : stop] = block
        mirror(matrix)
        return matrix


class GramTask(Task[GramSums]):
    """YᵀY where Y is made from the data tile by tile; tiles are collected in a panel, so that products are large.

    Memory for each thread, in the panel's type: half of n × n, and a panel of about 256 × n.
    """

    large_sums = True

    def __init__(self, source: Source, dtype: np.dtype[np.generic], values: int) -> None:
        self.columns, self.dtype, self.value_count = source.shape[1], dtype, values
        self.panel_rows = 0 if source.sparse else max(-(-source.tile_rows() // 4), min(256, source.shape[0]))

    def start(self) -> GramSums:
        """Zeros, and an empty panel."""
        n = self.columns
        blocks = [_zeros((min(j + BLOCK, n), min(BLOCK, n - j)), self.dtype) for j in range(0, n, BLOCK)]
        return GramSums(np.zeros(self.value_count), blocks, np.empty((self.panel_rows, n), self.dtype))

    def visit(self, sums: GramSums, tile: Array, *rows: Array) -> None:
        """Write one tile of Y into the panel; a full panel is multiplied first."""
        if sums.waiting + tile.shape[0] > self.panel_rows:
            self.close(sums)
        self.fill(sums.panel[sums.waiting : sums.waiting + tile.shape[0]], sums.values, tile, *rows)
        sums.waiting += tile.shape[0]

    def close(self, sums: GramSums) -> None:
        """Add the product of the rows that wait in the panel, and empty it."""
        if sums.waiting:
            add_gram(sums.blocks, sums.panel[: sums.waiting])
            sums.waiting = 0

    @abstractmethod
    def fill(self, out: Array, values: Array, tile: Array, *rows: Array) -> None:
        """Write the rows of Y that belong to ``tile`` into ``out``; add to ``values``."""


@dataclass(frozen=True)
class Deflation:
    """Orthonormal directions v in which G is longer than λ_L, and the share of Gv to take off, 1 − λ_L/‖Gv‖.

    A hint for the certificate: Y = clip(P_Ω(G − Σ excess·(Gv)vᵀ)) is a better dual point than a scaled G.
    """

    directions: Array
    excess: Array


def dual_tile(
    tile: Any,
    left: Array,
    right_t: Array,
    limit: float,
    deflation: Deflation | None,
    sums: DualSums,
    out: Array | None = None,
) -> Any:
    """Y for one tile, in ``out`` if that is given; its sums are added to ``sums``. Without a ``deflation``, Y = G."""
    squared, dot_m = sums.g_squared, sums.g_dot_m
    work = clip_tile(tile, left, right_t, limit, sums.clipped_values, out)
    if deflation is None or deflation.excess.size == 0:
        sums.add_dual(sums.g_squared - squared, sums.g_dot_m - dot_m)
        return work
    along = (work @ deflation.directions) * deflation.excess.astype(work.dtype)
    if isinstance(tile, scipy.sparse.csr_array):
        entries = np.clip(
            sampled_residual(work, along, np.ascontiguousarray(deflation.directions)), -limit, limit
        )
        sums.add_dual(dot(entries, entries), dot(entries, tile.data))
        return with_entries(tile, entries)
    subtract_product(work, along, deflation.directions)
    kernels.clip_dual(tile, work, limit, sums.dual_values)
    return work


def subtract_product(work: Array, left: Array, right: Array) -> None:
    """work ← work − left·rightᵀ, without a second array of its size."""
    product = scipy.linalg.get_blas_funcs("gemm", dtype=work.dtype)
    # BLAS is column-major: to it a C-contiguous array is its own transpose.
    product(-1.0, right.T, left.T, beta=1.0, c=work.T, trans_a=True, overwrite_c=True)


class GramOfDual(GramTask):
    """YᵀY for the dual point Y at L = left·rightᵀ, with the sums of :func:`dual_tile`. Rows: left."""

    def __init__(self, right: Array, limit: float, deflation: Deflation | None, source: Source) -> None:
        super().__init__(source, source.dtype, values=DUAL_VALUES)
        self.right, self.limit, self.deflation = np.ascontiguousarray(right.T), limit, deflation

    def visit(self, sums: GramSums, tile: Any, *rows: Array) -> None:
        """A sparse tile is multiplied at once: k² operations for a row with k stored entries."""
        if not scipy.sparse.issparse(tile):
            return super().visit(sums, tile, *rows)
        sparse = dual_tile(tile, rows[0], self.right, self.limit, self.deflation, sums)
        add_gram(sums.blocks, sparse)
        return None

    def fill(self, out: Array, values: Array, tile: Array, *rows: Array) -> None:
        """Write one tile of Y, and add its sums."""
        dual_tile(tile, rows[0], self.right, self.limit, self.deflation, DualSums(values), out)


@dataclass
class DualProduct(DualSums):
    """YᵀY·block, and the sums of Y."""

    product: Array


class MultiplyDual(Task[DualProduct]):
    """YᵀY·block for the Y of :class:`GramOfDual`, where its Gram matrix would be too large. Rows: left."""

    def __init__(self, right: Array, limit: float, deflation: Deflation | None, block: Array) -> None:
        self.right, self.limit, self.deflation = np.ascontiguousarray(right.T), limit, deflation
        self.block = block.astype(right.dtype)

    def start(self) -> DualProduct:
        """Zeros."""
        return DualProduct(np.zeros(DUAL_VALUES), np.zeros(self.block.shape))

    def visit(self, sums: DualProduct, tile: Array, *rows: Array) -> None:
        """Make one tile of Y, and add YᵀY·block."""
        work = dual_tile(tile, rows[0], self.right, self.limit, self.deflation, sums)
        sums.product += work.T @ (work @ self.block)


class AppendProducts(Task[DualSums]):
    """L's left factor with G·block beside it, for G = clip(M − L, ±limit). Rows: left; makes the wider array."""

    def __init__(self, right: Array, limit: float, block: Array) -> None:
        self.right, self.limit = np.ascontiguousarray(right.T), limit
        self.block = np.ascontiguousarray(block, right.dtype)
        self.makes = ((right.shape[1] + block.shape[1], right.dtype),)

    def start(self) -> DualSums:
        """Zeros."""
        return DualSums(np.zeros(DUAL_VALUES))

    def visit(self, sums: DualSums, tile: Any, *rows: Array) -> tuple[Array]:
        """Multiply one tile of G by the block."""
        product = dual_tile(tile, rows[0], self.right, self.limit, None, sums) @ self.block
        return (np.hstack([rows[0], product]),)
