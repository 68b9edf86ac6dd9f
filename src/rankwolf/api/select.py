"""Choosing δ by what the model says about entries that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwolf.api.decompose import decompose_quietly
from rankwolf.data import Source
from rankwolf.data.open import check_source, open_source
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad, check_count, check_number, check_rng, check_threads
from rankwolf.ground.low_rank import LowRank
from rankwolf.weights.descent import noise_weights
from rankwolf.weights.paper import paper_weights

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

    @property
    def delta(self) -> float:
        """The δ with the smallest mean error."""
        return float(self.deltas[int(np.argmin(self.errors.mean(axis=1)))])

    @property
    def simplest_delta(self) -> float:
        """The largest δ whose mean error is within one standard error of the smallest: less rank, much the same."""
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
            import matplotlib.pyplot as plt

            ax = plt.figure(figsize=(6.4, 4.0), layout="constrained").subplots()
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
    deltas: Sequence[float] | None = None,
    folds: int = 3,
    hidden: float = 0.1,
    rng: Any = None,
    n_threads: int | None = None,
    **options: Any,
) -> DeltaSearch:
    """Cross-validate δ: hide entries, decompose the rest, compare L with what was hidden.

    Parameters
    ----------
    X, observed
        As for :func:`rankwolf.decompose`, in memory.
    deltas : sequence of float, optional
        Default: nine values from an eighth of what ``delta="auto"`` amounts to, to eight times as much.
    folds, hidden : int, float
        How often, and which share of the observed entries is hidden each time.
    rng, n_threads
        As for ``decompose``. The same entries are hidden for every δ.
    **options
        Passed on to ``decompose``: ``method``, ``tol``, ``max_iter``, ….

    Returns
    -------
    DeltaSearch
        ``.delta`` is the best; ``print`` shows a table, ``.plot()`` draws it.

    The error is the mean absolute one: a hidden outlier adds about the same to every δ. Cost: folds × deltas
    decompositions, and a mask of the size of X.

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
    generator = check_rng(rng, "select_delta")
    threads = check_threads(n_threads, "select_delta")
    source = check_source(open_source(X, observed, threads, where="select_delta"), "select_delta")
    if deltas is None:
        grid = _grid(source, generator)
    else:
        grid = np.array([check_number("deltas", delta, where="select_delta") for delta in deltas])
    data = source.read_user_rows(0, source.user_shape[0])
    seen = ~np.isnan(data)
    errors, ranks, shares = np.zeros((grid.size, folds)), np.zeros(grid.size), np.zeros(grid.size)
    for fold in range(folds):
        rows, columns = _choose(seen, hidden, generator)
        shown = seen.copy()
        shown[rows, columns] = False
        seed = int(generator.integers(2**31))
        for i, delta in enumerate(grid):
            fit = decompose_quietly(
                data, observed=shown, delta=float(delta), rng=seed, n_threads=n_threads, **options
            )
            misses = data[rows, columns] - entries(fit.low_rank, rows, columns)
            errors[i, fold] = float(np.mean(np.abs(misses), dtype=np.float64))
            ranks[i] += fit.low_rank.rank / folds
            shares[i] += fit.sparse.nonzeros / np.count_nonzero(shown) / folds
    return DeltaSearch(grid, errors, ranks, shares)


def _grid(source: Source, rng: np.random.Generator) -> Array:
    """Around the δ whose two weights are nearest to those of the noise."""
    unit, wanted = paper_weights(source, 1.0), noise_weights(source, rng)
    middle = ((wanted[0] / unit[0]) * (wanted[1] / unit[1])) ** 0.5
    return np.geomspace(middle / GRID_REACH, middle * GRID_REACH, GRID_STEPS)


def _choose(seen: Array, share: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Places of hidden entries: at least one, and at least one is left."""
    places = np.flatnonzero(seen)
    count = min(max(1, round(share * places.size)), places.size - 1)
    if count < 1:
        raise bad("X", "observed in at least two entries", "one", "select_delta")
    return np.divmod(rng.choice(places, count, replace=False), seen.shape[1])


def entries(low_rank: LowRank, rows: Array, columns: Array) -> Array:
    """L at single places, r multiplications each."""
    scaled = np.asarray(low_rank.u) * low_rank.s.astype(low_rank.dtype)
    vt = np.ascontiguousarray(np.asarray(low_rank.vt).T)
    result = np.empty(rows.size, low_rank.dtype)
    for first in range(0, rows.size, 2**18):
        part = slice(first, first + 2**18)
        result[part] = np.einsum("ij,ij->i", scaled[rows[part]], vt[columns[part]])
    return result
