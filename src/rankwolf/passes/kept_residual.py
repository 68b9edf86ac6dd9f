"""Passes over a residual that is kept beside the matrix, for the Frank-Wolfe methods; thresholds for given radii."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rankwolf import kernels
from rankwolf.data import Source, Sums, Task
from rankwolf.ground.arrays import Array
from rankwolf.passes.factors import EvaluateFactors


@dataclass
class ResidualSums(Sums):
    """Inner products on Ω of G, S, L = M − D and M, and GᵀG·block."""

    g_squared: float
    s_norm: float
    nonzero_count: float
    g_dot_m: float
    s_squared: float
    s_dot_l: float
    g_dot_l: float
    l_squared: float
    product: Array

    @property
    def nonzeros(self) -> int:
        """How many entries of S are not zero."""
        return round(self.nonzero_count)


class MoveResidual(Task[ResidualSums]):
    """D ← keep·D + gain·(M − left·rightᵀ) on Ω, the sums at the new D, and GᵀG·block for a block of vectors.

    Rows: the residual D, which is used up, and ``left``. Makes the new D. One read of M, one read and one write of D.
    """

    donated = (0,)

    def __init__(self, keep: float, gain: float, right: Array, limit: float, block: Array) -> None:
        self.keep, self.gain, self.limit = keep, gain, limit
        self.right, self.block = right, block
        self.makes = ((right.size, right.dtype),)

    def start(self) -> ResidualSums:
        """Zeros."""
        return ResidualSums(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, product=np.zeros(self.block.shape))

    def visit(self, sums: ResidualSums, tile: Array, *rows: Array) -> tuple[Array]:
        """Move one tile of D, and add its sums and GᵀG·block."""
        residual, left = rows[0], rows[1]
        clipped = np.empty_like(residual)
        rank_one = (self.gain * left[:, 0]).astype(residual.dtype)
        sums.collect(
            kernels.move_residual(
                tile, residual, self.keep, self.gain, rank_one, self.right, self.limit, clipped
            )
        )
        self.finish(sums, tile, clipped, *rows)
        sums.product += clipped.T @ (clipped @ self.block)
        return (residual,)

    def finish(self, sums: ResidualSums, tile: Array, clipped: Array, *rows: Array) -> None:
        """Called between the sums and the products: a subclass may correct single entries here."""


class MoveResidualAndEntry(MoveResidual):
    """:class:`MoveResidual` with a change of one entry: D at ``place`` loses gain·weight.

    Plain Frank-Wolfe puts S into the residual, one entry at a time; nothing is clipped then, so G = D. Rows: D, left,
    row numbers.
    """

    def __init__(
        self, keep: float, gain: float, right: Array, block: Array, place: tuple[int, int], weight: float
    ) -> None:
        super().__init__(keep, gain, right, np.inf, block)
        (self.row, self.column), self.weight = place, weight

    def finish(self, sums: ResidualSums, tile: Array, clipped: Array, *rows: Array) -> None:
        """Change the entry in D and G, and the sums that contain it."""
        residual, i = rows[0], self.row - int(rows[2][0, 0])
        if 0 <= i < tile.shape[0] and self.weight:
            m, old = float(tile[i, self.column]), float(residual[i, self.column])
            new = old - self.gain * self.weight
            sums.g_squared += new * new - old * old
            sums.g_dot_l += new * (m - new) - old * (m - old)
            sums.l_squared += (m - new) ** 2 - (m - old) ** 2
            sums.g_dot_m += (new - old) * m
            residual[i, self.column] = clipped[i, self.column] = new


@dataclass
class ProductSums(Sums):
    """GᵀG·block."""

    product: Array


class MultiplyResidual(Task[ProductSums]):
    """GᵀG·block from the residual alone. Rows: D."""

    reads_data = False

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

    length_squared: float = 0.0
    squared: float = 0.0
    dot_l: float = 0.0
    dot_s: float = 0.0


class AlignAtom(Task[AtomSums]):
    """left = G·right, and the inner products of the atom left·rightᵀ. Rows: D; makes left. Reads M and D."""

    def __init__(self, right: Array, limit: float) -> None:
        self.right, self.limit = right, limit
        self.makes = ((1, right.dtype),)

    def start(self) -> AtomSums:
        """Zeros."""
        return AtomSums()

    def visit(self, sums: AtomSums, tile: Array, *rows: Array) -> tuple[Array]:
        """The rows of ``left`` that belong to one tile, and its inner products."""
        left = np.empty((len(tile), 1), self.right.dtype)
        sums.collect(kernels.align_with(tile, rows[0], self.limit, self.right, left))
        return (left,)


@dataclass
class LargestEntry(Sums):
    """The entry of largest magnitude in D, its place, and M there."""

    value: float = 0.0
    row: int = 0
    column: int = 0
    observed: float = 0.0

    def add(self, other: LargestEntry) -> None:
        """Keep the entry of larger magnitude; of equal ones, the first."""
        if abs(other.value) > abs(self.value):
            self.value, self.row, self.column, self.observed = (
                other.value,
                other.row,
                other.column,
                other.observed,
            )


class FindLargest(Task[LargestEntry]):
    """The largest entry of D, the ℓ1 ball's oracle, and M there. Rows: D, row numbers. One read of M and D."""

    def start(self) -> LargestEntry:
        """No entry yet."""
        return LargestEntry()

    def visit(self, sums: LargestEntry, tile: Array, *rows: Array) -> None:
        """Compare the largest entry of one tile with the largest so far."""
        residual, numbers = rows
        i, j = kernels.largest_entry(residual)
        sums.add(LargestEntry(float(residual[i, j]), int(numbers[i, 0]), int(j), float(tile[i, j])))


@dataclass
class ExcessSums(Sums):
    """Σ max(|D| − θ, 0) and how many entries exceed θ."""

    total: float = 0.0
    count: float = 0.0


class MeasureExcess(Task[ExcessSums]):
    """Value and slope for one Newton step of the ℓ1 projection: the excess of |D| over θ. Rows: D; M is not read."""

    reads_data = False

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def start(self) -> ExcessSums:
        """Zeros."""
        return ExcessSums()

    def visit(self, sums: ExcessSums, tile: Array, *rows: Array) -> None:
        """Add the excess of one tile."""
        total, count = kernels.excess_over(rows[0], self.threshold)
        sums.add(ExcessSums(total, count))


def projection_threshold(source: Source, residual: Array, radius: float, guess: float) -> float:
    """θ with Σ max(|D| − θ, 0) = radius for a stored ``residual`` D; 0 where ‖D‖₁ ≤ radius. A pass for each step."""

    def excess(theta: float) -> tuple[float, float]:
        sums = source.run(MeasureExcess(theta), residual)
        return sums.total, sums.count

    return _newton_threshold(excess, radius, guess, float(np.finfo(residual.dtype).eps))


def threshold_for_radius(source: Source, left: Array, right: Array, radius: float, guess: float) -> float:
    """θ with ‖T_θ(D)‖₁ = radius for D = P_Ω(M − left·rightᵀ); 0 where ‖D‖₁ ≤ radius. A pass for each step."""

    def excess(theta: float) -> tuple[float, float]:
        sums = source.run(EvaluateFactors(right, theta), left)
        return sums.s_norm, float(sums.nonzeros)

    return _newton_threshold(excess, radius, guess, float(np.finfo(right.dtype).eps))


def _newton_threshold(
    excess: Callable[[float], tuple[float, float]], radius: float, guess: float, rounding: float
) -> float:
    """Newton's method on the convex piecewise-linear function Σ max(|D| − θ, 0) − radius of θ.

    ``excess(θ)`` gives that sum and the number of entries above θ. From a warm guess three or four steps are enough. A
    step from the left of the root never passes it; one from the right may lead below 0, and then goes on from 0.
    """
    if radius <= 0.0:
        return np.inf
    theta = max(guess, 0.0)
    for _ in range(100):
        total, count = excess(theta)
        if total <= radius and theta == 0.0:
            return 0.0
        step = (total - radius) / count if count else -theta
        if abs(step) <= 1e-15 * theta or (step == 0.0 and theta > 0.0):
            break
        # Sums over float32 tiles have relative errors of 1e-7: a step as small as that is the last one.
        if theta > 0.0 and abs(step) < 4.0 * rounding * theta:
            theta = max(theta + step, 0.0)
            break
        theta = max(theta + step, 0.0)
    return theta
