"""delta="auto" and select_delta: the noise is found, the weights belong to it, the error is near the best."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
import scipy.sparse

import rankwolf as rw
from rankwolf.data import InMemory
from rankwolf.weights.descent import estimate_noise, noise_of_array
from rankwolf.weights.edge import Variances, fluctuation
from rankwolf.weights.noise import Noise, clipped_variance, measure, weights_for_noise

mpl.use("Agg")


def mixture(seed, m, n, rank, sigma, outliers, missing=0.0):
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    data = truth + sigma * rng.standard_normal((m, n))
    spoiled = rng.random((m, n)) < outliers
    data[spoiled] += rng.uniform(-1.0, 1.0, np.count_nonzero(spoiled)) * 10.0 * max(rank**0.5, sigma)
    data[rng.random((m, n)) < missing] = np.nan
    return data, truth


@pytest.mark.parametrize(
    ("m", "n", "rank", "sigma", "outliers", "missing"),
    [
        (200, 300, 1, 0.1, 0.01, 0.0),
        (200, 300, 1, 10.0, 0.05, 0.3),
        (300, 300, 5, 0.1, 0.2, 0.0),
        (300, 200, 10, 1.0, 0.1, 0.3),
        (300, 300, 20, 3.0, 0.05, 0.0),
        (900, 40, 3, 1.0, 0.05, 0.2),
    ],
)
def test_the_noise_is_found(m, n, rank, sigma, outliers, missing):
    data, _ = mixture(0, m, n, rank, sigma, outliers, missing)
    noise = noise_of_array(data)
    assert noise.sigma == pytest.approx(sigma, rel=0.12)
    # A direction that is shorter than noise gets is not there for anybody.
    found = (m * n) ** 0.5 > sigma * (m**0.5 + n**0.5)
    assert (rank if found else 0) <= noise.rank <= rank + 1
    # Outliers inside 3σ cannot be told from noise.
    assert 0.5 * outliers < noise.outlier_share < 1.2 * outliers


def test_the_scale_and_the_sample_do_not_matter():
    data, _ = mixture(1, 1000, 700, 4, 0.5, 0.05)
    small = noise_of_array(data[:300, :300])
    sampled = estimate_noise(InMemory(data, None, 1), np.random.default_rng(0))
    assert sampled.sigma == pytest.approx(small.sigma, rel=0.05)
    scaled = noise_of_array(1e6 * data[:300, :300])
    assert scaled.sigma == pytest.approx(1e6 * small.sigma, rel=1e-6)


def test_measuring_ignores_outliers_and_counts_them():
    rng = np.random.default_rng(0)
    residual = rng.standard_normal(100_000)
    residual[:15_000] = 50.0
    noise = measure(residual)
    assert noise.sigma == pytest.approx(1.0, abs=0.02)
    assert noise.outlier_share == pytest.approx(0.15, abs=0.01)
    assert measure(np.zeros(0)) == Noise(0.0, 0.0)
    assert measure(np.zeros(5)).sigma == 0.0


def test_the_variance_of_a_clipped_gaussian():
    x = np.random.default_rng(0).standard_normal(10**6)
    for limit in (0.5, 1.0, 2.0):
        assert clipped_variance(limit) == pytest.approx(np.var(np.clip(x, -limit, limit)), rel=0.01)


def test_lambda_l_is_the_norm_of_the_clipped_noise():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((600, 400))
    noise[rng.random(noise.shape) < 0.1] = 30.0 * rng.choice([-1, 1])
    noise *= rng.choice([-1, 1], noise.shape)
    noise[rng.random(noise.shape) < 0.3] = 0.0
    lambda_L, lambda_S = weights_for_noise(Noise(1.0, 0.1), noise.shape, 0.7)
    assert lambda_S == 2.0
    assert lambda_L == pytest.approx(np.linalg.norm(np.clip(noise, -2, 2), 2), rel=0.03)


@pytest.mark.parametrize("shape", [(300, 300), (60, 3000), (3000, 60)])
@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_the_norm_of_uneven_noise(shape, spread):
    rng = np.random.default_rng(0)
    sizes = [np.minimum(np.exp(spread * rng.standard_normal(side)), 2.0) for side in shape]
    noise = sizes[0][:, None] * rng.standard_normal(shape) * sizes[1]
    norm, even = np.linalg.norm(noise, 2), np.mean(noise**2) ** 0.5 * (shape[0] ** 0.5 + shape[1] ** 0.5)
    assert Variances.of(noise).spectral_norm(shape) == pytest.approx(norm, rel=0.04)
    assert even < (0.85 if spread else 1.1) * norm
    known = Variances(sizes[0] ** 2, sizes[1] ** 2)
    assert known.spectral_norm(shape) == pytest.approx(norm, rel=0.04)
    assert Variances(known.rows[::3], known.columns[::3]).spectral_norm(shape) > 0.97 * norm


@pytest.mark.parametrize("missing", [0.0, 0.4, 0.7])
def test_the_rank_is_right_where_much_is_missing(missing):
    for seed in range(3):
        data, _ = mixture(seed, 300, 200, 4, 1.0, 0.0, missing)
        assert rw.decompose(data, delta="auto", rng=0).low_rank.rank == 4


@pytest.mark.doubts("low-rank part is zero", "iteration limit")
@pytest.mark.parametrize("share", [0.5, 0.1])
def test_rows_and_columns_without_entries_say_nothing(share):
    """Before, they made σ smaller by a factor of hundreds."""
    data, _ = mixture(0, 300, 200, 4, 1.0, 0.0)
    data[round(share * 300) :] = np.nan
    data[:, :40] = np.nan
    lambda_L, lambda_S = rw.decompose(data, delta="auto", rng=0, max_iter=1).lambdas
    assert lambda_S == pytest.approx(2.0, rel=0.1)
    kept = data[: round(share * 300), 40:]
    norm = weights_for_noise(Noise(1.0, 0.0), kept.shape, 1.0)[0]
    assert lambda_L == pytest.approx(norm, rel=0.15)


def test_no_noise_has_no_norm():
    assert Variances.of(np.zeros((4, 3))).spectral_norm((40, 30)) == 0.0
    assert Variances.of(np.zeros((4, 3)), least=1.0).spectral_norm((400, 100)) == pytest.approx(
        30.0 * fluctuation((400, 100)), rel=1e-3
    )


@pytest.mark.parametrize("shape", [(300, 200), (100, 20_000)])
@pytest.mark.parametrize("scaled", [False, True])
def test_noise_that_differs_between_columns_stays_out_of_l(shape, scaled):
    """The rule for even noise gave ranks of 15 to 66 here."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((shape[0], 4)) @ rng.standard_normal((4, shape[1]))
    data = truth + np.exp(0.5 * rng.standard_normal(shape[1])) * rng.standard_normal(shape)
    data[rng.random(shape) < 0.02] += 20.0
    if scaled:
        data /= np.median(np.abs(data), axis=0)
    assert 4 <= rw.decompose(data, delta="auto", tol=1e-2, rng=0).low_rank.rank <= 5


@pytest.mark.doubts("low-rank part is zero")
@pytest.mark.parametrize(
    "setting", [(150, 200, 3, 0.3, 0.1), (200, 100, 8, 2.0, 0.02), (120, 120, 1, 5.0, 0.2)]
)
def test_auto_is_close_to_the_best_delta(setting):
    data, truth = mixture(2, *setting)

    def error(delta):
        return np.linalg.norm(
            np.asarray(rw.decompose(data, delta=delta, tol=1e-2, rng=0, n_threads=1).low_rank) - truth
        )

    reference = rw.decompose(data, delta="auto", tol=1e-2, rng=0, n_threads=1).lambdas[1] / (
        np.linalg.norm(data) / max(data.shape) ** 0.5
    )
    best = min(error(reference * factor) for factor in (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0))
    assert error("auto") < 1.5 * best


@pytest.mark.doubts("sparse part is zero")
def test_auto_without_noise_and_without_data():
    exact = np.outer(np.arange(1.0, 40.0), np.arange(1.0, 30.0))
    fit = rw.decompose(exact, delta="auto", rng=0)
    assert np.linalg.norm(np.asarray(fit.low_rank) - exact) < 0.02 * np.linalg.norm(exact)
    assert rw.decompose(np.zeros((5, 4)), delta="auto").low_rank.rank == 0
    with pytest.raises(ValueError, match="delta"):
        rw.decompose(exact, delta="automatic")
    given = rw.decompose(exact, delta="auto", lambdas=(3.0, 0.5), rng=0)
    assert given.lambdas == (3.0, 0.5)


def test_select_delta_prefers_what_predicts_hidden_entries():
    data, truth = mixture(3, 80, 60, 2, 0.3, 0.05, 0.1)
    search = rw.select_delta(data, folds=2, rng=0, n_threads=1)
    assert search.errors.shape == (9, 2)
    assert search.delta in search.deltas
    assert "share of S" in repr(search)
    assert search.ranks[0] > search.ranks[-1]
    fits = [
        np.asarray(rw.decompose(data, delta=float(delta), rng=0, n_threads=1).low_rank)
        for delta in search.deltas
    ]
    errors = [np.linalg.norm(fit - truth) for fit in fits]
    chosen = errors[int(np.flatnonzero(search.deltas == search.delta)[0])]
    assert chosen < 1.3 * min(errors)


def test_the_simplest_delta_is_the_largest_within_one_standard_error():
    """Errors of five folds: the best δ has 1.0 ± 0.1, a standard error of 0.05."""
    best = 1.0 + 0.1 * np.array([-1.0, 1.0, -1.0, 1.0, 0.0]) * 5.0**0.5 / 2.0
    errors = np.array([1.3 + 0.0 * best, best, best + 0.04, best + 0.06])
    search = rw.DeltaSearch(np.array([0.01, 0.02, 0.04, 0.08]), errors, np.zeros(4), np.zeros(4))
    assert search.delta == 0.02
    assert search.simplest_delta == 0.04


def test_select_delta_asks_what_a_sparse_matrix_does_not_store():
    counts = np.maximum(mixture(4, 60, 40, 2, 0.5, 0.05)[0], 0.0)
    sparse, options = scipy.sparse.csr_array(counts), {"deltas": [0.01, 0.1], "folds": 1, "rng": 0}
    zeros = rw.select_delta(sparse, implicit="zeros", **options)
    assert repr(zeros) == repr(rw.select_delta(counts, **options))
    missing = rw.select_delta(sparse, **options)
    assert repr(missing) == repr(rw.select_delta(np.where(counts, counts, np.nan), **options)) != repr(zeros)


def test_select_delta_plots_and_complains():
    data, _ = mixture(4, 30, 20, 1, 0.1, 0.05)
    search = rw.select_delta(data, deltas=[0.01, 1.0], folds=1, rng=0, n_threads=1)
    axes = search.plot()
    assert axes.get_xlabel() == "δ"
    assert search.plot(ax=axes) is axes
    for name, options in {
        "folds": {"folds": 0},
        "hidden": {"hidden": 1.0},
        "implicit": {"implicit": "nothing"},
        "deltas": {"deltas": [0.1, -1.0]},
        "lambdas": {"deltas": [1e30]},
    }.items():
        with pytest.raises(ValueError, match=f"'{name}' parameter of select_delta"):
            rw.select_delta(data, **options)
    single = np.full((2, 2), np.nan)
    single[0, 0] = 1.0
    with pytest.raises(ValueError, match="at least two"):
        rw.select_delta(single, deltas=[0.1])
