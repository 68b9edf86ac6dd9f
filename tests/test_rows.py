"""The robust row-local step: optimality, agreement with a plain method, missing entries, dtypes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from rankwolf.passes.coefficients import BATCH_BYTES, OUTER_PRODUCTS, fit_rows


def contaminated(seed, b, n, r, outliers=0.1, missing=0.2, dtype=np.float64):
    rng = np.random.default_rng(seed)
    right = rng.standard_normal((n, r)) * np.linspace(1.0, 0.1, r)
    left = rng.standard_normal((b, r))
    data = left @ right.T + 0.05 * rng.standard_normal((b, n))
    spoiled = rng.random((b, n)) < outliers
    data[spoiled] += rng.uniform(-30.0, 30.0, np.count_nonzero(spoiled))
    data[rng.random((b, n)) < missing] = np.nan
    return data.astype(dtype), right.astype(dtype), left


def gradient(data, right, left, lambda_L, lambda_S):
    residual = np.nan_to_num(data - left @ right.T)
    return np.clip(residual, -lambda_S, lambda_S) @ right - lambda_L * left


@pytest.mark.parametrize(("b", "n", "r"), [(40, 700, 20), (400, 40, 5)], ids=["gathered", "one product"])
@pytest.mark.parametrize(("outliers", "missing"), [(0.0, 0.0), (0.05, 0.2), (0.3, 0.5)])
@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_vanishes(seed, outliers, missing, b, n, r):
    """The products v_j v_jᵀ are made once where they are few."""
    assert (n * r * r <= OUTER_PRODUCTS) == (n == 40)
    data, right, _ = contaminated(seed, b, n, r, outliers, missing)
    left = fit_rows(data, right, 0.1, 0.15)
    assert np.abs(gradient(data, right, left, 0.1, 0.15)).max() < 1e-9


def test_it_agrees_with_a_general_minimiser():
    data, right, _ = contaminated(7, 3, 30, 4)
    left = fit_rows(data, right, 0.2, 0.3)
    for row, fitted in zip(data, left, strict=True):
        seen = ~np.isnan(row)

        def loss(u, row=row, seen=seen):
            d = np.abs(row[seen] - right[seen] @ u)
            return np.sum(np.where(d <= 0.3, d**2 / 2, 0.3 * d - 0.045)) + 0.1 * u @ u

        plain = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-8}).x
        assert loss(fitted) <= loss(plain) * (1 + 1e-10)
        np.testing.assert_allclose(fitted, plain, atol=1e-4)


def test_outliers_do_not_move_the_answer_far():
    data, right, truth = contaminated(1, 200, 100, 3, outliers=0.05, missing=0.2)
    robust = fit_rows(data, right, 1e-6, 0.1)
    squares = fit_rows(data, right, 1e-6, np.inf)
    spread = np.linalg.norm(truth)
    assert np.linalg.norm(robust - truth) < 0.1 * spread < np.linalg.norm(squares - truth)


def test_an_infinite_limit_is_ridge_regression():
    data, right, _ = contaminated(2, 20, 30, 4, missing=0.0)
    expected = data @ right @ np.linalg.inv(right.T @ right + 0.5 * np.eye(4))
    np.testing.assert_allclose(fit_rows(data, right, 0.5, np.inf), expected, rtol=1e-9)


def test_float32_stays_float32_and_is_as_exact_as_it_can_be():
    data, right, _ = contaminated(3, 500, 200, 6, dtype=np.float32)
    left = fit_rows(data, right, 0.1, 0.15)
    assert left.dtype == np.float32
    exact = fit_rows(data.astype(float), right.astype(float), 0.1, 0.15)
    assert np.abs(left - exact).max() < 2e-4 * np.abs(exact).max()


def test_batches_do_not_change_the_answer():
    data, right, _ = contaminated(4, 700, 3000, 3)
    assert data.nbytes > 2 * BATCH_BYTES
    parts = [fit_rows(part, right, 0.1, 0.15) for part in np.array_split(data, 7)]
    np.testing.assert_allclose(fit_rows(data, right, 0.1, 0.15), np.vstack(parts), rtol=1e-9, atol=1e-12)


def test_a_row_with_nothing_observed_is_zero_and_empty_shapes_pass():
    data, right, _ = contaminated(5, 4, 10, 2)
    data[1] = np.nan
    left = fit_rows(data, right, 0.1, 0.2)
    assert np.all(left[1] == 0.0)
    assert np.all(np.isfinite(left))
    assert fit_rows(data[:0], right, 0.1, 0.2).shape == (0, 2)
    assert fit_rows(data, right[:, :0], 0.1, 0.2).shape == (4, 0)


def test_a_warm_start_ends_at_the_same_place_and_integers_are_rows_too():
    data, right, _ = contaminated(6, 30, 40, 3, missing=0.0)
    counts = np.round(10 * data).astype(np.int16)
    cold = fit_rows(counts, right, 0.1, 1.0)
    warm = fit_rows(counts, right, 0.1, 1.0, start=cold + 0.1)
    np.testing.assert_allclose(warm, cold, atol=1e-9)


def test_without_a_weight_on_the_coefficients_a_deficient_factor_still_gives_finite_numbers():
    data, right, _ = contaminated(8, 10, 20, 2, missing=0.0)
    twice = np.hstack([right, right])
    fitted = fit_rows(data, twice, 0.0, 0.2)
    assert np.all(np.isfinite(fitted))
    single = fit_rows(data, right, 0.0, 0.2)
    np.testing.assert_allclose(fitted @ twice.T, single @ right.T, atol=1e-4)
