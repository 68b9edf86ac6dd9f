"""A matrix in other units is the same wherever it lies: tiles, passes, parts, medians, counts and S."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import rankwolf as rw
from rankwolf.data import InMemory, OnDask, OnDisk, SparseObserved, SparseZeros, Sums, Task
from rankwolf.data.centred import Centred, centred
from rankwolf.data.column_statistics import column_medians, line_sums, observed_counts
from rankwolf.data.open import check_source, open_source
from rankwolf.data.summary import Describe
from rankwolf.data.tiles import dense_with_nan, is_sparse
from rankwolf.ground.low_rank import LowRank
from rankwolf.result.residual import sparse_part

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
zarr = pytest.importorskip("zarr")


@pytest.fixture(autouse=True)
def _threads():
    with dask.config.set(scheduler="threads"):
        yield


def table(shape, dtype=np.float64):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1])) + 5.0 * rng.standard_normal(
        shape[1]
    )
    X[rng.random(shape) < 0.05] += 30.0
    X[rng.random(shape) < 0.2] = np.nan
    return X.astype(dtype)


def as_sparse(X):
    rows, columns = np.nonzero(~np.isnan(X))
    return scipy.sparse.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)


PLACES = {
    "memory": lambda X, folder: X,
    "columns first": lambda X, folder: np.asfortranarray(X),
    "masked": lambda X, folder: np.ma.masked_invalid(X),
    "zarr": lambda X, folder: zarr.create_array(str(folder / "x.zarr"), data=X, chunks=(40, 30)),
    "zarr in rows": lambda X, folder: zarr.create_array(
        str(folder / "y.zarr"), data=X, chunks=(1, X.shape[1])
    ),
    "dask": lambda X, folder: da.from_array(X, chunks=(50, 20)),
    "sparse": lambda X, folder: as_sparse(X),
}
SHAPES = [(301, 40), (40, 301)]
KINDS = {
    "memory": InMemory, "columns first": InMemory, "masked": InMemory, "zarr": OnDisk, "zarr in rows": OnDisk,
    "dask": OnDask, "sparse": SparseObserved,
}  # fmt: skip


def dense(tile):
    return dense_with_nan(tile) if is_sparse(tile) else np.asarray(tile)


class Stack(Task):
    """All tiles and the numbers of their rows."""

    def start(self):
        return Tiles([], [])

    def visit(self, sums, tile, *rows):
        sums.add(Tiles([dense(tile).copy()], [rows[0].copy()]))


class Tiles(Sums):
    def __init__(self, tiles, numbers):
        self.tiles, self.numbers = tiles, numbers

    def add(self, other):
        self.tiles, self.numbers = self.tiles + other.tiles, self.numbers + other.numbers


@pytest.fixture(params=SHAPES, ids=["tall", "wide"])
def X(request):
    return table(request.param)


@pytest.fixture(params=PLACES)
def place(request):
    return request.param


@pytest.fixture
def source(place, X, tmp_path):
    opened = open_source(PLACES[place](X, tmp_path), n_threads=2)
    assert type(opened) is KINDS[place]
    return opened


@pytest.fixture(params=[False, True], ids=["centre", "centre and scale"])
def units(request, X):
    rng = np.random.default_rng(0)
    return rng.standard_normal(X.shape[1]), rng.uniform(0.5, 2.0, X.shape[1]) if request.param else None


@pytest.mark.parametrize("wrap", [centred, Centred], ids=["as a solver has it", "tile by tile"])
def test_every_way_of_reading_gives_the_changed_matrix(source, X, units, wrap):
    centre, scale = units
    expected = X - centre if scale is None else (X - centre) / scale
    changed = wrap(source, centre, scale)
    seen = expected.T if changed.transposed else expected
    m, n = X.shape
    assert changed.user_shape == (m, n) and changed.shape == seen.shape
    passed = changed.run(Stack(), changed.row_numbers())
    np.testing.assert_allclose(np.vstack(passed.tiles), seen, rtol=1e-12)
    np.testing.assert_array_equal(np.vstack(passed.numbers)[:, 0], np.arange(seen.shape[0]))
    np.testing.assert_allclose(dense(changed.read(3, 11)), seen[3:11], rtol=1e-12)
    runs = [(0, 4), (9, 12)]
    for (start, stop), tile in zip(runs, changed.read_runs(runs), strict=True):
        np.testing.assert_allclose(dense(tile), seen[start:stop], rtol=1e-12)
    np.testing.assert_allclose(changed.read_user_rows(5, 20), expected[5:20], rtol=1e-12)
    some = np.array([0, 7, 8, 31])
    np.testing.assert_allclose(dense(changed.read_user(some)), expected[some], rtol=1e-12)
    np.testing.assert_allclose(
        dense(changed.read_user(slice(2, 9), slice(3, 17))), expected[2:9, 3:17], rtol=1e-12
    )
    np.testing.assert_allclose(np.vstack([dense(b) for b in changed.user_blocks()]), expected, rtol=1e-12)
    parts = np.zeros_like(expected)
    for rows, columns, tile in changed.user_parts():
        parts[rows, columns] = dense(tile)
    np.testing.assert_allclose(parts, expected, rtol=1e-12)
    assert changed.summary.observed == np.count_nonzero(~np.isnan(X))
    assert changed.summary.norm == pytest.approx(np.sqrt(np.nansum(expected**2)), rel=1e-12)


def test_medians_counts_the_robust_mean_and_s_are_those_of_an_array(source, X):
    centre = column_medians(source)
    np.testing.assert_allclose(centre, np.nanmedian(X, axis=0), rtol=1e-12)
    in_rows, in_columns = observed_counts(source)
    np.testing.assert_array_equal(in_rows, np.count_nonzero(~np.isnan(X), axis=1))
    np.testing.assert_array_equal(in_columns, np.count_nonzero(~np.isnan(X), axis=0))
    rng = np.random.default_rng(1)
    low_rank = LowRank.from_factors(
        rng.standard_normal((X.shape[0], 2)), rng.standard_normal((X.shape[1], 2))
    )
    changed, L = centred(source, centre), np.asarray(low_rank)
    rest = X - np.nanmedian(X, axis=0) - L
    clipped = np.nan_to_num(np.clip(rest, -1.5, 1.5))
    check_source(changed)
    np.testing.assert_allclose(
        sparse_part(changed, low_rank, 1.5).toarray(), np.nan_to_num(rest) - clipped, atol=1e-10
    )


def test_zeros_that_are_not_stored_are_changed_too():
    counts = np.where(np.random.default_rng(0).random((60, 90)) < 0.1, 3.0, 0.0)
    source = open_source(scipy.sparse.csr_array(counts), implicit="zeros")
    assert isinstance(source, SparseZeros)
    changed = centred(source, np.arange(90.0), np.full(90, 2.0))
    np.testing.assert_allclose(changed.read_user_rows(0, 60), (counts - np.arange(90.0)) / 2.0)
    np.testing.assert_allclose(
        line_sums(changed, np.abs)[1], np.abs((counts - np.arange(90.0)) / 2.0).sum(axis=0)
    )


def test_opening_reads_nothing_and_passes_read_each_number_once(tmp_path):
    X = table((900, 30), np.float32)
    source = open_source(zarr.create_array(str(tmp_path / "x.zarr"), data=X, chunks=(100, 30)))
    changed = centred(source, np.nanmean(X, axis=0))
    assert source.passes == changed.passes == source.bytes_read == 0
    changed.run(Describe())
    assert source.passes == changed.passes == 1
    assert changed.bytes_read == source.bytes_read == X.nbytes


def test_rows_of_a_dask_array_are_read_without_loading_the_rest():
    computed = []

    def remember(block, block_info=None):
        if block_info:
            computed.append(block_info[0]["chunk-location"])
        return block

    X = table((400, 30))
    source = open_source(da.from_array(X, chunks=(50, 30)).map_blocks(remember, dtype=X.dtype))
    np.testing.assert_array_equal(source.read_user_rows(60, 90), X[60:90])
    assert set(computed) == {(1, 0)}


@pytest.mark.parametrize("factor", [1e-20, 1e20])
@pytest.mark.parametrize("place", ["memory", "zarr", "dask", "sparse"])
def test_single_precision_that_would_overflow_becomes_double(place, factor, tmp_path):
    X = (table((120, 40)) * factor).astype(np.float32)
    source = open_source(PLACES[place](X, tmp_path))
    for each in (source, Centred(source, np.nanmean(X, axis=0))):
        check_source(each)
        assert each.dtype == each.read(0, 9).dtype == np.float64
        assert 0.0 < each.run(Describe()).squares < np.inf


def test_a_source_that_is_open_is_decomposed_as_it_is():
    X = table((200, 30))
    source = centred(open_source(X, n_threads=1), np.full(30, 2.0))
    one, other = (
        rw.decompose(source, delta=0.05, rng=0),
        rw.decompose(X - 2.0, delta=0.05, rng=0, n_threads=1),
    )
    assert one.objective == other.objective
    assert one.passes == other.passes


class SeesAll(Stack):
    sees_all = True


def test_a_task_that_sees_all_sees_what_is_out_of_scale_through_other_units(tmp_path):
    """The bound of the data beneath is for tasks that cannot use such entries; one that asks for all gets all."""
    X = np.random.default_rng(0).standard_normal((200, 30))
    X[7, 5] = 1e9
    source = open_source(zarr.create_array(str(tmp_path / "x.zarr"), data=X, chunks=(50, 30)))
    source.set_bound(10.0)
    changed = Centred(source, np.ones(30))
    largest = {
        task: np.vstack(changed.run(task(), changed.row_numbers()).tiles).max() for task in (Stack, SeesAll)
    }
    assert largest == {Stack: 9.0, SeesAll: 1e9 - 1.0}


@pytest.mark.parametrize("wrap", [centred, Centred], ids=["as a solver has it", "tile by tile"])
def test_numbers_in_other_units_are_those_of_the_tiles_beneath(wrap):
    """Integers never overflow as float32, but in other units they are no integers any more."""
    counts = scipy.sparse.csr_array(np.eye(40, 30, dtype=np.uint8))
    for source in (open_source(np.eye(40, 30, dtype=np.uint8)), open_source(counts)):
        changed = wrap(source, np.ones(30))
        assert source.stored == np.uint8
        assert changed.stored == changed.dtype == np.float32


def test_what_only_some_sources_have_is_asked_of_the_source(source, place):
    sparse, block, turned = place == "sparse", source.densest(6), source.by_columns()
    assert (block is not None, turned is not None) == (sparse, sparse)
    assert source.maps_lazily == (place == "dask")
    assert not source.implicit_zeros
    if sparse:
        assert block.shape == (6, 6)
        assert turned.shape == source.shape[::-1]
    if not source.maps_lazily:
        with pytest.raises(NotImplementedError, match="no lazy arrays"):
            source.map_lazily(np.abs, np.zeros((source.shape[0], 0)))
