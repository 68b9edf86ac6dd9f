"""Identities that hold for every input, tried on inputs that hypothesis chooses."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose

import rankwolf as rw
from rankwolf.ground.low_rank import LowRank
from rankwolf.oracles import l1, nuclear

numbers = st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda x: round(x, 6))
vectors = hnp.arrays(np.float64, st.integers(1, 40), elements=numbers)
matrices = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=8), elements=numbers)
radii = st.floats(1e-3, 1e4)


# ---------------------------------------------------------------- the two norms


@given(vectors, radii)
def test_moreau_identity_of_the_l1_norm(x, weight):
    """x = prox_{λ‖·‖₁}(x) + the projection onto the dual ball |·| ≤ λ; the same for the projection onto ‖·‖₁ ≤ λ."""
    assert_allclose(l1.soft_threshold(x, weight) + np.clip(x, -weight, weight), x, atol=1e-9)
    # The support function of the l1 ball is λ‖·‖_∞, whose proximal map is x less the projection.
    rest = x - l1.project(x, weight)
    assert np.sum(rest * l1.project(x, weight)) == pytest.approx(
        weight * np.abs(rest).max(initial=0.0), rel=1e-7, abs=1e-6
    )


@given(matrices, st.floats(1e-2, 1e3))
def test_moreau_identity_of_the_nuclear_norm(X, weight):
    """X = D_λ(X) + the projection onto the spectral ball ‖·‖₂ ≤ λ."""
    L, _ = nuclear.singular_value_threshold(X, weight)
    u, s, vt = np.linalg.svd(X, full_matrices=False)
    scale = max(np.abs(X).max(), 1.0)
    assert_allclose(np.asarray(L) + (u * np.minimum(s, weight)) @ vt, X, atol=1e-6 * scale)


@given(vectors, radii)
@example(np.full(5, 0.1), 1e-3)
def test_projection_is_the_nearest_point_of_the_ball(x, radius):
    """Against the definition: ⟨x − p, y − p⟩ ≤ 0 for every y in the ball; its vertices are enough."""
    p = l1.project(x, radius)
    scale = max(np.abs(x).max(), 1.0) * radius
    assert np.abs(p).sum() <= radius * (1 + 1e-9)
    towards = x - p
    # max over the vertices y = ±radius·e_i
    assert radius * np.abs(towards).max() - np.sum(towards * p) <= 1e-8 * max(scale, 1.0)


@given(hnp.arrays(np.float64, 3, elements=st.floats(-2, 2)), st.floats(0.1, 3.0))
@settings(max_examples=15)
def test_projection_against_brute_force(x, radius):
    """No point of a fine grid of the ball is nearer."""
    axis = np.linspace(-radius, radius, 41)
    grid = np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3)
    grid = grid[np.abs(grid).sum(axis=1) <= radius * (1 + 1e-12)]
    nearest = np.min(np.sum((grid - x) ** 2, axis=1))
    assert np.sum((l1.project(x, radius) - x) ** 2) <= nearest + 1e-9


@given(vectors, vectors, radii)
def test_projection_and_thresholding_are_nonexpansive(x, y, weight):
    n = min(x.size, y.size)
    x, y = x[:n], y[:n]
    for mapped in (lambda z: l1.project(z, weight), lambda z: l1.soft_threshold(z, weight)):
        assert np.linalg.norm(mapped(x) - mapped(y)) <= np.linalg.norm(x - y) * (1 + 1e-9) + 1e-7
        assert_allclose(l1.project(l1.project(x, weight), weight), l1.project(x, weight), atol=1e-8)


@given(matrices, st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_low_rank_from_factors_is_the_product(A, rank, seed):
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((A.shape[0], rank)) * A[:, :1], rng.standard_normal((A.shape[1], rank))
    L = LowRank.from_factors(left, right)
    dense = left @ right.T
    scale = max(np.abs(dense).max(), 1e-9)
    assert_allclose(np.asarray(L), dense, atol=1e-10 * scale)
    assert L.rank <= min(rank, *A.shape)
    assert_allclose(L.u.T @ L.u, np.eye(L.rank), atol=1e-10)
    assert_allclose(L.vt @ L.vt.T, np.eye(L.rank), atol=1e-10)
    assert L.nuclear_norm == pytest.approx(reference.nuclear_norm(dense), rel=1e-8, abs=1e-9 * scale)
    x = rng.standard_normal(A.shape[1])
    assert_allclose(L @ x, dense @ x, atol=1e-9 * scale * A.shape[1])
    assert_allclose(
        np.ones((2, A.shape[0])) @ L, np.ones((2, A.shape[0])) @ dense, atol=1e-9 * scale * A.shape[0]
    )


# ---------------------------------------------------------------- the problem

seeds = st.integers(0, 10_000)
sides = st.integers(1, 14)
fractions = st.sampled_from([1.0, 0.7])


def solve(M, seen, lambdas, method="fista", tol=1e-6, **settings):
    return rw.decompose(
        M, observed=None if seen.all() else seen, lambdas=lambdas, method=method, tol=tol, max_iter=3000, rng=0,
        n_threads=1, **settings,
    )  # fmt: skip


def instance(seed, m, n, observed):
    M, seen = reference.corrupted(seed, m, n, rank=2, observed=observed)
    seen[0, 0] = True
    return M, seen, reference.weights_for(M, seen, 0.1)


def distance(A, B, M):
    """Strong convexity in L + S only: the parts may differ by the root of the gap, their objective may not."""
    return float(np.linalg.norm(np.asarray(A) - np.asarray(B)) / np.linalg.norm(M))


@pytest.mark.doubts("sparse part is zero", "λ_S is below the noise", "iteration limit")
@given(seeds, sides, sides, fractions, st.sampled_from([2.0**-40, 0.25, 4.0, 2.0**40]))
@settings(max_examples=25)
@pytest.mark.parametrize("method", ["fista", "fw-t", "fw"])
def test_scaling_the_data_and_the_weights_scales_the_parts(method, seed, m, n, observed, c):
    """By a power of four, which rounds nothing: a tolerance that is not relative would show."""
    M, seen, lambdas = instance(seed, m, n, observed)
    one = rw.decompose(M, observed=seen, lambdas=lambdas, method=method, max_iter=15, rng=0, n_threads=1)
    two = rw.decompose(
        c * M,
        observed=seen,
        lambdas=(c * lambdas[0], c * lambdas[1]),
        method=method,
        max_iter=15,
        rng=0,
        n_threads=1,
    )
    assert two.iterations == one.iterations
    assert two.status is one.status
    assert_allclose(np.asarray(two.low_rank) / c, np.asarray(one.low_rank), rtol=1e-9, atol=1e-10)
    assert_allclose(np.asarray(two.sparse) / c, np.asarray(one.sparse), rtol=1e-9, atol=1e-10)
    assert two.objective == pytest.approx(c * c * one.objective, rel=1e-10)
    assert two.relative_gap == pytest.approx(one.relative_gap, rel=1e-5, abs=1e-10)


@pytest.mark.doubts("low-rank part is zero", "λ_S is below the noise")
@given(seeds, sides, sides, fractions)
@settings(max_examples=12)
def test_transposing_transposes_the_parts(seed, m, n, observed):
    M, seen, lambdas = instance(seed, m, n, observed)
    one, two = solve(M, seen, lambdas), solve(M.T, seen.T, lambdas)
    assert two.objective == pytest.approx(one.objective, rel=1e-6)
    assert two.low_rank.shape == (n, m)
    total = np.asarray(one.low_rank) + np.asarray(one.sparse)
    assert distance((np.asarray(two.low_rank) + np.asarray(two.sparse)).T[seen], total[seen], M[seen]) <= 2e-3


@pytest.mark.doubts("low-rank part is zero", "λ_S is below the noise")
@given(seeds, sides, sides, fractions)
@settings(max_examples=12)
def test_permuting_rows_permutes_the_parts(seed, m, n, observed):
    M, seen, lambdas = instance(seed, m, n, observed)
    order = np.random.default_rng(seed).permutation(m)
    one, two = solve(M, seen, lambdas), solve(M[order], seen[order], lambdas)
    assert two.objective == pytest.approx(one.objective, rel=1e-6)
    total = np.asarray(one.low_rank) + np.asarray(one.sparse)
    assert (
        distance((two.low_rank[:] + np.asarray(two.sparse))[seen[order]], total[order][seen[order]], M[seen])
        <= 2e-3
    )


@pytest.mark.doubts("λ_S is below the noise", "iteration limit")
@given(seeds, sides, sides, fractions, st.sampled_from([1e-2, 1e-4]))
@settings(max_examples=20)
def test_the_parts_add_up_to_the_data_when_the_weights_vanish(seed, m, n, observed, delta):
    """|G| ≤ λ_S at any L, so |M − L − S| ≤ λ_S on Ω; S is zero outside Ω."""
    M, seen, _ = instance(seed, m, n, observed)
    lambdas = reference.weights_for(M, seen, delta)
    fit = rw.decompose(M, observed=seen, lambdas=lambdas, method="fista", max_iter=60, rng=0, n_threads=1)
    L, S = np.asarray(fit.low_rank), np.asarray(fit.sparse)
    assert np.abs(M - L - S)[seen].max() <= lambdas[1] * (1 + 1e-9)
    assert not np.any(S[~seen])


@pytest.mark.doubts("sparse part is zero", "λ_S is below the noise", "iteration limit")
@given(seeds, sides, sides)
@settings(max_examples=20)
@pytest.mark.parametrize("method", ["fw-t", "fw", "ista", "fista"])
def test_entries_that_are_not_observed_do_not_matter(method, seed, m, n):
    M, seen, lambdas = instance(seed, m, n, 0.6)
    other = np.where(seen, M, 1e6)
    missing = np.where(seen, M, np.nan)
    fits = [
        rw.decompose(M, observed=seen, lambdas=lambdas, method=method, max_iter=8, rng=0, n_threads=1),
        rw.decompose(other, observed=seen, lambdas=lambdas, method=method, max_iter=8, rng=0, n_threads=1),
        rw.decompose(missing, lambdas=lambdas, method=method, max_iter=8, rng=0, n_threads=1),
        rw.decompose(
            np.ma.array(other, mask=~seen), lambdas=lambdas, method=method, max_iter=8, rng=0, n_threads=1
        ),
    ]
    for fit in fits:
        assert np.array_equal(np.asarray(fit.low_rank), np.asarray(fits[0].low_rank))
        assert np.array_equal(np.asarray(fit.sparse), np.asarray(fits[0].sparse))
        assert fit.objective == fits[0].objective
        assert not np.any(np.asarray(fit.sparse)[~seen])


@pytest.mark.doubts  # any: hypothesis finds matrices for each of them
@given(matrices, st.floats(1e-3, 0.5))
@settings(max_examples=25)
@pytest.mark.parametrize("method", ["fw-t", "fista", "fw", "auto"])
def test_whatever_the_matrix_the_certificate_holds(method, M, delta):
    """Matrices that hypothesis finds awkward: zeros, ties, repeated rows, a single huge entry."""
    assume(np.abs(M).max() > 1e-3)
    seen = np.ones(M.shape, bool)
    lambdas = reference.weights_for(M, seen, delta)
    fit = rw.decompose(M, delta=delta, method=method, max_iter=25, tol=1e-6, rng=0, n_threads=1)
    assert fit.lambdas == pytest.approx(lambdas)
    L, S = np.asarray(fit.low_rank), np.asarray(fit.sparse)
    value = reference.objective(M, seen, L, S, lambdas)
    assert fit.objective == pytest.approx(value, rel=1e-8)
    # Any feasible pair is an upper bound on the optimum: the lower bound must be below each of them.
    lower = fit.objective - fit.gap
    for rival_L, rival_S in ((0 * M, 0 * M), (M, 0 * M), (0 * M, M), (L, reference.soft(M - L, lambdas[1]))):
        assert lower <= reference.objective(M, seen, rival_L, rival_S, lambdas) * (1 + 1e-9)
    assert lower <= reference.optimum(M, seen, lambdas, tol=1e-4)[1] * (1 + 1e-9)
