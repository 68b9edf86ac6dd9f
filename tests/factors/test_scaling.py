"""Medians and spreads of columns, and counts of what is there, from memory and from any layout on the disk."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
import zarr

from rankwolf.data import Stored, as_stored, column_statistics
from rankwolf.data.column_statistics import observed_counts
from rankwolf.data.open import open_source
from rankwolf.factors import scaling as module
from rankwolf.factors.scaling import Scaling


def scaled(scaling, data):
    return scaling.apply(open_source(data)).read_user_rows(0, data.shape[0])


def test_scaling_of_odd_columns():
    data = np.array(
        [[1.0, 5.0, np.nan, 0.0], [2.0, 5.0, np.nan, 0.0], [np.nan, 5.0, np.nan, 0.0], [9.0, 5.0, np.nan, 8]]
    )
    scaling = Scaling.of(open_source(data))
    np.testing.assert_allclose(scaling.centre, [2.0, 5.0, 0.0, 0.0])
    np.testing.assert_allclose(scaling.scale, [1.482602, 1.0, 1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(scaling.restored(scaled(scaling, data))[0:4], data)
    in_rows, in_columns = observed_counts(open_source(data))
    assert in_rows.tolist() == [3, 3, 2, 3]
    assert in_columns.tolist() == [3, 4, 0, 4]


def with_gaps(shape):
    rng = np.random.default_rng(0)
    data = (
        rng.standard_normal(shape) * rng.uniform(0.1, 9.0, shape[1]) + rng.uniform(-9.0, 9.0, shape[1])
    ).astype("f4")
    data[rng.random(shape) < 0.2] = np.nan
    return data


def memory_map(folder, data, **layout):
    np.save(folder / "x.npy", data)
    return np.load(folder / "x.npy", mmap_mode="r")


def hdf5(folder, data, **layout):
    return h5py.File(folder / "x.h5", "w").create_dataset("x", data=data, **layout)


def zarr_array(folder, data, **layout):
    return zarr.create_array(str(folder / "x.zarr"), data=data, **layout)


LAYOUTS = {
    "map": (memory_map, {}), "frames": (hdf5, {"chunks": (1, 700)}), "columns": (zarr_array, {"chunks": (90, 10)}),
    "wide columns": (zarr_array, {"chunks": (90, 80)}),
    "squares": (zarr_array, {"chunks": (20, 50), "compressors": None}), "whole": (hdf5, {}),
}  # fmt: skip


class Once(Stored):
    """Counts how often each entry is read."""

    def __init__(self, stored):
        super().__init__(stored.shape, stored.dtype)
        self.inner, self.overhead, self.reads = stored, stored.overhead, np.zeros(stored.shape, int)

    def grain(self, axis):
        return self.inner.grain(axis)

    def read(self, rows, columns):
        for start, side, axis in ((rows.start, rows.stop, 0), (columns.start, columns.stop, 1)):
            grain = self.grain(axis)
            assert start % grain == 0 and (side % grain == 0 or side == self.shape[axis])
        self.reads[rows, columns] += 1
        return self.inner.read(rows, columns)


@pytest.mark.parametrize("small", [False, True], ids=["room", "little room"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_from_the_disk_as_from_memory(layout, small, tmp_path, monkeypatch):
    """No chunk is taken apart twice, however little room there is."""
    data = with_gaps((90, 700))
    expected = Scaling.of(open_source(data))
    if (
        small
    ):  # room for 80 columns and what reading takes beside them, or for medians of 32; it is no setting
        monkeypatch.setattr(module, "BLOCK_BYTES", 90 * 8 * 4 * 32 * 2)
    write, how = LAYOUTS[layout]
    stored = as_stored(write(tmp_path, data, **how))
    counted = stored if layout in ("map", "whole") else Once(stored)
    found = Scaling.of(open_source(counted))
    np.testing.assert_array_equal(found.centre, expected.centre)
    np.testing.assert_array_equal(found.scale, expected.scale)
    if isinstance(counted, Once):
        np.testing.assert_array_equal(counted.reads, 1)


@pytest.mark.parametrize("small", [False, True], ids=["in memory", "in a file"])
def test_many_rows_are_sampled(small, tmp_path, monkeypatch):
    data = with_gaps((1000, 30))
    monkeypatch.setattr(
        column_statistics, "SCALE_ROWS", 100
    )  # of as many rows as there are, a file would have gigabytes
    if small:
        monkeypatch.setattr(module, "BLOCK_BYTES", 4000)
    found = Scaling.of(open_source(zarr_array(tmp_path, data, chunks=(64, 30))))
    expected = Scaling.of(open_source(data[np.linspace(0, 999, 100).astype(int)]))
    np.testing.assert_array_equal(found.centre, expected.centre)
    np.testing.assert_array_equal(found.scale, expected.scale)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_counts_from_the_disk_read_every_chunk_once(layout, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "rankwolf.data.stored.PORTION_BYTES", 20_000
    )  # as a matrix of gigabytes has many of them
    data = with_gaps((90, 700))
    write, how = LAYOUTS[layout]
    counted = Once(as_stored(write(tmp_path, data, **how)))
    in_rows, in_columns = observed_counts(open_source(counted))
    np.testing.assert_array_equal(in_rows, np.sum(~np.isnan(data), axis=1))
    np.testing.assert_array_equal(in_columns, np.sum(~np.isnan(data), axis=0))
    np.testing.assert_array_equal(counted.reads, 1)


def test_chunks_that_leave_no_room(tmp_path, monkeypatch):
    monkeypatch.setattr(
        module, "BLOCK_BYTES", 200_000
    )  # the true limit takes a chunk of hundreds of megabytes
    stored = as_stored(zarr_array(tmp_path, with_gaps((90, 700)), chunks=(90, 700)))
    with pytest.raises(
        ValueError, match=r"too little memory to standardize .* in chunks of shape \(90, 700\)"
    ):
        Scaling.of(open_source(stored))


def test_infinite_entries_stay_for_the_solver_to_refuse():
    data = with_gaps((60, 4))
    data[3, 0] = data[:40, 1] = data[:, 2] = np.inf
    data[5, 3] = -np.inf
    scaling = Scaling.of(open_source(data))
    assert np.all(np.isfinite(scaling.centre)) and np.all(np.isfinite(scaling.scale))
    np.testing.assert_array_equal(np.isinf(scaled(scaling, data)), np.isinf(data))


def test_the_type_of_the_other_byte_order():
    data = with_gaps((60, 4))
    assert scaled(Scaling.of(open_source(data)), data.astype(">f4")).dtype == np.float32
