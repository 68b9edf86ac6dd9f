"""What is odd about a result, and the remedy: sentences for warnings in Python and messages of the command."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import numpy as np

from rankwolf.ground.complaints import RankwolfWarning
from rankwolf.result.decomposition import Decomposition, Status
from rankwolf.weights.edge import fluctuation

# L of a matrix with a shorter side than this may well need more than half of the full rank.
DOUBTFUL_SIDE = 20
# With more than this share of the observed entries, S is not sparse.
MOSTLY = 0.6

# A misfit below this share of the squared norm of the data counts as zero.
EXACT = 1e-12
# Above this relative gap, the lower bound is practically 0 and says nothing.
NO_BOUND = 0.99


def doubts(fit: Decomposition) -> list[str]:
    """A list with a sentence or two for each thing that is odd about a result; empty where all is well."""
    return [*doubts_of_parts(fit), *_of_the_ending(fit)]


def doubts_of_parts(fit: Decomposition) -> list[str]:
    """The doubts about L and S, whatever ended the run."""
    if fit.noise is not None:
        return []  # S is then all that L leaves over, and full unless L is exact to the last digit
    rank, most = fit.low_rank.rank, min(fit.low_rank.shape)
    observed = fit.low_rank.shape[0] * fit.low_rank.shape[1]
    if fit.source is not None:
        if fit.source.summary.norm == 0.0:
            return []  # the data is zero, and so are both parts
        if fit.radii and fit.objective <= EXACT * 0.5 * fit.source.summary.norm**2:
            return [
                "The radii hold all of the data: L + S = X is within them, so many pairs are optimal, and which one "
                "this is means nothing. Give smaller radii."
            ]
        observed = fit.source.summary.observed
    given = "lambdas" if fit.lambdas else "radii"
    smaller, larger = ("a smaller", "a larger") if fit.lambdas else ("larger", "smaller")
    what = "delta" if fit.lambdas else given
    found = []
    if rank == 0:
        found.append(
            "The low-rank part is zero: no direction of the data stands out from what these weights take for noise. If "
            f"there should be one, give {smaller} {what}."
        )
    if most >= DOUBTFUL_SIDE and rank > most / 2:
        found.append(
            f"The low-rank part has rank {rank} of at most {most}, so most of it is noise: the weights are too small "
            f"for this data. Give {larger} {what}."
        )
    strong = longer_than_noise(fit)
    if strong < rank:
        found.append(
            f"The low-rank part has rank {rank}, of which at most {strong} directions stand out from the noise: the "
            "others are noise. Give a smaller rank."
        )
    if fit.sparse.nonzeros == 0 and fit.status is not Status.REFITTED:
        found.append(
            f"The sparse part is zero: no entry is further from the low-rank part than λ_S. If there are outliers, "
            f"give {smaller} {what}."
        )
    if fit.sparse.nonzeros > MOSTLY * observed:
        found.append(
            f"The sparse part has {fit.sparse.nonzeros / observed:.0%} of the entries: λ_S is below the noise. Give "
            f"{larger} {what}."
        )
    return found


def longer_than_noise(fit: Decomposition) -> int:
    """How many singular values of a refitted L are above σ(√m + √n)/√ρ, which noise alone reaches, and a margin.

    For a fit that is not refitted, all of them: λ_L has removed the others. So they are where the refit chose the rank.
    """
    if fit.status is not Status.REFITTED or fit.noise_scale is None or fit.source is None or fit.convex:
        return fit.low_rank.rank
    m, n = fit.low_rank.shape
    edge = fit.noise_scale * (m**0.5 + n**0.5) * fluctuation((m, n)) / fit.source.observed_fraction**0.5
    return int(np.count_nonzero(fit.low_rank.s > edge))


_REMEDIES = {
    Status.ITERATION_LIMIT: "Raise max_iter or tol.",
    Status.TIME_LIMIT: "Raise max_seconds or tol.",
    Status.NO_PROGRESS: "Raise tol.",
    Status.NOT_FINITE: "Divide the data by a constant.",
}


def _of_the_ending(fit: Decomposition) -> list[str]:
    remedy = _REMEDIES.get(fit.status)
    if remedy is None:
        return []
    gap = f"The certified gap is {fit.relative_gap:.2g}"
    if fit.relative_gap > NO_BOUND:
        gap += ": no lower bound above 0 was proved, so how far this pair is from the optimum is not known"
        if fit.method not in ("hybrid", "als"):
            gap += f". The method {fit.method!r} is slow to close it; 'auto' is not"
    return [f"{fit.status.value} {gap}. {remedy}"]


P = ParamSpec("P")
Call = Callable[P, Decomposition]


def warned(function: Call[P]) -> Call[P]:
    """The function, which now gives a :class:`RankwolfWarning` for each doubt about the result that it returns."""

    @wraps(function)
    def with_warnings(*args: P.args, **kwargs: P.kwargs) -> Decomposition:
        fit = function(*args, **kwargs)
        for doubt in doubts(fit):
            warnings.warn(doubt, RankwolfWarning, stacklevel=2)
        return fit

    return with_warnings


def quietly(function: Call[P]) -> Call[P]:
    """The function that :func:`warned` was given, which does not warn."""
    return function.__wrapped__  # type: ignore[attr-defined,no-any-return]
