"""The page of ``rankwolf decompose``: where the outliers are, singular values, and how the run went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rankwolf import __version__
from rankwolf.ground.plural import number_of
from rankwolf.report.outliers import Cell, Outliers, heat_map
from rankwolf.report.page import Fact, as_rows, duration, percent, render
from rankwolf.report.solving import solve_charts, solve_facts

if TYPE_CHECKING:
    from rankwolf.result.decomposition import Decomposition

HIDDEN = ("warnings", "notes", "treated_as_data", "seconds", "rankwolf", "status_says", "centre", "scale")


def matrix_page(
    summary: Mapping[str, Any],
    fit: Decomposition,
    parts: Decomposition,
    outliers: Outliers,
    cells: Sequence[Cell],
    command: str,
) -> str:
    """The whole page as HTML: how the convex ``fit`` was found, and the ``parts`` (it, or its refit) that were written.

    ``cells`` are the largest outliers, ``command`` is the command line that repeats the run.
    """
    m, n = fit.low_rank.shape
    seconds = summary["seconds"]
    split = ", ".join(f"{name} {duration(value)}" for name, value in seconds.items() if name != "total")
    missing = 1.0 - summary["observed_fraction"]
    return render(
        "matrix.html",
        title=str(summary["input"]).rstrip("/").split("/")[-1],
        subtitle=_size(m, n, missing),
        facts=[*solve_facts(fit, parts), Fact("whole run", duration(seconds["total"]), split)],
        warnings=summary["warnings"],
        notes=[*summary["notes"], *_keys(summary["treated_as_data"])],
        heat_map=heat_map(outliers),
        grouped=outliers.map().shape != (m, n),
        limit=f"{fit.lambdas[1]:.4g}" if fit.lambdas else "",
        noise="" if parts.noise_scale is None else f"{parts.noise_scale:.4g}",
        standardized=summary["standardized"],
        lists=[("row", outliers.rows()), ("column", outliers.columns())],
        cells=cells,
        percent=percent,
        charts=solve_charts(fit, parts),
        command=command,
        settings=as_rows(
            {name.replace("_", " "): value for name, value in summary.items() if name not in HIDDEN}
        ),
        version=__version__,
    )


def _size(rows: int, columns: int, missing: float) -> str:
    size = f"{number_of(rows, 'row')} and {number_of(columns, 'column')}"
    return f"{size}, {percent(missing)} missing" if missing > 0.0 else size


def _keys(names: Sequence[str]) -> list[str]:
    return [f"Treated as data, though they look like keys of the rows: {', '.join(names)}."] if names else []
