"""The tasks that entry-wise solvers run over the tiles of a matrix.

Notation, as in the design: D = P_Ω(M − L) is the residual, G = clip(D, ±limit), S = D − G. The gradient of the smooth
part with respect to L is −G. With ``limit`` = ∞ nothing is clipped and G = D.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from rankwolf import kernels
from rankwolf.lowrank import LowRank
from rankwolf.sources import Array, Source, Sums, Task

# Columns of a Gram matrix that are added up together.
BLOCK = 128


def clip_tile(
    tile: Any,
    left: Array,
    right_t: Array,
    limit: float,
    values: Array | None = None,
    out: Array | None = None,
    nonzeros: Array | None = None,
) -> Any:
    """G = clip(P_Ω(M − left·right_t), ±limit) of one tile; adds ‖G‖², ‖S‖₁, nnz(S), ⟨G, M⟩ to ``values``, if given.

    G is dense for a dense tile, ``out`` if that is given, and a CSR array with the tile's places for a sparse one.
    ``nonzeros``: where nnz of each row of S goes; of dense tiles, and with ``values``.
    """
    if scipy.sparse.issparse(tile):
        return _clip_sparse_tile(tile, left, right_t, limit, values)
    work: Array = np.matmul(left, right_t, out=out)
    if values is None:
        kernels.clip_only(tile, work, limit)
    else:
        counts = np.empty(work.shape[0]) if nonzeros is None else nonzeros
        kernels.clip_residual(tile, work, limit, values, counts)
    return work


def _clip_sparse_tile(tile: Any, left: Array, right_t: Array, limit: float, values: Array | None) -> Any:
    residual = sampled_residual(tile, left, np.ascontiguousarray(right_t.T))
    clipped = np.clip(residual, -limit, limit)
    if values is not None:
        sparse = residual - clipped
        values[0] += _dot(clipped, clipped)
        values[1] += np.sum(np.abs(sparse), dtype=np.float64)
        values[2] += np.count_nonzero(sparse)
        values[3] += _dot(clipped, tile.data)
    return with_entries(tile, clipped)


def sampled_residual(tile: Any, left: Array, right: Array) -> Array:
    """M − left·rightᵀ at the stored entries of a CSR tile."""
    residual: Array = np.empty_like(tile.data)
    kernels.subtract_sampled(tile.data, tile.indices, tile.indptr, left, right, residual)
    return residual


def with_entries(tile: Any, entries: Array) -> scipy.sparse.csr_array:
    """Other numbers at the places of a CSR tile."""
    return scipy.sparse.csr_array((entries, tile.indices, tile.indptr), shape=tile.shape, copy=False)


def _dot(a: Array, b: Array) -> float:
    return float(np.einsum("i,i->", a, b, dtype=np.float64))


def observed_share(tile: Array) -> Array:
    """The share of the observed entries in each row, as a column."""
    return np.asarray(np.mean(tile == tile, axis=1, keepdims=True))


@dataclass
class ResidualSums(Sums):
    """Inner products of G, S, L = M − D and M, and GᵀG·block."""

    values: Array
    product: Array

    @property
    def g_squared(self) -> float:
        """‖G‖²_F."""
        return float(self.values[0])

    @property
    def s_norm(self) -> float:
        """‖S‖₁."""
        return float(self.values[1])

    @property
    def s_squared(self) -> float:
        """‖S‖²_F."""
        return float(self.values[2])

    @property
    def s_dot_l(self) -> float:
        """⟨S, L⟩."""
        return float(self.values[3])

    @property
    def g_dot_l(self) -> float:
        """⟨G, L⟩."""
        return float(self.values[4])

    @property
    def l_squared(self) -> float:
        """‖P_Ω L‖²_F."""
        return float(self.values[5])

    @property
    def nonzeros(self) -> int:
        """How many entries of S are not zero."""
        return round(float(self.values[6]))

    @property
    def g_dot_m(self) -> float:
        """⟨G, M⟩."""
        return float(self.values[7])


class MoveResidual(Task[ResidualSums]):
    """D ← keep·D + gain·(M − left·rightᵀ) on Ω, its sums, and a block carried along: GᵀG·block.

    Rows: the residual D (overwritten) and ``left``. One read of M, one read and one write of D.
    """

    def __init__(self, keep: float, gain: float, right: Array, limit: float, block: Array) -> None:
        self.keep, self.gain, self.limit = keep, gain, limit
        self.right, self.block = right, block

    def start(self) -> ResidualSums:
        """Zeros."""
        return ResidualSums(np.zeros(8), np.zeros(self.block.shape))

    def visit(self, sums: ResidualSums, tile: Array, *rows: Array) -> None:
        """Move one tile."""
        residual, left = rows[0], rows[1]
        clipped = np.empty_like(residual)
        rank_one = (self.gain * left[:, 0]).astype(residual.dtype)
        kernels.move_residual(
            tile, residual, self.keep, self.gain, rank_one, self.right, self.limit, clipped, sums.values
        )
        self.finish(sums, tile, clipped, *rows)
        sums.product += clipped.T @ (clipped @ self.block)

    def finish(self, sums: ResidualSums, tile: Array, clipped: Array, *rows: Array) -> None:
        """A place for a subclass to correct single entries before the products."""


class MoveResidualAndEntry(MoveResidual):
    """The same with one more entry: D at ``place`` loses gain·weight.

    Plain Frank-Wolfe puts S into the residual, one entry at a time; nothing is clipped then, so G = D. Rows: D, left,
    row numbers.
    """

    def __init__(
        self, keep: float, gain: float, right: Array, block: Array, place: tuple[int, int], weight: float
    ) -> None:
        super().__init__(keep, gain, right, np.inf, block)
        (self.row, self.column), self.weight = place, weight

    def finish(self, sums: ResidualSums, tile: Array, clipped: Array, *rows: Array) -> None:
        """Change the entry, and the sums that it is part of."""
        residual, i = rows[0], self.row - int(rows[2][0, 0])
        if 0 <= i < tile.shape[0] and self.weight:
            m, old = float(tile[i, self.column]), float(residual[i, self.column])
            new = old - self.gain * self.weight
            sums.values[0] += new * new - old * old
            sums.values[4] += new * (m - new) - old * (m - old)
            sums.values[5] += (m - new) ** 2 - (m - old) ** 2
            sums.values[7] += (new - old) * m
            residual[i, self.column] = clipped[i, self.column] = new


@dataclass
class ProductSums(Sums):
    """GᵀG·block."""

    product: Array


class MultiplyResidual(Task[ProductSums]):
    """GᵀG·block from the residual alone. Rows: D."""

    reads_data = False
    writes_rows = False

    def __init__(self, block: Array, limit: float) -> None:
        self.block, self.limit = block, limit

    def start(self) -> ProductSums:
        """Zeros."""
        return ProductSums(np.zeros(self.block.shape))

    def visit(self, sums: ProductSums, tile: Array, *rows: Array) -> None:
        """Two products with one tile."""
        clipped = np.clip(rows[0], -self.limit, self.limit) if np.isfinite(self.limit) else rows[0]
        sums.product += clipped.T @ (clipped @ self.block)


@dataclass
class AtomSums(Sums):
    """For the atom left·rightᵀ with left = G·right: ‖left‖², ‖P_Ω(atom)‖², ⟨atom, L⟩, ⟨atom, S⟩."""

    values: Array


class AlignAtom(Task[AtomSums]):
    """left ← G·right, with what the step size needs of the atom. Rows: D, left (overwritten). One read of M and D."""

    def __init__(self, right: Array, limit: float) -> None:
        self.right, self.limit = right, limit

    def start(self) -> AtomSums:
        """Zeros."""
        return AtomSums(np.zeros(4))

    def visit(self, sums: AtomSums, tile: Array, *rows: Array) -> None:
        """One tile of the atom."""
        kernels.align_with(tile, rows[0], self.limit, self.right, rows[1], sums.values)


@dataclass
class LargestEntry(Sums):
    """The entry of largest magnitude in D, its place, and M there."""

    value: float = 0.0
    row: int = 0
    column: int = 0
    observed: float = 0.0

    def add(self, other: LargestEntry) -> None:
        """Keep the larger one, the first of equals."""
        if abs(other.value) > abs(self.value):
            self.value, self.row, self.column, self.observed = (
                other.value,
                other.row,
                other.column,
                other.observed,
            )


class FindLargest(Task[LargestEntry]):
    """The ℓ1 ball's linear oracle on the residual. Rows: D, row numbers."""

    writes_rows = False

    def start(self) -> LargestEntry:
        """No entry yet."""
        return LargestEntry()

    def visit(self, sums: LargestEntry, tile: Array, *rows: Array) -> None:
        """The largest of one tile."""
        residual, numbers = rows
        i, j = kernels.largest_entry(residual)
        sums.add(LargestEntry(float(residual[i, j]), int(numbers[i, 0]), int(j), float(tile[i, j])))


@dataclass
class ExcessSums(Sums):
    """Σ max(|D| − θ, 0) and how many entries exceed θ."""

    total: float = 0.0
    count: float = 0.0


class MeasureExcess(Task[ExcessSums]):
    """What one Newton step of the ℓ1 projection asks of the residual. Rows: D."""

    reads_data = False
    writes_rows = False

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def start(self) -> ExcessSums:
        """Zeros."""
        return ExcessSums()

    def visit(self, sums: ExcessSums, tile: Array, *rows: Array) -> None:
        """One tile."""
        total, count = kernels.excess_over(rows[0], self.threshold)
        sums.add(ExcessSums(total, count))


def projection_threshold(source: Source, residual: Array, radius: float, guess: float) -> float:
    """θ with Σ max(|D| − θ, 0) = radius, by Newton's method on that convex piecewise-linear function of θ.

    Each step is one pass; from a warm ``guess`` three or four are enough. 0 where D is inside the ball. A step from the
    left of the root never passes it; one from the right may fall below zero, where it restarts from zero.
    """
    theta = max(guess, 0.0)
    for _ in range(100):
        excess = source.run(MeasureExcess(theta), residual)
        if excess.total <= radius and theta == 0.0:
            return 0.0
        step = (excess.total - radius) / excess.count if excess.count else -theta
        if abs(step) <= 1e-15 * theta or (step == 0.0 and theta > 0.0):
            break
        # In float32 the sums themselves carry 1e-7: stop when the step is below that and the root is passed.
        if theta > 0.0 and abs(step) < 4.0 * np.finfo(residual.dtype).eps * theta:
            theta = max(theta + step, 0.0)
            break
        theta = max(theta + step, 0.0)
    return theta


@dataclass
class HuberSums(Sums):
    """‖G‖², ‖S‖₁, nnz(S), ⟨G, M⟩ for a given L, and GᵀG·block."""

    values: Array
    product: Array = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def g_squared(self) -> float:
        """‖G‖²_F: with S = D − G this is the misfit ‖P_Ω(L + S − M)‖²."""
        return float(self.values[0])

    @property
    def s_norm(self) -> float:
        """‖S‖₁."""
        return float(self.values[1])

    @property
    def nonzeros(self) -> int:
        """How many entries of S are not zero."""
        return round(float(self.values[2]))

    @property
    def g_dot_m(self) -> float:
        """⟨G, M⟩."""
        return float(self.values[3])


class EvaluateFactors(Task[HuberSums]):
    """G, S and their sums for L = left·rightᵀ, and GᵀG·block for a block of probes. Rows: left.

    Nothing of the matrix's size is kept: 2r + 4q operations an entry for rank r and q probes.
    """

    writes_rows = False

    def __init__(self, right: Array, limit: float, block: Array | None = None) -> None:
        self.right, self.limit = np.ascontiguousarray(right.T), limit
        self.block = (
            np.zeros((right.shape[0], 0), right.dtype) if block is None else block.astype(right.dtype)
        )

    def start(self) -> HuberSums:
        """Zeros."""
        return HuberSums(np.zeros(4), np.zeros(self.block.shape))

    def visit(self, sums: HuberSums, tile: Array, *rows: Array) -> None:
        """One tile."""
        work = clip_tile(tile, rows[0], self.right, self.limit, sums.values)
        if self.block.shape[1]:
            sums.product += work.T @ (work @ self.block)


def evaluate(source: Source, low_rank: LowRank, limit: float) -> HuberSums:
    """The sums of G and S at ``low_rank`` (as the source sees it, not as the user does)."""
    left, right = source.factors(low_rank)
    return source.run(EvaluateFactors(right, limit), left)


@dataclass
class MisfitSums(Sums):
    """‖P_Ω(L + S − M)‖²."""

    squared: float = 0.0


class MisfitOfPair(Task[MisfitSums]):
    """The misfit of L = left·rightᵀ and a stored S. Rows: left, row numbers."""

    writes_rows = False

    def __init__(self, right: Array, sparse: scipy.sparse.csr_array) -> None:
        self.right, self.sparse = np.ascontiguousarray(right.T), sparse

    def start(self) -> MisfitSums:
        """Zero."""
        return MisfitSums()

    def visit(self, sums: MisfitSums, tile: Array, *rows: Array) -> None:
        """One tile."""
        left, numbers = rows
        sparse = self.sparse[int(numbers[0, 0]) : int(numbers[-1, 0]) + 1].toarray()
        misfit = np.nan_to_num(tile - left @ self.right - sparse, copy=False, nan=0.0)
        sums.squared += float(np.sum(np.square(misfit), dtype=np.float64))


def misfit_of_pair(source: Source, low_rank: LowRank, sparse: scipy.sparse.csr_array) -> float:
    """‖P_Ω(L + S − M)‖² for a stored S."""
    left, right = source.factors(low_rank)
    return source.run(MisfitOfPair(right, sparse), left, source.row_numbers()).squared


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
        values[4] += _dot(entries, entries)
        values[5] += _dot(entries, tile.data)
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
