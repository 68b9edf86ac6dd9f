"""start=: a run goes on from an earlier result, of the same matrix or of its first rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse
from test_time_limits import Watch

import rankwolf as rw
from benchmarks.quality.exact_recovery import problem
from rankwolf.cli.main import main
from rankwolf.solvers import SOLVERS, Solver

LAMBDAS = (2.5, 0.2)


def growing(m=240, n=80, rank=4, seed=0):
    """Rows of rank 4; the last sixth have a fifth direction, as when a light is switched on."""
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    new = slice(m - m // 6, m)
    data[new] += 3.0 * np.outer(rng.standard_normal(m // 6), rng.standard_normal(n))
    data += 0.05 * rng.standard_normal((m, n))
    data[rng.random((m, n)) < 0.05] += 10.0
    return data


def solved(X, **options):
    return rw.decompose(X, **{"lambdas": LAMBDAS, "rng": 0, "n_threads": 1, **options})


def places(data, tmp_path):
    np.save(tmp_path / "x.npy", data)
    yield data
    yield [tmp_path / "x.npy"]
    yield pytest.importorskip("dask.array").from_array(data, chunks=(60, data.shape[1]))


@pytest.mark.parametrize("wide", [False, True])
def test_same_matrix_costs_a_pass_and_a_proof(wide, tmp_path):
    data = growing(80, 240) if wide else growing()
    first = solved(data)
    for place in places(data, tmp_path):
        again = solved(place, start=first)
        assert again.relative_gap <= 1e-3
        assert again.objective <= first.objective * (1.0 + 1e-6)
        assert again.passes <= 4 < first.passes


@pytest.mark.parametrize("wide", [False, True])
def test_new_rows_are_fitted_and_their_new_direction_is_found(wide, tmp_path):
    data = growing(80, 240) if wide else growing()
    old = data[: len(data) - len(data) // 6]
    first = solved(old)
    cold = solved(data, tol=1e-4)
    for place in places(data, tmp_path):
        warm = solved(place, start=first)
        assert warm.relative_gap <= 1e-3
        assert warm.low_rank.rank == cold.low_rank.rank == first.low_rank.rank + 1
        assert warm.objective == pytest.approx(cold.objective, rel=1e-3)
        assert warm.passes < solved(data).passes
    assert warm.low_rank.shape == data.shape


def test_gaps_and_sparse_matrices():
    data = growing()
    shown = np.random.default_rng(1).random(data.shape) < 0.6
    holes = np.where(shown, data, np.nan)
    stored = scipy.sparse.csr_array(np.where(shown, data, 0.0))
    for X in (holes, stored):
        first = solved(X[:200])
        cold, warm = solved(X), solved(X, start=first)
        assert warm.relative_gap <= 1e-3
        assert warm.objective == pytest.approx(cold.objective, rel=2e-3)
        assert warm.passes <= cold.passes


def test_other_weights_forms_and_a_bare_low_rank():
    data = growing()
    first = solved(data)
    for options in (
        {"lambdas": (1.0, 0.1)},
        {"lambdas": (10.0, 0.8)},
        {"lambdas": None, "noise": 6.0},
        {"lambdas": None, "noise": 0.0, "tol": 1e-2},
    ):
        cold = solved(data, **options)
        for start in (first, first.low_rank, first.refit()):
            warm = solved(data, start=start, **options)
            assert warm.status.converged
            assert warm.objective == pytest.approx(cold.objective, rel=2 * options.get("tol", 1e-3))


@pytest.mark.doubts("low-rank part is zero", "sparse part is zero")
def test_saved_results_and_zero(tmp_path):
    data = growing()
    first = solved(data[:200])
    first.save(tmp_path / "first.npz")
    again = solved(data, start=rw.load(tmp_path / "first.npz"))
    assert again.objective == solved(data, start=first).objective
    zero = solved(data, lambdas=(1e4, 50.0))
    assert zero.low_rank.rank == 0
    assert solved(data, start=zero).objective == pytest.approx(again.objective, rel=1e-3)


def test_complaints():
    data = growing()
    first = solved(data)
    for start, match in (
        (rw.decompose(data[:, :50], delta=0.01, rng=0), "80 columns and at most 240 rows"),
        (data, "result of decompose"),
    ):
        with pytest.raises(ValueError, match=match):
            solved(data, start=start)
    with pytest.raises(ValueError, match="at most 100 rows"):
        solved(data[:100], start=first)
    with pytest.raises(ValueError, match=r"'fista' begins at L = S = 0.* These do: 'splitting', 'hybrid'\."):
        solved(data, start=first, method="fista")


def test_a_solver_says_that_it_takes_a_start_where_it_has_code_for_one():
    for solver in SOLVERS.values():
        assert solver.takes_start == (solver.init_at is not Solver.init_at), solver.name


def test_command_starts_from_a_folder_or_its_file(tmp_path, capsys):
    data = growing()
    np.save(tmp_path / "old.npy", data[:200])
    np.save(tmp_path / "new.npy", data)
    common = ["--lambdas", "2.5", "0.2", "--threads", "1", "--json"]
    assert main(["decompose", str(tmp_path / "old.npy"), "-o", str(tmp_path / "old"), *common]) == 0
    capsys.readouterr()
    passes = []
    for number, start in enumerate(([], ["old"], ["old/result.npz"])):
        arguments = ["decompose", str(tmp_path / "new.npy"), "-o", str(tmp_path / f"new{number}"), *common]
        assert (
            main([*arguments, *(word for name in start for word in ("--start", str(tmp_path / name)))]) == 0
        )
        passes.append(json.loads(capsys.readouterr().out)["passes"])
    assert passes[1] == passes[2] < passes[0]
    target = str(tmp_path / "nothing")
    for start in ("missing", "old.npy"):
        arguments = ["decompose", str(tmp_path / "new.npy"), "-o", target, "--start", str(tmp_path / start)]
        assert main(arguments) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.doubts
def test_the_time_limit_holds_for_new_rows_too():
    """Before, what they add to L was looked for without a limit."""
    rng = np.random.default_rng(3)
    data = rng.standard_normal((1500, 900))
    first = rw.decompose(data[:20], lambdas=(1.0, 0.5), rng=0, max_iter=2)
    watch = Watch()
    fit = rw.decompose(data, lambdas=(1.0, 0.5), rng=0, start=first, max_seconds=0.3)
    assert watch.own < 2.5
    assert fit.status is rw.Status.TIME_LIMIT


@pytest.mark.parametrize("delta", ["auto", 1e-2, 1e-4])
def test_without_noise_the_truth_is_found_to_the_last_digits_from_any_start(delta):
    M, L = problem(200, 4, 0.1, 3)[:2]
    first = rw.decompose(M, delta=delta, tol=1e-2, rng=0)
    fit = rw.decompose(M, noise=0.0, start=first, rng=0)
    assert np.linalg.norm(fit.low_rank.toarray() - L) < 1e-12 * np.linalg.norm(L)
    assert fit.low_rank.rank == 4


@pytest.mark.parametrize("sigma", [0.01, 0.1])
def test_a_bound_on_the_noise_is_found_sooner_from_a_start(sigma):
    M, _ = problem(200, 4, 0.1, 3)[:2]
    M = M + sigma * np.random.default_rng(0).standard_normal(M.shape)
    epsilon = sigma * M.size**0.5
    cold = rw.decompose(M, noise=epsilon, rng=0)
    warm = rw.decompose(M, noise=epsilon, start=cold, rng=0)
    assert warm.objective == pytest.approx(cold.objective, rel=2e-3)
    assert warm.passes <= cold.passes


@pytest.mark.filterwarnings("ignore::rankwolf.RankwolfWarning")  # noise in L is what it is about
@pytest.mark.parametrize("share", [0.0, 1e-12, 1e-6, 1e-4])
@pytest.mark.parametrize("sigma", [0.0, 0.02])
def test_hardly_any_noise_costs_no_more_passes_from_a_start(share, sigma):
    """Before: a run began at weights of the size of ε, far below what L was off, and hit the limit of iterations."""
    M, _ = problem(80, 3, 0.1, 3)[:2]
    M = (M + sigma * np.random.default_rng(0).standard_normal(M.shape))[:, :27]
    epsilon = share * float(np.linalg.norm(M))
    options = {"noise": epsilon, "rng": 0, "n_threads": 1, "max_iter": 300}
    cold = rw.decompose(M, **options)
    rows = rw.decompose(M[:66], **{**options, "noise": epsilon * (66 / 80) ** 0.5})
    low = rw.decompose(M, delta=1e-4, tol=1e-2, rng=0, n_threads=1)
    for start in (cold, cold.low_rank, rows, low):
        warm = rw.decompose(M, start=start, **options)
        assert warm.status.converged
        assert warm.objective == pytest.approx(cold.objective, rel=2e-3)
        assert warm.passes <= 1.4 * cold.passes
