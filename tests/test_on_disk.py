"""Matrices on disk: the same answer as in memory, each tile read once, whatever the storage and the limit on memory."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

import rankwolf as rw
from rankwolf.data import InMemory, MappedArray, OnDisk, Task, as_stored
from rankwolf.data.open import check_source, open_source
from rankwolf.data.stored import Stored
from rankwolf.data.summary import Describe
from rankwolf.data.tasks import Sums
from rankwolf.data.workspace import Workspace
from rankwolf.ground.complaints import parse_size
from rankwolf.platform import resident_memory
from rankwolf.problem import Constrained
from rankwolf.solvers.auto import choice

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")

ROWS, COLUMNS = 1501, 40


def scene(dtype, shape=(ROWS, COLUMNS)):
    rng = np.random.default_rng(3)
    m, n = shape
    X = 40.0 * rng.random((m, 3)) @ rng.random((3, n)) + 2.0 * rng.standard_normal(shape)
    X[rng.random(shape) < 0.05] += 120.0
    return np.clip(X, 0.0, 255.0).astype(dtype)


def memory_map(X, folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def hdf5(X, folder, **settings):
    return h5py.File(folder / "x.h5", "w").create_dataset("x", data=X, **settings)


def zarr_array(X, folder, **settings):
    array = zarr.create_array(str(folder / "x.zarr"), shape=X.shape, dtype=X.dtype, **settings)
    array[:] = X
    return array


STORES = {
    "memmap": memory_map,
    "memmap, columns first": lambda X, folder: memory_map(np.asfortranarray(X), folder),
    "memmap, part": lambda X, folder: memory_map(np.vstack([X[:7], X]), folder)[7:],
    "hdf5": hdf5,
    "hdf5, chunks": lambda X, folder: hdf5(X, folder, chunks=(32, 7), compression="gzip"),
    "hdf5, frames": lambda X, folder: hdf5(X, folder, chunks=(1, X.shape[1]) if X.shape[0] < 99 else (X.shape[0], 1)),
    "zarr 3": lambda X, folder: zarr_array(X, folder, chunks=(50, 40), zarr_format=3),
    "zarr 2": lambda X, folder: zarr_array(X, folder, chunks=(30, 100), zarr_format=2),
    "zarr, raw": lambda X, folder: zarr_array(X, folder, chunks=(64, 40), compressors=None),
    "zarr, shards": lambda X, folder: zarr_array(X, folder, chunks=(20, 40), shards=(100, 40)),
    "zarr, one chunk": lambda X, folder: zarr_array(X, folder, chunks=X.shape),
}  # fmt: skip


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("turned", [False, True], ids=["tall", "wide"])
def test_same_answer_as_in_memory(store, turned, tmp_path):
    X = scene(np.uint8).T.copy() if turned else scene(np.uint8)
    expected = rw.decompose(X, rng=0, tol=1e-4, refit=False)
    fit = rw.decompose(STORES[store](X, tmp_path), rng=0, tol=1e-4)
    assert fit.objective == pytest.approx(expected.objective, rel=1e-6)
    assert fit.passes == expected.passes
    np.testing.assert_allclose(fit.low_rank[:], expected.low_rank[:], atol=1e-2)
    np.testing.assert_allclose(np.asarray(fit.sparse), np.asarray(expected.sparse), atol=1e-2)


@pytest.mark.doubts("most of it is noise", "iteration limit")
@pytest.mark.parametrize("method", ["fw-t", "fw", "ista", "fista"])
def test_every_method_on_disk(method, tmp_path):
    X = scene(np.float32)
    expected = rw.decompose(X, rng=0, method=method, max_iter=15)
    fit = rw.decompose(zarr_array(X, tmp_path, chunks=(50, 40)), rng=0, method=method, max_iter=15)
    assert fit.objective == pytest.approx(expected.objective, rel=1e-6)


def test_radii_on_disk(tmp_path):
    X = scene(np.float64)
    expected = rw.decompose(X, radii=(4000.0, 9000.0), rng=0, max_iter=15)
    fit = rw.decompose(memory_map(X, tmp_path), radii=(4000.0, 9000.0), rng=0, max_iter=15)
    assert fit.objective == expected.objective  # the same tiles: the same bytes


def test_noise_is_estimated_from_disk(tmp_path):
    X = scene(np.uint8)
    expected = rw.decompose(X, delta="auto", rng=0)
    assert rw.decompose(memory_map(X, tmp_path), delta="auto", rng=0).lambdas == expected.lambdas


@pytest.mark.parametrize("where", ["both", "mask", "data"])
def test_masks_and_nan(where, tmp_path):
    rng = np.random.default_rng(0)
    X, mask = scene(np.float32), rng.random((ROWS, COLUMNS)) < 0.8
    X[rng.random(X.shape) < 0.1] = np.nan
    expected = rw.decompose(X, observed=mask, rng=0, refit=False)
    data = X if where == "mask" else zarr_array(X, tmp_path, chunks=(50, 40))
    observed = mask if where == "data" else hdf5(mask, tmp_path, chunks=(64, 40))
    fit = rw.decompose(data, observed=observed, rng=0, refit=False)
    assert fit.objective == pytest.approx(expected.objective, rel=1e-6)
    np.testing.assert_array_equal(np.asarray(fit.sparse)[~mask], 0.0)


def test_files_below_each_other(tmp_path):
    X = scene(np.uint8)
    np.save(tmp_path / "a.npy", X[:600])
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_dataset("group/matrix", data=X[600:900], chunks=(50, 40))
        file.create_dataset("group/other", data=X[:5])
    zarr.create_array(str(tmp_path / "c.zarr"), shape=(601, 40), dtype=np.uint8, chunks=(64, 40))[:] = X[900:]
    files = [tmp_path / "a.npy", f"{tmp_path / 'b.h5'}::/group/matrix", str(tmp_path / "c.zarr")]
    expected = rw.decompose(X, rng=0, refit=False)
    assert rw.decompose(files, rng=0).objective == pytest.approx(expected.objective, rel=1e-6)
    np.save(tmp_path / "narrow.npy", X[:9, :9])
    with pytest.raises(ValueError, match=r"same number of columns.*\(600, 40\), \(9, 9\)"):
        rw.decompose([tmp_path / "a.npy", tmp_path / "narrow.npy"])
    with pytest.raises(FileNotFoundError):
        rw.decompose([tmp_path / "a.npy", tmp_path / "nowhere.npy"])
    with pytest.raises(ValueError, match="list of one file"):
        rw.decompose(tmp_path / "a.npy")


@pytest.mark.parametrize("name", ["panel.csv", "panel.tsv.gz", "PANEL.XLSX", "panel.parquet"])
def test_the_name_of_a_table_is_no_file_that_stays_on_the_disk(name, tmp_path):
    (tmp_path / name).write_text("a,b\n1,2\n")
    for given in (tmp_path / name, [tmp_path / name]):
        with pytest.raises(ValueError, match=r"the table itself, as pandas\.read_csv"):
            rw.decompose(given)


@pytest.mark.parametrize("kind", ["f4", "f8", "u2"])
def test_numbers_of_the_other_byte_order(kind, tmp_path):
    X = scene(np.dtype(kind))
    expected = rw.decompose(X, rng=0, refit=False)
    for data in (X.astype(f">{kind}"), memory_map(X.astype(f">{kind}"), tmp_path)):
        fit = rw.decompose(data, rng=0, refit=False)
        assert fit.objective == pytest.approx(expected.objective, rel=1e-6)
        assert fit.low_rank.dtype == expected.low_rank.dtype


def test_bad_stores(tmp_path):
    empty = h5py.File(tmp_path / "empty.h5", "w").create_dataset("nothing", data=h5py.Empty("f4"))
    with pytest.raises(ValueError, match="'/nothing' is empty: it has a type but no shape"):
        rw.decompose(empty)
    with pytest.raises(ValueError, match="two-dimensional"):
        rw.decompose(memory_map(np.zeros(5), tmp_path))
    with pytest.raises(ValueError, match="real numbers"):
        rw.decompose(hdf5(np.zeros((3, 3), complex), tmp_path))
    with pytest.raises(ValueError, match="boolean"):
        rw.decompose(np.eye(3), observed=memory_map(np.eye(3), tmp_path))
    with pytest.raises(ValueError, match="shape of X"):
        rw.decompose(np.eye(3), observed=memory_map(np.ones((4, 4), bool), tmp_path))
    with pytest.raises(ValueError, match="infinite"):
        rw.decompose(memory_map(np.full((4, 4), np.inf), tmp_path))


class Counting(Stored):
    """Chunks of 32 rows; remembers which were read, and by whom."""

    def __init__(self, X):
        super().__init__(X.shape, X.dtype)
        self.X, self.chunks, self.threads = X, [], set()

    def grain(self, axis):
        return 32 if axis == 0 else self.shape[1]

    def read(self, rows, columns):
        assert rows.start % 32 == 0 and (rows.stop % 32 == 0 or rows.stop == self.shape[0])
        assert columns == slice(0, self.shape[1])
        self.chunks += range(rows.start // 32, -(-rows.stop // 32))
        self.threads.add(threading.current_thread().name)
        return self.X[rows, columns].copy()


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_each_chunk_is_read_once_in_a_pass_by_the_reader(n_threads):
    X = scene(np.uint8, (5000, 60))
    data = Counting(X)
    source = OnDisk(data, None, n_threads)
    sums = source.run(Describe())
    assert sorted(data.chunks) == list(range(-(-5000 // 32)))
    assert data.threads == {"rankwolf-reader_0"}
    assert source.bytes_read == X.nbytes
    assert sums.squares == pytest.approx(np.sum(X.astype(float) ** 2), rel=1e-12)


@dataclass
class Tiles(Sums):
    parts: list = field(default_factory=list)


class Collect(Task):
    """The tiles, stacked."""

    def __init__(self, depth):
        self.depth = depth

    def start(self):
        return Tiles()

    def visit(self, sums, tile, *rows):
        np.testing.assert_array_equal(tile[:, 0], rows[0][:, 0])
        assert tile.flags.c_contiguous and tile.dtype == np.float32
        sums.parts.append(tile.copy())


@pytest.mark.parametrize("depth", [0, 100])
def test_tiles_are_the_matrix_in_order(depth, monkeypatch):
    X = scene(np.uint8, (3000, 500))
    monkeypatch.setattr("rankwolf.data.stored.PORTION_BYTES", 100_000)  # tiles cross the ends of slabs
    source = OnDisk(Counting(X), None, 3)
    tiles = source.run(Collect(depth), X[:, :1].astype(np.float32)).parts
    np.testing.assert_array_equal(np.vstack(tiles), X)


@pytest.mark.doubts("iteration limit")
def test_results_do_not_depend_on_threads_or_slabs(tmp_path, monkeypatch):
    X = zarr_array(scene(np.uint8, (3000, 60)), tmp_path, chunks=(64, 60))
    expected = rw.decompose(X, rng=0, n_threads=1, max_iter=3)
    # Many slabs, as a matrix of gigabytes has.
    monkeypatch.setattr("rankwolf.data.stored.PORTION_BYTES", 30_000)
    fit = rw.decompose(X, rng=0, n_threads=3, max_iter=3)
    assert [record.objective for record in fit.history] == [record.objective for record in expected.history]


def test_wide_matrices_in_frames_are_turned_once():
    class Frames(Counting):
        def grain(self, axis):
            return 1 if axis == 0 else self.shape[1]

        def read(self, rows, columns):
            assert columns == slice(0, self.shape[1])
            self.chunks += range(rows.start, rows.stop)
            return self.X[rows, columns].copy()

    X = scene(np.uint8, (50, 4000))
    data = Frames(X)
    source = OnDisk(data, None, 2)
    for _ in range(3):
        tiles = source.run(Collect(0), X.T[:, :1].astype(np.float32)).parts
        np.testing.assert_array_equal(np.vstack(tiles), X.T)
    assert sorted(data.chunks) == list(range(50))
    np.testing.assert_array_equal(source.read_user_rows(3, 7), X[3:7])


def test_fingerprints_tell_data_apart(tmp_path):
    X = scene(np.uint8)
    other = X.copy()
    other[0, 0] += 1
    prints = {InMemory(X, None, 1).fingerprint(), OnDisk(MappedArray(X), None, 2).fingerprint()}
    assert len(prints) == 1
    assert InMemory(other, None, 1).fingerprint() not in prints
    assert InMemory(X[:-1], None, 1).fingerprint() not in prints


def test_working_arrays_go_to_files_and_come_back():
    space = Workspace(1000)
    small, large = space.zeros((10, 5), np.float64), space.zeros((1000, 5), np.float32)
    assert not space.is_in_file(small) and space.is_in_file(large)
    large[:] = np.arange(5)
    space.give_back(0, 1000)
    np.testing.assert_array_equal(large, np.tile(np.arange(5), (1000, 1)))
    del small
    assert not space.is_in_file(space.zeros((10, 10), np.float64))


def test_copy_on_write_maps_keep_what_was_written(tmp_path):
    np.save(tmp_path / "x.npy", scene(np.uint8))
    X = np.load(tmp_path / "x.npy", mmap_mode="c")
    X[5:9] = 77
    stored = as_stored(X)
    for _ in range(2):
        np.testing.assert_array_equal(stored.read(slice(5, 9), slice(0, 40)), 77)


@pytest.mark.parametrize(
    ("text", "size"), [("2GB", 2 * 10**9), ("512 MiB", 2**29), ("1e6", 10**6), ("3kB", 3000)]
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1.2.3GB", "two"])
def test_bad_sizes(text):
    with pytest.raises(ValueError, match="'max_memory' parameter"):
        rw.decompose(np.eye(3), max_memory=text)


def test_a_limit_that_a_matrix_in_memory_has_passed_already_is_refused():
    """Before, it was accepted, and not kept."""
    with pytest.raises(
        ValueError, match=r"'max_memory' parameter of decompose must be more than this process holds"
    ):
        rw.decompose(np.eye(30) + 1.0, max_memory="1MB")


def test_too_little_memory_says_how_much_is_enough(tmp_path):
    X = zarr_array(scene(np.uint8, (3000, 600)), tmp_path, chunks=(300, 600))
    with pytest.raises(ValueError, match=r"'max_memory' parameter of decompose must be at least [\d,]+ MB"):
        rw.decompose(X, max_memory="20MB")


LIMITED = """
import pathlib, sys
import numpy as np
import rankwolf as rw
from rankwolf.platform import resident_memory
rw.decompose(np.eye(30), max_iter=1)  # what libraries and compiled code take is there before the limit is
X = np.load(sys.argv[1], mmap_mode="r")
limit = resident_memory() + 110_000_000
pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
fit = rw.decompose(X, max_memory=limit, method=sys.argv[2], max_iter=3, rng=0, **eval(sys.argv[3]))
status = pathlib.Path("/proc/self/status").read_text().splitlines()
peak = 1024 * int(next(line.split()[1] for line in status if line.startswith("VmHWM")))
print(fit.low_rank.rank, peak, limit)
"""


@pytest.mark.parametrize(
    ("method", "rank", "settings"),
    [("hybrid", 1, {}), ("hybrid", 100, {"lambdas": (2000.0, 10.0)})],
)
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count resident memory differently")
def test_the_limit_is_kept(method, rank, settings, tmp_path):
    """160 MB as float32, 40 MB on the disk, 110 MB to work with: factors of high rank lie in files."""
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.uint8, (200_000, 200))
    X[:] = np.clip(100 + 2 * rng.standard_normal((200_000, rank)) @ rng.standard_normal((rank, 200)), 0, 255)
    X[::7, ::5] = 200
    X.flush()
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "x.npy"), method, str(settings)],
        capture_output=True, text=True, check=True, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    found, peak, limit = map(float, done.stdout.split())
    assert peak <= limit
    assert found >= rank
    assert sorted(os.listdir(tmp_path)) == ["x.npy"]


@pytest.mark.parametrize("method", ["fw-t", "fista", "splitting"])
def test_the_papers_methods_say_what_they_need(method, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((100_000, 100), np.uint8))
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    with pytest.raises(
        ValueError, match=r"keeps (48|80) bytes .* (480|800) MB, and max_memory leaves .* 'path' keep none"
    ):
        rw.decompose(X, method=method, delta=1e-2, max_memory=resident_memory() + 100_000_000)


@pytest.mark.parametrize("store", STORES)
def test_robust_pca_streams_from_the_disk(store, tmp_path):
    pytest.importorskip("sklearn")
    X = scene(np.float64, (900, 40))
    X[::7, ::3] = np.nan
    here, there = (
        rw.RobustPCA(n_components=2, random_state=0).fit(x) for x in (X, STORES[store](X, tmp_path))
    )
    np.testing.assert_allclose(there.mean_, here.mean_, atol=1e-5)
    np.testing.assert_allclose(there.singular_values_, here.singular_values_, rtol=1e-6)
    assert abs(there.outliers_ - here.outliers_).max() < 1e-3
    np.testing.assert_allclose(there.noise_variance_, here.noise_variance_, rtol=1e-4)
    other = tmp_path / "more"
    other.mkdir()
    np.testing.assert_allclose(
        there.transform(STORES[store](X[:99], other)), here.transform(X[:99]), atol=1e-3
    )
    again = tmp_path / "again"
    again.mkdir()
    stored = STORES[store](X, again)
    for method in ("score_cells", "score_samples", "impute"):
        np.testing.assert_allclose(getattr(there, method)(stored), getattr(here, method)(X), atol=1e-2)
    assert there.partial_fit(stored).n_samples_seen_ == 1800


def test_robust_pca_refuses_what_is_no_matrix_of_real_numbers(tmp_path):
    pytest.importorskip("sklearn")
    np.save(tmp_path / "x.npy", np.ones((20, 3)) + 1j)
    with pytest.raises(ValueError, match="real numbers"):
        rw.RobustPCA().fit(np.load(tmp_path / "x.npy", mmap_mode="r"))


@pytest.mark.parametrize("store", STORES)
def test_rows_and_portions_of_a_store(store, tmp_path, monkeypatch):
    """Portions cover the matrix once; a few rows are read from the portions that have them."""
    X = scene(np.uint8, (501, 40))
    stored = as_stored(STORES[store](X, tmp_path))
    # Many portions, as a matrix of gigabytes has.
    monkeypatch.setattr("rankwolf.data.stored.PORTION_BYTES", 2000)
    seen = np.zeros(X.shape, int)
    for place in stored.portions():
        seen[place] += 1
    assert (seen == 1).all()
    numbers = np.array([0, 3, 4, 250, 500])
    np.testing.assert_array_equal(stored.rows(numbers), X[numbers])
    np.testing.assert_array_equal(stored[490:], X[490:])


def test_auto_keeps_to_the_memory_that_is_left(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 2)) @ rng.standard_normal((2, 40)) + 0.1 * rng.standard_normal((3000, 40))
    np.save(tmp_path / "x.npy", X)
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    problem = Constrained(100.0, 500.0)
    ways = []
    for most in (None, 10**6):
        source = check_source(open_source(X, n_threads=1))
        source.workspace = Workspace(most)
        ways.append(choice(problem, source)[0])
    assert ways == ["splitting", "path"]
