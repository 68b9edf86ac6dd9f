"""ISTA, Algorithm 7: proximal gradient steps on both parts at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from rankwolf.data import Data
from rankwolf.ground.arrays import Array, inner
from rankwolf.ground.low_rank import LowRank
from rankwolf.ground.momentum import Momentum
from rankwolf.oracles import l1, nuclear
from rankwolf.oracles.subspace import WarmThreshold
from rankwolf.problem import SmoothProblem
from rankwolf.solvers.base import MADE_AGAIN, Report, Solver, proximal_L
from rankwolf.solvers.observed import dual_point, measured, solution

# The lower bound is renewed after iteration k the next time ⌊k/6⌋ + 1 iterations later; ‖G‖₂ to this relative residual,
# or a tenth of the relative gap, by at most so many products.
BOUND_INTERVAL, BOUND_TOL, BOUND_PRODUCTS = 6, 1e-3, 20


@dataclass(kw_only=True)
class ProximalState:
    """L, S and A[L + S], and those of the iteration before; ``factors`` are L's singular vectors and values.

    ``best_dual`` is the y of the best lower bound.
    """

    low_rank: Array
    sparse: Array
    image: Array
    previous: tuple[Array, Array, Array]
    factors: LowRank
    best_dual: Array
    warm: WarmThreshold
    probes: Array
    rng: np.random.Generator
    step_length: float
    objective: float
    momentum: Momentum = field(default_factory=Momentum)
    iteration: int = 0
    lower_bound: float = 0.0
    next_bound: int = 1
    data: Any = field(default=None, metadata=MADE_AGAIN)


class Ista(Solver[SmoothProblem, ProximalState]):
    """Algorithm 7: a proximal gradient step on (L, S), of length 1/L_f with L_f = 2‖A‖². With radii, projections.

    ``bounds=False`` saves the time that lower bounds take, for runs that do not stop on the gap. Cost of an iteration:
    one product with A, one with A*, and a partial SVD of a dense matrix: two steps of subspace iteration or, where the
    rank is not small, the Gram matrix of the shorter side, mn·min(m, n). Memory: eight matrices.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> rw.decompose(X, delta=0.01, method=rw.solvers.Ista(), tol=1e-2, rng=0).low_rank.rank
    1
    """

    name = "ista"
    solves = (SmoothProblem,)
    takes = ("entries", "measurements")
    states = (ProximalState, LowRank, WarmThreshold, Momentum)

    def __init__(self, bounds: bool = True) -> None:
        self.bounds = bounds

    def init(self, problem: SmoothProblem, data: Data, rng: np.random.Generator) -> ProximalState:
        """L⁰ = S⁰ = 0."""
        measurements = measured(data)
        b = measurements.b
        dtype = measurements.adjoint(b).dtype
        zero, image = np.zeros(data.shape, dtype), np.zeros_like(b)
        return ProximalState(
            low_rank=zero,
            sparse=zero,
            image=image,
            previous=(zero, zero, image),
            factors=LowRank.zeros(data.shape, dtype),
            best_dual=b,
            warm=WarmThreshold(data.shape, rng),
            probes=rng.standard_normal((min(data.shape), min(4, *data.shape))),
            rng=rng,
            step_length=0.5 / measurements.norm**2,
            objective=0.5 * data.summary.norm**2,
            data=measurements,
        )

    def step(self, problem: SmoothProblem, data: Data, state: ProximalState) -> ProximalState:
        """Lines 3 and 4 from the extrapolated pair (L̂, Ŝ), which for ISTA is (L, S) itself."""
        measurements, step, before = state.data, state.step_length, state.objective
        beta, now = state.momentum.factor, (state.low_rank, state.sparse, state.image)
        L, S, image = (
            now if beta == 0.0 else (x + beta * (x - y) for x, y in zip(now, state.previous, strict=True))
        )
        residual = measurements.b - image
        downhill = step * measurements.adjoint(residual)
        # Line 3: D_θ[L̂ − (1/L_f)·A*(A[L̂ + Ŝ] − b)].
        low_rank, found = proximal_L(problem, L + downhill, step, state.warm)
        state.factors = LowRank(found.u, found.s.astype(np.float64, copy=False), found.vt)
        # Line 4: T_θ[Ŝ − (1/L_f)·A*(A[L̂ + Ŝ] − b)].
        target = S + downhill
        theta = problem.threshold_S(step, partial(l1.projection_threshold, target))
        sparse = l1.soft_threshold(target, theta)
        state.previous = now
        state.low_rank, state.sparse, state.image = low_rank, sparse, measurements.apply(low_rank + sparse)
        misfit = measurements.b - state.image
        state.objective = problem.objective(
            inner(misfit, misfit), state.factors.nuclear_norm, l1.norm(sparse)
        )
        state.iteration += 1
        state.momentum = self.next_momentum(state.momentum, grew=state.objective > before)
        if self.bounds and state.iteration >= state.next_bound:
            self._renew_bound(problem, state, residual)
        return state

    def next_momentum(self, momentum: Momentum, grew: bool) -> Momentum:
        """The same momentum again: ISTA has none."""
        return momentum

    @staticmethod
    def _renew_bound(problem: SmoothProblem, state: ProximalState, residual: Array) -> None:
        y = dual_point(problem, state.data, state.low_rank, residual)
        G = state.data.adjoint(y)
        tall = G if G.shape[0] >= G.shape[1] else G.conj().T
        gap = max(state.objective - state.lower_bound, 0.0) / (state.objective or 1.0)
        pair = nuclear.leading_pair(
            lambda block: tall.conj().T @ (tall @ block.astype(G.dtype)),
            state.probes,
            min(BOUND_TOL, 0.1 * gap),
            BOUND_PRODUCTS,
            state.rng,
            4,
        )
        fresh = state.rng.standard_normal((state.probes.shape[0], 1))
        state.probes = np.hstack([pair.leading[:, : state.probes.shape[1] - 1], fresh])
        largest = float(np.max(np.abs(G)))
        bound = problem.lower_bound(inner(y, state.data.b), inner(y, y), pair.upper, largest)
        if bound > state.lower_bound:
            state.lower_bound, state.best_dual = bound, y
        state.next_bound = state.iteration + 1 + state.iteration // BOUND_INTERVAL

    def restore(self, problem: SmoothProblem, data: Data, state: ProximalState) -> ProximalState:
        """The data is read again."""
        state.data = measured(data)
        return state

    def report(self, problem: SmoothProblem, state: ProximalState) -> Report:
        """The objective of (L, S), and the best lower bound so far."""
        return Report(
            objective=state.objective,
            lower_bound=state.lower_bound,
            rank=state.factors.rank,
            nonzeros=int(np.count_nonzero(state.sparse)),
            step_size=state.step_length,
            sparse_step_size=state.step_length,
        )

    def solution(self, problem: SmoothProblem, data: Data, state: ProximalState) -> Any:
        """The pair (L, S), for entries with the best S for this L."""
        return solution(problem, state.data, state.factors, state.sparse, state.best_dual)
