"""Which weights for measurements: those that predict measurements that the solver did not see, or a rule.

A tenth of the measurements is held out. Splitting comes down a path of falling weights (λ_L, λ_S) = σ·(u_L, r·u_S) on
the others, a few iterations at each, and every pair L + S predicts what was held out. u_L and u_S are what noise of
deviation 1 makes of A*: its spectral norm and its root mean square. The path ends where the prediction gains little.
Then the ratio r is halved and doubled, each time down the end of the path, while the prediction gains.

Nothing about the data enters but the data: aliasing and noise both spoil a prediction, and the weights that keep both
out predict best. Where the pair then has far fewer unknowns than there are measurements, the noise can be measured
(:func:`weights_by_refit`), and its weights are better still. The run proper begins at the pair that was found.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankwolf.data.measurements import Measurements
from rankwolf.ground.arrays import Array, to_numpy
from rankwolf.ground.deadline import Deadline
from rankwolf.oracles import nuclear
from rankwolf.problem import Penalized
from rankwolf.solvers.data_terms import MeasuredTerm
from rankwolf.solvers.refit_measured import freedom, refit_measured
from rankwolf.solvers.splitting import Splitting, SplittingState
from rankwolf.weights.noise import LIMIT_IN_SIGMAS
from rankwolf.weights.paper import paper_weights

# λ_S is proportional to ρ above this ρ, and constant below it.
FEW = 0.4


@dataclass(frozen=True)
class HeldOutSettings:
    """The search for weights by prediction. Shares are of the measurements, errors those of predictions."""

    share: float = 0.1
    """What is held out: enough to predict, too little to change the problem."""
    first: float = 0.25
    """The first σ, as a share of the root mean square of b: nearly nothing is noise any more."""
    least: float = 1e-3
    """The last σ, as that share: without noise the weights would be zero, and define no problem."""
    fall: float = 0.5
    """From one point of the path to the next, and from one ratio to the next."""
    steps: int = 5
    """Iterations of splitting at each point of the path."""
    gain: float = 0.15
    """Half the σ, or another ratio, must lower the root mean square error by this share. Where there is less to gain,
    smaller weights hardly change the picture, and the problem becomes much slower to solve."""
    patience: int = 1
    """So many points without such a gain are passed over: a direction may wait for the next one."""
    boost: float = 3.0
    """The first γ of the path, in units of that of a run to the optimum: with few iterations at each point, L and S
    should move fast. Against 1, errors fall by 5 % on average on the two recorded series, rise by 1 % on eight kinds of
    rendered ones, and short series are no longer lost."""
    last_steps: int = 8
    """Iterations on all measurements that follow, where the run ends at the pair that predicts best."""
    most_refits: int = 8
    refit_steps: int = 40
    """Iterations of splitting between two refits."""
    apart: float = 2.0
    """A refit is made at weights of this many σ: no noise is among what they choose."""
    settled: float = 0.1
    """σ has settled when a refit changes it by no more than this share."""
    most_rise: float = 1.25
    """Choosing from noise made σ too small by less than this factor on all trials; what rises more has lost signal."""
    most_freedom: float = 0.6
    """Unknowns of a refit, as a share of the equations: beyond, too little is left to measure σ."""
    again: int = 3
    """Points of the path that another ratio comes down, the last at the best σ."""


SETTINGS = HeldOutSettings()


@dataclass(frozen=True)
class Found:
    """The weights that predict best, the σ of a measurement's noise, and (L, S, y, γ) to begin with."""

    weights: tuple[float, float]
    sigma: float | None
    start: Any = None


def default_weights(data: Measurements, delta: float) -> tuple[float, float]:
    """λ_L = δρ‖A‖‖b‖ and λ_S = δ·max(ρ, 0.4)·‖A‖‖b‖/√max(m, n), with ρ = p/(mn).

    λ_L is the paper's. The paper's λ_S, which has √ρ in the place of max(ρ, 0.4), fails where p is a third to a half of
    mn. So from ρ = 0.4 on λ_L/λ_S = √max(m, n), the ratio of the theory for random subspaces (Wright, Ganesh, Min, Ma,
    2013). With far fewer measurements that ratio would put aliasing into S: below ρ = 0.4, λ_S stays as it is there.

    The gradient A*r scales with ‖A‖·‖b‖, and so do the weights that bound it. Multiplying A and b by c multiplies the
    whole objective by c², and leaves the solution as it is.
    """
    lambda_L = data.norm * paper_weights(data, delta)[0]
    fraction = data.observed_fraction
    return lambda_L, lambda_L * max(fraction, FEW) / fraction / max(data.shape) ** 0.5


def weights_for_noise(data: Measurements, sigma: float, rng: np.random.Generator) -> tuple[float, float]:
    """λ_L = ‖A*e‖₂ and λ_S = twice the root mean square of A*e, for a random e with standard deviation σ.

    Noise of that size then stays out of L, and nineteen in twenty of its entries out of S. Cost: one product with A*.
    """
    noise = np.asarray(rng.standard_normal(data.size))
    if data.complex_b:
        noise = (noise + 1j * rng.standard_normal(data.size)) * 0.5**0.5
    image = to_numpy(data.adjoint(data.native(sigma * noise)))
    spread = float(np.linalg.norm(image)) / image.size**0.5
    return _largest_singular_value(image, rng), LIMIT_IN_SIGMAS * spread


def _largest_singular_value(image: Array, rng: np.random.Generator) -> float:
    """‖image‖₂, for the image A*y of a vector of measurements; σ₁² is accurate to about a per cent."""
    short = image if image.shape[0] <= image.shape[1] else image.T
    start = rng.standard_normal((short.shape[0], min(4, *short.shape)))
    return nuclear.leading_pair(lambda block: short @ (short.conj().T @ block), start, 1e-2, 30, rng).value


def weights_by_prediction(
    data: Measurements,
    rng: np.random.Generator,
    deadline: Deadline,
    settings: HeldOutSettings = SETTINGS,
) -> Found:
    """The weights under which L + S predicts held-out measurements best (see the module).

    Cost: about 80 iterations of splitting, some of which the run proper saves by where it begins.
    """
    search = _Search(data, rng, deadline, settings)
    rms = data.summary.norm / data.size**0.5
    sigmas = [settings.first * rms]
    while sigmas[-1] > settings.least * rms:
        sigmas.append(sigmas[-1] * settings.fall)
    search.descend(sigmas, 1.0)
    for factor in (settings.fall, 1.0 / settings.fall):
        before = search.best.ratio
        while search.improves(factor):
            pass
        if search.best.ratio != before:
            break
    return search.found()


def weights_by_refit(
    data: Measurements,
    found: Found,
    rng: np.random.Generator,
    deadline: Deadline,
    settings: HeldOutSettings = SETTINGS,
) -> Found:
    """The weights of :func:`weights_for_noise` for a σ that is measured where L and S leave enough equations over.

    The pair at weights of twice the noise is fitted again without shrinkage, at its rank and support: the misfit of
    that, with as many equations fewer as it has unknowns, is a σ. Weights of the noise itself would choose some noise,
    and make σ too small. σ and those weights follow from each other, in a few rounds. Where the unknowns are too many,
    the weights are doubled first; where they stay too many, the answer is ``found``.

    Cost: three or four rounds of about 100 products with A and A*.
    """
    solver, unit = Splitting(), weights_for_noise(data, 1.0, rng)
    least = settings.least * data.summary.norm / data.size**0.5
    low_rank, sparse = found.start[:2]
    level, sigma, state = found.weights[0] / unit[0], np.inf, None
    for _ in range(settings.most_refits):
        if deadline.passed:
            return found
        if freedom(data, low_rank, sparse) > settings.most_freedom:
            level = 2.0 * level
        else:
            before, now = sigma, max(refit_measured(data, low_rank, sparse).sigma or 0.0, least)
            if now > settings.most_rise * before:
                break
            sigma = now
            if sigma == least or abs(sigma / before - 1.0) <= settings.settled:
                break
            level = settings.apart * sigma
        problem = Penalized(level * unit[0], level * unit[1])
        state = solver.init(problem, data, rng) if state is None else state
        for _ in range(settings.refit_steps):
            state = solver.step(problem, data, state)
        low_rank, sparse = state.found, state.found_sparse
    if sigma == np.inf:
        return found
    start = (low_rank, sparse, None, found.start[3] if state is None else state.gamma)
    return Found((sigma * unit[0], sigma * unit[1]), sigma, start)


@dataclass
class _Point:
    sigma: float
    ratio: float
    error: float
    state: SplittingState


class _Search:
    """Splitting on all but the held-out measurements, and the best point so far. Errors are mean squares."""

    def __init__(
        self, data: Measurements, rng: np.random.Generator, deadline: Deadline, settings: HeldOutSettings
    ) -> None:
        self.data, self.rng, self.deadline, self.settings = data, rng, deadline, settings
        self.unit = weights_for_noise(data, 1.0, rng)
        groups = data.sensing.groups(data.real)
        count = data.size if groups is None else int(groups.max()) + 1
        drawn = rng.random(count) < settings.share
        self.held = drawn if groups is None else drawn[groups]
        self.part = data.without(self.held)
        self.solver = Splitting()
        self.best = _Point(0.0, 1.0, np.inf, None)  # type: ignore[arg-type]

    def weights(self, sigma: float, ratio: float) -> tuple[float, float]:
        return sigma * self.unit[0], 0.5 * ratio * sigma * self.unit[1]

    def point(self, sigma: float, ratio: float, state: SplittingState | None) -> _Point:
        """A few iterations at these weights, from a copy of ``state``, and how well they predict."""
        problem = Penalized(*self.weights(sigma, ratio))
        if state is None:
            state = self.solver.init(problem, self.part, self.rng)
            state.gamma *= self.settings.boost
        for _ in range(self.settings.steps):
            state = self.solver.step(problem, self.part, state)
        total = (state.found.u * state.found.s) @ state.found.vt + state.found_sparse
        rest = self.data.b - self.data.apply(total)
        squares = np.abs(to_numpy(rest)) ** 2
        return _Point(sigma, ratio, float(np.mean(squares[self.held])), state)

    def gains(self, point: _Point) -> bool:
        """Whether it predicts better by the share that counts."""
        return point.error < (1.0 - self.settings.gain) ** 2 * self.best.error

    def descend(self, sigmas: list[float], ratio: float) -> None:
        """Down the path, until predictions gain too little for some points in a row."""
        state: SplittingState | None = None
        without = 0
        for sigma in sigmas:
            point = self.point(sigma, ratio, state)
            state, without = point.state, without + 1
            if self.gains(point):
                self.best, without = replace(point, state=copied(state)), 0
            if without > self.settings.patience or self.deadline.passed:
                break

    def improves(self, factor: float) -> bool:
        """Whether another ratio predicts better; its point is the best one then."""
        state: SplittingState | None = None
        best, fall = self.best, self.settings.fall
        for k in reversed(range(self.settings.again)):
            if self.deadline.passed:
                return False
            point = self.point(best.sigma * fall**-k, best.ratio * factor, state)
            state = point.state
        if self.gains(point):
            self.best = point
        return self.best is point

    def found(self) -> Found:
        self.data.passes += self.part.passes
        best = self.best
        state, dual = best.state, None
        if isinstance(state.term, MeasuredTerm):
            total = (state.found.u * state.found.s) @ state.found.vt + state.found_sparse
            rest = self.data.b - self.data.apply(total)
            dual = state.dual + self.data.native(self.held.astype(np.float64)) * rest
        start = (state.found, state.found_sparse, dual, state.gamma)
        return Found(self.weights(best.sigma, best.ratio), None, start)


def copied(state: SplittingState) -> SplittingState:
    """A copy of all but the data term and L, which never change."""
    return deepcopy(state, {id(state.term): state.term, id(state.found): state.found})
