"""The default solver for measurements, by the contract of :class:`rankwolf.solvers.base.Solver`."""

from __future__ import annotations

import numpy as np

from rankwolf.data.measurements import Measurements
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.oracles import l1
from rankwolf.oracles.subspace import WarmThreshold
from rankwolf.problem import Penalized
from rankwolf.solvers.base import MeasuredSolution, Report, WithSettings
from rankwolf.solvers.iterates.nuclear_oracle import NuclearOracle
from rankwolf.solvers.primal_dual.path import path_step
from rankwolf.solvers.primal_dual.settings import PrimalDualSettings
from rankwolf.solvers.primal_dual.splitting import begin_splitting, splitting_step
from rankwolf.solvers.primal_dual.state import PrimalDualState


class PrimalDual(WithSettings[Penalized, PrimalDualState, PrimalDualSettings]):
    """Down the path of weights with POGM, then over-relaxed primal-dual steps; Douglas-Rachford where AA* = diag(d).

    An iteration is one product with A, one with A*, and singular value thresholding from a warm start, 4·mn operations
    for each singular vector. Keywords are fields of :class:`~rankwolf.solvers.primal_dual.PrimalDualSettings` that
    should differ from its defaults.
    Memory: four arrays of the matrix's size, beside what A and A* take.

    >>> import numpy as np, rankwolf as rw
    >>> A = rw.sensing.PartialDCT.random(400, (30, 20), seed=0)
    >>> b = A.apply(np.outer(np.arange(1.0, 31.0), np.ones(20)))
    >>> rw.recover(b, A, delta=0.01, method=rw.solvers.PrimalDual(settle=8), rng=0).low_rank.rank
    1
    """

    name = "primal-dual"
    solves = (Penalized,)
    takes = ("measurements",)
    takes_start = has_path = limits_memory = True
    settings_type = PrimalDualSettings
    states = (PrimalDualState, WarmThreshold, NuclearOracle, LowRank)

    def init(self, problem: Penalized, data: Measurements, rng: np.random.Generator) -> PrimalDualState:
        """The start of the path: L = S = 0, μ₀ and the first weights. One product with A*."""
        state = self._at(data, rng, LowRank.zeros(data.shape, data.dtype), data.b, np.zeros_like(data.b))
        self._find_first_weight(problem, data, state)
        state.path_weight = max(self.settings.start * state.first_weight, 1.0)
        return state

    def init_at(
        self, problem: Penalized, data: Measurements, rng: np.random.Generator, start: tuple[LowRank, Array]
    ) -> PrimalDualState:
        """A given pair. The splitting begins at once, without the path: the pair is taken to be near the optimum."""
        low_rank, sparse = start
        total = np.asarray(low_rank)
        total += sparse
        image = data.apply(total)
        del total
        state = self._at(data, rng, low_rank, data.b, image)
        state.sparse[:] = sparse
        state.nonzeros = int(np.count_nonzero(sparse))
        self._find_first_weight(problem, data, state)
        state.dual = state.evaluate(problem, data, image, l1.norm(sparse))
        state.gradient = data.adjoint(state.dual)
        begin_splitting(data, state, self.settings)
        state.update_bound(problem, data)
        return state

    @staticmethod
    def _at(
        data: Measurements, rng: np.random.Generator, low_rank: LowRank, dual: Array, image: Array
    ) -> PrimalDualState:
        return PrimalDualState(
            low_rank=low_rank,
            sparse=data.allocate(data.shape[1]),
            carried_L=data.allocate(data.shape[1]),
            carried_S=data.allocate(data.shape[1]),
            carried_image=image,
            dual=dual,
            gradient=data.adjoint(data.b),
            best_dual=dual,
            shrink=WarmThreshold(data.shape, rng),
            oracle=NuclearOracle(data.shape, rng, data.dtype),
            objective=0.5 * data.summary.norm**2,
            path_weight=1.0,
            first_weight=1.0,
        )

    @staticmethod
    def _find_first_weight(problem: Penalized, data: Measurements, state: PrimalDualState) -> None:
        """μ₀ from A*b, which is the state's ``gradient`` by now, and the lower bound from y = ``dual``."""
        norm, largest = state.spectral_norm(data), state.largest_entry()
        state.first_weight = min(norm / problem.lambda_L, largest / problem.lambda_S)
        state.bound_by(problem, data, norm, largest)

    def step(self, problem: Penalized, data: Measurements, state: PrimalDualState) -> PrimalDualState:
        """One iteration of the phase that the run is in."""
        state.iteration += 1
        if not state.on_path:
            splitting_step(problem, data, state, self.settings)
        elif path_step(problem, data, state, self.settings):  # the path has ended
            begin_splitting(data, state, self.settings)
        return state

    def report(self, problem: Penalized, state: PrimalDualState) -> Report:
        """The objective, on the path too with the weights of the problem itself, and the best lower bound."""
        return Report(
            objective=state.objective,
            lower_bound=state.lower_bound,
            rank=state.low_rank.rank,
            nonzeros=state.nonzeros,
            step_size=state.gamma,
            sparse_step_size=state.gamma,
            settled=not state.on_path,
        )

    def solution(self, problem: Penalized, data: Measurements, state: PrimalDualState) -> MeasuredSolution:
        """L and S of the last proximal step, and the y that proved the best bound so far."""
        return MeasuredSolution(state.low_rank, state.sparse, state.best_dual)
