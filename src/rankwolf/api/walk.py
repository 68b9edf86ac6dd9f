"""Down the path: penalised problems at falling δ, one after another, each started from the solution before it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rankwolf.api.warm import make_start
from rankwolf.data import Source
from rankwolf.ground.arrays import Array
from rankwolf.ground.deadline import Deadline
from rankwolf.problem import Penalized
from rankwolf.result import Decomposition
from rankwolf.run.loop import Runner
from rankwolf.solvers.base import Start
from rankwolf.weights.descent import noise_weights
from rankwolf.weights.paper import paper_weights

# The default grid: FIRST_DELTA, divided by GRID_FACTOR again and again, down to BELOW_NOISE times the δ that the noise
# asks for, or to LAST_DELTA where the noise cannot be measured.
FIRST_DELTA, GRID_FACTOR, BELOW_NOISE, LAST_DELTA = 0.1, 2.0, 0.25, 1e-4


def default_grid(source: Source, rng: np.random.Generator, deadline: Deadline) -> Array:
    """0.1, 0.05, … down to a quarter of :func:`noise_delta`, or to 1e-4 where it cannot be measured; at least five."""
    try:
        last = BELOW_NOISE * noise_delta(source, rng, deadline)
    except ValueError:  # a sparse matrix with few entries
        last = LAST_DELTA
    count = 1 + max(4, int(np.ceil(np.log(FIRST_DELTA / max(last, 1e-9)) / np.log(GRID_FACTOR))))
    return FIRST_DELTA / GRID_FACTOR ** np.arange(count)


def noise_delta(source: Source, rng: np.random.Generator, deadline: Deadline | None = None) -> float:
    """The δ whose weights by the paper's rule are nearest to those of the noise: the geometric mean of both ratios."""
    unit, wanted = paper_weights(source, 1.0), noise_weights(source, rng, deadline or Deadline(None))
    return float(((wanted[0] / unit[0]) * (wanted[1] / unit[1])) ** 0.5)


def walk(
    source: Source, deltas: Array, runner: Runner, where: str
) -> Iterator[tuple[float, Decomposition, Start]]:
    """Yields (δ, fit, the start of the next run) along falling ``deltas``.

    Each run starts from the solution before it, if the solver takes a start. ``fit.passes`` counts the passes of the
    whole walk so far. The walk ends early when the time is up, but not before its first fit. Errors name the function
    ``where``.
    """
    start, fit = None, None
    for delta in deltas.tolist():
        if fit is not None and runner.deadline.passed:
            return
        problem = Penalized(*paper_weights(source, delta))
        problem.check_scale(source.summary.norm, where=where)
        fit = runner.solve(problem, source, start)
        found = make_start(fit, source, problem, runner)
        start = found if runner.solver.takes_start and fit.low_rank.rank else None
        yield delta, fit, found
