"""The oracles of both norms against full decompositions, definitions and brute force."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose

from rankwolf.data import InMemory
from rankwolf.oracles import l1, nuclear
from rankwolf.passes import threshold_for_radius


def matrix(seed, m=30, n=20, rank=None):
    rng = np.random.default_rng(seed)
    if rank is None:
        return rng.standard_normal((m, n))
    return rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))


# ---------------------------------------------------------------- linear minimisation


def products_needed(Y, start, tol):
    count = 0

    def gram_product(block):
        nonlocal count
        count += 1
        return Y.T @ (Y @ block)

    pair = nuclear.leading_pair(gram_product, start, tol, 200, np.random.default_rng(0))
    return count, pair


def test_leading_pair_brackets_the_norm_and_the_tolerance_is_the_callers():
    Y = matrix(2, 120, 80)
    norm = np.linalg.norm(Y, 2)
    start = np.random.default_rng(3).standard_normal((80, 2))
    counts = []
    for tol in (1e-1, 1e-3, 1e-6, 1e-10):
        count, pair = products_needed(Y, start, tol)
        counts.append(count)
        assert pair.value <= norm * (1 + 1e-12)
        assert pair.upper**2 - pair.value**2 <= tol * pair.value**2
        assert np.linalg.norm(pair.right) == pytest.approx(1.0)
        assert np.linalg.norm(Y @ pair.right) == pytest.approx(pair.value, rel=1e-9)
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    assert pair.value == pytest.approx(norm, rel=1e-9)
    assert pair.upper >= norm * (1 - 1e-12)


def test_a_warm_start_saves_products():
    Y = matrix(4, 120, 80)
    cold, pair = products_needed(Y, np.random.default_rng(0).standard_normal((80, 1)), 1e-8)
    moved = Y + 1e-6 * matrix(5, 120, 80)
    warm, _ = products_needed(moved, pair.right[:, None], 1e-8)
    assert warm <= cold // 2


def test_krylov_space_ends_when_it_is_everything():
    """A space of all n dimensions has no next block, and knows the norm exactly."""
    Y = matrix(6, 9, 5)
    count, pair = products_needed(Y, np.random.default_rng(0).standard_normal((5, 2)), 0.0)
    assert count <= 4
    assert pair.value == pytest.approx(np.linalg.norm(Y, 2), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-60, 1e-8, 1.0, 1e8, 1e60])
def test_leading_pair_at_any_scale(scale):
    Y = matrix(7) * scale
    _, pair = products_needed(Y, np.random.default_rng(0).standard_normal((20, 1)), 1e-9)
    assert pair.value == pytest.approx(np.linalg.norm(Y, 2), rel=1e-8)


def test_orthonormal_against_replaces_directions_that_vanish():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((12, 4)))[0]
    inside = basis @ rng.standard_normal((4, 2))
    block = np.column_stack([inside, np.zeros(12)])
    q = nuclear.orthonormal_against(block, basis, rng)
    assert_allclose(q.T @ q, np.eye(3), atol=1e-12)
    assert_allclose(basis.T @ q, 0.0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_l1_linear_minimiser_is_one_entry(dtype):
    Y = matrix(8).astype(dtype)
    place, value = l1.minimize_linear(Y, 3.0)
    assert abs(Y[place]) == np.abs(Y).max()
    assert value * Y[place] == pytest.approx(-3.0 * np.abs(Y).max())


def test_l1_linear_minimiser_takes_the_first_of_equals_and_survives_zero():
    assert l1.minimize_linear(np.ones((3, 3)), 2.0) == ((0, 0), -2.0)
    place, value = l1.minimize_linear(np.zeros((3, 3)))
    assert (place, abs(value)) == ((0, 0), 0.0)


# ---------------------------------------------------------------- projection onto the l1 ball


@pytest.mark.parametrize("radius", [1e-12, 0.01, 1.0, 30.0, 400.0, 1e6])
def test_projection_onto_the_l1_ball_agrees_with_bisection(radius):
    x = matrix(9)
    p = l1.project(x, radius)
    assert_allclose(p, reference.project_l1(x, radius), atol=1e-12)
    assert np.abs(p).sum() <= radius * (1 + 1e-12) + 1e-14
    if np.abs(x).sum() > radius:
        assert np.abs(p).sum() == pytest.approx(radius, rel=1e-11)
    else:
        assert np.array_equal(p, x)
        assert p is not x


@pytest.mark.parametrize(
    "x",
    [
        np.full(1000, 0.1),
        np.full(7, -3.0),
        np.array([5.0]),
        np.array([1e300, 1.0]),
        np.array([1.0, 1.0 - 1e-16, 1.0 + 1e-15]),
        np.concatenate([np.full(500, 0.1), np.full(500, 0.1 * (1 + 1e-15))]),
        np.array([0.0, 0.0, 2.0, 0.0]),
    ],
    ids=["equal", "equal-negative", "single", "huge", "ties", "almost-ties", "zeros"],
)
@pytest.mark.parametrize("radius", [0.0, 1e-15, 1e-3, 0.5])
def test_projection_onto_the_l1_ball_in_awkward_cases(x, radius):
    p = l1.project(x, radius)
    assert np.all(np.isfinite(p))
    assert np.all(np.sign(p) * np.sign(x) >= 0.0), "no entry changes its sign"
    rounding = 1e-12 * np.abs(x).max() * x.size
    assert np.abs(p).sum() == pytest.approx(min(radius, np.abs(x).sum()), rel=0.0, abs=rounding)
    assert_allclose(p, reference.project_l1(x, radius), rtol=0.0, atol=rounding)


def test_projection_rejects_what_is_no_radius():
    with pytest.raises(ValueError, match="radius"):
        l1.project(np.ones(3), -1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("radius", [1e-3, 1.0, 50.0, 300.0, 1e6])
@pytest.mark.parametrize("guess", [0.0, 0.5, 1e9])
def test_projection_threshold_of_a_pass_is_the_oracles(dtype, radius, guess):
    """Newton's method over tiles, from any guess, finds the θ of the dense projection."""
    D = matrix(10).astype(dtype)
    none = np.zeros((1, 0), dtype)
    theta = threshold_for_radius(InMemory(D, None, 1), none.repeat(30, 0), none.repeat(20, 0), radius, guess)
    expected = l1.projection_threshold(D, radius)
    assert theta == pytest.approx(expected, rel=1e-5 if dtype == np.float32 else 1e-12, abs=1e-12)


# ---------------------------------------------------------------- proximal maps


def test_soft_threshold_by_its_definition():
    x = np.array([-3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 4.0])
    assert_allclose(l1.soft_threshold(x, 1.0), [-2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0])
    assert l1.soft_threshold(x.astype(np.float32), np.float64(1.0)).dtype == np.float32


@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (5, 5), (1, 6), (6, 1)])
@pytest.mark.parametrize("weight", [0.1, 2.0, 5.0, 100.0])
@pytest.mark.parametrize("count", [None, 1, 3, 1000])
def test_singular_value_thresholding_agrees_with_a_full_svd(shape, weight, count):
    X = matrix(11, *shape)
    L, found = nuclear.singular_value_threshold(X, weight, count)
    singular = np.linalg.svd(X, compute_uv=False)
    assert found == np.count_nonzero(singular > weight) == L.rank
    assert_allclose(L.s, singular[:found] - weight, rtol=1e-9, atol=1e-9)
    assert np.all(np.diff(L.s) <= 0.0)
    assert_allclose(np.asarray(L), reference.shrink_singular_values(X, weight), atol=1e-9)


@pytest.mark.parametrize("count", [1, 2, 5, 30])
def test_leading_eigenpairs_are_all_those_above_the_cut_whatever_was_tried_first(count):
    values = np.array([9.0, 9.0, 7.0, 4.0, 4.0, 4.0, 1.0, 0.5, *np.zeros(22)])
    Q = np.linalg.qr(matrix(12, 30, 30))[0]
    gram = (Q * values) @ Q.T
    found, vectors = nuclear.leading_eigenpairs(gram, 3.0, count)
    above = int(np.count_nonzero(found > 3.0))
    assert above == 6
    assert_allclose(found[:6], values[:6], atol=1e-9)
    assert_allclose(vectors.T @ vectors, np.eye(found.size), atol=1e-9)
    assert_allclose(gram @ vectors[:, :6], vectors[:, :6] * found[:6], atol=1e-9)
