"""S written to files: part by part, whole or not at all, also where the disk is full."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import rankwolf as rw
from rankwolf.ground.whole import whole

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")


def matrix(shape=(700, 50)):
    rng = np.random.default_rng(1)
    X = 10.0 * np.outer(rng.random(shape[0]), rng.random(shape[1])) + 0.1 * rng.standard_normal(shape)
    X[rng.random(shape) < 0.05] += 20.0
    return X.astype(np.float32)


def write_and_read(sparse, kind, path):
    if kind == "npy":
        sparse.to_npy(path)
        return np.load(path)
    if kind == "hdf5":
        sparse.to_hdf5(path, "a/b")
        with h5py.File(path) as file:
            return file["a/b"][...]
    sparse.to_zarr(path, zarr_format=int(kind[-1]))
    array = zarr.open_array(str(path), mode="r")
    assert array.metadata.zarr_format == int(kind[-1])
    return array[...]


KINDS = ["npy", "hdf5", "zarr2", "zarr3"]


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", ["memory", "tall", "wide", "sparse entries", "fw"])
def test_what_is_written_is_the_sparse_part(kind, stored, tmp_path):
    import scipy.sparse

    X = matrix()
    if stored == "wide":
        X = X.T.copy()
    if stored in ("tall", "wide"):
        chunks = (100, 50) if stored == "tall" else (50, 70)
        data = zarr.create_array(str(tmp_path / "x.zarr"), shape=X.shape, dtype=X.dtype, chunks=chunks)
        data[:] = X
    elif stored == "sparse entries":
        data = scipy.sparse.csr_array(np.where(np.random.default_rng(0).random(X.shape) < 0.5, X, 0.0))
    else:
        data = X
    fit = rw.decompose(data, delta=1e-2, rng=0, max_iter=5, method="fw" if stored == "fw" else "auto")
    found = write_and_read(fit.sparse, kind, tmp_path / "out")
    assert found.dtype == fit.sparse.dtype
    np.testing.assert_allclose(found, np.asarray(fit.sparse), atol=1e-5)
    assert np.count_nonzero(found) == pytest.approx(fit.sparse.nonzeros, rel=1e-3)


@pytest.mark.doubts("low-rank part is zero", "iteration limit")
def test_nothing_is_replaced_without_being_asked(tmp_path):
    sparse = rw.decompose(matrix(), rng=0, max_iter=1).sparse
    for write in (sparse.to_npy, sparse.to_hdf5, sparse.to_zarr):
        write(tmp_path / "out")
        before = os.stat(tmp_path / "out").st_ino
        with pytest.raises(ValueError, match="exists already"):
            write(tmp_path / "out")
        assert os.stat(tmp_path / "out").st_ino == before
        write(tmp_path / "out", overwrite=True)
        assert os.stat(tmp_path / "out").st_ino != before
        assert os.listdir(tmp_path) == ["out"]
        write(tmp_path / "out", overwrite=True)
        if (tmp_path / "out").is_file():
            (tmp_path / "out").unlink()


def test_an_error_leaves_what_was_there(tmp_path):
    (tmp_path / "out").write_text("before")

    def fail():
        with whole(tmp_path / "out") as temporary:
            temporary.write_text("half of it")
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail()
    assert os.listdir(tmp_path) == ["out"]
    assert (tmp_path / "out").read_text() == "before"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if not sys.platform.startswith("linux") or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs Linux and the right to do so")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.doubts("low-rank part is zero", "λ_S is below the noise")
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_is_one_clear_error(kind, small_disk):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 60)).astype(np.float32)  # noise, and weights that leave it in S
    sparse = rw.decompose(X, lambdas=(1e3, 1e-3), rng=0, max_iter=1).sparse
    with pytest.raises(OSError, match=r"No space left on device.*out") as caught:
        write_and_read(sparse, kind, small_disk / "out")
    assert caught.value.errno == 28
    assert os.listdir(small_disk) == []


def test_a_full_disk_for_working_arrays_is_one_clear_error(small_disk, monkeypatch):
    # Python looks for TMPDIR once; this is its documented way to choose another folder later.
    monkeypatch.setattr("tempfile.tempdir", str(small_disk))
    monkeypatch.setattr("rankwolf.data.open.resident_memory", lambda: 0)  # so that 1 byte is a limit
    with pytest.raises(OSError, match=r"No space left on device for .* GB of working arrays"):
        rw.decompose(np.ones((200_000, 100)), method="hybrid", delta=1e-2, max_iter=1, max_memory=1)


@pytest.mark.doubts("low-rank part is zero", "λ_S is below the noise")
def test_a_full_disk_for_a_result_leaves_nothing(small_disk):
    noise = np.random.default_rng(0).random((40_000, 20))
    fit = rw.decompose(noise, lambdas=(1e3, 1e-3), rng=0, max_iter=1)  # all of it in S
    with pytest.raises(OSError, match="No space left"):
        fit.save(small_disk / "fit.npz")
    assert os.listdir(small_disk) == []
