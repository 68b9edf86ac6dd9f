"""L and S: rows, columns and products of matrices that need not exist as a whole."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import scipy.sparse
from numpy.testing import assert_allclose
from test_result import METHODS, make

from rankwolf.ground.low_rank import LowRank


@pytest.mark.doubts(
    "low-rank part is zero",
    "most of it is noise",
    "λ_S is below the noise",
    "iteration limit",
    "radii hold all",
)
@pytest.mark.parametrize(("m", "n"), [(30, 20), (20, 30), (6, 1), (1, 6)])
@pytest.mark.parametrize(("method", "settings"), METHODS)
def test_rows_columns_and_the_whole_agree(method, settings, m, n):
    _, seen, fit = make(method, m, n, **settings)
    for part in (fit.low_rank, fit.sparse):
        whole = np.asarray(part)
        assert whole.shape == part.shape == (m, n)
        assert whole.dtype == part.dtype
        keys = [
            slice(None), slice(1, 4), slice(None, None, 2), slice(None, None, -1), slice(5, 2), slice(-3, None), 0, -1,
            np.int64(m - 1), np.array([0, m - 1, 0]), np.arange(m) % 2 == 0, [0, -1], slice(100, 200),
        ]  # fmt: skip
        for key in keys:
            for columns in (slice(None), slice(1, 5), 0, -1, slice(None, None, -2)):
                expected = whole[key][..., columns]
                assert_allclose(part[key, columns], expected, atol=1e-12)
                assert part[key, columns].shape == expected.shape
            assert_allclose(part[key], whole[key], atol=1e-12)
        assert isinstance(part[0, 0], np.floating)  # not an array of one number: round() takes none
        for key in (m, -m - 1):
            with pytest.raises(IndexError):
                part[key]
        for key in ((0, [0]), (0, 0, 0), (slice(None), np.arange(n) > 0)):
            with pytest.raises(IndexError, match="Rows"):
                part[key]
    assert not np.any(np.asarray(fit.sparse)[~seen])


@pytest.mark.doubts("most of it is noise", "iteration limit")
@pytest.mark.parametrize(("method", "settings"), METHODS)
def test_the_sparse_part_in_every_form(method, settings):
    _, _, fit = make(method, **settings)
    dense, csr = np.asarray(fit.sparse), fit.sparse.to_scipy()
    assert isinstance(csr, scipy.sparse.csr_array)
    csr.check_format(full_check=True)
    assert np.array_equal(csr.toarray(), dense)
    assert csr.nnz == np.count_nonzero(dense) == fit.sparse.nonzeros
    blocks = list(fit.sparse.blocks(7))
    assert [first for first, _ in blocks] == [0, 7, 14, 21, 28]
    assert_allclose(np.vstack([block for _, block in blocks]), dense, atol=1e-12)
    with pytest.raises(ValueError, match="no dense form"):
        np.asarray(fit.sparse, copy=False)
    assert np.asarray(fit.sparse, dtype=np.float32).dtype == np.float32


@pytest.mark.doubts("most of it is noise", "iteration limit")
def test_the_sparse_part_is_lazy():
    """It is a function of L and the data: nothing of its size is kept, and it follows the data."""
    M, _, fit = make("fw-t", observed=1.0)
    expected = reference.soft(M - np.asarray(fit.low_rank), fit.lambdas[1])
    assert_allclose(np.asarray(fit.sparse), expected, atol=1e-12)
    assert not [value for value in vars(fit.sparse).values() if isinstance(value, np.ndarray)]


@pytest.mark.doubts("iteration limit")
def test_low_rank_is_a_singular_value_decomposition():
    _, _, fit = make(m=25, n=40)
    L = fit.low_rank
    assert L.rank == L.s.size > 0
    assert_allclose(L.u.T @ L.u, np.eye(L.rank), atol=1e-9)
    assert_allclose(L.vt @ L.vt.T, np.eye(L.rank), atol=1e-9)
    assert np.all(np.diff(L.s) <= 0.0)
    assert np.all(L.s > 0.0)
    assert_allclose(np.asarray(L), (L.u * L.s) @ L.vt, atol=1e-12)
    assert L.nuclear_norm == pytest.approx(reference.nuclear_norm(np.asarray(L)))
    left, right = L.factors()
    assert_allclose(left @ right.T, np.asarray(L), atol=1e-10)
    assert np.sum(left**2) == pytest.approx(np.sum(right**2)) == pytest.approx(L.nuclear_norm)


def test_products_with_a_low_rank_matrix():
    rng = np.random.default_rng(0)
    L = LowRank.from_factors(rng.standard_normal((12, 3)), rng.standard_normal((8, 3)))
    dense = np.asarray(L)
    x, X = rng.standard_normal(8), rng.standard_normal((8, 4))
    y, Y = rng.standard_normal(12), rng.standard_normal((5, 12))
    assert_allclose(L @ x, dense @ x)
    assert_allclose(L @ X, dense @ X)
    assert_allclose(L @ x.tolist(), dense @ x)
    assert_allclose(y @ L, y @ dense)
    assert_allclose(Y @ L, Y @ dense)
    assert_allclose(np.asarray(L.T), dense.T)
    assert_allclose(L.T @ y, dense.T @ y)
    assert_allclose(L.T @ L, dense.T @ dense, atol=1e-12)
    assert L.T.shape == (8, 12)
    with pytest.raises(ValueError, match=r"matmul|shapes"):
        L @ np.ones(7)


def test_a_low_rank_matrix_of_rank_zero():
    Z = LowRank.zeros((5, 4))
    assert Z.rank == 0
    assert np.array_equal(np.asarray(Z), np.zeros((5, 4)))
    assert np.array_equal(Z @ np.ones(4), np.zeros(5))
    assert np.array_equal(np.ones(5) @ Z, np.zeros(4))
    assert np.array_equal(Z[1:3, 2], np.zeros(2))
    assert Z.nuclear_norm == 0.0
    assert "rank 0" in repr(Z)
    same = LowRank.from_factors(np.zeros((5, 2)), np.ones((4, 2)))
    assert same.rank == 0
    with pytest.raises(ValueError, match="no dense form"):
        np.asarray(Z, copy=False)


@pytest.mark.doubts("most of it is noise", "iteration limit")
def test_float32_data_gives_float32_parts():
    for method, settings in METHODS:
        # The gap with radii is relative to the misfit alone: float32 reaches a hundredth.
        tol = {"tol": 0.02} if "radii" in settings else {}
        _, _, fit = make(method, dtype=np.float32, **settings, **tol)
        assert fit.low_rank.dtype == np.float32
        assert fit.low_rank[0:2].dtype == fit.sparse[0:2].dtype == np.float32
