"""``select_delta``: choosing δ by how well L predicts entries that were hidden from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwolf.api.path import check_grid
from rankwolf.api.settings import choose_solver
from rankwolf.api.walk import noise_delta, walk
from rankwolf.data.open import check_source, open_source
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import (
    BadParameterError,
    bad,
    check_choice,
    check_count,
    check_number,
    check_rng,
    check_threads,
)
from rankwolf.ground.deadline import Deadline
from rankwolf.ground.low_rank import LowRank
from rankwolf.plots import new_axes
from rankwolf.problem import Penalized
from rankwolf.run.loop import Runner
from rankwolf.run.progress import Stopping
from rankwolf.solvers import Solver

GRID_STEPS = 9
GRID_REACH = 8.0


@dataclass(frozen=True)
class DeltaSearch:
    """The outcome of :func:`select_delta`: one number for each δ and fold, and the δ with the smallest mean error.

    ``errors`` are mean absolute errors on hidden entries, shape (number of δ, folds); ``ranks`` and ``sparse_shares``
    are means over the folds of rank(L) and of the share of the observed entries that S explains. A few numbers for each
    δ: no decomposition is kept.

    >>> import numpy as np, rankwolf as rw
    >>> rng = np.random.default_rng(0)
    >>> X = np.outer(rng.standard_normal(60), rng.standard_normal(40)) + 0.1 * rng.standard_normal((60, 40))
    >>> search = rw.select_delta(X, deltas=[0.01, 0.1], folds=2, rng=0)
    >>> search.errors.shape, search.delta <= search.simplest_delta
    ((2, 2), True)
    """

    deltas: Array
    errors: Array
    ranks: Array
    sparse_shares: Array
    passes: int = 0

    @property
    def delta(self) -> float:
        """The δ with the smallest mean error."""
        return float(self.deltas[int(np.argmin(self.errors.mean(axis=1)))])

    @property
    def simplest_delta(self) -> float:
        """The largest δ whose mean error is within one standard error of the smallest: a lower rank, nearly as good."""
        mean, best = self.errors.mean(axis=1), int(np.argmin(self.errors.mean(axis=1)))
        slack = self.errors[best].std() / max(1, self.errors.shape[1] - 1) ** 0.5
        return float(np.max(self.deltas[mean <= mean[best] + slack]))

    def __repr__(self) -> str:
        lines = ["       δ       error     ± folds     rank   share of S"]
        for row in zip(self.deltas, self.errors, self.ranks, self.sparse_shares, strict=True):
            delta, errors, rank, share = row
            mark = "  ←" if delta == self.delta else ""
            lines.append(
                f"{delta:>9.3g} {errors.mean():>11.5g} {errors.std():>11.2g} {rank:>8.1f} {share:>11.1%}{mark}"
            )
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Error against δ, with the rank on a second axis; needs matplotlib. Returns the axes."""
        if ax is None:
            ax = new_axes()
        mean, spread = self.errors.mean(axis=1), self.errors.std(axis=1)
        ax.errorbar(self.deltas, mean, yerr=spread, marker="o", capsize=3, label="error on hidden entries")
        ax.axvline(self.delta, color="tab:red", linestyle="--", label=f"δ = {self.delta:.3g}")
        if self.simplest_delta != self.delta:
            label = f"δ = {self.simplest_delta:.3g}, much the same"
            ax.axvline(self.simplest_delta, color="tab:red", linestyle=":", label=label)
        ax.set(xscale="log", xlabel="δ", ylabel="mean absolute error on hidden entries")
        ranks = ax.twinx()
        ranks.plot(self.deltas, self.ranks, color="tab:gray", marker=".", label="rank of L")
        ranks.set_ylabel("rank of L")
        handles = [*ax.get_legend_handles_labels()[0], *ranks.get_legend_handles_labels()[0]]
        ax.legend(handles=handles, loc="best")
        return ax


def select_delta(
    X: Any,
    *,
    observed: Any = None,
    implicit: str = "missing",
    columns: Any = "all",
    deltas: Sequence[float] | None = None,
    folds: int = 3,
    hidden: float = 0.1,
    tol: float = 1e-2,
    method: str | Solver[Any, Any] = "auto",
    max_iter: int = 1000,
    rng: Any = None,
    n_threads: int | None = None,
) -> DeltaSearch:
    """Cross-validate δ: hide entries, decompose the rest, compare L with what was hidden.

    Parameters
    ----------
    X, observed, implicit, columns
        As for :func:`rankwolf.decompose`; X is read into memory as a dense array.
    deltas : sequence of float, optional
        Default: nine values from an eighth to eight times the δ that ``delta="auto"`` amounts to.
    folds, hidden : int, float
        How often entries are hidden, and which share of the observed ones each time.
    tol, method, max_iter : float, str or Solver, int
        As for :func:`rankwolf.path`: each δ is solved to that certified gap, from the solution of the larger one.
    rng, n_threads
        As for ``decompose``. The same entries are hidden for every δ.

    Returns
    -------
    DeltaSearch
        ``.delta`` is the best; ``print`` shows a table, ``.plot()`` draws it.

    The error is the mean absolute one: a hidden outlier adds about the same to every δ. Cost: a path for each fold,
    three to six passes a δ, and a mask of the size of X.

    Examples
    --------
    >>> import numpy as np, rankwolf as rw
    >>> rng = np.random.default_rng(0)
    >>> X = np.outer(rng.standard_normal(60), rng.standard_normal(40)) + 0.1 * rng.standard_normal((60, 40))
    >>> search = rw.select_delta(X, deltas=[0.02, 0.2, 2.0], rng=0)
    >>> search.delta
    0.02
    """
    folds = check_count("folds", folds, "select_delta")
    hidden = check_number("hidden", hidden, where="select_delta")
    if hidden >= 1.0:
        raise bad("hidden", "below 1", repr(hidden), "select_delta")
    check_choice("implicit", implicit, ("missing", "zeros"), "select_delta")
    generator = check_rng(rng, "select_delta")
    threads = check_threads(n_threads, "select_delta")
    stopping = Stopping(
        tol=check_number("tol", tol, where="select_delta"),
        max_iter=check_count("max_iter", max_iter, "select_delta"),
    )
    grid = None if deltas is None else check_grid(deltas, "select_delta")
    source = open_source(X, observed, threads, implicit, where="select_delta", columns=columns)
    check_source(source, "select_delta")
    if grid is None:
        try:
            middle = noise_delta(source, generator)
        except BadParameterError:
            remedy = "Even its fullest rows and columns hold too few entries to measure the noise."
            raise bad("deltas", "given for this matrix", "None", "select_delta", remedy) from None
        grid = np.geomspace(middle * GRID_REACH, middle / GRID_REACH, GRID_STEPS)
    data = source.read_user_rows(0, source.user_shape[0])
    seen = ~np.isnan(data)
    errors, ranks, shares = np.zeros((grid.size, folds)), np.zeros(grid.size), np.zeros(grid.size)
    passes = 0
    for fold in range(folds):
        places = _choose(seen, hidden, generator)
        shown = seen.copy()
        shown[places] = False
        part = check_source(open_source(data, shown, threads, where="select_delta"), "select_delta")
        solver = choose_solver(method, Penalized, part.kind, "select_delta")
        seed = np.random.default_rng(int(generator.integers(2**31)))
        runner = Runner(solver, stopping, seed, Deadline(None))
        for i, (_, fit, _) in enumerate(walk(part, grid, runner, "select_delta")):
            misses = data[places] - entries(fit.low_rank, *places)
            errors[i, fold] = float(np.mean(np.abs(misses), dtype=np.float64))
            ranks[i] += fit.low_rank.rank / folds
            shares[i] += fit.sparse.nonzeros / np.count_nonzero(shown) / folds
        passes += part.passes
    return DeltaSearch(grid[::-1], errors[::-1], ranks[::-1], shares[::-1], passes)


def _choose(seen: Array, share: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """(rows, columns) of the entries to hide, drawn from those ``seen``: at least one, and at least one stays."""
    places = np.flatnonzero(seen)
    count = min(max(1, round(share * places.size)), places.size - 1)
    if count < 1:
        raise bad("X", "observed in at least two entries", "one", "select_delta")
    return np.divmod(rng.choice(places, count, replace=False), seen.shape[1])


def entries(low_rank: LowRank, rows: Array, columns: Array) -> Array:
    """L at the places (rows[k], columns[k]); r multiplications for each."""
    scaled = np.asarray(low_rank.u) * low_rank.s.astype(low_rank.dtype)
    vt = np.ascontiguousarray(np.asarray(low_rank.vt).T)
    result = np.empty(rows.size, low_rank.dtype)
    for first in range(0, rows.size, 2**18):
        part = slice(first, first + 2**18)
        result[part] = np.einsum("ij,ij->i", scaled[rows[part]], vt[columns[part]])
    return result
