"""dask.arrays: the same answer as in memory with threads and processes, rows beside the blocks, few tasks."""

from __future__ import annotations

import gc
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import rankwolf as rw
from rankwolf.data import InMemory, OnDask
from rankwolf.data.on_dask import chunks, source
from rankwolf.data.on_dask.chunks import Room, row_chunks
from rankwolf.data.on_dask.partition import Block, Part, run_task
from rankwolf.data.summary import Describe
from rankwolf.passes import EvaluateFactors
from rankwolf.passes.dual import AppendProducts

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

ROWS, COLUMNS = 1201, 40


def scene(dtype=np.float64, shape=(ROWS, COLUMNS)):
    rng = np.random.default_rng(3)
    m, n = shape
    X = 40.0 * rng.random((m, 3)) @ rng.random((3, n)) + 2.0 * rng.standard_normal(shape)
    X[rng.random(shape) < 0.05] += 120.0
    return np.clip(X, 0.0, 255.0).astype(dtype)


def as_dask(X, size=250):
    return da.from_array(X, chunks=(size, -1) if X.shape[0] > X.shape[1] else (-1, size))


@pytest.fixture(scope="module")
def client():
    """Two worker processes with a thread each; a nanny starts another one where one dies."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="1GiB"
        ) as cluster,
        distributed.Client(cluster, timeout=120) as client,
    ):
        yield client


@pytest.fixture
def threads():
    with dask.config.set(scheduler="threads"):
        yield


RADII = (2e4, 2e5)
METHODS = ["hybrid", "fw-t", "fw-p", "fw", "ista", "fista"]


def settings(method):
    return {"method": method, "rng": 0} | (
        {"max_iter": 60, "tol": 1e-4} if method == "hybrid"
        else {"max_iter": 6, "radii": RADII} if method == "fw-p" else {"max_iter": 6}
    )  # fmt: skip


@pytest.mark.doubts("most of it is noise", "λ_S is below the noise", "iteration limit")
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("turned", [False, True], ids=["tall", "wide"])
def test_threads_give_the_same_answer_as_memory(method, turned):
    X = scene().T.copy() if turned else scene()
    expected, fit = (rw.decompose(x, **settings(method)) for x in (X, as_dask(X)))
    assert fit.objective == pytest.approx(expected.objective, rel=1e-6)
    if method != "fw-p":  # whose search for a threshold ends on the last digits of a sum
        assert fit.passes == expected.passes
    np.testing.assert_allclose(np.asarray(fit.low_rank), expected.low_rank[:], atol=1e-2)
    assert isinstance(fit.low_rank.u, np.ndarray)
    if fit.sparse.nonzeros and method != "fw":
        np.testing.assert_allclose(fit.sparse.to_dask().compute(), np.asarray(fit.sparse), atol=1e-9)
        assert fit.sparse.to_dask().shape == X.shape


@pytest.mark.doubts("most of it is noise", "λ_S is below the noise", "iteration limit")
@pytest.mark.parametrize("method", METHODS)
def test_processes_give_the_same_answer_as_memory(method, client):
    X = scene()
    expected, fit = (rw.decompose(x, **settings(method)) for x in (X, as_dask(X)))
    assert fit.objective == pytest.approx(expected.objective, rel=1e-6)
    np.testing.assert_allclose(fit.sparse[3:9], expected.sparse[3:9], atol=1e-2)


@pytest.mark.filterwarnings("ignore::rankwolf.RankwolfWarning")  # nearly all of the data is noise, or S is
@pytest.mark.parametrize(
    "form", [{"noise": 0.0}, {"noise": 40.0}, {"radii": (100.0, 500.0)}, {"radii": (1.0, 50.0)}]
)
def test_every_form_is_solved_on_workers(form):
    """By a search for weights around the hybrid; splitting is taken in memory, so they agree within ``tol``."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4)) @ rng.standard_normal((4, 50))
    X[rng.random(X.shape) < 0.05] += 9.0
    here = rw.decompose(X, **form, rng=0)
    with dask.config.set(scheduler="threads"):
        there = rw.decompose(as_dask(X, 100), **form, rng=0)
    assert there.status is here.status is rw.Status.GAP_REACHED
    assert there.method == "path"
    assert there.objective == pytest.approx(here.objective, rel=2e-3)
    if form == {"noise": 0.0}:
        np.testing.assert_allclose(np.asarray(there.low_rank), np.asarray(here.low_rank), atol=1e-6)


@pytest.mark.doubts("most of it is noise", "λ_S is below the noise", "iteration limit")
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("method", METHODS)
def test_same_tiles_same_answer_wherever_the_matrix_is(method, dtype, client, tmp_path):
    """Chunks that end where tiles end: products are the same to the bit, and sums are kept in float64."""
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    slow = method in ("ista", "fista")  # of full rank at first: fewer columns, in as many tiles
    rows, columns = (12288, 128) if slow else (3072, 512)
    X = scene(dtype, (rows, columns))
    assert rows // 2 % InMemory(X, None, 1).tile_rows() == 0
    options = settings(method) | {"max_iter": 4, "n_threads": 2}
    if method not in ("hybrid", "fw-p"):  # the noise is the same whatever the method: measured once
        options["lambdas"] = rw.decompose(X, rng=0, max_iter=1).lambdas
    expected = rw.decompose(X, **options).objective
    np.save(tmp_path / "x.npy", X)
    zarr.create_array(str(tmp_path / "x.zarr"), data=X, chunks=(rows // 16, columns))
    places = {
        "memmap": np.load(tmp_path / "x.npy", mmap_mode="r"),
        "zarr": zarr.open_array(str(tmp_path / "x.zarr")),
    }
    with h5py.File(tmp_path / "x.h5", "w") as file:
        places["hdf5"] = file.create_dataset("x", data=X, chunks=(rows // 16, columns))
        found = {name: rw.decompose(x, **options).objective for name, x in places.items()}
    found["processes"] = rw.decompose(as_dask(X, rows // 2), **options).objective
    with dask.config.set(scheduler="threads"):
        found["threads"] = rw.decompose(as_dask(X, rows // 2), **options).objective
    assert found == pytest.approx(dict.fromkeys(found, expected), rel=1e-6)


@pytest.mark.doubts("iteration limit")
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_types_masks_and_missing_entries(dtype):
    X = scene(dtype)
    mask = np.random.default_rng(0).random(X.shape) < 0.8
    expected = rw.decompose(X, observed=mask, rng=0, max_iter=5, tol=0.0).objective
    masked = da.ma.masked_array(as_dask(X), ~as_dask(mask))
    for fit in (
        rw.decompose(as_dask(X), observed=mask, rng=0, max_iter=5, tol=0.0),
        rw.decompose(as_dask(X), observed=da.from_array(mask, chunks=(99, 13)), rng=0, max_iter=5, tol=0.0),
        rw.decompose(masked, rng=0, max_iter=5, tol=0.0),
    ):
        assert fit.objective == pytest.approx(expected, rel=1e-6)
    with_nan = da.where(mask, as_dask(X), np.nan)
    assert rw.decompose(with_nan, rng=0, max_iter=5, tol=0.0).objective == pytest.approx(expected, rel=1e-6)


@pytest.mark.usefixtures("threads")
def test_rows_stay_beside_the_blocks_and_can_be_worked_on():
    X = scene()
    here, there = InMemory(X, None, 1), OnDask(as_dask(X), None, 2)
    left = np.random.default_rng(0).standard_normal((ROWS, 3))
    right = np.random.default_rng(1).standard_normal((COLUMNS, 3))
    rows = there.spread(left)
    assert not isinstance(rows, np.ndarray) and rows.shape == left.shape
    np.testing.assert_array_equal(there.gather(there.map(np.multiply, rows, rows)), left * left)
    np.testing.assert_array_equal(there.gather(there.row_numbers()), here.row_numbers())
    task = EvaluateFactors(right, 1.0)
    np.testing.assert_allclose(there.run(task, rows).values, here.run(task, left).values, rtol=1e-12)
    low_rank = there.as_user_sees(there.low_rank(rows, right))
    np.testing.assert_allclose(low_rank[:], left @ right.T, atol=1e-10)
    np.testing.assert_allclose(low_rank.u.T @ low_rank.u, np.eye(3), atol=1e-12)
    np.testing.assert_array_equal(there.read(240, 260), X[240:260])  # across the end of a partition
    np.testing.assert_array_equal(
        there.sample(64, np.random.default_rng(5)), here.sample(64, np.random.default_rng(5))
    )
    assert there.fingerprint() == here.fingerprint()


def test_a_pass_changes_nothing_that_it_is_shown():
    """So Dask may compute a part again, from the same rows."""
    block, rows = Block(scene()[:100], None), Part(None, (np.ones((100, 1)),))
    task = AppendProducts(np.ones((COLUMNS, 1)), 1.0, np.ones((COLUMNS, 2)))
    shared = task, (0,), np.dtype(np.float64)
    first, again = (run_task(shared, block, rows) for _ in range(2))
    assert np.all(rows.rows[0] == 1.0) and first.rows[0].shape == (100, 3)
    np.testing.assert_array_equal(first.rows[0], again.rows[0])
    np.testing.assert_array_equal(first.answer.values, again.answer.values)


@pytest.mark.usefixtures("threads")
def test_large_factors_stay_distributed(monkeypatch, tmp_path):
    expected = rw.decompose(as_dask(scene()), rng=0, tol=1e-2)
    # As if U had more than a gigabyte.
    monkeypatch.setattr(source, "CLIENT_BYTES", 1000)
    fit = rw.decompose(as_dask(scene()), rng=0, tol=1e-2)
    assert isinstance(fit.low_rank.u, da.Array) and fit.low_rank.u.shape[0] == ROWS
    assert isinstance(fit.low_rank[5:7], da.Array)
    np.testing.assert_array_equal(np.asarray(fit.low_rank), np.asarray(expected.low_rank))
    np.testing.assert_array_equal(fit.sparse[5:7], expected.sparse[5:7])
    assert abs(fit.sparse.to_scipy() - expected.sparse.to_scipy()).max() == 0.0
    fit.save(tmp_path / "fit.npz")
    np.testing.assert_array_equal(rw.load(tmp_path / "fit.npz").low_rank.u, expected.low_rank.u)


def tasks_of(client):
    return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


@pytest.mark.doubts("iteration limit", "most of it is noise", "λ_S is below the noise")
@pytest.mark.parametrize("method", ["hybrid", "fw-t"])
def test_the_graph_does_not_grow_and_little_is_left(method, client, monkeypatch):
    """The rows are placed anew, and the tasks that made the old ones are forgotten."""
    monkeypatch.setattr(source, "NARROW", 10.0)  # as if the matrix had 400 times as many columns
    counts = []
    options = {"method": method, "rng": 0, "tol": 0.0, "delta": 1e-3}
    fit = rw.decompose(
        as_dask(scene(), 300), max_iter=60, callback=lambda _: counts.append(tasks_of(client)), **options
    )
    assert fit.passes > 60
    assert max(counts[30:]) <= 1.3 * max(counts[:30])
    del fit
    gc.collect()
    deadline = time.monotonic() + 60
    while tasks_of(client) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert tasks_of(client) == 0


def test_tasks_have_names_that_say_what_they_do(client):
    source = OnDask(as_dask(scene()), None, 1)
    with distributed.get_task_stream(client) as stream:
        source.run(Describe())
    names = {distributed.utils.key_split(task["key"]) for task in stream.data}
    assert "rankwolf_describe" in names


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize(("partitions", "adds"), [(40, 5), (80, 12)])
def test_many_partitions_are_added_up_in_a_tree(partitions, adds, client, monkeypatch):
    """Forty tasks, five that add up eight answers each, five sums for the client; of eighty, ten and two."""
    # As many partitions as a cluster of dozens of workers has.
    monkeypatch.setattr(chunks, "MOST_PER_THREAD", partitions // 2)
    X = scene(shape=(2000, 30))
    expected = rw.decompose(X, **settings("hybrid"))
    # On a busy machine Dask misjudges the clocks of its workers, and tasks of the test before seem to be of this one.
    earlier = {task["key"] for task in client.get_task_stream()}
    with distributed.get_task_stream(client) as stream:
        fit = rw.decompose(as_dask(X, 2000 // partitions), **settings("hybrid"))
    assert fit.objective == pytest.approx(expected.objective, rel=1e-6)
    tasks = [task for task in stream.data if task["key"] not in earlier]
    names = [distributed.utils.key_split(task["key"]) for task in tasks]
    assert names.count("rankwolf_describe") == partitions
    summed = {"rankwolf_describe", "rankwolf_hybrid_pass"}
    passes = sum(name in summed for name in names) // partitions
    assert names.count("rankwolf_add") >= adds * passes
    assert names.count("rankwolf_add") == adds * fit.passes
    assert fit.low_rank.rank == expected.low_rank.rank


FAULTS = """
import resource, numpy as np
from rankwolf.data.on_dask.process import working
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        np.ones(2**18)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
first = faults()
with working():
    inside = faults()
print(first, inside, faults())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's memory, and Linux's count of pages")
def test_tasks_keep_the_memory_of_a_tile_for_the_next():
    """As a nanny starts a worker: outside of tasks each array is mapped anew, 512 pages of it."""
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], env=environment, capture_output=True, text=True, timeout=120
    )
    before, inside, after = map(int, done.stdout.split())
    if before < 40_000:
        pytest.skip("this C library, or its pages, are of another kind")
    assert inside < 0.2 * before
    assert after > 0.8 * before


def test_too_large_for_the_workers_is_said_before(client):
    large = da.ones((4_000_000, 100), chunks=(100_000, 100))
    with pytest.raises(ValueError, match=r"workers' memory. Got 3.2 GB"):
        rw.decompose(large)


ROOM = Room(threads=4, memory=None, partition=8000 * 100, cheap=0)


@pytest.mark.parametrize(
    ("given", "heights"),
    [
        ((100, 100), (100,) * 8),
        ((100, 20), (100,) * 8),  # columns that are side by side are put together
        ((10, 100), (100,) * 8),  # many small ones: neighbours
    ],
)
def test_partitions_follow_the_chunks(given, heights):
    assert row_chunks(da.ones((800, 100), chunks=given), ROOM, False) == heights


def test_chunks_that_would_have_to_be_cut_up_are_refused():
    across = da.ones((4000, 100), chunks=(4000, 5))
    with pytest.raises(ValueError, match=r"X.rechunk\(\{0: 500, 1: -1\}\).persist\(\)"):
        row_chunks(across, ROOM, False)
    assert sum(row_chunks(across, Room(4, None, 8000 * 100, chunks.CHEAP_BYTES), False)) == 4000


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (lambda: as_dask(scene())[0], "two-dimensional"),
        (lambda: as_dask(scene()).astype(complex), "real numbers"),
        (lambda: as_dask(scene())[as_dask(scene())[:, 0] > 1], "compute_chunk_sizes"),
        # Not scene() / 0: workers divide in threads of their own, where errstate does not hold, and NumPy warns there.
        (lambda: as_dask(np.where(scene() < scene().max(), scene(), np.inf)), "finite"),
    ],
)
def test_bad_arrays(X, message):
    with pytest.raises(ValueError, match=message):
        rw.decompose(X())


@pytest.mark.doubts("iteration limit")
@pytest.mark.usefixtures("threads")
def test_a_checkpoint_is_taken_up_again(tmp_path):
    X, path = as_dask(scene()), tmp_path / "run.ckpt"
    for method in ("hybrid", "fw-t"):
        whole = rw.decompose(X, rng=0, method=method, tol=0.0, max_iter=10)
        rw.decompose(X, rng=0, method=method, tol=0.0, max_iter=4, checkpoint=path)
        resumed = rw.decompose(X, rng=0, method=method, tol=0.0, max_iter=10, checkpoint=path, resume=True)
        assert resumed.objective == pytest.approx(whole.objective, rel=1e-12)
        path.unlink()


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("options", [{}, {"center": False}, {"n_components": 2}], ids=str)
@pytest.mark.parametrize("shape", [(900, 40), (60, 900)], ids=["tall", "wide"])
def test_robust_pca_takes_a_dask_array(options, shape):
    pytest.importorskip("sklearn")
    X = scene(shape=shape)
    X[::7, ::3] = np.nan
    here, there = (rw.RobustPCA(random_state=0, **options).fit(x) for x in (X, as_dask(X)))
    np.testing.assert_allclose(there.singular_values_, here.singular_values_, rtol=1e-6)
    np.testing.assert_allclose(there.mean_, here.mean_, atol=1e-5)
    assert abs(there.outliers_ - here.outliers_).max() < 1e-3
    np.testing.assert_allclose(there.noise_variance_, here.noise_variance_, rtol=1e-4)
    np.testing.assert_allclose(there.transform(as_dask(X[:50])), here.transform(X[:50]), atol=1e-3)


@pytest.mark.usefixtures("threads")
def test_robust_pca_does_not_look_under_a_mask():
    pytest.importorskip("sklearn")
    X = scene(np.float64, (400, 30))
    hidden = np.random.default_rng(0).random(X.shape) < 0.3
    seen = np.where(hidden, np.nan, X)
    masked = da.from_array(
        np.ma.MaskedArray(np.where(hidden, 1e6, X), hidden), chunks=(100, 30), asarray=False
    )
    here, there = (rw.RobustPCA(random_state=0).fit(x) for x in (seen, masked))
    np.testing.assert_allclose(there.mean_, here.mean_, atol=1e-5)
    np.testing.assert_allclose(there.score_cells(masked), here.score_cells(seen), atol=1e-2)


def test_robust_pca_on_workers_centres_by_a_pass(client):
    """More rows than the first medians are taken from; the blocks stay where they are."""
    pytest.importorskip("sklearn")
    X = scene(np.float32, (4000, 30)) + 100.0
    here, there = (rw.RobustPCA(random_state=0).fit(x) for x in (X, as_dask(X, 1000)))
    np.testing.assert_allclose(there.mean_, here.mean_, atol=0.2)
    np.testing.assert_allclose(there.singular_values_[:3], here.singular_values_[:3], rtol=1e-2)


def test_the_documented_commands_work(tmp_path):
    """``dask scheduler`` and ``dask worker`` as processes of their own, in their own folders, on a free port."""
    text = (Path(__file__).parents[1] / "docs" / "clusters.md").read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- commands -->\n```sh\n(.*?)```", text, re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert [line.split()[:2] for line in lines] == [
        ["dask", "scheduler"],
        ["dask", "worker"],
        ["dask", "worker"],
    ]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    processes = []
    try:
        for line in lines:
            command = [sys.executable, "-m", *line.replace("8786", port).split()]
            processes.append(
                subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
        with distributed.Client(f"tcp://127.0.0.1:{port}", timeout=120) as client:
            client.wait_for_workers(2, timeout=120)
            fit = rw.decompose(as_dask(scene()), rng=0, tol=1e-4)
        assert fit.objective == pytest.approx(
            rw.decompose(scene(), rng=0, tol=1e-4, refit=False).objective, rel=1e-6
        )
        assert (tmp_path / "worker-a").is_dir() and (tmp_path / "worker-b").is_dir()
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(timeout=60)


@pytest.mark.doubts("most of it is noise", "iteration limit")
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("method", ["hybrid", "fw-t", "fista"])
def test_rows_that_are_placed_anew_are_the_same(method, monkeypatch):
    options = settings(method) | {"tol": 0.0, "max_iter": 12}
    calm = rw.decompose(as_dask(scene()), **options)
    monkeypatch.setattr(source, "ANEW_EVERY", 3)
    monkeypatch.setattr(source, "NARROW", 100.0)
    fit = rw.decompose(as_dask(scene()), **options)
    assert fit.objective == calm.objective
