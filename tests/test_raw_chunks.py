"""Chunks of Zarr that are read as the files that they are, against Zarr's own reading of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rankwolf as rw
from rankwolf.data import OnDisk, as_stored, raw_chunks
from rankwolf.data import stored as stored_module
from rankwolf.data.raw_chunks import Buffers, RawChunks, is_raw
from rankwolf.data.stored import Dataset

zarr = pytest.importorskip("zarr")


def numbers(shape, dtype):
    return (np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 200, shape)).astype(dtype)


def store(folder, data, **how):
    how = {"chunks": (8, 8), "compressors": None, "overwrite": True, **how}
    array = zarr.create_array(str(folder), shape=data.shape, dtype=data.dtype, **how)
    array[...] = data
    return array


sides = st.integers(1, 40)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=st.tuples(sides, sides), chunks=st.tuples(sides, sides), start=st.tuples(sides, sides),
    stop=st.tuples(sides, sides), zarr_format=st.sampled_from([2, 3]), direct=st.booleans(),
    dtype=st.sampled_from(["bool", "uint8", "int16", "float16", "float32", "float64"]),
)  # fmt: skip
def test_any_block_is_what_zarr_reads(tmp_path, shape, chunks, start, stop, zarr_format, direct, dtype):
    data = numbers(shape, dtype)
    array = store(tmp_path / "x", data, chunks=chunks, zarr_format=zarr_format)
    assert is_raw(array)
    (top, bottom), (left, right) = (
        sorted((min(a, side) - 1, min(b, side))) for a, b, side in zip(start, stop, shape, strict=True)
    )
    bottom, right = max(bottom, top + 1), max(right, left + 1)
    block = RawChunks(array, direct).read(slice(top, bottom), slice(left, right))
    np.testing.assert_array_equal(block, data[top:bottom, left:right])
    assert block.dtype == data.dtype


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("chunks", [(500, 512), (100, 512), (500, 2048), (33, 77)])
def test_long_chunks_past_the_cache_and_through_it(chunks, direct, tmp_path):
    data = numbers((500, 2048), "float32")
    stored = RawChunks(store(tmp_path / "x", data, chunks=chunks), direct)
    for start in range(0, 2048, 512):
        np.testing.assert_array_equal(stored.lines(1, start, start + 512), data.T[start : start + 512])


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="this system has no O_DIRECT")
def test_past_the_cache_when_it_would_not_fit(tmp_path, monkeypatch):
    array = store(tmp_path / "x", numbers((512, 1024), "float32"), chunks=(512, 1024))
    flags = []
    opened = os.open
    # How a file was opened is seen nowhere else, and the memory of this machine is not ours to fill.
    monkeypatch.setattr(os, "open", lambda path, flag: flags.append(flag) or opened(path, flag))
    for free in (2**20, 2**30):
        monkeypatch.setattr(raw_chunks, "free_memory", lambda free=free: free)
        np.testing.assert_array_equal(RawChunks(array).lines(0, 0, 512), array[...])
    assert flags == [os.O_RDONLY | os.O_DIRECT]


def test_file_systems_that_do_not_know_it(tmp_path, monkeypatch):
    array = store(tmp_path / "x", numbers((64, 64), "float32"))

    def refuse(path, flags):
        raise OSError(22, os.strerror(22), str(path))

    monkeypatch.setattr(os, "open", refuse)  # as such a file system does; there is none here
    np.testing.assert_array_equal(RawChunks(array, direct=True).lines(0, 0, 64), array[...])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("fill", [0.0, 7.0, np.nan])
def test_chunks_that_are_not_there(fill, zarr_format, tmp_path):
    data = numbers((20, 30), "float32")
    array = store(tmp_path / "x", data, chunks=(8, 30), zarr_format=zarr_format, fill_value=fill)
    (tmp_path / "x" / array.metadata.encode_chunk_key((1, 0))).unlink()
    data[8:16] = fill
    np.testing.assert_array_equal(as_stored(array).lines(0, 0, 20), data)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("change", [lambda held: held[:-1], lambda held: held + b"x", lambda held: b""])
def test_damaged_chunks(change, direct, tmp_path):
    array = store(tmp_path / "x", numbers((64, 64), "float32"), chunks=(64, 32))
    file = tmp_path / "x" / "c" / "0" / "1"
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(ValueError, match=r"damaged at rows 0 to 64: .*c/0/1 holds \d+ bytes instead of 8192"):
        RawChunks(array, direct).lines(1, 0, 64)


@pytest.mark.parametrize(
    "how",
    [
        {"compressors": "auto"}, {"shards": (16, 16)}, {"zarr_format": 2, "order": "F"},
        {"serializer": zarr.codecs.BytesCodec(endian="big")},
        {"filters": [zarr.codecs.TransposeCodec(order=(1, 0))]},
    ],
)  # fmt: skip
def test_others_are_left_to_zarr(how, tmp_path):
    data = numbers((32, 32), "float32")
    array = store(tmp_path / "x", data, **how)
    assert not is_raw(array) and type(as_stored(array)) is Dataset
    np.testing.assert_array_equal(as_stored(array).lines(0, 0, 32), data)


def test_arrays_in_memory_and_inside_groups(tmp_path):
    data = numbers((32, 32), "float32")
    in_memory = zarr.create_array({}, shape=(32, 32), dtype="f4", chunks=(8, 8), compressors=None)
    assert not is_raw(in_memory)
    group = zarr.open_group(str(tmp_path / "g"), mode="w")
    group.create_array("a/b", shape=(32, 32), dtype="f4", chunks=(8, 8), compressors=None)[...] = data
    array = zarr.open_group(str(tmp_path / "g"), mode="r")["a/b"]
    assert is_raw(array)
    np.testing.assert_array_equal(as_stored(array).lines(0, 0, 32), data)


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_numbers_of_the_other_byte_order(zarr_format, reopened, tmp_path):
    """Of format 3 it is the codec that says how the bytes lie, whatever the type of the array says."""
    data = numbers((32, 32), "float32")
    array = store(tmp_path / "x", data.astype(">f4"), zarr_format=zarr_format)
    array = zarr.open_array(str(tmp_path / "x"), mode="r") if reopened else array
    assert is_raw(array)
    np.testing.assert_array_equal(as_stored(array).lines(0, 0, 32), data)


def test_memory_is_used_again_but_not_while_it_is_looked_at():
    buffers = Buffers()
    first = buffers.take(10_000)
    address, view = first.ctypes.data, first[:400].view(np.float32).reshape(10, 10)[2:].T
    assert address % raw_chunks.SECTOR == 0 and first.size % raw_chunks.SECTOR == 0
    del first
    assert buffers.take(10_000).ctypes.data != address
    del view
    # The one of the line before is free as well.
    both = [buffers.take(10_000), buffers.take(10_000)]
    assert address in [array.ctypes.data for array in both]


def mapped_megabytes():
    """Of this process; memory counts that was asked for and never touched."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux how much memory is mapped")
KEPT_MEGABYTES = raw_chunks.KEPT_BYTES / 2**20


@LINUX
def test_no_more_memory_is_kept_than_a_few_blocks_need():
    buffers, before, tenth = Buffers(), mapped_megabytes(), raw_chunks.KEPT_BYTES // 10
    held = [buffers.take(size * tenth) for size in (4, 4, 4, 11, 1)]
    assert mapped_megabytes() - before > 2.3 * KEPT_MEGABYTES
    del held
    assert 0.0 < mapped_megabytes() - before < KEPT_MEGABYTES + 2.0


@LINUX
def test_buffers_of_many_threads():
    buffers, wrong = Buffers(), []

    def use(seed):
        rng = np.random.default_rng(seed)
        for _ in range(400):
            array = buffers.take(int(rng.integers(1, 6)) * raw_chunks.SECTOR)
            array[:] = seed
            time.sleep(0)
            wrong.extend([seed] * int(np.any(array != seed)))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=use, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
    # What is kept was counted rightly meanwhile: a large block is kept, and two of them are too much.
    before = mapped_megabytes()
    held = [buffers.take(int(0.8 * raw_chunks.KEPT_BYTES)) for _ in range(2)]
    del held
    assert 0.7 * KEPT_MEGABYTES < mapped_megabytes() - before < KEPT_MEGABYTES


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_children_do_not_share_buffers(tmp_path):
    array = Buffers()
    array.take(raw_chunks.SECTOR)[:] = 0  # free again, in the pool of the parent and of the child
    child = os.fork()
    if child == 0:
        array.take(raw_chunks.SECTOR)[:] = 9
        os._exit(0)
    os.waitpid(child, 0)
    assert not array.take(raw_chunks.SECTOR).any()


def test_a_short_read_past_the_cache_is_made_again(tmp_path, monkeypatch):
    array = store(tmp_path / "x", numbers((64, 64), "float32"), chunks=(64, 64))
    monkeypatch.setattr(os, "readv", lambda file, buffers: 512)  # it depends on the system when this happens
    np.testing.assert_array_equal(RawChunks(array, direct=True).lines(0, 0, 64), array[...])


def test_a_few_rows_of_column_chunks_take_no_more_than_their_own_memory(tmp_path):
    array = store(tmp_path / "x", numbers((100, 400), "float32"), chunks=(100, 10))
    row = as_stored(array).read(slice(3, 4), slice(0, 400))
    np.testing.assert_array_equal(row, array[3:4])
    assert row.base.size == raw_chunks.SECTOR  # bytes, the smallest piece there is


def test_the_store_moves_or_goes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = numbers((64, 64), "float32")
    store("x", data)
    stored = as_stored(zarr.open_array("x", mode="r"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    np.testing.assert_array_equal(stored.lines(0, 0, 64), data)
    shutil.rmtree(tmp_path / "x")
    with pytest.raises(ValueError, match="No such file"):
        stored.lines(0, 0, 64)


@pytest.mark.parametrize("compressors", [None, "auto"])
def test_reading_takes_what_it_says(compressors, tmp_path):
    """Also where a chunk is larger than the matrix; before, Zarr's own reading took three times as much as it said."""
    store(tmp_path / "x", numbers((100, 8000), "float32"), chunks=(400, 2000), compressors=compressors)
    stored = as_stored(zarr.open_array(str(tmp_path / "x"), mode="r"))
    stored.read(slice(0, 100), slice(0, 2000))  # what is imported and kept
    tracemalloc.start()
    try:
        block = stored.read(slice(0, 100), slice(2000, 4000))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most <= (1.0 + stored.overhead) * block.nbytes + 2**18


def test_a_thin_part_of_many_chunks_is_read_by_a_few_of_them(tmp_path):
    """Before, Zarr had ten whole chunks in memory at a time for one row of the sparse part."""
    data = numbers((100, 40_000), "float32")
    array = store(tmp_path / "x", data, chunks=(400, 2000), compressors="auto")
    asked = []

    class Recorded:
        def __getattr__(self, name):
            return getattr(array, name)

        def __getitem__(self, places):
            asked.append(places[1])
            return array[places]

    stored = Dataset(Recorded())
    np.testing.assert_array_equal(stored.read(slice(3, 4), slice(100, 39_000)), data[3:4, 100:39_000])
    chunks = [-(-part.stop // 2000) - part.start // 2000 for part in asked]
    assert sum(chunks) == 20  # none twice
    assert max(chunks) * 400 * 2000 * 4 <= stored_module.DECODED_BYTES
    asked.clear()
    stored.read(slice(0, 100), slice(0, 2000))
    assert asked == [slice(0, 2000)]


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=st.tuples(sides, sides), chunks=st.tuples(sides, sides), start=st.tuples(sides, sides),
       stop=st.tuples(sides, sides), most=st.sampled_from([1, 40, 400]))  # fmt: skip
def test_parts_of_few_chunks_at_a_time_are_the_whole(tmp_path, shape, chunks, start, stop, most):
    data = numbers(shape, "uint8")
    stored = as_stored(store(tmp_path / "x", data, chunks=chunks, compressors="auto"))
    (top, bottom), (left, right) = (
        sorted((min(a, side) - 1, min(b, side))) for a, b, side in zip(start, stop, shape, strict=True)
    )
    bottom, right = max(bottom, top + 1), max(right, left + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_module, "DECODED_BYTES", most)  # so that 40 numbers are many
        np.testing.assert_array_equal(
            stored.read(slice(top, bottom), slice(left, right)), data[top:bottom, left:right]
        )


LIMITED = """
import sys
import rankwolf as rw, zarr, numpy as np
from rankwolf.platform import peak_memory
from rankwolf.platform import resident_memory
rw.decompose(np.eye(30), max_iter=1)
limit = resident_memory() + 130_000_000
fit = rw.decompose(zarr.open_array(sys.argv[1], mode="r"), max_memory=limit, max_iter=2, rng=0, delta=1e-2)
fit.sparse[0:1]
print(peak_memory(), limit)
"""


@pytest.mark.parametrize(
    ("shape", "chunks", "compressors"),
    [
        ((60_000, 800), (500, 800), None),
        ((400, 120_000), (400, 500), "auto"),
        ((100, 400_000), (400, 2000), None),
        ((100, 400_000), (400, 2000), "auto"),
    ],
    ids=["tall, raw", "wide, compressed", "chunks larger than the matrix, raw", "the same, compressed"],
)
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count resident memory differently")
def test_the_limit_is_kept(shape, chunks, compressors, tmp_path):
    """190 MB, 130 MB to work with."""
    array = zarr.create_array(
        str(tmp_path / "x"), shape=shape, dtype="f4", chunks=chunks, compressors=compressors, fill_value=1.0
    )
    rng = np.random.default_rng(0)
    step = chunks[0] if shape[0] > shape[1] else chunks[1]
    for first in range(0, max(shape), step):
        part = rng.random((step, min(shape)), np.float32)
        part += np.arange(min(shape), dtype=np.float32)
        if shape[0] > shape[1]:
            array[first : first + step] = part
        else:
            array[:, first : first + step] = part.T
    words = [sys.executable, "-c", LIMITED, str(tmp_path / "x")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    peak, limit = map(int, done.stdout.split())
    assert peak <= limit


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_matrix_past_the_cache(n_threads, tmp_path):
    """Chunks long enough to be slabs of their own, and tiles that cross their ends."""
    rng = np.random.default_rng(0)
    X = (rng.random((300, 3)) @ rng.random((3, 16_000)) + (rng.random((300, 16_000)) < 0.05)).astype("f4")
    array = store(tmp_path / "x", X, chunks=(300, 1000))
    source = OnDisk(RawChunks(array, direct=True), None, n_threads)
    assert source.plan.lines == 1000 and source.plan.ahead == 2
    tiles = source.tiles()
    np.testing.assert_array_equal(np.vstack([tile.copy() for tile in source.stream(tiles)]), X.T)
    expected = rw.decompose(X, rng=0, max_iter=5)
    fit = rw.decompose(RawChunks(array, direct=True), rng=0, max_iter=5, n_threads=n_threads)
    assert fit.objective == pytest.approx(expected.objective, rel=1e-6)
