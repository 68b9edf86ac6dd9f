"""delta="auto" where it used to fail: few columns, many outliers, no noise, a cell out of scale, busy BLAS threads."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from test_weights import mixture
from threadpoolctl import threadpool_info, threadpool_limits

import rankwolf as rw
from rankwolf.data import InMemory
from rankwolf.ground.deadline import Deadline
from rankwolf.passes.coefficients import fit_rows
from rankwolf.weights import descent
from rankwolf.weights.noise import measure


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("columns", "rank"), [(6, 2), (12, 4), (12, 6)])
def test_few_columns_do_not_stop_the_descent_at_the_spread_of_the_data(columns, rank, seed):
    """It used to end before the rank was reached: λ_S of 1.07 to 3.5 where 0.2 is right."""
    data, _ = mixture(seed, 500, columns, rank, 0.1, 0.03)
    lambda_S = 2.0 * descent.noise_of_array(data).sigma
    assert 0.1 < lambda_S < 0.4


def test_few_columns_do_not_let_the_fit_match_half_of_the_entries_and_call_the_rest_outliers():
    """A robust fit of rank 1 to two columns can pass through one of them: the median of its residual is zero then."""
    residual = np.concatenate([np.zeros(500), np.random.default_rng(0).standard_normal(500)])
    assert measure(residual, freedom=0.5).sigma == pytest.approx(1.0, rel=0.25)
    assert measure(np.concatenate([np.zeros(900), residual]), freedom=0.0).sigma < 0.1


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_third_of_outliers_does_not_stop_the_descent(noise):
    data, truth = mixture(0, 500, 500, 10, noise, 0.3)
    fit = rw.decompose(data, rng=0, delta="auto", max_seconds=60)
    assert fit.status.converged
    assert np.linalg.norm(np.asarray(fit.low_rank) - truth) < 0.03 * np.linalg.norm(truth)


def test_data_without_noise_is_not_solved_for_a_hundred_passes():
    data, truth = mixture(0, 300, 200, 5, 0.0, 0.1)
    fit = rw.decompose(data, delta="auto", rng=0)
    assert fit.passes < 60
    assert np.linalg.norm(np.asarray(fit.low_rank) - truth) < 0.01 * np.linalg.norm(truth)


@pytest.mark.parametrize("value", [1e12, -9.96920996838687e36])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_cell_out_of_scale_is_an_outlier_like_any_other(value, dtype):
    data, _ = mixture(0, 200, 40, 3, 0.3, 0.03)
    data[7, 5] += 100.0
    spoiled = data.astype(dtype)
    spoiled[7, 5] = value
    before, after = (rw.decompose(x, delta="auto", rng=0, tol=1e-4) for x in (data.astype(dtype), spoiled))
    assert after.status.converged
    assert after.lambdas == pytest.approx(before.lambdas, rel=1e-2)
    difference = np.linalg.norm(np.asarray(after.low_rank) - np.asarray(before.low_rank))
    assert difference < 0.02 * np.linalg.norm(np.asarray(before.low_rank))
    assert after.sparse[7][5] == pytest.approx(value, rel=1e-6)


def test_a_cell_out_of_scale_in_a_sparse_matrix():
    data, _ = mixture(0, 200, 40, 3, 0.3, 0.03)
    rows, columns = np.nonzero(np.random.default_rng(1).random(data.shape) < 0.6)
    entries = data[rows, columns]
    entries[17] = 1e12
    matrix = scipy.sparse.csr_array((entries, (rows, columns)), shape=data.shape)
    fit = rw.decompose(matrix, delta="auto", rng=0)
    assert 3 <= fit.low_rank.rank <= 4
    assert fit.sparse.to_scipy()[rows[17], columns[17]] == pytest.approx(1e12)


@pytest.mark.doubts("iteration limit")
def test_a_run_with_a_cell_out_of_scale_is_taken_up_again_with_the_same_bound(tmp_path):
    data, _ = mixture(0, 200, 40, 3, 0.3, 0.03)
    data[7, 5] = 1e12
    place = tmp_path / "run.checkpoint"
    rw.decompose(data, delta="auto", rng=0, max_iter=2, tol=1e-6, checkpoint=place)
    resumed = rw.decompose(data, delta="auto", rng=0, tol=1e-6, checkpoint=place, resume=True)
    whole = rw.decompose(data, delta="auto", rng=0, tol=1e-6, refit=False)
    assert resumed.objective == whole.objective


@pytest.mark.parametrize("line", [np.s_[:, 3], np.s_[4], np.s_[:, 499]])
def test_a_column_or_row_of_another_unit_is_no_cell_out_of_scale(line):
    """Of the 500 columns the estimate looks at 400: the column may or may not be among them."""
    data = np.random.default_rng(0).standard_normal((600, 500))
    data[line] *= 1e6
    source = InMemory(data, None, 1)
    descent.estimate_noise(source, np.random.default_rng(1))
    assert source.bound == np.inf


class Looking(Deadline):
    """Every step asks whether the time is up, and this looks how many threads BLAS may use just then."""

    def __init__(self):
        super().__init__(None)
        self.seen = []

    @property
    def passed(self):
        self.seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return super().passed


def test_blas_keeps_to_one_thread_during_the_estimate():
    data, _ = mixture(0, 100, 60, 2, 0.3, 0.03)
    deadline = Looking()
    with threadpool_limits(2, user_api="blas"):  # the tests as a whole begin with one
        descent.estimate_noise(InMemory(data, None, 1), np.random.default_rng(0), deadline)
    assert len(deadline.seen) > 10
    assert set(deadline.seen) == {1}


def test_the_estimate_ends_with_its_time():
    data, _ = mixture(0, 400, 400, 20, 0.1, 0.1)
    noise = descent.noise_of_array(data, Deadline(0.0))
    assert noise.rank == 0
    assert noise.sigma > 0.1


@pytest.mark.doubts("sparse part is zero")
def test_a_constant_table_and_an_empty_one_have_no_noise():
    assert descent.noise_of_array(np.full((5, 4), np.nan)).sigma == 0.0
    assert descent.noise_of_array(np.zeros((5, 4))).sigma == 0.0
    assert rw.decompose(np.full((30, 4), 7.0), delta="auto", rng=0).low_rank.rank == 1


def test_a_rung_predicts_as_robust_regressions_of_its_rows_do():
    data, _ = mixture(3, 200, 60, 4, 0.3, 0.1, 0.2)
    ladder = descent.Ladder(data, descent.SETTINGS, Deadline(None))
    rung = ladder._climb()  # of a rung, the public face shows no more than its rank and σ
    sizes = np.linalg.norm(rung.low_rank @ rung.right, axis=0) / data.shape[0] ** 0.5
    rows, right = np.where(ladder.shown, data, np.nan), rung.right * sizes
    predicted = fit_rows(rows, right, rung.sigma**2, 2.0 * rung.sigma) @ right.T
    moved = np.abs(data - predicted)[ladder.hidden] - ladder._prediction_errors(rung)
    assert np.sqrt(np.mean(moved**2)) < 0.005 * rung.sigma


def test_the_first_decomposition_compiles_three_kernels_and_says_so(tmp_path):
    """A newcomer waits for each of them, 0.1 to 0.4 s: the noise of a sample is measured without one of its own."""
    code = "import numpy as np, rankwolf as rw; rw.decompose(np.random.default_rng(0).standard_normal((60, 30)){})"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def said(more):
        words = [sys.executable, "-W", "ignore", "-c", code.format(more)]
        return subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stderr

    assert said(", verbose=True").count("compiling") == 1
    assert said(", verbose=True") == said("") == ""  # once on this machine; to nobody who did not ask
    names = {path.name.split("-")[0].split(".")[-1] for path in tmp_path.rglob("*.nbi")}
    assert names == {"describe_tile", "clip_dual", "clip_residual", "must"}
