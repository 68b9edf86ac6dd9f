"""scipy.sparse input: stored entries are observed, or the others are zeros; equal to dense runs, at the cost of nnz."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

import rankwolf as rw
from rankwolf.data import SparseObserved, SparseZeros
from rankwolf.data.centred import centred
from rankwolf.data.open import open_source
from rankwolf.data.tiles import dense_with_nan
from rankwolf.passes.coefficients import fit_rows
from rankwolf.weights.descent import noise_weights

RNG_SEED = 0


def ratings(m=300, n=120, rank=2, share=0.3, sigma=0.3, outliers=0.05, seed=0):
    rng = np.random.default_rng(seed)
    seen = rng.random((m, n)) < share
    truth = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    data = truth + sigma * rng.standard_normal((m, n))
    data[rng.random((m, n)) < outliers] += 8.0
    rows, columns = np.nonzero(seen)
    return scipy.sparse.csr_array((data[seen], (rows, columns)), shape=(m, n)), truth


def weights(matrix, sigma=0.3, factor=1.2):
    m, n = matrix.shape
    return factor * sigma * (matrix.nnz / (m * n)) ** 0.5 * (m**0.5 + n**0.5), 2.0 * sigma


FORMATS = {
    "csr array": scipy.sparse.csr_array,
    "csc matrix": scipy.sparse.csc_matrix,
    "coo array": scipy.sparse.coo_array,
    "lil matrix": scipy.sparse.lil_matrix,
    "turned": lambda matrix: scipy.sparse.csr_array(matrix.T),
}


@pytest.mark.parametrize("form", FORMATS)
def test_a_sparse_run_equals_a_dense_one(form):
    matrix = ratings()[0]
    given = FORMATS[form](matrix)
    dense = dense_with_nan(matrix.T.tocsr() if form == "turned" else matrix)
    settings = {"lambdas": weights(matrix), "tol": 1e-9, "rng": 0}
    one, other = rw.decompose(given, **settings), rw.decompose(dense, **settings)
    assert one.method == "als"
    assert one.status is rw.Status.GAP_REACHED
    assert one.gap_is_proved
    low_rank = np.asarray(other.low_rank)
    assert np.linalg.norm(np.asarray(one.low_rank) - low_rank) < 1e-5 * np.linalg.norm(low_rank)
    assert one.objective == pytest.approx(other.objective, rel=1e-8)
    assert abs(one.sparse.to_scipy() - other.sparse.to_scipy()).max() < 1e-4
    np.testing.assert_allclose(one.sparse[3:7], one.sparse.to_scipy()[3:7].toarray())
    np.testing.assert_allclose(one.sparse[5], one.sparse.to_scipy()[[5]].toarray()[0])


def test_single_precision():
    matrix = ratings()[0].astype(np.float32)
    fit = rw.decompose(matrix, lambdas=weights(matrix), tol=1e-4, rng=0)
    assert fit.low_rank.dtype == fit.sparse.dtype == np.float32
    exact = rw.decompose(matrix.astype(float), lambdas=weights(matrix), tol=1e-8, rng=0)
    difference = np.asarray(fit.low_rank) - np.asarray(exact.low_rank)
    assert np.linalg.norm(difference) < 0.01 * np.linalg.norm(np.asarray(exact.low_rank))


def test_the_objective_goes_down_and_a_seed_repeats_it():
    matrix = ratings()[0]
    settings = {"lambdas": weights(matrix, factor=0.8), "tol": 1e-2, "rng": 0}
    fit, again = rw.decompose(matrix, n_threads=1, **settings), rw.decompose(matrix, n_threads=2, **settings)
    objectives = [record.objective for record in fit.history]
    assert np.all(np.diff(objectives) <= 1e-10 * objectives[0])
    assert fit.low_rank.u.tobytes() == again.low_rank.u.tobytes()


@pytest.mark.doubts("low-rank part is zero")
def test_zeros_that_are_not_stored_can_be_data():
    rng = np.random.default_rng(0)
    counts = np.where(rng.random((80, 50)) < 0.1, np.outer(rng.random(80), rng.random(50)) * 9.0, 0.0)
    for shape in (counts, counts.T):
        fit = rw.decompose(scipy.sparse.csc_array(shape), implicit="zeros", delta=0.01, rng=0, n_threads=1)
        dense = rw.decompose(np.ascontiguousarray(shape), delta=0.01, rng=0, n_threads=1)
        assert fit.objective == pytest.approx(dense.objective, rel=1e-3)
        np.testing.assert_allclose(np.asarray(fit.low_rank), np.asarray(dense.low_rank), atol=0.02)
        source = SparseZeros(scipy.sparse.csr_array(shape), 1)
        np.testing.assert_array_equal(source.read_user_rows(3, 9), shape[3:9])


def test_what_is_stored_and_what_it_means():
    stored = scipy.sparse.coo_array(
        (np.array([1.0, 2.0, 0.0, np.nan, 5.0]), (np.array([2, 0, 0, 1, 0]), np.array([1, 2, 0, 1, 2]))),
        shape=(4, 3),
    )
    source = SparseObserved(stored, 1)
    # Two entries at (0, 2) are added up, the stored zero is observed, the stored NaN is not.
    expected = np.full((4, 3), np.nan)
    expected[0, 0], expected[0, 2], expected[2, 1] = 0.0, 7.0, 1.0
    np.testing.assert_array_equal(source.read_user_rows(0, 4), expected)
    assert source.summary.observed == 3
    unsorted = scipy.sparse.csr_array(
        (np.array([1.0, 2.0]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3)
    )
    before = unsorted.indices.copy()
    assert SparseObserved(unsorted, 1).read_user_rows(0, 1)[0, 0] == 2.0
    np.testing.assert_array_equal(unsorted.indices, before)


def test_tiles_cover_the_rows_with_about_as_many_entries_each():
    matrix = ratings(m=7000, n=700, share=0.5)[0]
    source = SparseObserved(matrix, 1)
    tiles = source.tiles()
    assert len(tiles) >= 4
    assert [start for start, _ in tiles[1:]] == [stop for _, stop in tiles[:-1]]
    assert (tiles[0][0], tiles[-1][1]) == (0, 7000)
    counts = [source.read(*tile).nnz for tile in tiles]
    assert sum(counts) == matrix.nnz
    assert max(counts) < 2 * min(counts)
    rebuilt = scipy.sparse.vstack([source.read(*tile) for tile in tiles])
    assert (rebuilt != matrix).nnz == 0


def test_rows_are_fitted_on_their_stored_entries():
    matrix = ratings(m=60, n=40, share=0.4)[0]
    right = np.random.default_rng(1).standard_normal((40, 3))
    np.testing.assert_allclose(
        fit_rows(matrix, right, 0.5, 0.6), fit_rows(dense_with_nan(matrix), right, 0.5, 0.6), atol=1e-8
    )
    assert np.all(fit_rows(scipy.sparse.csr_array((3, 40)), right, 0.5, 0.6) == 0.0)


@pytest.mark.doubts("iteration limit")
def test_the_cost_is_that_of_what_is_stored():
    """The dense matrix would take 3.2 GB, a dense mask 400 MB."""
    rng = np.random.default_rng(0)
    m, n, count = 40_000, 10_000, 200_000
    rows, columns = rng.integers(m, size=count), rng.integers(n, size=count)
    values = rng.standard_normal(m)[rows] * rng.standard_normal(n)[columns] + 0.1 * rng.standard_normal(count)
    matrix = scipy.sparse.coo_array((values, (rows, columns)), shape=(m, n)).tocsr()
    tracemalloc.start()
    fit = rw.decompose(matrix, lambdas=(1.0, 0.4), tol=5e-2, max_iter=4, rng=0)
    sparse = fit.sparse.to_scipy()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6
    assert fit.low_rank.rank >= 1
    assert 0 < sparse.nnz <= matrix.nnz


def test_weights_from_the_fullest_part():
    matrix, _ = ratings(m=800, n=600, share=0.3)
    fit = rw.decompose(matrix, rng=0, tol=1e-2, refit=False)
    assert fit.low_rank.s[2] < 0.02 * fit.low_rank.s[0]
    assert fit.lambdas[1] == pytest.approx(0.6, rel=0.1)
    thin = scipy.sparse.random_array((5000, 3000), density=1e-3, rng=np.random.default_rng(0))
    with pytest.raises(
        ValueError, match=r"'delta' parameter of decompose must be a number.* too few to measure"
    ):
        noise_weights(SparseObserved(thin, 1), np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"'deltas' parameter of select_delta must be given.* too few"):
        rw.select_delta(thin[:1000, :800], rng=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "fista"}, "does not take a sparse matrix"),
        ({"observed": np.ones((300, 120), bool)}, "None for a sparse matrix"),
        ({"implicit": "nothing"}, "one of 'missing', 'zeros'"),
    ],
)
def test_what_sparse_input_does_not_go_with(options, message):
    with pytest.raises(ValueError, match=message):
        rw.decompose(ratings()[0], **options)


def test_damaged_and_empty_matrices():
    matrix = ratings()[0]
    for damage in ("indices", "indptr"):
        broken = matrix.copy()
        getattr(broken, damage)[-2] = 10**6
        with pytest.raises(ValueError, match="one that is damaged"):
            rw.decompose(broken)
    with pytest.raises(ValueError, match="nothing but missing entries"):
        rw.decompose(scipy.sparse.csr_array((5, 4)))
    with pytest.raises(ValueError, match="dtype complex128"):
        rw.decompose(matrix.astype(complex))
    infinite = matrix.copy()
    infinite.data[0] = np.inf
    with pytest.raises(ValueError, match="infinite"):
        rw.decompose(infinite)
    with pytest.raises(ValueError, match="does not take a matrix of observed entries"):
        rw.decompose(np.eye(4), method="als")


def test_the_estimator_takes_ratings():
    matrix, truth = ratings(m=400, n=60, share=0.5)
    model = rw.RobustPCA(random_state=0).fit(matrix)
    dense = dense_with_nan(matrix)
    assert model.n_components_ >= 2
    np.testing.assert_allclose(model.transform(matrix), model.transform(dense), atol=1e-5)
    filled = model.impute(matrix)
    hidden = np.isnan(dense)
    assert np.linalg.norm((filled - truth)[hidden]) < 0.5 * np.linalg.norm(truth[hidden])
    assert model.outliers_.nnz <= matrix.nnz
    assert model.partial_fit(matrix[:100]).low_rank_.shape == (100, 60)
    cut = rw.RobustPCA(1, random_state=0).fit(matrix)
    assert cut.outliers_.nnz <= matrix.nnz


def test_the_estimator_takes_counts():
    matrix = scipy.sparse.random_array((100, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    model = rw.RobustPCA(implicit="zeros", center=False, random_state=0).fit(matrix)
    dense = rw.RobustPCA(center=False, random_state=0).fit(matrix.toarray())
    np.testing.assert_allclose(model.singular_values_, dense.singular_values_, rtol=0.05)
    np.testing.assert_allclose(model.transform(matrix), model.transform(matrix.toarray()), atol=1e-8)
    with pytest.raises(ValueError, match="would leave no zeros"):
        rw.RobustPCA(implicit="zeros").fit(matrix)


@pytest.mark.parametrize("implicit", ["missing", "zeros"])
def test_a_limit_on_memory_holds_for_sparse_matrices(implicit, monkeypatch):
    monkeypatch.setattr("rankwolf.data.open.resident_memory", lambda: 0)  # so that 1 byte is a limit
    matrix = ratings()[0]
    limited = open_source(matrix, implicit=implicit, max_memory=1)
    assert limited.workspace.is_in_file(limited.allocate(3))
    moved = centred(limited, np.ones(matrix.shape[1]))
    assert moved.workspace.is_in_file(moved.allocate(3))
    settings = {"lambdas": weights(matrix), "tol": 1e-3, "rng": 0, "implicit": implicit}
    one, other = rw.decompose(matrix, max_memory=1, **settings), rw.decompose(matrix, **settings)
    np.testing.assert_allclose(one.low_rank, other.low_rank, atol=1e-6)


@pytest.mark.parametrize("kind", [SparseObserved, SparseZeros])
def test_a_source_says_in_which_type_the_numbers_were_given(kind):
    counts = scipy.sparse.csr_array(np.eye(5, 4, dtype=np.uint8))
    source = kind(counts, 1)
    assert source.stored == np.uint8
    assert source.dtype == source.read(0, 2).dtype == np.float32
