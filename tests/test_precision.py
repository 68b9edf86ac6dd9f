"""Precision follows tol: float32 tiles where they can certify it, float64 where they cannot."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import rankwolf as rw


def photographs():
    rng = np.random.default_rng(0)
    low_rank = 40.0 * rng.random((90, 3)) @ rng.random((3, 70))
    noisy = low_rank + 2.0 * rng.standard_normal(low_rank.shape)
    noisy[rng.random(noisy.shape) < 0.05] = 255.0
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_small_tolerance_is_reached_with_eight_bit_and_single_precision_data(dtype):
    """float32 sums cannot certify 1e-7: the run went on for hundreds of passes and gave up."""
    fit = rw.decompose(photographs().astype(dtype), delta=0.02, tol=1e-7, rng=0)
    assert fit.status is rw.Status.GAP_REACHED
    assert fit.low_rank.dtype == np.float64


def test_the_default_tolerance_keeps_single_precision():
    assert rw.decompose(photographs(), delta=0.02, rng=0).low_rank.dtype == np.float32


def test_wherever_the_data_is(tmp_path):
    da = pytest.importorskip("dask.array")
    data = photographs()
    np.save(tmp_path / "x.npy", data)
    expected = rw.decompose(data, delta=0.02, tol=1e-6, rng=0).objective
    for X in (np.load(tmp_path / "x.npy", mmap_mode="r"), da.from_array(data, chunks=(40, 70))):
        fit = rw.decompose(X, delta=0.02, tol=1e-6, rng=0)
        assert fit.status is rw.Status.GAP_REACHED
        assert fit.objective == pytest.approx(expected, rel=1e-6)
    sparse = scipy.sparse.csr_array(data.astype(np.float32))
    assert rw.decompose(sparse, delta=0.02, tol=1e-6, rng=0).low_rank.dtype == np.float64


@pytest.mark.doubts("improves any more")
def test_where_nothing_helps_the_status_says_so_at_once():
    fit = rw.decompose(photographs(), delta=0.02, tol=1e-15, rng=0, max_iter=1000)
    assert fit.status is rw.Status.NO_PROGRESS
    assert fit.iterations < 120
    assert fit.relative_gap < 1e-10
