"""A lower bound on the optimum that is proved, for any L, whichever solver made it.

Every form of the problem has a lower bound from any Y on Ω. Here Y is G = clip(P_Ω(M − L), ±θ), or with a hint from the
solver, G less the excess of its longest directions, clipped once more (``rankwolf.passes.Deflation``). The bound needs
an *upper* bound on ‖Y‖₂, and that is what has to be proved; a power method only gives lower ones.

- Up to ``EXACT_COLUMNS`` columns: the Gram matrix C = YᵀY is added up in one pass (mn² operations, at the speed of
  BLAS), a Lanczos process on C proposes c ≥ λ_max(C), and a Cholesky factorisation of cI − C succeeds only if c is
  such, up to rounding. A caller that needs a lower bound of a certain height gives it as ``goal``: the c that reaches
  it is tried first, and if it fails, no more factorisations are made.
- Beyond, the same where it is affordable (``affords_exact``): C fits into the memory, and the proof takes no more
  operations than the passes that the run has made so far. So one proof at most doubles the work.
- Otherwise: block Lanczos on YᵀY through passes, from a random block, until the leading Ritz pair has a relative
  residual below ``RITZ_TOL``; the bound is the Ritz value plus the residual. That some singular value lies there is
  certain; that it is the largest holds with probability one over the random start in exact arithmetic, and is not
  proved for a single run. ``Certificate.proved`` says which of the two it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from rankwolf.data import Source
from rankwolf.data.measurements import Measurements
from rankwolf.data.memory_shares import EXACT_COLUMNS
from rankwolf.ground.arrays import Array, inner
from rankwolf.ground.deadline import patiently
from rankwolf.ground.low_rank import LowRank
from rankwolf.oracles import nuclear
from rankwolf.oracles.l1 import magnitudes
from rankwolf.passes import Deflation, DualSums, GramOfDual, MultiplyDual, mirror
from rankwolf.platform import available_memory
from rankwolf.problem import Problem
from rankwolf.solvers.base import Certificate, group_axis

# A Ritz pair has converged when the upper bound on ‖Y‖₂² is above the Ritz value's square by no more than this share.
# About half of it is what the lower bound loses, which is small beside the gaps that are asked for; a smaller share
# takes more passes. No experiment is on record.
RITZ_TOL = 1e-5
# Operations of a pass for each entry and each column of L's factors, and the rank that a pass costs at least.
PASS_OPERATIONS, LEAST_RANK = 10, 8
# A proof by a Ritz pair takes so many passes at most, each with a block of so many vectors, or of as many as have this
# many numbers. Where singular values crowd at the top, the pair converges slowly; the bound is then the Ritz value plus
# the residual that is left, and is looser. The same passes of the solver improve L as well.
RITZ_PASSES, RITZ_BLOCK, BLOCK_NUMBERS = 3, 64, 2**26
# For measurements, where G is at hand as an array, products are cheap.
DENSE_PRODUCTS = 40
# Lanczos steps on a Gram matrix, at most: where ‖Y‖₂ has to be found, and where a factorisation has decided already
# whether it is small enough.
EXACT_STEPS, DECIDED_STEPS = 60, 24
# How many leading right singular vectors of Y a proof hands to the solver, which adds them to its directions. More of
# them teach it more at once, and each makes its next passes one column wider. No experiment is on record.
WITNESSES = 24
# Up to this side, LAPACK finds the largest eigenvalue of a Gram matrix faster than Lanczos steps do.
EIGENVALUE_SIDE = 640
# The relative allowance for rounding in a Gram matrix, by the bytes of a number in the tiles that it is added up from.
PRECISION = {4: 1e-6, 8: 1e-13}
# The relative allowance for rounding in A*y, where A is applied in single precision.
SINGLE_ALLOWANCE = 1e-5


@dataclass(frozen=True)
class Norm:
    """An upper bound on ‖Y‖₂, the value that ‖Y‖₂ is likely to have, and leading right singular vectors of Y."""

    upper: float
    likely: float
    witness: Array


def certify(
    problem: Problem,
    source: Source,
    low_rank: LowRank,
    threshold: float,
    deflation: Deflation | None,
    rng: np.random.Generator,
    goal: float | None = None,
) -> tuple[Certificate, DualSums]:
    """The lower bound that Y at L proves, and the sums of G and S = T_threshold(P_Ω(M − L)).

    One pass where the proof is by factorisation, up to ``RITZ_PASSES`` otherwise. With a ``goal``, a bound below it
    need not be the best that can be proved.
    """
    left, right = source.factors(low_rank)
    proved = affords_exact(source, low_rank.rank)

    def bound(norm: float) -> float:
        return problem.lower_bound(found.y_dot_m, found.y_squared, norm, threshold)

    if proved:
        sums = source.run(GramOfDual(right, threshold, deflation, source), left)
        del left  # C may be most of the memory of a run
        found, gram = DualSums(sums.values), sums.take_gram()
        del sums
        # Rounding of C grows with its side, at most in proportion.
        precision = PRECISION[source.dtype.itemsize] * max(1.0, source.shape[1] / EXACT_COLUMNS)
        norm = _norm_by_factors(gram, precision, bound, goal)
    else:
        found, norm = _norm_by_ritz(source, left, right, threshold, deflation, rng)
    certificate = Certificate(bound(norm.upper), proved, norm.witness, bound(norm.likely), norm.upper)
    return certificate, found


def affords_exact(source: Source, rank: int) -> bool:
    """Whether ‖Y‖₂ is bounded by a factorisation of C = YᵀY, n × n.

    Always up to ``EXACT_COLUMNS`` columns. Beyond, only if two things hold. C and the shares of it that threads add up
    fit: into the share of row-aligned arrays where memory is limited or the matrix is on disk, else into half of the
    available memory. And mn² + (4/3)n³ operations are no more than those of the run's
    passes so far, at 10·max(r, 8) an entry.
    """
    m, n = source.shape
    if n <= EXACT_COLUMNS:
        return True
    most = source.workspace.most_bytes
    if most is None:
        most = available_memory() // 2
    fits = n * n * (8 + source.dtype.itemsize * source.n_threads) <= most
    return fits and m * n**2 + 4 * n**3 // 3 <= source.passes * m * n * PASS_OPERATIONS * max(
        rank, LEAST_RANK
    )


def certify_measured(
    problem: Problem,
    data: Measurements,
    candidates: Sequence[Array],
    rng: np.random.Generator,
    goal: float | None = None,
) -> Certificate:
    """The best lower bound that any of the ``candidates`` y ∈ R^p or C^p proves for measurements b = A[M].

    A*y is a dense m × n matrix. Its norm is bounded by the Gram matrix of its shorter side, or, where that is longer
    than ``EXACT_COLUMNS``, by a converged Ritz pair. A candidate that proves the ``goal`` ends the search. Each
    candidate costs one product with A*.
    """
    best: Certificate | None = None
    for y in candidates:
        certificate = _certify_dual(problem, data, y, rng)
        if best is None or certificate.lower_bound > best.lower_bound:
            best = certificate
        if goal is not None and best.lower_bound >= goal:
            break
    if best is None:
        raise ValueError("A certificate needs a candidate.")
    return best


def _certify_dual(problem: Problem, data: Measurements, y: Array, rng: np.random.Generator) -> Certificate:
    G = data.adjoint(y)
    axis = group_axis(problem, data)
    largest = max(
        float(magnitudes(part, axis).max()) for part in ([G] if axis == 0 else (g[None] for g in G))
    )
    spectral_norm, proved = norm_of_dense(G, rng)
    # A*y was computed in the precision of the run, and its entries are off by about that much.
    slack = 1.0 + SINGLE_ALLOWANCE if data.dtype.itemsize < (8 if data.real else 16) else 1.0
    bound = problem.lower_bound(inner(y, data.b), inner(y, y), slack * spectral_norm, slack * largest)
    return Certificate(bound, proved, None, bound)


def norm_of_dense(G: Any, rng: np.random.Generator) -> tuple[float, bool]:
    """An upper bound on ‖G‖₂ of an array, and whether it is proved: by the Gram matrix, where that is small enough."""
    if not isinstance(G, np.ndarray):
        return nuclear.spectral_norm(G) * (1.0 + PRECISION[8]), True
    tall = G if G.shape[0] >= G.shape[1] else G.conj().T
    if tall.shape[1] * (2 if np.iscomplexobj(G) else 1) <= EXACT_COLUMNS:
        wide = tall.astype(np.result_type(tall.dtype, np.float64), copy=False)
        return _proved_norm(np.asfortranarray(_as_real(patiently(np.matmul, wide.conj().T, wide)))), True
    start = rng.standard_normal((tall.shape[1], 8))
    return nuclear.leading_pair(
        lambda block: tall.conj().T @ (tall @ block), start, RITZ_TOL, DENSE_PRODUCTS, rng
    ).upper, False


def _proved_norm(gram: Array) -> float:
    """An upper bound on √λ_max(C), proved by a factorisation; where it is cheap, the eigenvalue itself is tried."""
    precision = PRECISION[8]
    if len(gram) > EIGENVALUE_SIDE:
        return _norm_by_factors(gram, precision).upper
    value = max(patiently(nuclear.largest_eigenvalue, gram), 0.0)
    return _proved_root(gram, value, precision, None) * (1.0 + precision)


def _as_real(gram: Array) -> Array:
    """A Hermitian matrix as a symmetric one of twice the side, with the same eigenvalues (each twice)."""
    if not np.iscomplexobj(gram):
        return gram
    return np.block([[gram.real, -gram.imag], [gram.imag, gram.real]])


def _norm_by_factors(
    gram: Array, precision: float, bound: Callable[[float], float] | None = None, goal: float | None = None
) -> Norm:
    """An upper bound on √λ_max(C), a few ``precision`` above it, proved by a Cholesky factorisation of cI − C.

    ``bound(norm)`` is the lower bound on the optimum, which falls as the norm grows. With a ``goal`` for it, the c that
    reaches the goal is tried first; if it fails, the upper bound is only the root of the trace.
    """
    n = gram.shape[0]
    longest = max(float(np.trace(gram)), 0.0) ** 0.5
    if longest == 0.0:
        return Norm(0.0, 0.0, np.zeros((n, 0)))
    enough = (
        None if bound is None or goal is None else _largest_norm(bound, goal, longest) / (1.0 + precision)
    )
    met = enough is not None and _is_below(gram, enough**2)
    rng = np.random.default_rng(0)
    start = rng.standard_normal((n, min(4, n)))
    steps = EXACT_STEPS if enough is None else DECIDED_STEPS
    pair = nuclear.leading_pair(lambda block: gram @ block, start, precision, steps, rng, WITNESSES)
    if enough is not None and not met:
        return Norm(longest * (1.0 + precision), max(pair.upper, enough), pair.leading)
    upper = _proved_root(gram, pair.value**2, precision, enough) * (1.0 + precision)
    return Norm(upper, upper, pair.leading)


def _largest_norm(bound: Callable[[float], float], goal: float, most: float) -> float:
    """The largest norm, at most ``most``, for which the bound is still at least ``goal``; 0 where there is none."""
    low, high = 0.0, most
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if bound(middle) >= goal else (low, middle)
    return low


def _proved_root(gram: Array, ritz_value: float, precision: float, enough: float | None) -> float:
    """√c for some c ≥ λ_max(C) that is not far above the Ritz value; ``enough``², where given, is known to be such a c.

    Where many eigenvalues crowd at the top, as they do at an optimum, Ritz values come up to them slowly. How far above
    c must be is found by factorisations: three bisections between the Ritz value and ``enough``². Without ``enough``,
    the relative excess is first multiplied by ten until one succeeds, and then bisected on a logarithmic scale.
    """
    failed, excess = 0.0, precision
    while excess < 1.0 and not _is_below(gram, ritz_value * (1.0 + excess)):
        failed, excess = excess, 10.0 * excess
        if enough is not None:
            excess = max(enough**2 / ritz_value - 1.0, failed)
            break
    if excess >= 1.0 and enough is None:
        exact = patiently(nuclear.largest_eigenvalue, gram)
        return float((exact * (1.0 + 1e-12)) ** 0.5)
    for _ in range(3 if failed > 0.0 else 0):
        middle = (failed * excess) ** 0.5 if enough is None else 0.5 * (failed + excess)
        if _is_below(gram, ritz_value * (1.0 + middle)):
            excess = middle
        else:
            failed = middle
    return float((ritz_value * (1.0 + excess)) ** 0.5)


def _is_below(gram: Array, bound: float) -> bool:
    """Whether bound·I − C has a Cholesky factorisation. C is overwritten meanwhile, and restored at the end.

    The factorisation overwrites the lower triangle, which is restored from the upper one: C may be the largest array of
    a run, and is not copied.
    """
    diagonal = np.diag_indices_from(gram)
    kept = gram[diagonal]
    np.negative(gram, out=gram)
    gram[diagonal] += bound
    info = patiently(scipy.linalg.lapack.dpotrf, gram, lower=True, clean=False, overwrite_a=True)[1]
    np.negative(gram, out=gram)
    gram[diagonal] = kept
    mirror(gram)
    return int(info) == 0


def _norm_by_ritz(
    source: Source,
    left: Array,
    right: Array,
    threshold: float,
    deflation: Deflation | None,
    rng: np.random.Generator,
) -> tuple[DualSums, Norm]:
    found: list[DualSums] = []

    def gram_product(block: Array) -> Array:
        sums = source.run(MultiplyDual(right, threshold, deflation, block), left)
        found.append(DualSums(sums.values))
        return sums.product

    n = source.shape[1]
    known = np.zeros((n, 0)) if deflation is None else deflation.directions.astype(np.float64)
    width = min(max(8, RITZ_BLOCK, known.shape[1] + 8), max(8, BLOCK_NUMBERS // n), n)
    start = np.hstack(
        [known[:, : width - 8], rng.standard_normal((n, width - min(known.shape[1], width - 8)))]
    )
    pair = nuclear.leading_pair(gram_product, start, RITZ_TOL, RITZ_PASSES, rng)
    return found[0], Norm(pair.upper, pair.upper, pair.leading)
