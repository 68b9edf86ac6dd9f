"""Random problems of every form: each has an answer, it is feasible, and its certificate is never above the truth."""

from __future__ import annotations

import numpy as np
import pytest

import rankwolf as rw
from benchmarks.quality.forms import FORMS, KINDS, draw
from rankwolf.oracles.l1 import clip_level, shrunk_by
from rankwolf.problem import Constrained, NoiseBounded, Penalized
from rankwolf.solvers.data_terms import EntriesTerm

cvxpy = pytest.importorskip("cvxpy")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_a_hundred_problems_of_a_form_are_answered(form, kind):
    late, count = 0, 100 // len(KINDS) + 1
    for seed in range(5000, 5000 + count):
        problem = draw(form, kind, seed, largest=(80, 60))
        fit = problem.solve()
        assert problem.violation(fit) <= 1e-9, (seed, fit)
        assert np.isfinite(fit.objective) and fit.gap >= 0.0
        late += fit.relative_gap > 1e-3
    assert late <= 2


def independent(X, form, numbers, *, weight=1.0, sparse="entries", high=None):
    """The optimal value by CVXPY."""
    observed = ~np.isnan(X)
    L, S = cvxpy.Variable(X.shape), cvxpy.Variable(X.shape)
    misfit = cvxpy.sum_squares(cvxpy.multiply(observed, L + S - np.nan_to_num(X)))
    if high is not None:
        known = ~np.isnan(high)
        misfit += cvxpy.sum_squares(cvxpy.multiply(known, cvxpy.pos(L + S - np.nan_to_num(high))))
    axis = {"rows": 1, "columns": 0}.get(sparse)
    size = cvxpy.sum(cvxpy.abs(S)) if axis is None else cvxpy.sum(cvxpy.norm(S, 2, axis=axis))
    nuclear = cvxpy.normNuc(L)
    if form == "lambdas":
        problem = cvxpy.Problem(cvxpy.Minimize(0.5 * misfit + numbers[0] * nuclear + numbers[1] * size))
    elif form == "radii":
        problem = cvxpy.Problem(cvxpy.Minimize(0.5 * misfit), [nuclear <= numbers[0], size <= numbers[1]])
    else:
        problem = cvxpy.Problem(cvxpy.Minimize(nuclear + weight * size), [misfit <= numbers**2])
    return problem.solve(solver=cvxpy.CLARABEL)


@pytest.mark.doubts
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sparse", ["entries", "rows", "columns"])
@pytest.mark.parametrize(
    ("form", "numbers"), [("lambdas", (0.5, 0.4)), ("radii", (3.0, 2.0)), ("noise", 0.5)]
)
def test_lines_and_limits_agree_with_cvxpy(form, numbers, sparse, seed):
    rng = np.random.default_rng([seed, len(sparse)])
    m, n = rng.integers(3, 13, 2)
    M = np.outer(rng.standard_normal(m), rng.standard_normal(n)) + 0.1 * rng.standard_normal((m, n))
    M[rng.integers(m)] += 5.0 * rng.standard_normal(n)
    below = rng.random((m, n)) < 0.2 * (seed % 2)
    below[0, 0] = False
    hidden = rng.random((m, n)) < 0.2
    hidden[0, 0] = False
    high = np.where(below, M + 0.3, np.nan)
    X = np.where(below | hidden, np.nan, M)
    more = {"limits": (None, high)} if below.any() else {}
    if form == "noise":
        more["weight"] = 0.3
    optimum = independent(X, form, numbers, weight=0.3, sparse=sparse, high=high if below.any() else None)
    fit = rw.decompose(X, **{form: numbers}, sparse=sparse, tol=1e-5, method="splitting", **more)
    assert fit.relative_gap <= 1e-5
    assert fit.objective - fit.gap <= optimum * (1 + 1e-6) + 1e-9
    assert fit.objective >= optimum * (1 - 1e-6) - 1e-9


@pytest.mark.doubts
@pytest.mark.parametrize("share", [0.05, 0.15, 0.3])
def test_outlier_pursuit_finds_the_columns_that_are_not_of_the_subspace(share):
    rng = np.random.default_rng(int(100 * share))
    M = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 100))
    bad = rng.choice(100, round(100 * share), replace=False)
    M[:, bad] = 3.0 * rng.standard_normal((60, bad.size))
    fit = rw.decompose(M, noise=0.0, sparse="columns")
    found = np.linalg.norm(np.asarray(fit.sparse), axis=0) > 1e-3 * np.linalg.norm(M) / 10.0
    extra = set(np.flatnonzero(found)) - set(bad)  # columns of high leverage
    assert found[bad].all() and len(extra) <= 2
    left = np.linalg.svd(np.delete(M, bad, axis=1))[0][:, :3]
    assert np.linalg.norm(
        np.asarray(fit.low_rank) - left @ (left.T @ np.asarray(fit.low_rank))
    ) <= 1e-3 * np.linalg.norm(M)


@pytest.mark.doubts
def test_a_detection_limit_is_better_used_than_replaced_by_half_of_it():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 40))
    M = truth + 0.1 * rng.standard_normal(truth.shape)
    limit = float(np.quantile(M, 0.3))
    below = limit > M
    weights = {"lambdas": (2.0, 0.3)}
    used = rw.decompose(np.where(below, np.nan, M), limits=(None, np.where(below, limit, np.nan)), **weights)
    half = rw.decompose(np.where(below, 0.5 * limit, M), **weights)
    error = [np.linalg.norm((np.asarray(fit.low_rank) - truth)[below]) for fit in (used, half)]
    assert error[0] < 0.5 * error[1]


@pytest.mark.doubts
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (2, 2)])
@pytest.mark.parametrize(
    "arguments", [{"lambdas": (0.1, 0.1)}, {"radii": (1.0, 1.0)}, {"noise": 1e-9}, {"noise": 0.0}]
)
def test_the_smallest_matrices_have_answers(shape, arguments):
    X = np.arange(1.0, 1.0 + shape[0] * shape[1]).reshape(shape)
    fit = rw.decompose(X, **arguments)
    assert fit.relative_gap <= 1e-3
    alone = np.full((4, 5), np.nan)
    alone[2, 3] = 3.0
    assert rw.decompose(alone, **arguments).relative_gap <= 1e-3


@pytest.mark.doubts
def test_a_bound_above_the_data_gives_zero_at_once():
    X = np.ones((6, 4))
    fit = rw.decompose(X, noise=10.0)
    assert (
        fit.objective == 0.0 and fit.low_rank.rank == 0 and fit.sparse.nonzeros == 0 and fit.iterations <= 1
    )
    A = rw.sensing.PartialDCT.random(12, (6, 4), seed=0)
    fit = rw.recover(A.apply(X), A, noise=100.0)
    assert fit.objective == 0.0 and fit.iterations <= 1


def test_what_limits_and_lines_do_not_go_with_is_said():
    X = np.ones((5, 4))
    with pytest.raises(ValueError, match="'fista' does not take limits"):
        rw.decompose(X, limits=(None, 1.0), method="fista")
    with pytest.raises(ValueError, match="low ≤ high"):
        rw.decompose(X, limits=(2.0, 1.0))
    with pytest.raises(ValueError, match="a pair"):
        rw.decompose(X, limits=np.ones((3, 3)))
    with pytest.raises(ValueError, match="'sparse' parameter"):
        rw.decompose(X, sparse="blocks")


@pytest.mark.parametrize("problem", [Penalized(1.0, 0.5), Constrained(2.0, 3.0), NoiseBounded(0.5, 0.7)])
@pytest.mark.parametrize("curvature", [False, True])
def test_the_dual_step_is_moreau_s_other_half(problem, curvature):
    """prox_σF*(σe) = σ(e − prox_F/σ(e)), with prox_F/σ by brute force on the optimality condition."""
    rng = np.random.default_rng(1)
    e, sigma = rng.standard_normal(9), 0.8
    w = rng.uniform(0.2, 3.0, 9) if curvature else np.ones(9)
    y = problem.dual_step(e, sigma, w if curvature else None)
    r = e - y / sigma
    if problem.most_misfit == np.inf:
        assert np.allclose(w * r, sigma * (e - r))
    else:
        u = cvxpy.Variable(9)
        inside = [cvxpy.sum_squares(cvxpy.multiply(np.sqrt(w), u)) <= problem.most_misfit**2]
        cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(u - e)), inside).solve(solver=cvxpy.CLARABEL)
        assert np.allclose(r, u.value, atol=1e-4)


def test_the_level_at_which_a_residual_is_clipped_leaves_the_misfit_asked_for():
    rng = np.random.default_rng(2)
    for _ in range(50):
        sizes = np.abs(rng.standard_normal(int(rng.integers(1, 40)))) * 10.0 ** rng.integers(-8, 9)
        radius = rng.uniform(0.0, 1.5) * np.linalg.norm(sizes)
        level = clip_level(sizes, radius)
        assert np.linalg.norm(np.minimum(sizes, level)) == pytest.approx(min(radius, np.linalg.norm(sizes)))


def test_lines_are_shortened_and_intervals_are_distances():
    x = np.array([[3.0, 4.0], [0.3, 0.4]])
    assert np.allclose(shrunk_by(x, 1.0, axis=1), [[2.4, 3.2], [0.0, 0.0]])
    term = EntriesTerm(np.array([[1.0, -np.inf, 0.0]]), np.array([[1.0, 2.0, np.inf]]))
    assert np.allclose(term.distance(np.array([[3.0, 5.0, -1.0]])), [[-2.0, -3.0, 1.0]])
    assert term.dot(np.array([[2.0, -1.0, 1.0]])) == 2.0 - 2.0


@pytest.mark.parametrize("seed", [28, 29, 47, 145])
def test_a_guess_of_large_weights_is_not_taken(seed):
    """A pursuit of 2 × 2 went to 1e6 where the last steps nearly depended on each other."""
    problem = draw("pursuit", "gaussian", 192)
    fit = rw.recover(problem.data, problem.operator, rng=seed, **problem.arguments)
    assert fit.relative_gap <= 1e-3 and fit.objective < 2.0
