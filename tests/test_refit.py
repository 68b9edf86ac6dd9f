"""fit.refit(): L without shrinkage is what an oracle gets who knows the outliers, wherever the matrix lives."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse
from test_weights import mixture

import rankwolf as rw
from rankwolf.data import InMemory
from rankwolf.ground.low_rank import LowRank
from rankwolf.solvers.refit import (
    RefitRows,
    RefitSettings,
    column_steps,
    decided_rows,
    least_strength,
    noise_scales,
    refit,
)
from rankwolf.weights.noise import OUTLIER_IN_SIGMAS, leverages_of


def planted(seed, m, n, rank, sigma, outliers, missing):
    """(data, truth, which entries are good)."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    data = truth + sigma * rng.standard_normal((m, n))
    spoiled = rng.random((m, n)) < outliers
    data[spoiled] += rng.choice([-1.0, 1.0], np.count_nonzero(spoiled)) * rng.uniform(5.0, 10.0)
    hidden = rng.random((m, n)) < missing
    data[hidden] = np.nan
    return data, truth, ~(spoiled | hidden)


def oracle(data, good, rank):
    low_rank = np.zeros(data.shape)
    for _ in range(300):
        u, s, vt = np.linalg.svd(np.where(good, data, low_rank), full_matrices=False)
        low_rank = (u[:, :rank] * s[:rank]) @ vt[:rank]
    return low_rank


def error(low_rank, truth):
    return np.linalg.norm(np.asarray(low_rank) - truth) / np.linalg.norm(truth)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize(
    "setting", [(150, 100, 3, 0.3, 0.1), (80, 160, 5, 0.1, 0.15), (400, 30, 2, 0.5, 0.05)]
)
def test_it_is_as_good_as_knowing_the_outliers(setting, missing):
    data, truth, good = planted(0, *setting, missing)
    fit = rw.decompose(data, rng=0, refit=False)
    refitted = fit.refit()
    best = error(oracle(data, good, setting[2]), truth)
    assert error(refitted.low_rank, truth) < 1.1 * best < 0.9 * error(fit.low_rank, truth)
    assert refitted.noise_scale == pytest.approx(setting[3], rel=0.05)


def test_without_noise_it_is_exact():
    data, truth, _ = planted(1, 120, 80, 4, 0.0, 0.1, 0.1)
    refitted = rw.decompose(data, rng=0, refit=False).refit()
    assert error(refitted.low_rank, truth) < 1e-9


def test_outliers_keep_their_size_and_noise_is_not_among_them():
    data, truth, good = planted(2, 200, 100, 3, 0.2, 0.05, 0.1)
    refitted = rw.decompose(data, rng=0, refit=False).refit()
    spoiled = ~good & ~np.isnan(data)
    sparse = np.asarray(refitted.sparse)
    assert np.median(np.abs(sparse - (data - truth))[spoiled]) < 0.2
    assert np.count_nonzero(sparse[good]) < 0.003 * np.count_nonzero(good)
    assert np.count_nonzero(sparse) == refitted.sparse.nonzeros
    assert not sparse[np.isnan(data)].any()


@pytest.mark.parametrize("vector", [(1.0, 0.2, 0.1, 0.1), (1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 0.1, 0.1)])
def test_the_noise_beside_few_columns(vector):
    """L matches most of a column along which it lies: with the same loss for all columns, σ came out as 0.87."""
    rng = np.random.default_rng(15)
    truth = 4.0 * np.outer(rng.standard_normal(2000), vector)
    refitted = rw.decompose(truth + rng.standard_normal(truth.shape), rng=0, refit=False).refit()
    assert refitted.low_rank.rank == 1
    assert refitted.noise_scale == pytest.approx(1.0, rel=0.06)
    assert refitted.sparse.nonzeros <= 0.003 * truth.size


def test_many_leverages_are_as_good_as_some_of_them():
    right = np.linalg.qr(np.random.default_rng(16).standard_normal((1000, 3)))[0]
    assert leverages_of(right, 0.2).size == 200
    assert np.mean(leverages_of(right, 0.2)) == pytest.approx(0.2, rel=0.02)
    assert np.mean(leverages_of(right[:100], 0.2)) == pytest.approx(0.2, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_it_is_the_same_wherever_the_matrix_lives(tmp_path, dtype):
    da = pytest.importorskip("dask.array")
    data = planted(3, 300, 60, 3, 0.2, 0.05, 0.1)[0].astype(dtype)
    np.save(tmp_path / "data.npy", data)
    kinds = {
        "memory": data,
        "columns first": np.asfortranarray(data),
        "disk": np.load(tmp_path / "data.npy", mmap_mode="r"),
        "dask": da.from_array(data, chunks=(70, 60)),
        "mask": (np.nan_to_num(data), ~np.isnan(data)),
    }
    results = {}
    for name, X in kinds.items():
        options = {"observed": X[1]} if name == "mask" else {}
        fit = rw.decompose(X[0] if name == "mask" else X, lambdas=(5.0, 0.4), rng=0, tol=1e-4, **options)
        refitted = fit.refit()
        assert refitted.low_rank.rank == 3
        results[name] = np.asarray(refitted.low_rank[:]), refitted.sparse.to_scipy().toarray()
    tolerance = 2e-3 if dtype == np.float32 else 1e-5
    for low_rank, sparse in results.values():
        assert np.allclose(low_rank, results["memory"][0], atol=tolerance)
        assert np.count_nonzero((sparse != 0) != (results["memory"][1] != 0)) <= 3


@pytest.mark.parametrize("turned", [False, True])
def test_a_sparse_matrix_is_fitted_on_its_stored_entries(turned):
    data, truth, good = planted(4, 300, 80, 3, 0.2, 0.05, 0.6)
    rows, columns = np.nonzero(~np.isnan(data))
    matrix = scipy.sparse.csr_array((data[rows, columns], (rows, columns)), shape=data.shape)
    fit = rw.decompose(matrix.T if turned else matrix, rng=0, refit=False)
    refitted = fit.refit()
    low_rank = np.asarray(refitted.low_rank).T if turned else np.asarray(refitted.low_rank)
    assert error(low_rank, truth) < 1.1 * error(oracle(data, good, 3), truth)
    assert refitted.sparse.to_scipy().nnz == refitted.sparse.nonzeros
    dense = rw.decompose(data, lambdas=fit.lambdas, rng=0).refit()
    assert error(low_rank, np.asarray(dense.low_rank)) < 0.03


def test_the_columns_normal_equations_need_not_fit_into_memory():
    data, _, _ = planted(5, 200, 100, 3, 0.2, 0.05, 0.1)
    fit = rw.decompose(data, rng=0, refit=False)
    exact = fit.refit()
    few = refit(InMemory(data, None, 1), fit.low_rank, fit.lambdas[0], RefitSettings(numbers=10))
    assert np.allclose(np.asarray(few.low_rank), np.asarray(exact.low_rank), atol=0.02)


def test_the_result_says_how_it_was_made_and_survives_a_file(tmp_path):
    data, *_ = planted(6, 60, 40, 2, 0.1, 0.05, 0.0)
    fit = rw.decompose(data, rng=0, refit=False)
    refitted = fit.refit()
    assert type(refitted) is type(fit)
    assert refitted.status is rw.Status.REFITTED
    assert refitted.status.converged
    assert f"noise {refitted.noise_scale:.4g}" in repr(refitted)
    assert "without shrinkage" in repr(refitted)
    assert refitted.gap == np.inf
    assert refitted.lambdas == fit.lambdas
    assert refitted.passes > fit.passes
    assert refitted.seconds > fit.seconds
    misfit = data - np.asarray(refitted.low_rank) - np.asarray(refitted.sparse)
    assert refitted.objective == pytest.approx(0.5 * np.sum(misfit**2), rel=1e-6)
    refitted.save(tmp_path / "refit.npz")
    loaded = rw.load(tmp_path / "refit.npz")
    assert (loaded.status, loaded.noise_scale) == (refitted.status, refitted.noise_scale)
    with pytest.raises(ValueError, match="cannot be refitted"):
        loaded.refit()


def test_a_refit_of_a_refit_stays():
    data, *_ = planted(7, 100, 60, 2, 0.1, 0.05, 0.0)
    once = rw.decompose(data, rng=0, refit=False).refit()
    twice = once.refit()
    assert np.allclose(np.asarray(twice.low_rank), np.asarray(once.low_rank), atol=0.02)


@pytest.mark.doubts("most of it is noise", "iteration limit")
@pytest.mark.parametrize("method", ["fw-t", "fista"])
def test_every_method_can_be_refitted(method):
    data, truth, _ = planted(8, 60, 40, 2, 0.1, 0.05, 0.0)
    fit = rw.decompose(data, lambdas=(1.5, 0.2), method=method, rng=0, max_iter=400)
    assert error(fit.refit().low_rank, truth) < 0.05


def test_nothing_in_l_leaves_the_data_as_it_is():
    data = np.random.default_rng(9).standard_normal((60, 40))
    data[3, 4] = 30.0
    with pytest.warns(rw.RankwolfWarning, match="low-rank part is zero"):
        refitted = rw.decompose(data, rng=0, refit=False).refit()
    assert refitted.low_rank.rank == 0
    assert refitted.noise_scale == pytest.approx(1.0, rel=0.05)
    assert refitted.sparse[3][4] == 30.0


def test_directions_of_noise_are_dropped():
    """A λ_L far below the noise leaves its directions in L; unshrunk they would be worse still."""
    data, _, _ = planted(10, 150, 100, 3, 0.5, 0.0, 0.0)
    fit = rw.decompose(data, lambdas=(6.0, 1.0), rng=0)
    assert fit.low_rank.rank > 10
    assert fit.refit().low_rank.rank == 3


def test_the_optimal_hard_threshold():
    """Gavish and Donoho: 4/√3 for a square matrix, 2.858 medians; λ(0.5) = 1.9784 (their table) over 1 + √0.5."""
    assert least_strength((100, 100)) == pytest.approx(4.0 / 3.0**0.5 / 2.0)
    assert least_strength((100, 200)) == pytest.approx(1.9784 / (1.0 + 0.5**0.5), rel=1e-3)
    assert least_strength((1, 10**9)) == pytest.approx(2.0**0.5, rel=1e-3)


@pytest.mark.parametrize("times", [0.5, 1.0, 1.9])
def test_the_size_of_noise_is_seen_in_what_is_within_the_limit(times):
    """Gaussian noise of which part lies beyond: its mean square alone would be too small."""
    usual = 1.0 / OUTLIER_IN_SIGMAS
    noise = times * usual * np.random.default_rng(13).standard_normal(100_000)
    inside = noise[np.abs(noise) <= 1.0]
    squared, count = np.array([np.sum(inside**2)]), np.array([inside.size])
    assert noise_scales(squared, count)[0] == pytest.approx(times, rel=0.03)
    assert noise_scales(np.zeros(1), np.zeros(1))[0] == pytest.approx(1.0, rel=1e-3)  # no entries


def test_one_pass_is_the_least_squares_of_rows_and_then_of_columns():
    rng = np.random.default_rng(12)
    data = rng.standard_normal((30, 8))
    data[rng.random(data.shape) < 0.2] = np.nan
    right = np.linalg.qr(rng.standard_normal((8, 2)))[0]
    source = InMemory(data, None, 1, transposed=False)
    sums, (left,) = source.run_with_rows(RefitRows(right, np.eye(2), np.inf), np.zeros((30, 2)))
    for i in range(30):
        seen = ~np.isnan(data[i])
        assert np.allclose(left[i], np.linalg.lstsq(right[seen], data[i, seen], rcond=None)[0], atol=1e-6)
    moved = right + column_steps(sums, 30)
    for j in range(8):
        seen = ~np.isnan(data[:, j])
        assert np.allclose(moved[j], np.linalg.lstsq(left[seen], data[seen, j], rcond=None)[0], atol=1e-6)


SIGMA, LIMIT = 0.1, 0.329


def price(row, right, prior, live):
    """min over u of Σd² + uᵀPu + limit²·(entries that do not count)."""
    vectors, entries = right[live], row[live]
    u = np.linalg.solve(vectors.T @ vectors + prior, vectors.T @ entries)
    return np.sum((entries - vectors @ u) ** 2) + u @ prior @ u + LIMIT**2 * np.count_nonzero(~live)


def test_in_most_short_rows_the_entries_that_count_are_the_best_of_all_sets():
    rng = np.random.default_rng(0)
    right = np.linalg.qr(rng.standard_normal((7, 2)))[0]
    rows = rng.standard_normal((60, 2)) @ right.T + SIGMA * rng.standard_normal((60, 7))
    rows[rng.random(rows.shape) < 0.1] += 5.0
    prior = SIGMA**2 * np.eye(2)
    left, live = decided_rows(rows, np.full(rows.shape, True), right, np.zeros((60, 2)), prior, LIMIT)
    sets = [np.array(choice) for choice in product([True, False], repeat=7) if sum(choice) >= 3]
    best = 0
    for row, chosen, u in zip(rows, live, left, strict=True):
        vectors = right[chosen]
        exact = np.linalg.solve(vectors.T @ vectors + prior, vectors.T @ row[chosen])
        assert np.allclose(u, exact, atol=1e-6)
        best += (
            price(row, right, prior, chosen) <= 1.2 * min(price(row, right, prior, s) for s in sets) + 1e-9
        )
    assert best >= 50


@pytest.mark.parametrize(("columns", "rank"), [(3, 1), (6, 2), (12, 4)])
def test_with_few_columns_a_refit_and_its_scores_are_not_drawn_to_the_outliers(columns, rank):
    """By distance alone the errors were 0.17 to 0.4, and those of the scores of RobustPCA up to 1."""
    data, truth = mixture(0, 500, columns, rank, 0.1, 0.03)
    refitted = rw.decompose(data, rng=0)
    model = rw.RobustPCA(random_state=0).fit(data)
    scored = model.inverse_transform(model.transform(data))
    for fitted in (np.asarray(refitted.low_rank), scored):
        assert np.linalg.norm(fitted - truth) < 0.2 * np.linalg.norm(truth)


def test_the_scores_of_a_row_do_not_depend_on_the_rows_beside_it():
    data, _ = mixture(1, 200, 6, 2, 0.1, 0.05)
    model = rw.RobustPCA(random_state=0).fit(data)
    together = model.transform(data)
    assert np.array_equal(together[50:60], model.transform(data[50:60]))


def test_a_rank_that_is_too_large_without_noise_does_not_run_away():
    """The prior was the covariance of all rows, and a few long ones made room for more."""
    data, truth, _ = planted(5, 500, 6, 2, 0.0, 0.05, 0.0)
    fit = rw.decompose(data, method="hybrid", rng=0, refit=False)
    assert fit.low_rank.rank == 3
    assert error(fit.refit().low_rank, truth) < 0.01


def test_a_row_that_was_never_fitted_is_not_given_up_as_all_outliers():
    data, truth, _ = planted(13, 100, 40, 2, 0.0, 0.0, 0.0)
    u, s, vt = np.linalg.svd(truth, full_matrices=False)
    u[7] = 0.0
    found = refit(InMemory(data, None, 1), LowRank(u[:, :2], s[:2], vt[:2]))
    assert error(found.low_rank, truth) < 1e-8


@pytest.mark.parametrize("value", [9.96921e36, 3.4e38])
def test_a_fill_value_of_single_precision_does_not_overflow(value):
    data = planted(17, 150, 8, 2, 0.01, 0.0, 0.0)[0].astype(np.float32)
    data[11, 2] = value
    assert rw.RobustPCA(random_state=0).fit(data).outliers_[11, 2] == np.float32(value)


@pytest.mark.parametrize("kept", [0.6, 1.0])
def test_a_cell_out_of_scale_is_counted_as_the_outlier_that_it_is(kept):
    """Bounded at the largest of the others, it was within the limit where those were."""
    rng = np.random.default_rng(14)
    data = rng.standard_normal((200, 8))
    data[3, 4] = 1e12
    rows, columns = np.nonzero((rng.random(data.shape) < kept) | (data > 1e6))
    matrix = scipy.sparse.csr_array((data[rows, columns], (rows, columns)), shape=data.shape)
    for X in (matrix, data):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rw.RankwolfWarning)
            refitted = rw.decompose(X, rng=0).refit()
        assert refitted.sparse.nonzeros == refitted.sparse.to_scipy().nnz >= 1


@pytest.mark.doubts
@pytest.mark.parametrize("delta", [0.3, 0.01])
@pytest.mark.parametrize("seed", range(6))
def test_sparse_data_in_single_precision_without_noise(delta, seed):
    """Before, a third of these ended with 'Matrix is not positive definite' or NaN; the same in float64 never did."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((120, 3)) @ rng.standard_normal((3, 50))
    for X in ((A > 1.0), A * (rng.random(A.shape) < 0.4)):
        fit = rw.decompose(scipy.sparse.csr_array(X.astype(np.float32)), delta=delta, rng=0).refit()
        assert np.isfinite(np.asarray(fit.low_rank)).all()


@pytest.mark.parametrize("seed", range(3))
def test_with_nothing_said_the_estimate_is_returned_and_the_optimum_beside_it(seed):
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 80))
    data = truth + 0.1 * rng.standard_normal(truth.shape)
    data[rng.random(data.shape) < 0.05] += 10.0
    fit, optimum = rw.decompose(data, rng=0), rw.decompose(data, rng=0, refit=False)
    assert fit.low_rank.rank == 3 and fit.status is rw.Status.REFITTED
    np.testing.assert_array_equal(np.asarray(fit.convex.low_rank), np.asarray(optimum.low_rank))
    assert fit.convex.relative_gap <= 1e-3 and optimum.convex is None
    errors = [np.linalg.norm(np.asarray(each.low_rank) - truth) for each in (fit, optimum)]
    assert errors[0] < 0.75 * errors[1]
    for said in ({"delta": 0.01}, {"lambdas": (2.0, 0.2)}, {"radii": (100.0, 100.0)}, {"method": "hybrid"}):
        assert rw.decompose(data, rng=0, **said).status is not rw.Status.REFITTED
    assert rw.decompose(data, lambdas=(2.0, 0.2), refit=True, rng=0).convex.lambdas == (2.0, 0.2)
