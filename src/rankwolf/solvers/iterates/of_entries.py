"""The Frank-Wolfe iterates on observed entries: the residual is kept beside the matrix and moves with L."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, Self

import numpy as np

from rankwolf.data import Source
from rankwolf.ground.arrays import Array
from rankwolf.oracles.nuclear import KrylovSpace
from rankwolf.passes import (
    AlignAtom,
    FindLargest,
    MoveResidual,
    MoveResidualAndEntry,
    MultiplyResidual,
    ResidualSums,
    projection_threshold,
)
from rankwolf.problem import SmoothProblem
from rankwolf.solvers.base import Solution
from rankwolf.solvers.iterates.atoms import Atoms, SparseAtoms
from rankwolf.solvers.iterates.base import AtomicPair, Iterate, ShrinkingPair, Vertex

# Singular vectors that are kept from one iteration to the next; they are multiplied in passes that are made anyway.
WARM_VECTORS = 3


@dataclass(frozen=True)
class EntryVertex(Vertex):
    """A vertex on observed entries.

    ``right`` is v; ``left`` is u as a row-aligned array. ``squared``, ``dot_l`` and ``dot_s`` are the inner products of
    P_Ω(u vᵀ) with itself, L and S. The largest entry is at (``row``, ``column``), where M is ``observed``.
    """

    left: Any = None
    right: Array = None  # type: ignore[assignment]
    squared: float = 0.0
    dot_l: float = 0.0
    dot_s: float = 0.0
    row: int = 0
    column: int = 0
    sign: float = 0.0
    observed: float = 0.0

    def atom_at_entry(self, source: Source) -> float:
        """u vᵀ at the largest entry of G."""
        return float(source.row(self.left, self.row)[0] * self.right[self.column])


@dataclass(kw_only=True)
class EntryIterate(Iterate[Source, EntryVertex]):
    """What both kinds of S share: the residual D, its clip level ``limit`` that gives G, and the oracle's warm vectors.

    ``sums`` belong to this D, and ``sums.product`` is GᵀG·``warm``. Memory: D, and the atoms.
    """

    residual: Array
    warm: Array
    limit: float
    sums: ResidualSums
    rng: np.random.Generator

    @property
    def misfit_squared(self) -> float:
        """‖G‖²: where S is thresholded, the misfit is the clipped residual."""
        return self.sums.g_squared

    def misfit_sums(self, data: Source) -> tuple[float, float]:
        """⟨G, M⟩ and ‖G‖²."""
        return self.sums.g_dot_m, self.sums.g_squared

    def ask_nuclear_oracle(self, data: Source, tol: float, products: int) -> EntryVertex:
        """The leading singular pair of G, to a relative residual ``tol`` of GᵀG.

        The product with the warm vectors was made when D moved; each further product is a pass over D. A last pass over
        M and D makes u = Gv/σ and the inner products of the atom.
        """
        space = KrylovSpace(data.shape[1])
        space.add(self.warm, self.sums.product)
        pair = space.leading_pair()
        for _ in range(products):
            if pair.upper**2 - pair.value**2 <= tol * pair.value**2:
                break
            block = space.next_block(1, self.rng)
            if block is None:
                break
            task = MultiplyResidual(block.astype(data.dtype), self.limit)
            space.add(block, data.run(task, self.residual).product)
            pair = space.leading_pair()
        self.warm = np.linalg.qr(space.leading_images(WARM_VECTORS))[0]
        right = pair.right.astype(data.dtype)
        sums, (left,) = data.run_with_rows(AlignAtom(right, self.limit), self.residual)
        length = sums.length_squared**0.5
        if length == 0.0:
            return EntryVertex(0.0, 0.0, 0.0, left=left, right=right)
        return EntryVertex(
            value=length,
            upper=max(pair.upper, length),
            magnitude=0.0,
            left=data.map(partial(_divided, length), left),
            right=right,
            squared=sums.squared / length**2,
            dot_l=sums.dot_l / length,
            dot_s=sums.dot_s / length,
        )

    def with_largest_entry(self, data: Source, vertex: EntryVertex, row_numbers: Any) -> EntryVertex:
        """Ask the ℓ1 ball's oracle too: the largest entry of D, by a pass over it."""
        entry = data.run(FindLargest(), self.residual, row_numbers)
        return replace(
            vertex,
            magnitude=abs(entry.value),
            row=entry.row,
            column=entry.column,
            sign=float(np.sign(entry.value)),
            observed=entry.observed,
        )

    def move_residual(self, data: Source, task: MoveResidual, *rows: Any) -> None:
        """One pass that moves D, or only clips it at another level, and renews the sums."""
        self.sums, (self.residual,) = data.run_with_rows(task, self.residual, *rows)
        self.limit = task.limit

    def probes(self, data: Source) -> Array:
        """The warm vectors in the type of the tiles."""
        return self.warm.astype(data.dtype)


@dataclass(kw_only=True)
class ThresholdedEntries(EntryIterate, ShrinkingPair[Source, EntryVertex]):
    """S = T_limit(D) with D = P_Ω(M − L); it is not stored.

    A proximal step from any S gives this S, because S − P_Ω(L + S − M) = D. So β has no influence on the iterate.
    """

    @classmethod
    def start(cls, data: Source, rng: np.random.Generator) -> Self:
        """L = S = 0: D is the data, nothing is clipped."""
        return cls(**_at_zero(data, rng))

    @property
    def nonzeros(self) -> int:
        """How many entries of S are not zero: those of D beyond ±limit."""
        return self.sums.nonzeros

    def ask_oracles(self, data: Source, tol: float, products: int) -> EntryVertex:
        """After the first iteration |G| ≤ limit, with equality wherever S is not zero: no search is needed."""
        vertex = self.ask_nuclear_oracle(data, tol, products)
        if np.isfinite(self.limit):
            return replace(vertex, magnitude=self.limit)
        return self.with_largest_entry(data, vertex, data.row_numbers())

    def directions(self, data: Source, vertex: EntryVertex) -> tuple[Array, Array]:
        """Q and c from sums that the passes have made, with ⟨G, S⟩ = limit·‖S‖₁; no pass."""
        sums, t_L, t_S = self.sums, vertex.t_L, vertex.t_S
        meeting = vertex.atom_at_entry(data) * vertex.sign * t_S if t_S else 0.0
        a_squared = t_L**2 * vertex.squared - 2.0 * t_L * vertex.dot_l + sums.l_squared
        b_squared = t_S**2 + sums.s_squared
        a_dot_b = t_L * (meeting - vertex.dot_s) + sums.s_dot_l
        g_dot_s = self.limit * sums.s_norm if sums.s_norm else 0.0
        slopes = np.array([sums.g_dot_l - t_L * vertex.value, g_dot_s - t_S * vertex.magnitude])
        return np.array([[a_squared, a_dot_b], [a_dot_b, b_squared]]), slopes

    def move_and_shrink(
        self, problem: SmoothProblem, data: Source, vertex: EntryVertex, alpha: float, beta: float
    ) -> None:
        """One pass where the threshold is known in advance; else D moves, its threshold is found, and D clipped."""
        self.atoms.blend(1.0 - alpha, alpha * vertex.t_L, vertex.left, vertex.right, data)
        right = (vertex.t_L * vertex.right).astype(data.dtype)
        moved = False

        def move(limit: float) -> None:
            task = MoveResidual(1.0 - alpha, alpha, right, limit, self.probes(data))
            self.move_residual(data, task, vertex.left)

        def find(radius: float) -> float:
            nonlocal moved
            guess = self.limit if np.isfinite(self.limit) else 0.0
            move(self.limit)
            moved = True
            return projection_threshold(data, self.residual, radius, guess)

        limit = problem.threshold_S(1.0, find)
        if moved:
            still = MoveResidual(1.0, 0.0, np.zeros_like(right), limit, self.probes(data))
            self.move_residual(data, still, vertex.left)
        else:
            move(limit)
        self.iteration += 1
        self.step_size, self.sparse_step_size = alpha, beta
        self.t_L += alpha * (vertex.t_L - self.t_L)
        self.t_S = self.sums.s_norm

    def solution(self, problem: SmoothProblem, data: Source) -> Solution:
        """L from its atoms; S is the thresholded residual."""
        return Solution(self.atoms.to_low_rank(data), threshold=self.limit)


@dataclass(kw_only=True)
class AtomicEntries(EntryIterate, AtomicPair[Source, EntryVertex]):
    """S is a sum of single entries and part of the residual, D = P_Ω(M − L − S); nothing is clipped, so G = D."""

    sparse: SparseAtoms
    row_numbers: Any
    largest: float = inf

    @classmethod
    def start(cls, data: Source, rng: np.random.Generator) -> Self:
        """L = S = 0: D is the data."""
        sparse = SparseAtoms(data.shape, data.dtype)
        return cls(sparse=sparse, row_numbers=data.row_numbers(), **_at_zero(data, rng))

    @property
    def nonzeros(self) -> int:
        """The number of entries that were chosen at least once."""
        return len(self.sparse.entries)

    def ask_oracles(self, data: Source, tol: float, products: int) -> EntryVertex:
        """The leading singular pair and the largest entry of D, each found by passes over it."""
        vertex = self.ask_nuclear_oracle(data, tol, products)
        vertex = self.with_largest_entry(data, vertex, self.row_numbers)
        self.largest = vertex.magnitude
        return vertex

    def line(self, data: Source, vertex: EntryVertex) -> tuple[float, float]:
        """From the sums of the passes and one entry, with x = L + S = M − D on Ω; no pass."""
        t_L, t_S, sums = vertex.t_L, vertex.t_S, self.sums
        here = vertex.observed - vertex.sign * vertex.magnitude  # (L + S) at the entry
        v_squared = t_L**2 * vertex.squared + t_S**2
        v_squared += 2.0 * t_L * t_S * vertex.sign * vertex.atom_at_entry(data)
        v_dot_x = t_L * vertex.dot_l + t_S * vertex.sign * here
        slope = t_L * vertex.value + t_S * vertex.magnitude - sums.g_dot_l
        return slope, v_squared - 2.0 * v_dot_x + sums.l_squared

    def move(self, data: Source, vertex: EntryVertex, gamma: float) -> None:
        """x ← x + γ(v − x) in one pass."""
        self.atoms.blend(1.0 - gamma, gamma * vertex.t_L, vertex.left, vertex.right, data)
        right = (vertex.t_L * vertex.right).astype(data.dtype)
        place, weight = (vertex.row, vertex.column), vertex.t_S * vertex.sign
        task = MoveResidualAndEntry(1.0 - gamma, gamma, right, self.probes(data), place, weight)
        self.move_residual(data, task, vertex.left, self.row_numbers)
        self.sparse.blend(1.0 - gamma, place, gamma * weight)
        self.iteration += 1
        self.step_size = self.sparse_step_size = gamma
        self.t_L += gamma * (vertex.t_L - self.t_L)
        self.t_S += gamma * (vertex.t_S - self.t_S)

    def solution(self, problem: SmoothProblem, data: Source) -> Solution:
        """Both parts from their atoms; the certificate clips M − L at the threshold of the problem's proximal step."""
        threshold = problem.threshold_S(1.0, lambda radius: self.largest)
        return Solution(self.atoms.to_low_rank(data), threshold, self.sparse.to_scipy())


def _at_zero(data: Source, rng: np.random.Generator) -> dict[str, Any]:
    """The fields of an :class:`EntryIterate` at L = S = 0; one pass copies the data into the residual."""
    n = data.shape[1]
    warm = np.linalg.qr(rng.standard_normal((n, min(WARM_VECTORS, n))))[0]
    task = MoveResidual(0.0, 1.0, np.zeros(n, data.dtype), inf, warm.astype(data.dtype))
    sums, (residual,) = data.run_with_rows(task, data.allocate(n), data.allocate(1))
    atoms = Atoms(data.shape, data.dtype)
    return {"atoms": atoms, "residual": residual, "warm": warm, "limit": inf, "sums": sums, "rng": rng}


def _divided(length: float, left: Array) -> Array:
    quotient: Array = left / left.dtype.type(length)
    return quotient
