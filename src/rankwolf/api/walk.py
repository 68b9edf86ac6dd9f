"""Down the path: one penalised problem after another, each from the solution before; and the rank on the way."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from rankwolf.api.settings import check_scale
from rankwolf.api.warm import make_start
from rankwolf.data import Source
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import RankwolfWarning
from rankwolf.ground.deadline import Deadline
from rankwolf.problem import Penalized
from rankwolf.result import Decomposition, Status
from rankwolf.run.loop import solve
from rankwolf.run.progress import Callback, Stopping
from rankwolf.solvers import Solver
from rankwolf.solvers.base import Start
from rankwolf.weights.descent import noise_weights
from rankwolf.weights.paper import paper_weights

# The default grid: from this δ down by this factor, to this share of the δ that the noise asks for.
FIRST_DELTA, GRID_FACTOR, BELOW_NOISE, LAST_DELTA = 0.1, 2.0, 0.25, 1e-4
# A rank that was asked for is looked for down to this share of the grid's last δ, far below the noise.
FURTHER_DOWN = 1.0 / 64.0
# The relative gap to which places are solved on the way to a rank: what follows is a refit.
RANK_TOL = 1e-2


def default_grid(source: Source, rng: np.random.Generator, deadline: Deadline) -> Array:
    """From 0.1 by halves to a quarter of the noise's δ; to 1e-4 where the noise cannot be measured."""
    try:
        last = BELOW_NOISE * noise_delta(source, rng, deadline)
    except ValueError:  # a sparse matrix with few entries
        last = LAST_DELTA
    count = 1 + max(4, int(np.ceil(np.log(FIRST_DELTA / max(last, 1e-9)) / np.log(GRID_FACTOR))))
    return FIRST_DELTA / GRID_FACTOR ** np.arange(count)


def noise_delta(source: Source, rng: np.random.Generator, deadline: Deadline | None = None) -> float:
    """The δ whose two weights are nearest to those of the noise."""
    unit, wanted = paper_weights(source, 1.0), noise_weights(source, rng, deadline or Deadline(None))
    return float(((wanted[0] / unit[0]) * (wanted[1] / unit[1])) ** 0.5)


def walk(
    source: Source,
    deltas: Array,
    solver: Solver[Any, Any],
    rule: Stopping,
    rng: np.random.Generator,
    deadline: Deadline,
    callback: Callback | None = None,
) -> Iterator[tuple[float, Decomposition, Start]]:
    """(δ, fit, where the next begins) along falling ``deltas``.

    Each goes on from the one before where the solver can begin anywhere. ``fit.passes`` counts those of the whole walk.
    """
    start, fit = None, None
    for delta in deltas.tolist():
        if fit is not None and deadline.passed:
            return
        problem = Penalized(*paper_weights(source, delta))
        check_scale(problem, source.summary.norm, where="path")
        fit = solve(problem, source, solver, rule, callback, rng, None, deadline, start)
        found = make_start(fit, source, problem, rng)
        start = found if solver.takes_start and fit.low_rank.rank else None
        yield delta, fit, found


def at_rank(
    source: Source,
    rank: int,
    solver: Solver[Any, Any],
    rule: Stopping,
    rng: np.random.Generator,
    deadline: Deadline,
    callback: Callback | None = None,
) -> Decomposition:
    """L of this rank: the last place on the path that has it, refitted without shrinkage.

    The path is walked down to where the noise is, and further while the rank is still too small. It ends at the first
    place with a higher rank. Where no place has the rank, because it jumps, the first place beyond gives its ``rank``
    leading directions. The problem with a given rank is not convex: this is a local answer. A RankwolfWarning where
    the data has fewer directions.
    """
    found: Decomposition | None = None
    rule = replace(rule, kind="gap", tol=RANK_TOL)
    last = float(default_grid(source, rng, deadline)[-1])
    levels = 1 + int(np.ceil(np.log(FIRST_DELTA / (FURTHER_DOWN * last)) / np.log(GRID_FACTOR)))
    deltas = FIRST_DELTA / GRID_FACTOR ** np.arange(levels)
    for delta, fit, _ in walk(source, deltas, solver, rule, rng, deadline, callback):
        if fit.low_rank.rank > rank and found is not None and found.low_rank.rank == rank:
            break
        found = fit
        in_the_noise = fit.low_rank.rank == rank and delta <= last
        if fit.low_rank.rank > rank or in_the_noise or fit.status is Status.CALLBACK:
            break
    assert found is not None
    enough = found.low_rank.rank >= rank
    refitted = replace(found, low_rank=found.low_rank.first(rank)).refit(keep_rank=enough)
    if not enough:
        warnings.warn(
            f"The low-rank part has rank {refitted.low_rank.rank} where rank={rank} was asked for: there are no more "
            "directions in the data.",
            RankwolfWarning,
            stacklevel=4,
        )
    return refitted
