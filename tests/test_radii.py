"""radii=: CVXPY is the truth, both norms always keep to their bounds, and nothing loops."""

from __future__ import annotations

import json
import warnings
from functools import cache

import cvxpy
import numpy as np
import pytest
import reference

import rankwolf as rw
from rankwolf.cli import main

SHAPES = [(10, 7, 1.0), (7, 10, 1.0), (9, 9, 0.6), (12, 8, 0.8), (8, 12, 1.0)]
SHARES = [(0.5, 0.2), (0.2, 0.05)]
CASES = [(*shape, seed, *share) for shape in SHAPES for seed in range(2) for share in SHARES]
# CVXPY's own accuracy, relative to the data.
SLACK = 1e-7


@cache
def instance(m, n, observed, seed, share_L, share_S):
    M, seen = reference.corrupted(200 * m + seed, m, n, rank=2, observed=observed)
    seen[0, 0] = True
    radii = share_L * reference.nuclear_norm(np.where(seen, M, 0.0)), share_S * float(np.abs(M[seen]).sum())
    L, S = cvxpy.Variable(M.shape), cvxpy.Variable(M.shape)
    misfit = 0.5 * cvxpy.sum_squares(cvxpy.multiply(seen.astype(float), L + S - M))
    bounds = [cvxpy.normNuc(L) <= radii[0], cvxpy.sum(cvxpy.abs(S)) <= radii[1]]
    problem = cvxpy.Problem(cvxpy.Minimize(misfit), bounds)
    problem.solve(solver=cvxpy.CLARABEL)
    assert problem.status == "optimal"
    return M, seen, radii, float(problem.value)


def run(M, seen, radii, **settings):
    observed = None if seen.all() else seen
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rw.RankwolfWarning)
        return rw.decompose(M, observed=observed, radii=radii, rng=0, n_threads=1, **settings)


def check(fit, M, seen, radii, best):
    """Both bounds hold, the objective is that of the pair, the certified gap is not smaller than the true one."""
    L, S = np.asarray(fit.low_rank, np.float64), np.asarray(fit.sparse, np.float64)
    assert reference.nuclear_norm(L) <= radii[0] * (1 + 1e-9)
    assert np.abs(S[seen]).sum() <= radii[1] * (1 + 1e-9)
    value = 0.5 * float(np.sum((L + S - M)[seen] ** 2))
    slack = SLACK * float(np.sum(M[seen] ** 2))
    assert fit.objective == pytest.approx(value, rel=1e-9)
    assert value >= best - slack, "nothing is below the optimum"
    assert fit.gap >= value - best - slack, "the certified gap is smaller than the true one"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_search_for_multipliers_agrees_with_cvxpy(case):
    M, seen, radii, best = instance(*case)
    fit = run(M, seen, radii, tol=1e-3, method="path", max_iter=400)
    assert fit.gap <= 0.01 * float(np.sum(M[seen] ** 2))
    check(fit, M, seen, radii, best)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_agrees_with_cvxpy(case):
    M, seen, radii, best = instance(*case)
    fit = run(M, seen, radii, tol=1e-4, max_iter=2000)
    assert fit.status is rw.Status.GAP_REACHED
    assert fit.objective <= best * (1 + 1.1e-4) + SLACK * float(np.sum(M[seen] ** 2))
    check(fit, M, seen, radii, best)


@pytest.mark.parametrize("iterations", [1, 2, 3, 5, 8, 20])
def test_the_bounds_and_the_certificate_hold_however_early_a_run_ends(iterations):
    M, seen, radii, best = instance(*CASES[8])
    check(run(M, seen, radii, tol=0.0, max_iter=iterations), M, seen, radii, best)


def test_a_penalised_optimum_is_found_again_from_its_norms():
    M, seen = reference.corrupted(5, 9000, 20, rank=3, observed=0.7)
    first = rw.decompose(M, observed=seen, delta=0.02, tol=1e-6, rng=0)
    norms = first.low_rank.nuclear_norm, float(np.abs(np.asarray(first.sparse)[seen]).sum())
    fit = rw.decompose(M, observed=seen, radii=norms, rng=0)
    assert fit.status is rw.Status.GAP_REACHED
    assert fit.iterations <= 150
    difference = np.asarray(fit.low_rank) - np.asarray(first.low_rank)
    assert np.linalg.norm(difference) <= 0.02 * np.linalg.norm(np.asarray(first.low_rank))


def test_radii_that_hold_all_of_the_data_say_so_and_end():
    M, seen, _, _ = instance(*CASES[0])
    everything = 0.7 * reference.nuclear_norm(M), 0.4 * float(np.abs(M).sum())
    with pytest.warns(rw.RankwolfWarning, match="hold all of the data"):
        fit = rw.decompose(M, radii=everything, rng=0)
    assert fit.status is rw.Status.GAP_REACHED
    assert fit.iterations < 100
    assert fit.objective <= 1e-12 * float(np.sum(M[seen] ** 2))


@pytest.mark.filterwarnings("ignore::rankwolf.RankwolfWarning")  # a matrix of zeros is odd
@pytest.mark.parametrize("radius", [1e-6, 1.0, 100.0])
@pytest.mark.parametrize("shape", [(1, 1), (30, 20)])
def test_zeros_end_at_once(shape, radius):
    """Before: prices fell for 540 passes until they were 0, which for a single entry was a ZeroDivisionError."""
    fit = rw.decompose(np.zeros(shape), radii=(radius, radius), rng=0)
    assert fit.status is rw.Status.GAP_REACHED
    assert fit.passes <= 10
    assert fit.objective == fit.gap == 0.0


def test_a_gap_of_one_says_what_it_means():
    M, _, radii, _ = instance(*CASES[0])
    with pytest.warns(rw.RankwolfWarning, match="how far this pair is from the optimum is not known"):
        fit = rw.decompose(M, radii=radii, method="fw", max_iter=2)
    assert fit.relative_gap > 0.99


def test_two_forms_at_once_are_explained():
    M = instance(*CASES[0])[0]
    with pytest.raises(
        ValueError, match=r"lambdas are the weights .*, radii bound ‖L‖_\* and ‖S‖₁.* Give one"
    ):
        rw.decompose(M, lambdas=(1.0, 1.0), radii=(1.0, 1.0))
    with pytest.raises(ValueError, match=r"radii bound .*, noise bounds the misfit.* Give one"):
        rw.decompose(M, noise=0.0, radii=(1.0, 1.0))


@pytest.mark.parametrize(
    "form",
    [{"radii": (1.0, 1.0)}, {"noise": 0.0}, {"problem": rw.problem.Penalized(1.0, 1.0)}],
    ids=str,
)
def test_a_delta_beside_another_form_is_not_passed_over(form):
    """Before: δ was taken and not used, but for rank=, where it was an error."""
    M = instance(*CASES[0])[0]
    with pytest.raises(ValueError, match=r"delta chooses weights by the paper's rule\. Give one"):
        rw.decompose(M, delta=0.01, **form)


def test_a_resumed_run_is_the_undisturbed_one(tmp_path):
    M, _ = reference.corrupted(3, 60, 40, rank=3, observed=1.0)
    settings = {
        "radii": (0.5 * reference.nuclear_norm(M), 0.1 * float(np.abs(M).sum())),
        "tol": 1e-12,
        "rng": 3,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rw.RankwolfWarning)
        whole = rw.decompose(M, **settings, max_iter=14)
        rw.decompose(M, **settings, max_iter=6, checkpoint=tmp_path / "run")
        second = rw.decompose(M, **settings, max_iter=14, checkpoint=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(np.asarray(whole.low_rank), np.asarray(second.low_rank))


def test_the_command_takes_radii(tmp_path, capsys):
    M, _, radii, best = instance(*CASES[0])
    np.save(tmp_path / "M.npy", M)
    words = ["decompose", str(tmp_path / "M.npy"), "--output", str(tmp_path / "out"), "--json"]
    assert main([*words, "--radii", *map(str, radii)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["objective"] == pytest.approx(best, rel=2e-3)
    assert not said["refit"]


@pytest.mark.parametrize("seed", [11, 24, 36])
def test_six_digits_are_reached(seed):
    """Before: 300 to 629 passes, and an end at a gap of 4e-5: the aim stayed that far inside of the radii."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(4, 13)), int(rng.integers(4, 13))
    M = rng.standard_normal((m, 2)) @ rng.standard_normal((2, n))
    M += (rng.random((m, n)) < 0.15) * rng.standard_normal((m, n)) * 5.0
    shares = rng.uniform(0.1, 0.6), rng.uniform(0.05, 0.4)
    radii = shares[0] * np.linalg.norm(M, "nuc"), shares[1] * np.abs(M).sum()
    fit = rw.decompose(M, radii=radii, tol=1e-6, rng=0)
    assert fit.relative_gap <= 1e-6
    assert fit.iterations <= 300
