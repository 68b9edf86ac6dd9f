"""A lower bound on the optimum that is proved, for any L, whichever solver made it.

Both problems have a bound of the form "something/‖G‖₂" with G = clip(P_Ω(M − L), ±θ), so what has to be proved is an
*upper* bound on ‖G‖₂; a power method only gives lower ones.

- Up to ``EXACT_COLUMNS`` columns: the Gram matrix C = GᵀG is added up in one pass (mn² operations, at the speed of
  BLAS), a Lanczos process on C proposes c ≥ λ_max(C), and a Cholesky factorisation of cI − C succeeds only if it is so,
  up to rounding.
- Beyond: block Lanczos on GᵀG through passes, from a random block, until the leading Ritz pair has a relative residual
  below ``RITZ_TOL``; the bound is the Ritz value plus the residual. That some singular value lies there is certain;
  that it is the largest holds with probability one over the random start in exact arithmetic, and is not proved for a
  single run. ``Certificate.proved`` says which of the two it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from rankwolf.lowrank import LowRank
from rankwolf.oracles import nuclear
from rankwolf.passes import EvaluateFactors, GramOfClipped, HuberSums
from rankwolf.problem import Penalized, Problem
from rankwolf.sources import Array, Source

EXACT_COLUMNS = 4096
RITZ_TOL = 1e-5
RITZ_PASSES = 40


@dataclass(frozen=True)
class Certificate:
    """A lower bound on the optimal value, and whether ‖G‖₂ was bounded by proof or by a converged Ritz pair."""

    lower_bound: float
    proved: bool


def certify(
    problem: Problem, source: Source, low_rank: LowRank, threshold: float, rng: np.random.Generator
) -> Certificate:
    """The lower bound that ``low_rank`` proves, with S = T_threshold(P_Ω(M − L)). One pass where it can be exact."""
    left, right = (np.ascontiguousarray(f.astype(source.dtype, copy=False)) for f in low_rank.factors())
    n = source.shape[1]
    if n <= EXACT_COLUMNS:
        sums = source.run(GramOfClipped(right, threshold, source), left)
        values, spectral_norm, proved = sums.values, _root_of_largest_eigenvalue(sums.gram), True
    else:
        values, spectral_norm = _converged_ritz_bound(source, left, right, threshold, rng)
        proved = False
    bound = _lower_bound(problem, HuberSums(values), low_rank, threshold, spectral_norm)
    return Certificate(bound, proved)


def _lower_bound(
    problem: Problem, sums: HuberSums, low_rank: LowRank, threshold: float, spectral_norm: float
) -> float:
    if isinstance(problem, Penalized):
        return problem.dual_value(sums.g_dot_m, sums.g_squared, spectral_norm)
    # ⟨G, L + S⟩ = ⟨G, M⟩ − ‖G‖² because L + S = M − G on Ω; and |G| ≤ threshold.
    gap = problem.surrogate_gap(sums.g_dot_m - sums.g_squared, spectral_norm, threshold)
    return max(problem.objective(sums.g_squared) - gap, 0.0)


def _root_of_largest_eigenvalue(gram: Array) -> float:
    """An upper bound on √λ_max(C), within 1e-7 or so, proved by a Cholesky factorisation of cI − C."""
    n = gram.shape[0]
    trace = float(np.trace(gram))
    if trace <= 0.0:
        return 0.0
    rng = np.random.default_rng(0)
    start = rng.standard_normal((n, min(4, n)))
    value = nuclear.leading_pair(lambda block: gram @ block, start, 1e-7, 60, rng).upper ** 2
    for slack in (1e-7, 1e-5, 1e-3):
        bound = value * (1.0 + slack)
        if _is_positive_definite(bound * np.eye(n) - gram):
            return float(bound**0.5)
    exact = float(scipy.linalg.eigvalsh(gram, subset_by_index=(n - 1, n - 1))[0])
    return float((exact * (1.0 + 1e-12)) ** 0.5)


def _is_positive_definite(matrix: Array) -> bool:
    try:
        scipy.linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return False
    return True


def _converged_ritz_bound(
    source: Source, left: Array, right: Array, threshold: float, rng: np.random.Generator
) -> tuple[Array, float]:
    values: list[Array] = []

    def gram_product(block: Array) -> Array:
        sums = source.run(EvaluateFactors(right, threshold, block), left)
        values.append(sums.values)
        return sums.product

    start = rng.standard_normal((source.shape[1], 8))
    pair = nuclear.leading_pair(gram_product, start, RITZ_TOL, RITZ_PASSES, rng)
    return values[0], pair.upper
