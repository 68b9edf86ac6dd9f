"""ISTA's and FISTA's iterate on observed entries: L as factors, S and the S before it as arrays.

The extrapolated pair (L̂, Ŝ) and the gradient are made one tile at a time and never stored. S₋ is the S before S.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Self

import numpy as np

from rankwolf import kernels
from rankwolf.data import Source, Sums, Task
from rankwolf.ground.arrays import Array
from rankwolf.ground.deadline import patiently
from rankwolf.oracles import l1, nuclear
from rankwolf.passes import EvaluateFactors, GramTask, projection_threshold, threshold_for_radius
from rankwolf.problem import SmoothProblem
from rankwolf.solvers.base import Solution
from rankwolf.solvers.iterates.proximal import ProximalPair


class GramOfStep(GramTask):
    """XᵀX in float64 for X = L̂ − ½P_Ω(L̂ + Ŝ − M). Rows: the left factor of L̂, S, S₋."""

    def __init__(self, source: Source, right: Array, momentum: float) -> None:
        # In float64: λ_L/2 is so small beside ‖X‖ that a float32 Gram matrix would lose singular values near the cut.
        super().__init__(source, np.dtype(np.float64), values=0)
        self.right, self.momentum = np.ascontiguousarray(right.T), momentum

    def fill(self, out: Array, values: Array, tile: Array, *rows: Array) -> None:
        """Write one tile of X."""
        left, sparse, previous = rows
        step = left @ self.right
        kernels.proximal_point(tile, step, sparse, previous, self.momentum, 0.0, False)
        out[...] = step


@dataclass
class SubspaceSums(Sums):
    """BᵀB and XᵀB for B = XQ."""

    gram: Array
    cross: Array


class SubspaceOfStep(Task[SubspaceSums]):
    """One step of subspace iteration on the X of :class:`GramOfStep`. Rows: the left factor of L̂, S, S₋."""

    def __init__(self, right: Array, momentum: float, basis: Array) -> None:
        self.right, self.momentum = np.ascontiguousarray(right.T), momentum
        self.basis, self.depth = basis, basis.shape[1]

    def start(self) -> SubspaceSums:
        """Zeros."""
        n, k = self.basis.shape
        return SubspaceSums(np.zeros((k, k)), np.zeros((n, k)))

    def visit(self, sums: SubspaceSums, tile: Array, *rows: Array) -> None:
        """Add the sums of one tile of B; BᵀB in float64, so that small columns beside large ones keep their angles."""
        left, sparse, previous = rows
        step = left @ self.right
        kernels.proximal_point(tile, step, sparse, previous, self.momentum, 0.0, False)
        product = step @ self.basis
        wide = product.astype(np.float64)
        sums.gram += wide.T @ wide
        sums.cross += step.T @ product


@dataclass
class StepSums(Sums):
    """‖P_Ω(L + S − M)‖², ‖S‖₁, ‖S‖₀ at the new pair."""

    misfit_squared: float = 0.0
    s_norm: float = 0.0
    nonzeros: float = 0.0


class TakeStep(Task[StepSums]):
    """L⁺ = X·V·shrink·Vᵀ and S⁺ = T_θ(Ŝ − ½P_Ω(L̂ + Ŝ − M)).

    Rows: the left factor of L̂, S, and S₋, which is used up. Makes S⁺ and the left factor of L⁺.
    """

    donated = (2,)

    def __init__(
        self, right: Array, momentum: float, threshold: float, vectors: Array, shrink: Array
    ) -> None:
        self.right, self.momentum, self.threshold = np.ascontiguousarray(right.T), momentum, threshold
        self.vectors, self.vectors_t = vectors, np.ascontiguousarray(vectors.T)
        self.shrink = shrink.astype(vectors.dtype)
        self.makes = tuple((width, vectors.dtype) for width in vectors.shape)

    def start(self) -> StepSums:
        """Zeros."""
        return StepSums()

    def visit(self, sums: StepSums, tile: Array, *rows: Array) -> tuple[Array, Array]:
        """Make one tile of both parts, and add its sums."""
        left, sparse, new_sparse = rows
        step = left @ self.right
        kernels.proximal_point(tile, step, sparse, new_sparse, self.momentum, self.threshold, True)
        new_left = (step @ self.vectors) * self.shrink
        np.matmul(new_left, self.vectors_t, out=step)
        sums.collect(kernels.misfit(tile, step, new_sparse))
        return new_sparse, new_left


class Shrink(Task[StepSums]):
    """T_θ(S⁺) for a θ that depends on all of S⁺ (a radius). Rows: S⁺, which is used up, and the left factor of L⁺."""

    donated = (0,)

    def __init__(self, right: Array, threshold: float) -> None:
        self.right, self.threshold = np.ascontiguousarray(right.T), threshold
        self.makes = ((right.shape[0], right.dtype),)

    def start(self) -> StepSums:
        """Zeros."""
        return StepSums()

    def visit(self, sums: StepSums, tile: Array, *rows: Array) -> tuple[Array]:
        """Threshold one tile of S⁺, and add its sums."""
        sparse = l1.soft_threshold(rows[0], self.threshold)
        sums.collect(kernels.misfit(tile, rows[1] @ self.right, sparse))
        return (sparse,)


# A lower bound takes at most so many passes; fewer, where the gap is at most this factor above the one that a perfect
# ‖G‖₂ would give. On measurements, where products with G cost no pass, Oracle.tol decides.
BOUND_PASSES, BOUND_SLACK = 6, 1.1


@dataclass(kw_only=True)
class ProximalEntries(ProximalPair[Source]):
    """L = left·rightᵀ and S, with the pair before it. ``probes`` are the warm vectors of the lower bound.

    The partial SVD of X = L̂ − ½P_Ω(L̂ + Ŝ − M) is computed in the way that is cheaper for the shape. Subspace
    iteration from the last singular vectors costs passes of 4k operations an entry for k vectors, until the Ritz values
    above the cut move by less than ``svd_tol``. Where k is not small beside n, eigenvectors of the n × n Gram matrix of
    X in float64 are cheaper: one pass of mn² operations, and n³. The paper's rule says how many vectors to compute. One
    more pass makes the new pair.

    With radii, both thresholds are searched: singular values are computed down to a cut that is low enough to meet τ_L,
    and the threshold of S takes a few more passes over S.
    """

    left: Array
    right: Array
    singular_values: Array
    sparse: Array
    previous_left: Array
    previous_right: Array
    previous_sparse: Array
    count: int
    probes: Array
    vectors: Array
    rng: np.random.Generator
    entries_above: int = 0
    cut: float = inf
    threshold: float = 0.0
    limit: float = 0.0

    @classmethod
    def start(cls, problem: SmoothProblem, data: Source, rng: np.random.Generator) -> Self:
        """L⁰ = S⁰ = 0."""
        n = data.shape[1]
        none_left, none_right = data.allocate(0), np.zeros((n, 0), data.dtype)
        return cls(
            objective=0.5 * data.summary.norm**2,
            step_length=0.5,
            left=none_left,
            right=none_right,
            singular_values=np.zeros(0),
            sparse=data.allocate(n),
            previous_left=none_left,
            previous_right=none_right,
            previous_sparse=data.allocate(n),
            count=max(1, n // 10),
            probes=np.linalg.qr(rng.standard_normal((n, min(4, n))))[0],
            vectors=np.zeros((n, 0)),
            rng=rng,
        )

    @property
    def rank(self) -> int:
        """The rank of L: how many singular values were above the threshold."""
        return int(self.singular_values.size)

    @property
    def nonzeros(self) -> int:
        """How many entries of S are not zero."""
        return self.entries_above

    def proximal_step(self, problem: SmoothProblem, data: Source, svd_tol: float) -> None:
        """Line 3 computes the singular vectors; the pass that makes the left factor of L⁺ also does line 4."""
        left, right = self._extrapolated(data)
        rows = (left, self.sparse, self.previous_sparse)
        # Line 3: D_θ[X], with X = L̂ − ½P_Ω(L̂ + Ŝ − M).
        singular, vectors, self.cut = self._leading(problem, data, right, rows, svd_tol)
        found = int(np.count_nonzero(singular > self.cut))
        self.count = nuclear.next_count(self.count, found, data.shape[1])
        vectors = np.ascontiguousarray(vectors[:, :found].astype(data.dtype))
        singular = singular[:found]
        # Line 4: T_θ[Ŝ − ½P_Ω(L̂ + Ŝ − M)].
        shrink, taken = 1.0 - self.cut / singular, False
        sums, sparse, new_left = StepSums(), self.previous_sparse, self.left

        def take(threshold: float) -> None:
            nonlocal sums, sparse, new_left, taken
            task = TakeStep(right, self.momentum.factor, threshold, vectors, shrink)
            sums, (sparse, new_left) = data.run_with_rows(task, *rows)
            taken = True

        def find(radius: float) -> float:
            take(0.0)
            return projection_threshold(data, sparse, radius, self.threshold)

        self.threshold = problem.threshold_S(self.step_length, find)
        if not taken:
            take(self.threshold)
        elif self.threshold > 0.0:
            sums, (sparse,) = data.run_with_rows(Shrink(vectors, self.threshold), sparse, new_left)
        self.sparse, self.previous_sparse = sparse, self.sparse
        self.previous_left, self.previous_right = self.left, self.right
        self.left, self.right, self.singular_values = new_left, vectors, singular - self.cut
        self.objective = problem.objective(
            sums.misfit_squared, float(np.sum(self.singular_values)), sums.s_norm
        )
        self.entries_above = round(sums.nonzeros)

    def find_bound(self, problem: SmoothProblem, data: Source) -> float:
        """The lower bound from G = clip(P_Ω(M − L)), with ‖G‖₂ by Lanczos steps from warm vectors: up to six passes."""
        self.limit = problem.threshold_S(1.0, partial(self._threshold_at_low_rank, data))
        space = nuclear.KrylovSpace(data.shape[1])
        block: Array | None = self.probes
        bound = -inf
        for _ in range(BOUND_PASSES):
            if block is None:
                break
            sums = data.run(EvaluateFactors(self.right, self.limit, block), self.left)
            space.add(block, sums.product)
            pair = space.leading_pair()
            bound = problem.lower_bound(sums.g_dot_m, sums.g_squared, pair.upper, self.limit)
            best = problem.lower_bound(sums.g_dot_m, sums.g_squared, pair.value, self.limit)
            if self.objective - bound <= BOUND_SLACK * (self.objective - best):
                break
            block = space.next_block(2, self.rng)
        self.probes = np.linalg.qr(space.leading_vectors(4))[0]
        return bound

    def solution(self, problem: SmoothProblem, data: Source) -> Solution:
        """L, and the S that is optimal for this L, which can only lower the objective."""
        threshold = problem.threshold_S(1.0, partial(self._threshold_at_low_rank, data))
        return Solution(data.low_rank(self.left, self.right), threshold=threshold)

    def _threshold_at_low_rank(self, data: Source, radius: float) -> float:
        return threshold_for_radius(data, self.left, self.right, radius, self.limit)

    def _extrapolated(self, data: Source) -> tuple[Array, Array]:
        """Factors of L̂ = L + momentum·(L − L₋)."""
        if self.momentum.factor == 0.0:
            return self.left, self.right
        left = data.map(partial(_extrapolated, self.momentum.factor), self.left, self.previous_left)
        return left, np.hstack([self.right, self.previous_right])

    def _leading(
        self, problem: SmoothProblem, data: Source, right: Array, rows: tuple[Array, ...], svd_tol: float
    ) -> tuple[Array, Array, float]:
        """Singular values of X above the threshold of line 3, their right vectors, and the threshold."""
        lowest = 0.7 * self.cut
        while True:
            # Where ‖L‖_* is prescribed, the values above the cut suffice if they exceed it by that much in sum.
            cut = problem.threshold_L(self.step_length, partial(_given, lowest))
            singular, vectors = self._leading_vectors(data, right, rows, cut, svd_tol)
            known = singular[singular > cut]
            threshold = problem.threshold_L(self.step_length, partial(l1.projection_threshold, known))
            if threshold >= cut or known.size == min(data.shape):
                return singular, vectors, threshold
            largest = float(singular[0]) if singular.size else 0.0
            if cut <= 1e-12 * largest:
                return singular, vectors, threshold
            lowest = 0.5 * cut if cut <= largest else 0.5 * largest

    def _leading_vectors(
        self, data: Source, right: Array, rows: tuple[Array, ...], cut: float, svd_tol: float
    ) -> tuple[Array, Array]:
        """Singular values of X above the cut, maybe some more, and their right vectors, by the cheaper way."""
        momentum = self.momentum.factor
        width, last = self.count + max(8, self.count // 8), np.zeros(0)
        while _subspace_is_cheaper(data, width):
            basis = patiently(nuclear.widened, self.vectors, width, self.rng).astype(data.dtype)
            sums = data.run(SubspaceOfStep(right, momentum, np.ascontiguousarray(basis)), *rows)
            _, singular, self.vectors = nuclear.projected_svd(sums.gram, sums.cross)
            above = singular[singular > cut]
            if above.size == last.size and np.all(np.abs(above - last) <= svd_tol * above):
                return singular, self.vectors
            last = above
            if above.size + 8 > width:
                width = above.size + above.size // 2
        gram = data.run(GramOfStep(data, right, momentum), *rows).take_gram()
        values, self.vectors = nuclear.leading_eigenpairs(gram, cut**2, self.count)
        return np.sqrt(np.maximum(values, 0.0)), self.vectors


def _given(threshold: float, radius: float) -> float:
    """``threshold``, whatever the radius: stands for ``find`` while a threshold is being tried."""
    return threshold


def _extrapolated(momentum: float, left: Array, previous: Array) -> Array:
    beta = left.dtype.type(momentum)
    return np.hstack([(1 + beta) * left, -beta * previous])


def _subspace_is_cheaper(source: Source, width: int) -> bool:
    """Whether about three passes of 4·width operations an entry cost less than a Gram matrix and its eigenvectors."""
    m, n = source.shape
    return 1.5 * source.dtype.itemsize * 2.0 * m * n * width < 2.0 * m * n**2 + 30.0 * n**3 and width < n
