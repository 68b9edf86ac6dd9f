"""Down the path: one penalised problem after another, each from the solution before."""

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

# The default grid: from this δ down by this factor, to this share of the δ that the noise asks for.
FIRST_DELTA, GRID_FACTOR, BELOW_NOISE, LAST_DELTA = 0.1, 2.0, 0.25, 1e-4


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


def walk(source: Source, deltas: Array, runner: Runner) -> Iterator[tuple[float, Decomposition, Start]]:
    """Yields (δ, fit, the start of the next run) along falling ``deltas``.

    Each run starts from the solution before it, if the solver can start anywhere. ``fit.passes`` counts the passes of
    the whole walk so far.
    """
    start, fit = None, None
    for delta in deltas.tolist():
        if fit is not None and runner.deadline.passed:
            return
        problem = Penalized(*paper_weights(source, delta))
        problem.check_scale(source.summary.norm, where="path")
        fit = runner.solve(problem, source, start)
        found = make_start(fit, source, problem, runner)
        start = found if runner.solver.takes_start and fit.low_rank.rank else None
        yield delta, fit, found
