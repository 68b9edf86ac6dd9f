"""Matrices in files: every kind read and written back."""

from __future__ import annotations

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse
import zarr

from rankwolf.files import (
    KINDS,
    LabelledMatrix,
    Labels,
    TableOptions,
    open_dataset,
    read_matrix,
    write_rows,
    write_sparse,
)
from rankwolf.files import kinds as known


def numbers(m=30, n=7, missing=True):
    rng = np.random.default_rng(0)
    data = rng.standard_normal((m, n)) * 10.0 ** rng.integers(-8, 8, (m, n))
    if missing:
        data[rng.random((m, n)) < 0.2] = np.nan
    return data


def entries(m=30, n=20):
    return scipy.sparse.random_array((m, n), density=0.2, rng=np.random.default_rng(1), format="csr")


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_written_is_read_back(tmp_path, kind, dtype, monkeypatch):
    # Several blocks of a small table: a spreadsheet of a million cells takes half a minute.
    monkeypatch.setattr("rankwolf.files.writing.BLOCK_ENTRIES", 50)
    data = numbers().astype(dtype)
    labels = Labels(tuple("abcdefg"), [f"2024-01-{day:02d}" for day in range(1, 31)], "day")
    rows = []
    path = write_rows(tmp_path, "part", kind, data, LabelledMatrix(data, "npy", labels), rows.append)
    back = read_matrix(path)
    assert back.kind == kind
    assert sum(rows) == 30
    assert back.warnings == ()
    # openpyxl writes 16 digits, of which the last may be off by one.
    np.testing.assert_allclose(np.asarray(back.values, dtype), data, rtol=1e-15 if kind == "xlsx" else 0.0)
    if kind not in (*known.TEXTS, "xlsx"):
        assert back.values.dtype == dtype
    if kind in known.TABLES:
        assert back.labels == labels
    if kind not in (*known.TABLES, "npy"):
        again = write_rows(tmp_path, "again", kind, data, back, rows.append)
        assert read_matrix(again).member == back.member


@pytest.mark.parametrize("kind", ["npz", "mat", "mat73"])
def test_a_sparse_matrix_is_written_and_read_back(tmp_path, kind):
    matrix = entries()
    path = write_sparse(tmp_path, "part", kind, matrix, LabelledMatrix(matrix, "npy"))
    back = read_matrix(path)
    assert back.is_sparse
    assert (back.values != matrix).nnz == 0


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_files_of_scipy_and_matlab(tmp_path, form):
    matrix = entries().asformat(form)
    scipy.sparse.save_npz(tmp_path / "a.npz", matrix)
    assert (read_matrix(tmp_path / "a.npz").values != matrix).nnz == 0
    for compress in (False, True):
        scipy.io.savemat(tmp_path / "a.mat", {"A": matrix.tocsc(), "note": "hello"}, do_compression=compress)
        back = read_matrix(tmp_path / "a.mat")
        assert (back.values != matrix).nnz == 0
        assert back.member == "A"


def test_matlab_of_all_ages(tmp_path):
    data = numbers(missing=False)
    path = tmp_path / "a.mat"
    for options in ({"format": "4"}, {}, {"do_compression": True}):
        scipy.io.savemat(
            path, {"first": data, "second": data[:3], "m": 30, "a_long_name_of_a_variable": 1}, **options
        )
        np.testing.assert_array_equal(read_matrix(f"{path}::first").values, data)
        np.testing.assert_array_equal(read_matrix(f"{path}::second").values, data[:3])
        with pytest.raises(ValueError, match="several: 'first', 'second'"):
            read_matrix(path)
        with pytest.raises(ValueError, match="no matrix of that name"):
            read_matrix(f"{path}::third")
    scipy.io.savemat(path, {"X": data.astype(np.uint8), "m": 30, "text": "hello"})
    assert read_matrix(path).values.dtype == np.uint8
    scipy.io.savemat(path, {"x": np.array([[1, "a"]], object)})
    with pytest.raises(ValueError, match="class is cell"):
        read_matrix(f"{path}::x")


def test_npy_stays_on_the_disk_in_either_order(tmp_path):
    data = numbers()
    for array in (data, np.asfortranarray(data), data.astype(">f4"), data > 0):
        np.save(tmp_path / "a.npy", array)
        back = read_matrix(tmp_path / "a.npy").values
        assert isinstance(back, np.memmap)
        np.testing.assert_array_equal(back, array)


def test_one_of_several(tmp_path):
    data = numbers()
    np.savez(tmp_path / "a.npz", x=data, y=data.T)
    np.testing.assert_array_equal(read_matrix(f"{tmp_path}/a.npz::y").values, data.T)
    with pytest.raises(ValueError, match=r"several: 'x', 'y'. Give one as .*::x"):
        read_matrix(tmp_path / "a.npz")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["raw/x"], file["raw/y"], file["line"] = data, data.T, np.arange(4.0)
        file["short"] = h5py.SoftLink("/raw/y")
    for address in ("raw/y", "/raw/y", "short"):
        np.testing.assert_array_equal(read_matrix(f"{tmp_path}/a.h5::{address}").values, data.T)
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    group.create_array("raw/x", data=data)
    group.create_array("y", data=data.T)
    np.testing.assert_array_equal(read_matrix(f"{tmp_path}/a.zarr::/raw/x").values, data)
    for name in ("a.h5", "a.zarr"):
        with pytest.raises(ValueError, match="several"):
            read_matrix(tmp_path / name)
        with pytest.raises(ValueError, match=r"no |nothing"):
            read_matrix(f"{tmp_path}/{name}::/raw/z")
    with pytest.raises(ValueError, match="two dimensions"):
        read_matrix(f"{tmp_path}/a.h5::line")
    dataset = open_dataset(f"{tmp_path}/a.h5::/raw/x")
    assert isinstance(dataset, h5py.Dataset)
    np.testing.assert_array_equal(dataset[3:5], data[3:5])
    assert isinstance(open_dataset(f"{tmp_path}/a.zarr::/y"), zarr.Array)


TABLES = {
    "a,b,c\n1,2,3\n4,,6\n": (("a", "b", "c"), None, None),
    "1,2,3\n4,,6\n": (None, None, None),
    ",a,b,c\nx,1,2,3\ny,4,,6\n": (("a", "b", "c"), ["x", "y"], ""),
    "day,a,b,c\n2024-01-01,1,2,3\n2024-01-02,4,NA,6\n": (
        ("a", "b", "c"),
        ["2024-01-01", "2024-01-02"],
        "day",
    ),
    "a;b;c\n1;2;3\n4;;6\n": (("a", "b", "c"), None, None),
    "\ufeffa\tb\tc\r\n1\t2\t3\r\n\r\n4\tnull\t6\r\n": (("a", "b", "c"), None, None),
    '"a, b",b,b\n1,2,3\n4,NaN,6\n': (("a, b", "b", "b"), None, None),
    "a b c\n007 1 2 3\n008 4  6\n".replace("  ", ",,").replace(" ", ","): (
        ("a", "b", "c"),
        ["007", "008"],
        "",
    ),
}


@pytest.mark.parametrize("text", TABLES)
def test_tables_of_text(tmp_path, text):
    columns, index, name = TABLES[text]
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode())
    back = read_matrix(path)
    np.testing.assert_array_equal(back.values, [[1, 2, 3], [4, np.nan, 6]])
    assert back.labels == Labels(columns, index, name)
    again = write_rows(tmp_path, "again", "csv", back.values, back, lambda rows: None)
    assert read_matrix(again).labels == back.labels


def test_options_of_tables(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,name,x,y\n1,anna,2,3\n2,bert,4,\n")
    with pytest.raises(
        ValueError, match=r"column 'name' must hold numbers. It holds 'anna' in line 2. .*--drop"
    ):
        read_matrix(path)
    back = read_matrix(path, options=TableOptions(drop=["id"], index="name"))
    assert back.labels == Labels(("x", "y"), ["anna", "bert"], "name")
    back = read_matrix(path, options=TableOptions(drop=["name"], index="none"))
    assert back.labels.columns == ("id", "x", "y")
    pd.read_csv(path).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"column 'name' must hold numbers. It holds 'anna' in row 0"):
        read_matrix(tmp_path / "a.parquet")
    back = read_matrix(tmp_path / "a.parquet", options=TableOptions(drop=["id"], index="name"))
    assert back.labels == Labels(("x", "y"), ["anna", "bert"], "name")
    path.write_text("1,2\n3,4\n")
    assert read_matrix(path, options=TableOptions(header=True)).labels.columns == ("1", "2")
    for wrong in ({"index": "z"}, {"drop": ["z"]}):
        with pytest.raises(ValueError, match="no column 'z'"):
            read_matrix(path, options=TableOptions(**wrong))


def test_parquet_with_an_index_of_pandas(tmp_path):
    days = pd.date_range("2024-01-01", periods=3, name="day")
    frame = pd.DataFrame({"a": [1, 2, None], "b": [True, False, True]}, index=days)
    frame.to_parquet(tmp_path / "a.parquet")
    back = read_matrix(tmp_path / "a.parquet")
    np.testing.assert_array_equal(back.values, [[1, 1], [2, 0], [np.nan, 1]])
    again = write_rows(tmp_path, "again", "parquet", back.values, back, lambda rows: None)
    loaded = pd.read_parquet(again)
    assert list(loaded.index) == list(days)
    assert loaded.index.name == "day"
    assert list(loaded.columns) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "it is empty"),
        ("a.csv", b"a,b\n", "no rows"),
        ("a.csv", b"a,b\n1,2\n1,2,3\n", "line 3 has 3 cells"),
        ("a.csv", b"a,b,c\n1\n", "heading has 3 cells"),
        ("a.csv", b"\xff\xfe\x00\xd8,\n", "begins like a text in UTF-16"),
        ("a.csv", b"1,2\n\x00,3\n", "zero bytes"),
        ("a.csv", b"x\nanna\n", "must hold numbers"),
        ("a.csv", b"1," * 200_000 + b"1\n", "more than 100,000 columns"),
        ("a.parquet", b"PAR1 not really PAR1", "not a Parquet file"),
        ("a.h5", b"not HDF5", "not an HDF5 file"),
        ("a.npy", b"not NumPy", "not a NumPy array"),
        ("a.npz", b"not a zip", "damaged"),
        ("a.mat", b"not Matlab at all" * 20, "not a Matlab file"),
        ("a.mat", b"", "not a Matlab file"),
        ("a.xlsx", b"", "not a spreadsheet"),
        ("a.feather", b"ARROW", "not a Feather file"),
        ("a.csv.gz", b"not gzip", "not a compressed table"),
        ("a.ods", b"", "ending '.ods' is not known"),
        ("a", b"", "ending '' is not known"),
    ],
)
def test_files_that_are_not_what_they_seem(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_matrix(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("Cannot read")
