"""``decompose(rank=r)``: L of a given rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankwolf.api.settings import Settings, check_one_form
from rankwolf.api.walk import FIRST_DELTA, GRID_FACTOR, walk
from rankwolf.data import Source
from rankwolf.ground.complaints import bad, check_count
from rankwolf.ground.deadline import TimeUp
from rankwolf.ground.low_rank import LowRank
from rankwolf.problem import Penalized
from rankwolf.result import Decomposition, Status
from rankwolf.run.loop import Runner
from rankwolf.solvers.refit import extended
from rankwolf.weights.descent import noise_weights


@dataclass(frozen=True)
class RankSettings:
    """How an L of a given rank is looked for."""

    tol: float = 1e-2
    """The relative gap of the convex fit. It may be coarse, because a refit follows."""
    levels: int = 11
    """Where the noise cannot be measured, so many δ are tried, each half of the last: 0.1 to 1e-4."""


SETTINGS = RankSettings()


def check_rank(rank: Any, settings: Settings, **others: Any) -> int:
    """The rank as a whole number; a ValueError where another form of the problem or one of ``others`` is given too."""
    wanted = check_count("rank", rank)
    check_one_form(
        "decompose",
        rank=wanted,
        problem=settings.problem,
        lambdas=settings.weights,
        radii=settings.bounds,
        noise=settings.epsilon,
        delta=None if settings.from_noise else settings.delta,
    )
    for name, value in others.items():
        if value is not None:
            raise ValueError(
                f"The '{name}' and 'rank' parameters of decompose do not go together: the way to a rank is "
                "walked in one go, from the top of the path."
            )
    return wanted


def at_rank(source: Source, rank: int, runner: Runner, settings: RankSettings = SETTINGS) -> Decomposition:
    """The decomposition whose L has this rank and is not shrunk: a convex fit, brought to the rank and refitted.

    The convex fit has the weights of the noise, and the gap ``settings.tol``: of the runner's stopping rule only
    ``max_iter`` counts. Where its rank is higher, its strongest directions are kept. Where it is lower, the strongest
    directions of its residual are added (:func:`rankwolf.solvers.refit.extended`). The problem with a given rank is not
    convex, so the answer is a local one. When the time is up, the convex fit is returned as it is, whatever its rank,
    with status TIME_LIMIT.
    """
    if rank >= min(source.shape):
        rule = f"below min(m, n) = {min(source.shape)}"
        raise bad("rank", rule, str(rank), remedy="L = X is the answer from there on.")
    deadline = runner.deadline
    rough = replace(runner, stopping=replace(runner.stopping, kind="gap", tol=settings.tol))
    fit = _convex_fit(source, rank, rough, settings.levels)
    try:
        with deadline:
            deadline.check()
            found = replace(fit, low_rank=_of_rank(fit, source, rank, runner.rng)).refit(keep_rank=True)
    except TimeUp:
        return replace(fit, status=Status.TIME_LIMIT, passes=source.passes, seconds=deadline.elapsed)
    return replace(found, seconds=deadline.elapsed)


def _convex_fit(source: Source, rank: int, runner: Runner, levels: int) -> Decomposition:
    """The fit with the weights of the noise.

    Where the noise cannot be measured: the first fit at falling δ whose rank is at least ``rank``, or the last tried.
    """
    try:
        problem = Penalized(*noise_weights(source, runner.rng, runner.deadline))
    except ValueError:  # a sparse matrix with few entries
        deltas = FIRST_DELTA / GRID_FACTOR ** np.arange(levels)
        for _, fit, _ in walk(source, deltas, runner, "decompose"):
            if fit.low_rank.rank >= rank or fit.status is Status.CALLBACK:
                break
        return fit
    return runner.solve(problem, source)


def _of_rank(fit: Decomposition, source: Source, rank: int, rng: np.random.Generator) -> LowRank:
    """L of the fit, brought to this rank: its strongest directions, or all of them and some of the residual's."""
    if fit.low_rank.rank >= rank:
        return fit.low_rank.first(rank)
    assert fit.lambdas is not None
    low_rank = extended(source, source.as_solver_sees(fit.low_rank), fit.lambdas[1], rank, rng)
    return source.as_user_sees(low_rank)
