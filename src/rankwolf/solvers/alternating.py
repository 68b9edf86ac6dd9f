"""Alternating robust regressions for matrices of which little is observed: ratings, tables that are mostly empty.

L = U Vᵀ with λ_L‖L‖_* = min (λ_L/2)(‖U‖² + ‖V‖²). For fixed V every row of U is a small robust regression on the row's
own entries, which a few steps of Newton's method solve; then the same for V over the columns. A proximal gradient step,
in contrast, treats missing entries as if they fitted, and moves L by only about the observed share of what is needed.

The rank grows from below. Probes in the same passes approximate the singular vectors of G. When the regressions move
little, those with singular values above λ_L, which are Frank-Wolfe's atoms, become new columns of V. Where none is
left, the stationary point of the factors is the global optimum, because ‖G‖₂ ≤ λ_L closes the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from rankwolf import kernels
from rankwolf.data import Source, SparseObserved, Sums, Task
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.oracles.nuclear import orthonormal_against
from rankwolf.passes import CLIPPED_VALUES, ClippedSums, Deflation, clip_tile, with_entries
from rankwolf.problem import Penalized
from rankwolf.solvers.base import MADE_AGAIN, Certificate, Report, Solution, Solver, Start

# The least number of probes.
PROBES = 8
# The most Newton steps for a row in one pass: the other factor moves afterwards in any case.
NEWTON_STEPS = 3
# The least number of new directions that are tried at a time; it grows to half of the rank.
NEW_DIRECTIONS = 4
# A relative decrease of the objective below this calls for new directions.
SETTLED = 1e-3
# A direction of L is dropped when its singular value is below this share of the largest.
NEGLIGIBLE = 1e-7


@dataclass
class RegressionSums(ClippedSums):
    """The sums of G and S; UᵀU; GᵀG·probes."""

    gram: Array
    product: Array


class FitRows(Task[RegressionSums]):
    """The rows' regressions on ``right``, then the sums of G at the result and GᵀG·``probes``. Rows: U; makes U⁺."""

    def __init__(self, problem: Penalized, right: Array, probes: Array, tol: float) -> None:
        self.problem, self.tol = problem, tol
        self.right, self.right_t = right, np.ascontiguousarray(right.T)
        self.probes = probes.astype(right.dtype)
        self.makes = ((right.shape[1], right.dtype),)

    def start(self) -> RegressionSums:
        """Zeros."""
        rank = self.right.shape[1]
        return RegressionSums(np.zeros(CLIPPED_VALUES), np.zeros((rank, rank)), np.zeros(self.probes.shape))

    def visit(self, sums: RegressionSums, tile: Any, *rows: Array) -> tuple[Array]:
        """Fit the rows of one sparse tile, then add its sums."""
        left, weights = rows[0].copy(), self.problem
        kernels.must(self.right.shape[0] == tile.shape[1])
        if left.shape[1]:
            kernels.fit_stored_rows(
                tile.data,
                tile.indices,
                tile.indptr,
                self.right,
                weights.lambda_L,
                weights.lambda_S,
                self.tol,
                NEWTON_STEPS,
                left,
            )
        wide = left.astype(np.float64, copy=False)
        sums.gram += wide.T @ wide
        if self.probes.shape[1]:
            clipped = clip_tile(tile, left, self.right_t, weights.lambda_S, sums.values)
            sums.product += clipped.T @ (clipped @ self.probes)
        return (left,)


@dataclass
class ProbeSums(Sums):
    """For each probe v, with u = Gv/‖Gv‖: ‖Gv‖² and ‖Gv‖²·‖P_Ω(u vᵀ)‖²."""

    lengths: Array
    squares: Array


class MeasureAtoms(Task[ProbeSums]):
    """Gv for each probe v, and the observed part of the atom u vᵀ, u = Gv/‖Gv‖. Rows: U; makes Gv."""

    def __init__(self, problem: Penalized, right: Array, probes: Array) -> None:
        self.limit, self.right_t = problem.lambda_S, np.ascontiguousarray(right.T)
        self.probes = probes.astype(right.dtype)
        self.makes = ((probes.shape[1], right.dtype),)

    def start(self) -> ProbeSums:
        """Zeros."""
        count = self.probes.shape[1]
        return ProbeSums(np.zeros(count), np.zeros(count))

    def visit(self, sums: ProbeSums, tile: Any, *rows: Array) -> tuple[Array]:
        """Gv for the rows of one sparse tile, and the sums of the atoms there."""
        images = clip_tile(tile, rows[0], self.right_t, self.limit) @ self.probes
        squares = np.square(images, dtype=np.float64)
        seen = with_entries(tile, np.ones_like(tile.data)) @ np.square(self.probes)
        sums.lengths += np.sum(squares, axis=0)
        sums.squares += np.sum(squares * seen, axis=0)
        return (images,)


@dataclass
class AlternatingState:
    """U and V, balanced: UᵀU = VᵀV = diag(singular values of L); the data stored by columns; probes of G.

    ``lengths`` are the Ritz values of G on the probes of the last pass, and ``probes`` those of the next. ``last`` is
    the objective before the last step. ``proof_ratio`` is a proved gap over the one that the probes promised.
    """

    left: Array
    right: Array
    columns: SparseObserved = field(metadata=MADE_AGAIN)
    probes: Array
    rng: np.random.Generator
    sums: ClippedSums = field(default_factory=lambda: ClippedSums(np.zeros(CLIPPED_VALUES)))
    singular: Array = field(default_factory=lambda: np.zeros(0))
    lengths: Array = field(default_factory=lambda: np.zeros(0))
    objective: float = inf
    last: float = inf
    proof_ratio: float = 1.0


class Alternating(Solver[Penalized, AlternatingState]):
    """Alternating robust regressions with Frank-Wolfe's directions; ``rankwolf.solvers.alternating`` says how.

    Cost of an iteration: two passes, or three where directions are added. A Newton step, of at most three in a pass,
    costs k·r² + r³/3 operations for a row or column with k stored entries and rank r. Memory: the factors, and the
    matrix stored once more by columns.

    >>> import numpy as np, scipy.sparse, rankwolf as rw
    >>> X = scipy.sparse.csr_array(np.outer(np.arange(1.0, 31.0), np.ones(20)) * (np.arange(20) % 3 > 0))
    >>> rw.decompose(X, delta=0.01, method=rw.solvers.Alternating(), rng=0).low_rank.rank
    1
    """

    name = "als"
    solves = (Penalized,)
    takes = ("sparse entries",)
    takes_start = True
    states = (AlternatingState, ClippedSums)

    def init(self, problem: Penalized, source: Source, rng: np.random.Generator) -> AlternatingState:
        """L = 0, and three passes that look for the first directions."""
        return self._begin(problem, source, rng, np.zeros((source.shape[1], 0)))

    def init_at(
        self, problem: Penalized, source: Source, rng: np.random.Generator, given: Start
    ) -> AlternatingState:
        """V of an earlier L, and rows fitted to it in three passes."""
        return self._begin(problem, source, rng, given.right)

    def _begin(
        self, problem: Penalized, source: Source, rng: np.random.Generator, right: Array
    ) -> AlternatingState:
        if not isinstance(source, SparseObserved):
            raise ValueError(
                "The method 'als' is for a sparse matrix of observed entries. Give another method."
            )
        m, n = source.shape
        probes = np.linalg.qr(rng.standard_normal((n, min(PROBES, n))))[0]
        state = AlternatingState(
            np.zeros((m, right.shape[1]), source.dtype),
            np.ascontiguousarray(right, source.dtype),
            source.by_columns(),
            probes,
            rng,
        )
        # Three passes, so that the probes are near singular vectors before the first of them become columns of V.
        for _ in range(3):
            self._fit_rows(problem, source, state)
        state.last = state.objective
        return state

    def step(self, problem: Penalized, source: Source, state: AlternatingState) -> AlternatingState:
        """Add directions if the last step lowered the objective little; then fit the columns, then the rows."""
        settled = state.last - state.objective <= SETTLED * state.objective
        state.last = state.objective
        if settled and state.lengths[0] > problem.lambda_L:
            self._add_directions(problem, source, state)
        if state.left.shape[1]:
            task = FitRows(problem, state.left, np.zeros((source.shape[0], 0)), 1e-9)
            state.right = state.columns.run_with_rows(task, state.right)[1][0]
            source.passes += 1
        self._fit_rows(problem, source, state)
        return state

    def restore(self, problem: Penalized, source: Source, state: AlternatingState) -> AlternatingState:
        """Make the data by columns again, which a checkpoint does not hold."""
        assert isinstance(source, SparseObserved)
        state.columns = source.by_columns()
        return state

    def report(self, problem: Penalized, state: AlternatingState) -> Report:
        """The objective, and the lower bound that follows if the largest Ritz value on the probes is ‖G‖₂."""
        longest = float(state.lengths[0]) if state.lengths.size else 0.0
        bound = problem.lower_bound(state.sums.g_dot_m, state.sums.g_squared, longest, problem.lambda_S)
        expected = state.objective - state.proof_ratio * (state.objective - bound)
        rank, nonzeros = state.singular.size, state.sums.nonzeros
        return Report(state.objective, bound, rank, nonzeros, 1.0, expected_bound=expected)

    def learn(
        self, problem: Penalized, state: AlternatingState, promised: float, certificate: Certificate
    ) -> None:
        """Remember the proved gap over the one that the probes promised, kept between 0.01 and 100."""
        if state.objective > promised:
            ratio = (state.objective - certificate.likely_bound) / (state.objective - promised)
            state.proof_ratio = min(max(ratio, 1e-2), 1e2)

    def solution(self, problem: Penalized, source: Source, state: AlternatingState) -> Solution:
        """L = U Vᵀ, and the probes along which G is longer than λ_L, as a hint for the certificate."""
        long = np.flatnonzero(state.lengths > problem.lambda_L)
        directions = state.probes[:, long].astype(source.dtype)
        deflation = Deflation(directions, 1.0 - problem.lambda_L / state.lengths[long])
        return Solution(LowRank.from_factors(state.left, state.right), problem.lambda_S, None, deflation)

    @staticmethod
    def _fit_rows(problem: Penalized, source: Source, state: AlternatingState) -> None:
        """Fit U to V; then the objective, one step of subspace iteration on GᵀG, and balanced factors. One pass."""
        task = FitRows(problem, state.right, state.probes, 1e-9)
        sums, (state.left,) = source.run_with_rows(task, state.left)
        state.sums = ClippedSums(sums.values)
        projected = state.probes.T @ sums.product
        squared, vectors = np.linalg.eigh(0.5 * (projected + projected.T))
        # These Ritz values belong to the probes that were multiplied; their images are the next probes.
        state.lengths = np.sqrt(np.maximum(squared[::-1], 0.0))
        state.probes = orthonormal_against(
            _widened(sums.product @ vectors[:, ::-1], PROBES + state.left.shape[1] // 2, state.rng),
            np.zeros((source.shape[1], 0)),
            state.rng,
        )
        _balance(state, sums.gram)
        nuclear_norm = float(np.sum(state.singular))
        state.objective = problem.objective(sums.g_squared, nuclear_norm, sums.s_norm)

    @staticmethod
    def _add_directions(problem: Penalized, source: Source, state: AlternatingState) -> None:
        """L ← L + Σ t·u vᵀ over the probes v with σ = ‖Gv‖ > λ_L, by steps that cannot raise the objective. One pass.

        Along one atom the best step is t = (σ − λ_L)/‖P_Ω(u vᵀ)‖²; along q atoms at once, a q-th of it is safe.
        """
        count = min(max(NEW_DIRECTIONS, state.left.shape[1] // 2), state.probes.shape[1])
        probes = state.probes[:, :count]
        sums, (images,) = source.run_with_rows(MeasureAtoms(problem, state.right, probes), state.left)
        lengths = np.sqrt(sums.lengths)
        good = lengths > problem.lambda_L
        if not good.any():
            return
        lengths, seen = lengths[good], sums.squares[good] / sums.lengths[good]
        root = np.sqrt((lengths - problem.lambda_L) / (np.count_nonzero(good) * seen))
        dtype = source.dtype
        left, right = images[:, good] * (root / lengths).astype(dtype), probes[:, good] * root
        state.left = np.ascontiguousarray(np.hstack([state.left, left]))
        state.right = np.ascontiguousarray(np.hstack([state.right, right.astype(dtype)]))


def _widened(block: Array, count: int, rng: np.random.Generator) -> Array:
    """``block`` with random columns added, up to ``count``: as the rank grows, more directions are watched."""
    n, have = block.shape
    fresh = rng.standard_normal((n, max(0, min(count, n) - have)))
    return np.hstack([block, fresh])


def _balance(state: AlternatingState, left_gram: Array) -> None:
    """Transform the factors so that UᵀU = VᵀV = diag(s), from their Gram matrices alone; drop negligible directions."""
    if state.left.shape[1] == 0:
        state.singular = np.zeros(0)
        return
    right = state.right.astype(np.float64)
    values_l, vectors_l = np.linalg.eigh(left_gram)
    values_r, vectors_r = np.linalg.eigh(right.T @ right)
    root_l, root_r = np.sqrt(np.maximum(values_l, 0.0)), np.sqrt(np.maximum(values_r, 0.0))
    # U = Q_l·A, V = Q_r·B with A = root_l·vectors_lᵀ: the singular values of U Vᵀ are those of A·Bᵀ.
    a, b = root_l[:, None] * vectors_l.T, root_r[:, None] * vectors_r.T
    p, singular, q_t = np.linalg.svd(a @ b.T)
    keep = singular > NEGLIGIBLE * max(float(singular[0]), np.finfo(float).tiny)
    singular = singular[keep]
    # U·X = Q_l·p·√s for X = Bᵀ q / √s, and V likewise: no inverse of a Gram matrix.
    turn_left = b.T @ q_t.T[:, keep] / np.sqrt(singular)
    turn_right = a.T @ p[:, keep] / np.sqrt(singular)
    dtype = state.left.dtype
    state.left = np.ascontiguousarray(state.left @ turn_left.astype(dtype))
    state.right = np.ascontiguousarray((right @ turn_right).astype(dtype))
    state.singular = singular
