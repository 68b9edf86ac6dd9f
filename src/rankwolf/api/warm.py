"""``start=``: an earlier result as the beginning of a new run, on the same matrix or on one with more rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankwolf.api.settings import choose_solver
from rankwolf.data import Source
from rankwolf.data.open import open_source
from rankwolf.data.source import BLOCK_ENTRIES
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad
from rankwolf.ground.low_rank import LowRank
from rankwolf.passes.coefficients import fit_rows
from rankwolf.problem import Penalized, Problem
from rankwolf.result import Decomposition
from rankwolf.result.residual import observed_entries, residual
from rankwolf.run.loop import Runner
from rankwolf.run.progress import Stopping
from rankwolf.solvers.base import Start
from rankwolf.weights.noise import LIMIT_IN_SIGMAS, spread

# The precision for new rows: they are fitted until a step is below this share of their length, and what the fit leaves
# is decomposed to this gap. Rough is enough, because the run goes on from there.
NEW_ROWS_TOL = 1e-2


def check_start(start: Any) -> None:
    """Refuse a ``start`` that is no result, before the data is looked at."""
    if start is not None and not isinstance(start, Decomposition | LowRank | Start):
        raise bad("start", "a result of decompose, or its low_rank", type(start).__name__)


def make_start(start: Any, source: Source, problem: Problem, runner: Runner) -> Start:
    """Both factors of the earlier L, with rows for the whole matrix, in the solver's orientation.

    Rows that the earlier matrix did not have are added by :class:`_Grown`. Cost: each new row is read once, the old
    ones are not read. ``runner`` is that of the run to come: its time limit holds here too.
    """
    if isinstance(start, Start):
        return start
    earlier = (start.low_rank if isinstance(start, Decomposition) else start).on_host()
    (m, n), (before, columns) = source.user_shape, earlier.shape
    if columns != n or before > m:
        raise bad(
            "start",
            f"of a matrix with {n} columns and at most {m} rows, like X",
            f"a result of {before} × {columns}",
            remedy="New rows go below the old ones.",
        )
    if np.iscomplexobj(np.empty(0, earlier.dtype)):
        raise bad("start", "real, like X", "a complex result")
    weights = start.lambdas if isinstance(start, Decomposition) else None
    prices = problem if isinstance(problem, Penalized) else Penalized(*weights) if weights else None
    left, right = earlier.factors()
    grown = _Grown(left, right, prices)
    for rows in _blocks(source, before):
        grown.add(source.read_user(rows), source.n_threads, runner)
    left, right = (grown.right, grown.left) if source.transposed else (grown.left, grown.right)
    return Start(
        np.ascontiguousarray(right, source.dtype),
        weights[0] if weights else None,
        source.spread(np.ascontiguousarray(left, source.dtype)),
    )


def _blocks(source: Source, first: int) -> Iterator[slice]:
    """The user's rows from ``first`` on, as slices of about BLOCK_ENTRIES entries."""
    m, n = source.user_shape
    step = max(1, BLOCK_ENTRIES // n)
    return (slice(start, min(start + step, m)) for start in range(first, m, step))


@dataclass
class _Grown:
    """L = left·rightᵀ, to which rows are added.

    New rows are fitted by ``right``, robustly. What the fit leaves is then decomposed by itself, roughly and with the
    same weights, and its directions are added to ``right``: a light that is switched on is a direction that no earlier
    row had, and a run that begins without it would have to find it among entries that are nearly all clipped. Without
    ``weights`` no directions are added.
    """

    left: Array
    right: Array
    weights: Penalized | None

    def add(self, rows: Any, n_threads: int, runner: Runner) -> None:
        """Add ``rows``, dense with NaN for missing entries, or a CSR array, to ``left``; and new directions to both."""
        if self.weights is None:
            self.left = np.vstack([self.left, self._fit_robustly(rows)])
            return
        lambda_L, lambda_S = self.weights.pair
        fitted = fit_rows(rows, self.right, lambda_L, lambda_S, tol=NEW_ROWS_TOL)
        rest = open_source(residual(rows, fitted, self.right), None, n_threads)
        known = self.left.shape[0]
        self.left = np.vstack([self.left, fitted])
        if rest.summary.observed == 0 or rest.summary.norm <= lambda_L or runner.deadline.passed:
            return
        solver = choose_solver("auto", Penalized, rest.kind)
        rough = replace(runner, solver=solver, stopping=Stopping(tol=NEW_ROWS_TOL), callback=None)
        extra = rough.solve(self.weights, rest).low_rank
        if extra.rank:
            new_left, new_right = extra.factors()
            self.left = np.hstack([self.left, np.vstack([np.zeros((known, extra.rank)), new_left])])
            self.right = np.hstack([self.right, new_right])

    def _fit_robustly(self, rows: Any) -> Array:
        """The coefficients of ``rows`` where no weights are known: least squares, then again with residuals clipped.

        They are clipped at 2σ, σ the spread of the residuals of the first fit.
        """
        left = fit_rows(rows, self.right, 0.0, np.inf, tol=NEW_ROWS_TOL)
        limit = LIMIT_IN_SIGMAS * spread(observed_entries(residual(rows, left, self.right)))
        if limit == 0.0:
            return left
        return fit_rows(rows, self.right, 0.0, limit, start=left, tol=NEW_ROWS_TOL)
