"""Results travel: pickled, copied, through processes and clusters, with data in memory and on the disk."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import threading
import time

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import zarr

import rankwolf as rw


def numbers():
    rng = np.random.default_rng(0)
    data = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 60)) + 0.05 * rng.standard_normal(
        (300, 60)
    )
    data[3, 4] += 10.0
    return data


def in_memory():
    return numbers()


def wide():
    return numbers().T


def masked():
    return np.ma.array(numbers(), mask=numbers() > 3.0)


def table():
    return pd.DataFrame(numbers(), index=[f"day {k}" for k in range(300)])


def sparse():
    return scipy.sparse.csr_array(numbers() * (numbers() > 0.0))


def memory_map():
    np.save("a.npy", numbers())
    return np.load("a.npy", mmap_mode="r")


def part_of_a_map():
    np.save("b.npy", np.asfortranarray(numbers()))
    return np.load("b.npy", mmap_mode="r")[10:290, ::-2]


def changed_map():
    np.save("c.npy", numbers())
    data = np.load("c.npy", mmap_mode="c")
    data[0, 0] = 50.0  # nowhere but in this process
    return data


def hdf5():
    with h5py.File("a.h5", "w") as file:
        file.create_dataset("group/x", data=numbers(), chunks=(50, 60))
    return h5py.File("a.h5", "r")["group/x"]


def hdf5_in_memory():
    file = h5py.File("nowhere.h5", "w", driver="core", backing_store=False)
    return file.create_dataset("x", data=numbers())


def zarr_folder():
    return zarr.create_array("a.zarr", data=numbers(), chunks=(50, 60))


def raw_zarr():
    return zarr.create_array("raw.zarr", name="inner", data=numbers(), chunks=(50, 60), compressors=None)


def zarr_in_memory():
    return zarr.create_array(zarr.storage.MemoryStore(), data=numbers(), chunks=(50, 60))


def several_files():
    memory_map()
    hdf5()
    return ["a.npy", "a.h5::/group/x"]


HERE = (in_memory, wide, masked, table, sparse, changed_map, hdf5_in_memory, zarr_in_memory)
ON_DISK = (memory_map, part_of_a_map, hdf5, zarr_folder, raw_zarr, several_files)


def facts(fit):
    """All that needs the data again."""
    return float(np.sum(fit.sparse.toarray())), fit.refit().noise_scale, fit.sparse.to_scipy().nnz


def threads():
    """Those of ours, once those that were sent home have gone."""
    for _ in range(100):
        names = [thread.name for thread in threading.enumerate() if thread.name.startswith("rankwolf")]
        if not names:
            break
        time.sleep(0.02)
    return names


@pytest.mark.parametrize("make", HERE + ON_DISK)
def test_a_result_is_pickled_and_copied(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fit = rw.decompose(make(), rng=0, n_threads=2)
    assert threads() == []
    expected = facts(fit)
    packed = pickle.dumps(fit)
    monkeypatch.chdir("/")  # names of files do not depend on where the process is
    for other in (pickle.loads(packed), copy.deepcopy(fit), copy.copy(fit)):
        assert threads() == []
        assert facts(other) == expected
        np.testing.assert_array_equal(np.asarray(other.low_rank), np.asarray(fit.low_rank))
        assert repr(other) == repr(fit) and repr(other.history) == repr(fit.history)
    assert threads() == []
    # What is on the disk stays there; what is in memory travels, once.
    assert len(packed) < (200_000 if make in ON_DISK else 400_000)
    if make is table:
        assert pickle.loads(packed).low_rank.to_frame().index[7] == "day 7"


def test_a_result_goes_through_processes(tmp_path, monkeypatch):
    joblib = pytest.importorskip("joblib")
    monkeypatch.chdir(tmp_path)
    fits = [rw.decompose(make(), rng=0, n_threads=1) for make in (in_memory, hdf5, raw_zarr)]
    expected = [facts(fit) for fit in fits]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(facts, fits) == expected
    assert joblib.Parallel(n_jobs=2)(joblib.delayed(facts)(fit) for fit in fits[:2]) == expected[:2]
    joblib.externals.loky.get_reusable_executor().shutdown()


def test_a_result_goes_through_dask(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    fits = [rw.decompose(make(), rng=0, n_threads=1) for make in (in_memory, hdf5)]
    expected = [facts(fit) for fit in fits]
    settings = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        assert client.gather(client.map(facts, fits)) == expected


def test_a_result_of_a_cluster_leaves_the_cluster():
    da = pytest.importorskip("dask.array")
    import dask

    with dask.config.set(scheduler="synchronous"):
        fit = rw.decompose(da.from_array(numbers(), chunks=(100, 60)), rng=0)
        expected = np.asarray(fit.sparse)
        packed = pickle.dumps(fit)
    other = pickle.loads(packed)
    assert other.source is None
    np.testing.assert_array_equal(np.asarray(other.sparse), expected)
    with pytest.raises(ValueError, match="cannot be refitted"):
        other.refit()


@pytest.mark.parametrize("make", [memory_map, hdf5, raw_zarr])
def test_data_that_did_not_come_along_is_named(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = make()
    fit = rw.decompose(data, rng=0)
    packed = pickle.dumps(fit)
    expected = np.asarray(fit.low_rank)
    if make is hdf5:
        data.file.close()
    for path in tmp_path.iterdir():
        os.rename(path, path.with_name(f"moved-{path.name}"))
    other = pickle.loads(packed)
    np.testing.assert_array_equal(np.asarray(other.low_rank), expected)
    for call in (lambda: other.sparse[:3], other.refit):
        with pytest.raises(ValueError, match=r"is not here, and S and refit need it. L is complete. /"):
            call()


def test_a_model_travels_too():
    model = rw.RobustPCA(random_state=0).fit(table())
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.transform(table()), model.transform(table()))
    assert other.low_rank_.to_frame().index[7] == "day 7"


def test_complaints_travel():
    with pytest.raises(ValueError) as caught:
        rw.decompose(numbers(), tol=-1)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
