"""Outliers of a row chosen one by one: against all subsets, and what it is worth where a row has few entries."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from test_refit import error, planted
from test_weights import mixture

import rankwolf as rw
from rankwolf.passes.trimmed import stored, trim_rows

SIGMA, LIMIT = 0.1, 0.329


def price(row, right, prior, live):
    """min over u of J(u, A), by solving for u."""
    vectors, entries = right[live], row[live]
    u = np.linalg.solve(vectors.T @ vectors + prior, vectors.T @ entries)
    return np.sum((entries - vectors @ u) ** 2) + u @ prior @ u + LIMIT**2 * np.count_nonzero(~live)


def rows_with_outliers(seed, count=60, columns=7, rank=2):
    rng = np.random.default_rng(seed)
    right = np.linalg.qr(rng.standard_normal((columns, rank)))[0]
    rows = rng.standard_normal((count, rank)) @ right.T + SIGMA * rng.standard_normal((count, columns))
    rows[rng.random(rows.shape) < 0.1] += 5.0
    return rows, right, SIGMA**2 * np.eye(rank)


def test_nearly_always_the_best_of_all_sets_is_found_and_never_one_that_a_single_move_makes_better():
    rows, right, prior = rows_with_outliers(0)
    left = np.zeros((len(rows), 2))
    live = trim_rows(stored(rows), right, prior, LIMIT, left).reshape(rows.shape).astype(bool)
    sets = [np.array(choice) for choice in product([True, False], repeat=7) if sum(choice) >= 3]
    best = 0
    for row, chosen, u in zip(rows, live, left, strict=True):
        found = price(row, right, prior, chosen)
        best += found <= min(price(row, right, prior, other) for other in sets) + 1e-9
        for place in range(7):
            other = chosen.copy()
            other[place] = not other[place]
            if 2 * np.count_nonzero(other) >= 6:
                assert found <= price(row, right, prior, other) + 1e-9
        vectors = right[chosen]
        exact = np.linalg.solve(vectors.T @ vectors + prior, vectors.T @ row[chosen])
        assert np.allclose(u, exact, atol=1e-9)
    assert best >= 57


def test_noisier_entries_may_be_further_away():
    rows, right, prior = np.array([[1.0, 1.0, 1.0, 1.5]]), np.full((4, 1), 0.5), np.array([[1e-4]])
    sizes = np.array([1.0, 1.0, 1.0, 5.0])
    assert trim_rows(stored(rows), right, prior, LIMIT, np.zeros((1, 1))).tolist() == [1, 1, 1, 0]
    assert trim_rows(stored(rows), right, prior, LIMIT, np.zeros((1, 1)), sizes).tolist() == [1, 1, 1, 1]


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
