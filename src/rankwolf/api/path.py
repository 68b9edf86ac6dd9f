"""``path``: the decomposition at falling δ, until noise enters L; each point starts from the solution before it."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwolf import plots
from rankwolf.api.decompose import decompose
from rankwolf.api.settings import check_settings, choose_solver
from rankwolf.api.walk import default_grid, walk
from rankwolf.data import Source
from rankwolf.data.open import check_source, open_source
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad, check_choice, check_count, check_number, check_rng, check_size
from rankwolf.ground.deadline import Deadline
from rankwolf.ground.plural import number_of
from rankwolf.problem import Penalized
from rankwolf.result import Decomposition, Status
from rankwolf.run.loop import Runner
from rankwolf.solvers import Solver
from rankwolf.solvers.base import Start

# The numbers of a point in a table and in JSON.
COLUMNS = (
    "delta",
    "lambdas",
    "rank",
    "relative_residual",
    "nonzeros",
    "share",
    "nuclear_norm",
    "objective",
    "relative_gap",
    "status",
    "passes",
)


@dataclass(frozen=True)
class PathPoint:
    """The solution at one δ in numbers: the sizes of L and S, and the certified distance to the optimum.

    ``relative_residual`` is ‖P_Ω(L + S − M)‖_F/‖P_Ω M‖_F, ``share`` the share of the observed entries that is in S,
    ``passes`` the passes over the data that this point took. ``start`` holds V of L = U Vᵀ, for a run that goes on from
    here.

    >>> import numpy as np, rankwolf as rw
    >>> point = rw.path(np.outer(np.arange(1.0, 41.0), np.ones(35)), deltas=[0.1], rng=0).points[0]
    >>> point.delta, point.rank
    (0.1, 1)
    """

    delta: float
    lambdas: tuple[float, float]
    rank: int
    relative_residual: float
    nonzeros: int
    share: float
    nuclear_norm: float
    objective: float
    relative_gap: float
    status: Status
    passes: int
    start: Start = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """The numbers of the point by name, the status as its name; all but ``start``."""
        return {name: getattr(self, name) for name in COLUMNS} | {"status": self.status.name}


@dataclass(frozen=True)
class Path:
    """What :func:`path` gives: its points, the largest δ first.

    ``print`` shows a table, :meth:`plot` draws it, :meth:`to_frame` makes a pandas table of it, and :meth:`fit` solves
    at any δ to a tolerance. Memory: V of each point, r·min(m, n) numbers; the matrix itself is not copied.

    >>> import numpy as np, rankwolf as rw
    >>> found = rw.path(np.outer(np.arange(1.0, 41.0), np.ones(35)), deltas=[0.1, 0.05], rng=0)
    >>> found.deltas.tolist(), found.ranks.tolist()
    ([0.1, 0.05], [1, 1])
    """

    points: tuple[PathPoint, ...]
    source: Source = field(repr=False, compare=False)

    @property
    def deltas(self) -> Array:
        """The δ of the points, falling."""
        return np.array([point.delta for point in self.points])

    @property
    def ranks(self) -> Array:
        """rank(L) at each δ."""
        return np.array([point.rank for point in self.points])

    @property
    def passes(self) -> int:
        """The passes over the data of all points together."""
        return sum(point.passes for point in self.points)

    def nearest(self, delta: float) -> PathPoint:
        """The point with the smallest |log(δ/``delta``)|; of two that are equally near, the one with the larger δ."""
        number = check_number("delta", delta, where="Path.nearest")
        return min(self.points, key=lambda point: abs(np.log(point.delta / number)))

    def fit(self, delta: float, *, tol: float = 1e-3, **options: Any) -> Decomposition:
        """The decomposition at this δ, which may lie between points, to the gap ``tol``; starts from the nearest point.

        ``options`` are those of :func:`rankwolf.decompose`. Cost: a few passes, where a point is near.
        """
        number = check_number("delta", delta, where="Path.fit")
        start = self.nearest(number).start
        return decompose(self.source, delta=number, tol=tol, start=start, **options)

    def plot(self, ax: Any = None) -> Any:
        """Rank, residual and share of S against δ; needs matplotlib. Returns the axes."""
        return plots.path(self, ax)

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each point, δ as the index; needs pandas."""
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "A frame needs pandas. Install it with: pip install 'rankwolf[io]'", name="pandas"
            ) from error
        rows = [point.as_dict() for point in self.points]
        return pd.DataFrame(rows, columns=list(COLUMNS)).set_index("delta")

    def as_dict(self) -> dict[str, Any]:
        """``{"points": [...]}`` with the numbers of each point by name (:meth:`PathPoint.as_dict`), for JSON."""
        return {"points": [point.as_dict() for point in self.points]}

    def __repr__(self) -> str:
        m, n = self.source.user_shape
        head = f"Path of {m} × {n}: {number_of(len(self.points), 'point')}, {number_of(self.passes, 'pass', 'passes')}"
        return "\n".join(
            [head, "  " + "  ".join(_HEADINGS), *("  " + "  ".join(_cells(p)) for p in self.points)]
        )

    def _repr_html_(self) -> str:
        """The table of ``print`` in HTML, for notebooks."""
        head = "".join(f"<th>{html.escape(word.strip())}</th>" for word in _HEADINGS)
        rows = (
            "<tr>" + "".join(f"<td>{html.escape(cell.strip())}</td>" for cell in _cells(point)) + "</tr>"
            for point in self.points
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


_HEADINGS = ("       δ", "  rank", "residual", "   in S", "      ‖L‖_*", "    gap", "passes")


def _cells(point: PathPoint) -> tuple[str, ...]:
    return (
        f"{point.delta:>8.3g}",
        f"{point.rank:>6}",
        f"{point.relative_residual:>8.2%}",
        f"{point.share:>7.1%}",
        f"{point.nuclear_norm:>11.5g}",
        f"{point.relative_gap:>7.1e}",
        f"{point.passes:>6}",
    )


def path(
    X: Any,
    *,
    observed: Any = None,
    implicit: str = "missing",
    columns: Any = "all",
    deltas: Sequence[float] | None = None,
    tol: float = 1e-2,
    max_rank: int | None = None,
    method: str | Solver[Any, Any] = "auto",
    max_iter: int = 1000,
    max_seconds: float | None = None,
    rng: Any = None,
    n_threads: int | None = None,
    max_memory: int | str | None = None,
) -> Path:
    """How the decomposition changes with δ: rank, residual, ‖S‖₀ and ‖L‖_*, from L = 0 down to the noise.

    At each δ the penalised problem of :func:`rankwolf.decompose` is solved to a coarse certified gap, from the solution
    at the δ before. The rank grows along the way, and the whole path costs little more than its last point. A rank that
    stays the same over a wide range of δ is the structure; a rank that grows with every step is noise.

    Parameters
    ----------
    X, observed, implicit, columns, method, max_iter, rng, n_threads, max_memory
        As for ``decompose``; on the disk and on workers too.
    deltas : sequence of float, optional
        Default: 0.1, 0.05, 0.025, … down to a quarter of the δ that ``delta="auto"`` amounts to, at least five values.
    tol : float
        The certified relative gap at each point.
    max_rank : int, optional
        The path ends at the first point with a higher rank. Default: a third of min(m, n), where the matrix is larger
        than 30 on both sides: an L of higher rank says nothing about structure.
    max_seconds : float, optional
        For the whole path. When the time is up, the path ends with the points that it has, at least one.

    Returns
    -------
    Path
        The largest δ first.

    Cost: two to five passes a point. Memory: that of one run, and V of each point.

    Examples
    --------
    >>> import numpy as np, rankwolf as rw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((90, 3)) @ rng.standard_normal((3, 60)) + 0.01 * rng.standard_normal((90, 60))
    >>> found = rw.path(X, deltas=[0.1, 0.03, 0.01], rng=0)
    >>> found.ranks.tolist()
    [3, 3, 3]
    >>> found.fit(0.02).low_rank.rank
    3
    """
    settings = check_settings(
        "path",
        problem=None,
        lambdas=None,
        radii=None,
        noise=None,
        delta="auto",
        tol=tol,
        stop="gap",
        max_iter=max_iter,
        max_seconds=max_seconds,
        callback=None,
        n_threads=n_threads,
    )
    check_choice("implicit", implicit, ("missing", "zeros"), "path")
    grid = None if deltas is None else check_grid(deltas, "path")
    most = None if max_rank is None else check_count("max_rank", max_rank, "path")
    generator = check_rng(rng, "path")
    limit = None if max_memory is None else check_size("max_memory", max_memory, "path")
    source = open_source(X, observed, settings.threads, implicit, limit, "path", columns)
    solver = choose_solver(method, Penalized, source.kind, "path")
    check_source(source, "path")
    runner = Runner(solver, settings.stopping, generator, Deadline(settings.max_seconds))
    if grid is None:
        grid = default_grid(source, generator, runner.deadline)
    most = _default_rank(source.shape) if most is None else most
    points: list[PathPoint] = []
    for delta, fit, start in walk(source, grid, runner, "path"):
        done = sum(point.passes for point in points)
        points.append(_point(delta, fit, source, start, fit.passes - done))
        if fit.low_rank.rank > most:
            break
    return Path(tuple(points), source)


def check_grid(deltas: Any, where: str) -> Array:
    """``deltas`` as an array of positive numbers, each once, the largest first; a ValueError for anything else."""
    try:
        listed = list(deltas)
    except TypeError:
        raise bad("deltas", "a sequence of numbers", repr(deltas), where) from None
    if not listed:
        raise bad("deltas", "at least one number", "none", where)
    return np.unique([check_number("deltas", delta, where=where) for delta in listed])[::-1]


def _point(delta: float, fit: Decomposition, source: Source, start: Start, passes: int) -> PathPoint:
    assert fit.lambdas is not None
    summary = source.summary
    return PathPoint(
        delta=delta,
        lambdas=fit.lambdas,
        rank=fit.low_rank.rank,
        relative_residual=fit.residual / summary.norm if summary.norm > 0.0 else 0.0,
        nonzeros=fit.sparse.nonzeros,
        share=fit.sparse.nonzeros / summary.observed,
        nuclear_norm=fit.low_rank.nuclear_norm,
        objective=fit.objective,
        relative_gap=fit.relative_gap,
        status=fit.status,
        passes=passes,
        start=start.without_rows,
    )


def _default_rank(shape: tuple[int, int]) -> int:
    side = min(shape)
    return side // 3 if side > 30 else side
