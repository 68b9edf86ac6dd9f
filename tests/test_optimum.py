"""An optimum that was found by somebody else: CVXPY's interior-point solver, and dense accelerated gradients.

The certified gap is compared with the true one: it may be larger, never smaller.
"""

from __future__ import annotations

from functools import cache

import cvxpy
import numpy as np
import pytest
import reference

import rankwolf as rw
from rankwolf.solvers import certificate

SHAPES = [(10, 7), (7, 10), (9, 9)]
CASES = [(m, n, observed, seed) for m, n in SHAPES for observed in (1.0, 0.6) for seed in (0, 1)]
# CVXPY's own accuracy, relative to the objective.
SLACK = 1e-6


@cache
def instance(m, n, observed, seed):
    M, seen = reference.corrupted(100 * m + seed, m, n, rank=2, observed=observed)
    seen[0, 0] = True
    return M, seen, reference.weights_for(M, seen, 0.08)


@cache
def weights_optimum(*case):
    M, seen, (lambda_L, lambda_S) = instance(*case)
    L, S = cvxpy.Variable(M.shape), cvxpy.Variable(M.shape)
    misfit = 0.5 * cvxpy.sum_squares(cvxpy.multiply(seen.astype(float), L + S - M))
    problem = cvxpy.Problem(
        cvxpy.Minimize(misfit + lambda_L * cvxpy.normNuc(L) + lambda_S * cvxpy.sum(cvxpy.abs(S)))
    )
    problem.solve(solver=cvxpy.CLARABEL)
    assert problem.status == "optimal"
    return float(problem.value)


@cache
def radii_and_optimum(*case):
    M, seen, _ = instance(*case)
    radii = 0.4 * reference.nuclear_norm(np.where(seen, M, 0.0)), 0.1 * float(np.abs(M[seen]).sum())
    L, S = cvxpy.Variable(M.shape), cvxpy.Variable(M.shape)
    misfit = 0.5 * cvxpy.sum_squares(cvxpy.multiply(seen.astype(float), L + S - M))
    problem = cvxpy.Problem(
        cvxpy.Minimize(misfit), [cvxpy.normNuc(L) <= radii[0], cvxpy.sum(cvxpy.abs(S)) <= radii[1]]
    )
    problem.solve(solver=cvxpy.CLARABEL)
    assert problem.status == "optimal"
    return radii, float(problem.value)


def run(M, seen, **settings):
    return rw.decompose(M, observed=None if seen.all() else seen, rng=0, n_threads=1, **settings)


def check_against(fit, M, seen, best, slack=SLACK):
    """The reported objective is that of the reported pair, and the optimum lies where the certificate says."""
    L, S = np.asarray(fit.low_rank, dtype=np.float64), np.asarray(fit.sparse, dtype=np.float64)
    if fit.lambdas:
        value = reference.objective(M, seen, L, S, fit.lambdas)
    else:
        value = reference.misfit(M, seen, L, S)
        assert reference.nuclear_norm(L) <= fit.radii[0] * (1 + 1e-6)
        assert np.abs(S).sum() <= fit.radii[1] * (1 + 1e-6)
    assert fit.objective == pytest.approx(value, rel=slack)
    assert value >= best * (1 - slack), "nothing is below the optimum"
    assert fit.gap >= value - best - slack * best, "the certified gap is smaller than the true one"


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_weights_every_solver_agrees_with_cvxpy(case):
    M, seen, lambdas = instance(*case)
    best = weights_optimum(*case)
    fista = run(M, seen, lambdas=lambdas, method="fista", tol=1e-6, max_iter=3000)
    assert fista.objective == pytest.approx(best, rel=1e-5)
    assert fista.low_rank.rank > 0
    assert fista.sparse.nonzeros > 0, "a problem whose answer is trivial shows nothing"
    check_against(fista, M, seen, best)
    for method in ("fw-t", "fw", "ista", "hybrid", "splitting"):
        check_against(run(M, seen, lambdas=lambdas, method=method, tol=1e-4, max_iter=150), M, seen, best)


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_radii_every_solver_agrees_with_cvxpy(case):
    M, seen, _ = instance(*case)
    radii, best = radii_and_optimum(*case)
    for method in ("fw-p", "fw", "ista", "fista", "auto"):
        fit = run(M, seen, radii=radii, method=method, tol=1e-3, max_iter=300)
        check_against(fit, M, seen, best)
    fw_p = run(M, seen, radii=radii, method="fw-p", tol=1e-2, max_iter=5000)
    assert fw_p.status is rw.Status.GAP_REACHED
    assert fw_p.objective <= best * (1 + 1.02e-2)
    assert fw_p.sparse.nonzeros > 0
    assert best > 1e-3 * np.sum(M[seen] ** 2)


@pytest.mark.doubts("low-rank part is zero", "λ_S is below the noise", "iteration limit")
@pytest.mark.parametrize("method", ["fw-t", "fw", "ista", "fista", "hybrid", "splitting"])
@pytest.mark.parametrize("iterations", [1, 2, 3, 5, 8, 20])
def test_the_certificate_holds_however_early_a_run_ends(method, iterations):
    case = CASES[2]
    M, seen, lambdas = instance(*case)
    fit = run(M, seen, lambdas=lambdas, method=method, tol=0.0, max_iter=iterations)
    check_against(fit, M, seen, weights_optimum(*case))


@pytest.mark.doubts("low-rank part is zero", "iteration limit")
@pytest.mark.parametrize("method", ["splitting", "path", "fw-p", "fw", "ista", "fista"])
@pytest.mark.parametrize("iterations", [1, 2, 3, 5, 8, 20])
def test_the_certificate_for_radii_holds_however_early_a_run_ends(method, iterations):
    case = CASES[2]
    M, seen, _ = instance(*case)
    radii, best = radii_and_optimum(*case)
    check_against(run(M, seen, radii=radii, method=method, tol=0.0, max_iter=iterations), M, seen, best)


def awkward_matrices():
    rng = np.random.default_rng(5)
    blocks = np.zeros((60, 40))
    for i in range(10):
        blocks[6 * i : 6 * i + 6, 4 * i : 4 * i + 4] = 10 - i
    steps = np.zeros((40, 30))
    steps[np.arange(30), np.arange(30)] = np.linspace(30.0, 1.0, 30)
    return {
        "low rank without noise": rng.standard_normal((80, 4)) @ rng.standard_normal((4, 50)),
        "blocks": blocks,
        "diagonal": steps,
        "equal singular values": 5.0 * np.eye(30, 20),
        "triangle of ones": np.tri(40, 30),
        "constant": np.full((30, 20), 3.0),
        "one row repeated": np.outer(np.ones(30), np.arange(20.0)),
        "noise": rng.standard_normal((50, 40)),
    }


@pytest.mark.doubts("low-rank part is zero", "most of it is noise", "sparse part is zero", "iteration limit")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", awkward_matrices())
def test_the_certificate_holds_where_warm_vectors_miss_a_direction(name, dtype):
    """Structured matrices, whose invariant subspaces a warm-started oracle does not leave by itself."""
    M = awkward_matrices()[name].astype(dtype).astype(np.float64)
    seen = np.ones(M.shape, bool)
    lambda_L, lambda_S = reference.weights_for(M, seen, 0.06)
    lambdas = lambda_L, 3.0 * lambda_S
    lower, upper, _ = reference.optimum(M, seen, lambdas, tol=1e-7)
    for method in ("fw-t", "fista", "hybrid", "splitting"):
        fit = run(M.astype(dtype), seen, lambdas=lambdas, method=method, tol=1e-4, max_iter=60)
        check_against(fit, M, seen, upper, 1e-6)
        assert fit.objective - fit.gap <= upper * (1 + 1e-6)
        assert fit.objective >= lower * (1 - 1e-6)


@pytest.mark.doubts("most of it is noise", "iteration limit")
@pytest.mark.parametrize("method", ["fw-t", "fista", "hybrid"])
def test_the_certificate_beyond_the_largest_gram_matrix(method, monkeypatch):
    """With too many columns for a factorisation it rests on Lanczos, says so, and still holds."""
    # A matrix with more than 4096 rows and columns would take minutes.
    monkeypatch.setattr(certificate, "affords_exact", lambda source, rank: False)
    M, seen = reference.corrupted(8, 60, 40, observed=0.8)
    lambdas = reference.weights_for(M, seen, 0.06)
    _, upper, _ = reference.optimum(M, seen, lambdas, tol=1e-8)
    for iterations in (3, 30):
        fit = run(M, seen, lambdas=lambdas, method=method, tol=1e-6, max_iter=iterations)
        assert not fit.gap_is_proved
        check_against(fit, M, seen, upper)
    proved = run(M, seen, lambdas=lambdas, method="fista", tol=1e-3)
    assert proved.relative_gap <= 1e-3


@pytest.mark.doubts("iteration limit")
def test_a_small_run_is_proved():
    M, seen, lambdas = instance(*CASES[0])
    assert run(M, seen, lambdas=lambdas, method="fista", max_iter=5).gap_is_proved
