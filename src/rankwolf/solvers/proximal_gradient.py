"""ISTA and FISTA, Algorithms 7 and 8: proximal gradient steps with L_f = 2 on both parts at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from rankwolf import kernels
from rankwolf.oracles import nuclear
from rankwolf.passes import EvaluateFactors, GramTask
from rankwolf.problem import Penalized
from rankwolf.solvers.base import Report, Solution, Solver
from rankwolf.sources import Array, Source, Sums, Task


@dataclass
class ProximalState:
    """(L, S) and the pair before it; L as factors left·rightᵀ. The certificate's vectors are carried along."""

    left: Array
    right: Array
    singular_values: Array
    sparse: Array
    previous_left: Array
    previous_right: Array
    previous_sparse: Array
    objective: float
    nonzeros: int
    count: int
    probes: Array
    vectors: Array
    rng: np.random.Generator
    momentum: float = 0.0
    t: float = 1.0
    iteration: int = 0
    lower_bound: float = 0.0
    next_bound: int = 1

    def extrapolated(self, source: Source) -> tuple[Array, Array]:
        """Factors of L̂ = L + momentum·(L − L₋)."""
        if self.momentum == 0.0:
            return self.left, self.right
        left = source.map(partial(_extrapolated, self.momentum), self.left, self.previous_left)
        return left, np.hstack([self.right, self.previous_right])


def _extrapolated(momentum: float, left: Array, previous: Array) -> Array:
    beta = left.dtype.type(momentum)
    return np.hstack([(1 + beta) * left, -beta * previous])


class GramOfStep(GramTask):
    """XᵀX in float64 for X = L̂ − ½P_Ω(L̂ + Ŝ − M). Rows: the left factor of L̂, S, S₋."""

    def __init__(self, source: Source, right: Array, momentum: float) -> None:
        # λ_L/2 is so small beside ‖X‖ that a float32 Gram matrix would lose the singular values near the cut.
        super().__init__(source, np.dtype(np.float64), values=0)
        self.right, self.momentum = np.ascontiguousarray(right.T), momentum

    def fill(self, out: Array, values: Array, tile: Array, *rows: Array) -> None:
        """One tile of X."""
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
    """One step of subspace iteration on the same X. Rows: the left factor of L̂, S, S₋."""

    writes_rows = False

    def __init__(self, right: Array, momentum: float, basis: Array) -> None:
        self.right, self.momentum = np.ascontiguousarray(right.T), momentum
        self.basis, self.depth = basis, basis.shape[1]

    def start(self) -> SubspaceSums:
        """Zeros."""
        n, k = self.basis.shape
        return SubspaceSums(np.zeros((k, k)), np.zeros((n, k)))

    def visit(self, sums: SubspaceSums, tile: Array, *rows: Array) -> None:
        """One tile of B; its Gram matrix in float64, so that small columns beside large ones keep their angle."""
        left, sparse, previous = rows
        step = left @ self.right
        kernels.proximal_point(tile, step, sparse, previous, self.momentum, 0.0, False)
        product = step @ self.basis
        wide = product.astype(np.float64)
        sums.gram += wide.T @ wide
        sums.cross += step.T @ product


@dataclass
class StepSums(Sums):
    """‖P_Ω(L + S − M)‖², ‖S‖₁, nnz(S) at the new pair."""

    values: Array


class TakeStep(Task[StepSums]):
    """L⁺ = X·V·shrink·Vᵀ and S⁺ = T_{λ_S/2}(Ŝ − ½P_Ω(L̂ + Ŝ − M)).

    Rows: the left factor of L̂, S, S₋ (overwritten by S⁺), the left factor of L⁺ (written).
    """

    def __init__(
        self, right: Array, momentum: float, half_weight: float, vectors: Array, shrink: Array
    ) -> None:
        self.right, self.momentum, self.half_weight = np.ascontiguousarray(right.T), momentum, half_weight
        self.vectors, self.vectors_t = vectors, np.ascontiguousarray(vectors.T)
        self.shrink = shrink.astype(vectors.dtype)

    def start(self) -> StepSums:
        """Zeros."""
        return StepSums(np.zeros(3))

    def visit(self, sums: StepSums, tile: Array, *rows: Array) -> None:
        """One tile of both parts."""
        left, sparse, previous, new_left = rows
        step = left @ self.right
        kernels.proximal_point(tile, step, sparse, previous, self.momentum, self.half_weight, True)
        new_left[...] = (step @ self.vectors) * self.shrink
        np.matmul(new_left, self.vectors_t, out=step)
        kernels.misfit(tile, step, previous, sums.values)


class _ProximalGradient(Solver[Penalized, ProximalState]):
    """What ISTA and FISTA share: everything but the momentum.

    L is kept as factors, S and the S before it as arrays; L̂, Ŝ and the gradient exist one tile at a time. The partial
    SVD is the cheaper one for the shape. Subspace iteration on X from the last singular vectors costs a pass of 4k
    operations an entry for k vectors, until the Ritz values above the cut move by less than ``svd_tol``; where k is not
    small beside n, eigenvectors of the n × n Gram matrix of X in float64 are cheaper, mn² operations and n³. How many
    vectors to compute is the paper's rule.

    ``bounds`` is for those who do not stop on the gap and would rather not pay for its estimate.
    """

    solves = (Penalized,)
    states = (ProximalState,)
    accelerated: ClassVar[bool]

    def __init__(self, svd_tol: float = 1e-3, bounds: bool = True) -> None:
        self.svd_tol, self.bounds = svd_tol, bounds

    def init(self, problem: Penalized, source: Source, rng: np.random.Generator) -> ProximalState:
        """L⁰ = S⁰ = 0."""
        n = source.shape[1]
        none_left, none_right = source.allocate(0), np.zeros((n, 0), source.dtype)
        probes = np.linalg.qr(rng.standard_normal((n, min(4, n))))[0]
        return ProximalState(
            none_left, none_right, np.zeros(0), source.allocate(n), none_left, none_right, source.allocate(n),
            0.5 * source.summary.norm**2, 0, max(1, n // 10), probes, np.zeros((n, 0)), rng,
        )  # fmt: skip

    def step(self, problem: Penalized, source: Source, state: ProximalState) -> ProximalState:
        """Lines 3 and 4; for FISTA lines 5 to 7 as well."""
        left, right = state.extrapolated(source)
        # Line 3: D_{λ_L/2}[X], with X = L̂ − ½P_Ω(L̂ + Ŝ − M).
        cut = 0.5 * problem.lambda_L
        singular, vectors = self._leading_vectors(source, state, left, right, cut)
        found = int(np.count_nonzero(singular > cut))
        state.count = nuclear.next_count(state.count, found, source.shape[1])
        vectors = np.ascontiguousarray(vectors[:, :found].astype(source.dtype))
        singular = singular[:found]
        # Line 4: T_{λ_S/2}[Ŝ − ½P_Ω(L̂ + Ŝ − M)], in the pass that also makes the left factor of L.
        new_left = source.allocate(found)
        task = TakeStep(right, state.momentum, 0.5 * problem.lambda_S, vectors, 1.0 - cut / singular)
        sums = source.run(task, left, state.sparse, state.previous_sparse, new_left)
        state.sparse, state.previous_sparse = state.previous_sparse, state.sparse
        state.previous_left, state.previous_right = state.left, state.right
        state.left, state.right, state.singular_values = new_left, vectors, singular - cut
        state.objective = problem.objective(
            float(sums.values[0]), float(np.sum(state.singular_values)), float(sums.values[1])
        )
        state.nonzeros = round(float(sums.values[2]))
        state.iteration += 1
        if self.accelerated:
            t = (1.0 + (1.0 + 4.0 * state.t**2) ** 0.5) / 2.0
            state.momentum, state.t = (state.t - 1.0) / t, t
        if self.bounds and state.iteration >= state.next_bound:
            self._update_bound(problem, source, state)
        return state

    def _leading_vectors(
        self, source: Source, state: ProximalState, left: Array, right: Array, cut: float
    ) -> tuple[Array, Array]:
        """Singular values of X above the cut, a few more, and their right vectors, by the cheaper way."""
        rows = (left, state.sparse, state.previous_sparse)
        width, last = state.count + max(8, state.count // 8), np.zeros(0)
        while _subspace_is_cheaper(source, width):
            basis = _widened(state.vectors, width, state.rng).astype(source.dtype)
            sums = source.run(SubspaceOfStep(right, state.momentum, np.ascontiguousarray(basis)), *rows)
            _, singular, state.vectors = nuclear.projected_svd(sums.gram, sums.cross)
            above = singular[singular > cut]
            if above.size == last.size and np.all(np.abs(above - last) <= self.svd_tol * above):
                return singular, state.vectors
            last = above
            if above.size + 8 > width:
                width = above.size + above.size // 2
        gram = source.run(GramOfStep(source, right, state.momentum), *rows).gram()
        values, state.vectors = nuclear.leading_eigenpairs(gram, cut**2, state.count)
        return np.sqrt(np.maximum(values, 0.0)), state.vectors

    def report(self, problem: Penalized, state: ProximalState) -> Report:
        """f(L, S); the lower bound is renewed at iterations 1, 2, 4, 6, 8, 11, …, each a sixth later than the last."""
        return Report(
            state.objective, state.lower_bound, state.singular_values.size, state.nonzeros, 0.5, 0.5
        )

    def solution(self, problem: Penalized, source: Source, state: ProximalState) -> Solution:
        """L as it is; S as the exact minimiser for this L, which can only lower the objective."""
        return Solution(source.low_rank(state.left, state.right), threshold=problem.lambda_S)

    @staticmethod
    def _update_bound(problem: Penalized, source: Source, state: ProximalState) -> None:
        """The dual certificate at L, from Lanczos steps on G = clip(P_Ω(M − L)) with warm vectors."""
        space = nuclear.KrylovSpace(source.shape[1])
        block: Array | None = state.probes
        for _ in range(6):
            if block is None:
                break
            sums = source.run(EvaluateFactors(state.right, problem.lambda_S, block), state.left)
            space.add(block, sums.product)
            pair = space.leading_pair()
            bound = problem.dual_value(sums.g_dot_m, sums.g_squared, pair.upper)
            best = problem.dual_value(sums.g_dot_m, sums.g_squared, pair.value)
            if state.objective - bound <= 1.1 * (state.objective - best):
                break
            block = space.next_block(2, state.rng)
        state.probes = np.linalg.qr(space.leading_vectors(4))[0]
        state.lower_bound = max(state.lower_bound, bound)
        state.next_bound = state.iteration + 1 + state.iteration // 6


def _subspace_is_cheaper(source: Source, width: int) -> bool:
    """About three passes of 4·width operations an entry, against a Gram matrix in float64 and its eigenvectors."""
    m, n = source.shape
    return 1.5 * source.dtype.itemsize * 2.0 * m * n * width < 2.0 * m * n**2 + 30.0 * n**3 and width < n


def _widened(vectors: Array, width: int, rng: np.random.Generator) -> Array:
    """The first ``width`` columns, with random ones after them where there are too few."""
    known = vectors[:, :width]
    fresh = rng.standard_normal((vectors.shape[0], width - known.shape[1]))
    return np.hstack([known, nuclear.orthonormal_against(fresh, known, rng)]) if fresh.size else known


class Ista(_ProximalGradient):
    """Algorithm 7."""

    name = "ista"
    accelerated = False


class Fista(_ProximalGradient):
    """Algorithm 8: ISTA with Nesterov's momentum."""

    name = "fista"
    accelerated = True
