"""The facts and charts of a decomposition that the pages of matrices and of videos share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankwolf.ground.plural import number_of
from rankwolf.report import figures
from rankwolf.report.page import Fact, duration, percent

if TYPE_CHECKING:
    from rankwolf.result.decomposition import Decomposition


def solve_facts(fit: Decomposition, parts: Decomposition | None = None) -> list[Fact]:
    """The facts at the top of a page: rank and sparsity (of ``parts``, the refit, if any), certified gap, time."""
    m, n = fit.low_rank.shape
    parts = parts or fit
    outliers = parts.noise_scale is not None and parts is not fit
    proof = "" if fit.gap_is_proved else ", by a converged Lanczos process"
    refit = f", {parts.passes - fit.passes} more for the refit" if outliers else ""
    return [
        Fact("rank of the low-rank part", f"{parts.low_rank.rank:,}", f"of at most {min(m, n):,}"),
        Fact(
            "outliers" if outliers else "sparse part",
            percent(parts.sparse.nonzeros / max(1, m * n)),
            number_of(parts.sparse.nonzeros, "entry", "entries") + ("" if outliers else " beyond λ_S"),
        ),
        Fact("certified gap", percent(fit.relative_gap), f"to the optimum{proof}"),
        Fact(
            "solved in",
            duration(fit.seconds),
            f"{number_of(fit.passes, 'pass', 'passes')} over the data{refit}",
        ),
    ]


def solve_charts(fit: Decomposition, parts: Decomposition | None = None) -> list[dict[str, Any]]:
    """Two charts with titles and explanations: singular values (of the refit, if any); objective and gap over time."""
    history = fit.history
    # The last proof comes after the last iteration, so its numbers are added as one more point.
    seconds = [*(record.seconds for record in history), fit.seconds]
    gaps = [*(record.relative_gap for record in history), fit.relative_gap]
    objectives = [*(record.objective for record in history), fit.objective]
    values = [float(s) for s in (parts or fit).low_rank.s]
    numbers = range(1, len(values) + 1)
    dots = len(history) <= 60
    best = min(objectives)
    above = [objective / best - 1.0 if best else 0.0 for objective in objectives]
    return [
        {
            "title": "Singular values of L",
            "chart": figures.line_chart(
                [figures.Series("singular value", numbers, values, dots=len(values) <= 100)],
                "number",
                "singular value",
                log_y=True,
            ),
            "why": "How many directions the low-rank part needs, and how strong each is.",
        },
        {
            "title": "Convergence",
            "chart": figures.line_chart(
                [
                    figures.Series("certified gap", seconds, gaps, dots=dots),
                    figures.Series("above the smallest objective", seconds, above, dots=dots),
                ],
                "seconds",
                "relative to the objective",
                log_y=True,
            ),
            "why": "The certified gap bounds the distance from the best possible; the true distance is smaller.",
        },
    ]


def status_warning(fit: Decomposition | None) -> list[str]:
    """A warning, in a list, if the run did not reach what was asked for; else an empty list."""
    if fit is None or fit.status.converged:
        return []
    return [f"{fit.status.value} The certified gap is {percent(fit.relative_gap)}."]
