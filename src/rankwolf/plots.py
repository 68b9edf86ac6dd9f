"""Pictures of results: one function for each question, for ``fit.plot()``, ``path.plot()`` and the documents.

Each draws on the axes that it is given, or on a new figure, and returns the axes. matplotlib is imported when a picture
is asked for (extra ``report``). Nothing is computed here but what a picture shows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad
from rankwolf.ground.extras import needed
from rankwolf.ground.table_frame import Frame

if TYPE_CHECKING:
    from collections.abc import Sequence

# Rows and columns of a heat map at most; of larger matrices, evenly spaced ones are shown.
MOST_LINES = 400


def new_axes(width: float = 6.4, height: float = 4.0) -> Any:
    """Axes of a new figure; an ImportError that names the extra where matplotlib is missing."""
    plt = needed("matplotlib.pyplot")
    return plt.figure(figsize=(width, height), layout="constrained").subplots()


def heat_map(part: Any, ax: Any = None, *, title: str = "", signed: bool = False) -> Any:
    """A matrix as a picture, the moduli of a complex one; at most 400 × 400 of its entries, evenly spaced.

    ``signed``: colours are symmetric about 0. Of L and S, at most 400 rows are computed.
    """
    ax = new_axes() if ax is None else ax
    rows, columns = (np.unique(np.linspace(0, side - 1, MOST_LINES).astype(int)) for side in part.shape)
    shown = np.vstack([np.abs(part[int(row)]) if _is_complex(part) else part[int(row)] for row in rows])
    shown = np.asarray(shown, np.float64)[:, columns]
    if signed:
        reach = float(np.max(np.abs(shown), initial=0.0)) or 1.0
        options: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -reach, "vmax": reach}
    else:
        options = {"cmap": "viridis"}
    # The axes count the rows and columns of the matrix, not only those that are shown.
    place = (-0.5, part.shape[1] - 0.5, part.shape[0] - 0.5, -0.5)
    image = ax.imshow(shown, aspect="auto", interpolation="nearest", extent=place, **options)
    ax.set(title=title, xlabel="column", ylabel="row")
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    return ax


def _is_complex(part: Any) -> bool:
    return bool(np.iscomplexobj(np.empty(0, part.dtype)))


def singular_values(values: Array, ax: Any = None, *, title: str = "singular values of L") -> Any:
    """The singular values on a logarithmic scale."""
    ax = new_axes() if ax is None else ax
    if values.size:
        ax.semilogy(np.arange(1, values.size + 1), values, "o-", markersize=3)
    else:
        ax.text(0.5, 0.5, "L = 0", ha="center", va="center", transform=ax.transAxes)
    ax.set(title=title, xlabel="number")
    ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    return ax


def convergence(history: Sequence[Any], ax: Any = None, *, final_gap: float | None = None) -> Any:
    """The relative gap of each record against passes over the data; ``final_gap``, the proved one, is a point apart."""
    ax = new_axes() if ax is None else ax
    known = [
        (r.passes, r.relative_gap) for r in history if np.isfinite(r.relative_gap) and r.relative_gap > 0.0
    ]
    if known:
        ax.semilogy(*zip(*known, strict=True), "o-", markersize=3, label="while solving")
    if final_gap and history:
        ax.semilogy([history[-1].passes], [final_gap], "s", color="tab:red", label="proved at the end")
    ax.set(title="convergence", xlabel="passes over the data", ylabel="relative gap")
    if known or final_gap:
        ax.legend()
    return ax


PANELS = ("low_rank", "sparse", "singular_values", "convergence")


def decomposition(fit: Any, panel: str | None = None, ax: Any = None) -> Any:
    """A figure of the four ``PANELS``, or one of them on ``ax``."""
    if panel is None:
        if ax is not None:
            raise bad(
                "ax", "given with one panel", "axes for four panels", "plot", "Say which: panel='low_rank'."
            )
        figure = new_axes(10.0, 7.0).figure
        figure.clear()
        for name, place in zip(PANELS, figure.subplots(2, 2).ravel(), strict=True):
            decomposition(fit, name, place)
        figure._ipython_display_ = partial(_show_once, figure)
        return figure
    if panel not in PANELS:
        raise bad("panel", "one of " + ", ".join(map(repr, PANELS)), repr(panel), "plot")
    if panel == "singular_values":
        return singular_values(fit.low_rank.s, ax)
    if panel == "convergence":
        return convergence(fit.history, ax, final_gap=fit.relative_gap)
    part = getattr(fit, panel)
    title = "L, the low-rank part" if panel == "low_rank" else "S, the sparse part"
    return heat_map(part, ax, title=title, signed=panel == "sparse" and not _is_complex(part))


def _show_once(figure: Any) -> None:
    """Show a figure in a notebook, once.

    pyplot's inline backend shows every open figure at the end of a cell. A figure that the cell also returns would be
    shown twice, so it is closed first. Windows of other backends stay open.
    """
    plt = needed("matplotlib.pyplot")
    del figure._ipython_display_
    if "inline" in plt.get_backend():
        plt.close(figure)
    needed("IPython.display").display(figure)


def outliers(cells: Array, ax: Any = None, *, threshold: float, frame: Frame | None = None) -> Any:
    """Scores of cells in standard deviations, as :meth:`rankwolf.RobustPCA.score_cells` gives them.

    Missing cells are gray. Of more than 400 rows or columns, those with the most extreme cells are shown, in order.
    """
    ax = new_axes() if ax is None else ax
    rows, columns = (_most_extreme(cells, axis) for axis in (0, 1))
    reach = max(4.0 * threshold, 1.0)
    ax.set_facecolor("0.8")
    shown = cells[np.ix_(rows, columns)]
    image = ax.imshow(shown, aspect="auto", interpolation="nearest", cmap="RdBu_r", vmin=-reach, vmax=reach)
    kept = "" if shown.shape == cells.shape else f"; the {rows.size} × {columns.size} most outlying lines"
    ax.set(title=f"Cells in standard deviations of the noise: {_share(cells, threshold)}{kept}", ylabel="row")
    ax.title.set_size("medium")
    _name_ticks(ax.set_yticks, rows, None if frame is None else frame.names(0), most=20)
    _name_ticks(ax.set_xticks, columns, None if frame is None else frame.names(1), most=40, rotation=90)
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    return ax


def _most_extreme(cells: Array, axis: int) -> Array:
    """The numbers, ascending, of the at most 400 rows (axis 0) or columns (axis 1) with the largest moduli of cells."""
    peaks = np.max(np.nan_to_num(np.abs(cells)), axis=1 - axis, initial=0.0)
    return np.sort(np.argsort(peaks, kind="stable")[::-1][:MOST_LINES])


def _name_ticks(set_ticks: Any, numbers: Array, names: Any, most: int, **options: Any) -> None:
    """Label at most ``most`` lines, evenly spaced, with their names, or with their numbers where there are no names."""
    places = np.unique(np.linspace(0, numbers.size - 1, min(most, numbers.size)).astype(int))
    words = [
        str(numbers[place] if names is None else names[int(numbers[place])]).removesuffix(" 00:00:00")[:24]
        for place in places
    ]
    set_ticks(places, words, **(options if names is not None else {}))


def _share(cells: Array, threshold: float) -> str:
    seen = np.isfinite(cells)
    count = int(np.count_nonzero(np.abs(cells[seen]) > threshold))
    return f"{count:,} beyond {threshold:.3g}"


def path(found: Any, ax: Any = None) -> Any:
    """Rank against δ on the left axis; the relative residual and the share of S on the right one."""
    ax = new_axes() if ax is None else ax
    deltas = found.deltas
    ax.plot(deltas, found.ranks, "o-", color="tab:blue", markersize=4, label="rank of L")
    ax.set(xscale="log", xlabel="δ", ylabel="rank of L", title="the path")
    ax.invert_xaxis()
    ax.yaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    shares = ax.twinx()
    residuals = [point.relative_residual for point in found.points]
    in_sparse = [point.share for point in found.points]
    shares.plot(deltas, residuals, ".--", color="tab:gray", label="residual, share of ‖M‖")
    shares.plot(deltas, in_sparse, ".:", color="tab:red", label="entries in S, share")
    shares.set_ylim(0.0, 1.0)
    handles = [*ax.get_legend_handles_labels()[0], *shares.get_legend_handles_labels()[0]]
    ax.legend(handles=handles, loc="best")
    return ax
