"""Matrices in files: every kind read and written back, and files made by people who mean harm refused at once."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse
import zarr

from rankwolf.files import KINDS, LabelledMatrix, Labels, open_dataset, read_matrix, write_rows, write_sparse
from rankwolf.files.tables import TableOptions


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
    monkeypatch.setattr("rankwolf.files.writing.BLOCK_ENTRIES", 50)
    data = numbers().astype(dtype)
    labels = Labels(tuple("abcdefg"), [f"2024-01-{day:02d}" for day in range(1, 31)], "day")
    rows = []
    path = write_rows(tmp_path, "part", kind, data, LabelledMatrix(data, "npy", labels), rows.append)
    back = read_matrix(path)
    assert back.kind == kind
    assert sum(rows) == 30
    assert back.warnings == ()
    np.testing.assert_array_equal(np.asarray(back.values, dtype), data)
    if kind not in ("csv", "tsv"):
        assert back.values.dtype == dtype
    if kind in ("csv", "tsv", "parquet"):
        assert back.labels == labels
    if kind not in ("csv", "tsv", "parquet", "npy"):
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
    with pytest.raises(ValueError, match=r"column 'name' must hold numbers. It holds the type"):
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
        ("a.csv", b"a,b\n1,2\n1,2,3\n", "not a table"),
        ("a.csv", b"a,b,c\n1\n", "heading has 3 cells"),
        ("a.csv", b"\xff\xfe\x00\x01,\n", "UTF-8"),
        ("a.csv", b"x\nanna\n", "must hold numbers"),
        ("a.csv", b"1," * 200_000 + b"1\n", "more than 100,000 columns"),
        ("a.parquet", b"PAR1 not really PAR1", "not a Parquet file"),
        ("a.h5", b"not HDF5", "not an HDF5 file"),
        ("a.npy", b"not NumPy", "not a NumPy array"),
        ("a.npz", b"not a zip", "damaged"),
        ("a.mat", b"not Matlab at all" * 20, "not a Matlab file"),
        ("a.mat", b"", "not a Matlab file"),
        ("a.xlsx", b"", "ending '.xlsx' is not known"),
        ("a", b"", "ending '' is not known"),
    ],
)
def test_files_that_are_not_what_they_seem(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_matrix(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("Cannot read")


def npy_header(shape, descr="<f8"):
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    text = text.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def false_npy(folder):
    path = folder / "huge.npy"
    path.write_bytes(npy_header((10**9, 10**9)) + bytes(64))
    return path


def overflowing_npy(folder):
    path = folder / "overflow.npy"
    path.write_bytes(npy_header((2**61, 8)) + bytes(64))
    return path


def pickled_npy(folder):
    path = folder / "pickle.npy"
    np.save(path, np.array([[Trap()]], object), allow_pickle=True)
    return path


class Trap:
    """Whoever unpickles this makes a file."""

    def __reduce__(self):
        return (open, ("sprung", "w"))


def pickled_npz(folder):
    path = folder / "pickle.npz"
    np.savez(path, x=np.array([[Trap()]], object))
    return path


def zip_bomb(folder):
    """4 GB of zeros in 4 MB."""
    path = folder / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as file,
    ):
        file.write(npy_header((2**19, 100)))
        for _ in range(100):
            file.write(bytes(2**22))
    return path


def false_npz(folder):
    path = folder / "false.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", npy_header((10**9, 10**9)) + bytes(64))
    return path


def save_sparse(path, **parts):
    matrix = entries()
    arrays = {"format": np.array(b"csr"), "shape": np.array(matrix.shape), "data": matrix.data}
    arrays |= {"indices": matrix.indices, "indptr": matrix.indptr}
    np.savez(path, **{**arrays, **parts})
    return path


def bad_index(folder):
    indices = entries().indices.copy()
    indices[5] = 10**8
    return save_sparse(folder / "index.npz", indices=indices)


def negative_index(folder):
    indices = entries().indices.copy()
    indices[5] = -(10**8)
    return save_sparse(folder / "negative.npz", indices=indices)


def bad_pointer(folder):
    pointers = entries().indptr.copy()
    pointers[3] = 10**8
    return save_sparse(folder / "pointer.npz", indptr=pointers)


def endless_rows(folder):
    parts = {"row": np.array([0]), "col": np.array([0]), "data": np.array([1.0])}
    return save_sparse(
        folder / "rows.npz", format=np.array(b"coo"), shape=np.array([10**13, 10**13]), **parts
    )


def hdf5_bomb(folder):
    """A dataset of 8 PB without a single chunk."""
    path = folder / "bomb.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (10**9, 10**6), "f8", chunks=(1000, 1000), compression="gzip")
    return path


def compressed_hdf5_bomb(folder):
    path = folder / "small.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "x", (40_000, 1000), "f8", chunks=(2000, 1000), compression="gzip", compression_opts=1
        )
        file["x"][:2000] = 0.0
    return path


def external_link(folder):
    np.save(folder / "secret.npy", numbers())
    with h5py.File(folder / "secret.h5", "w") as file:
        file["x"] = numbers()
    path = folder / "link.h5"
    with h5py.File(path, "w") as file:
        file["x"] = h5py.ExternalLink("secret.h5", "/x")
    return f"{path}::x"


def external_storage(folder):
    (folder / "secret.txt").write_bytes(b"password" * 100)
    path = folder / "raw.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (10, 10), "u1", external=[(str(folder / "secret.txt"), 0, 100)])
    return path


def virtual_dataset(folder):
    layout = h5py.VirtualLayout((30, 7), "f8")
    layout[...] = h5py.VirtualSource(str(folder / "secret.h5"), "x", (30, 7))
    path = folder / "virtual.h5"
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("x", layout)
    return path


def circle(folder):
    path = folder / "circle.h5"
    with h5py.File(path, "w") as file:
        file["a"], file["b"] = h5py.SoftLink("/b"), h5py.SoftLink("/a")
    return f"{path}::a"


def hdf5_objects(folder):
    path = folder / "words.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.array([["a", "b"]], h5py.string_dtype())
    return path


def zarr_bomb(folder):
    zarr.create_array(str(folder / "bomb.zarr"), shape=(10**9, 10**6), chunks=(1000, 1000), dtype="f8")
    return folder / "bomb.zarr"


def zarr_pickle(folder):
    path = folder / "pickle.zarr"
    zarr.create_array(str(path), shape=(2, 2), chunks=(2, 2), dtype="f8", zarr_format=2)
    metadata = json.loads((path / ".zarray").read_text())
    metadata["filters"] = [{"id": "pickle", "protocol": 5}]
    (path / ".zarray").write_text(json.dumps(metadata))
    (path / "0.0").write_bytes(pickle.dumps(Trap()))
    return path


def zarr_outside(folder):
    zarr.create_array(str(folder / "outside.zarr"), data=numbers())
    zarr.open_group(str(folder / "in.zarr"), mode="w")
    return f"{folder}/in.zarr::../outside.zarr"


def parquet_bomb(folder):
    """A constant in run lengths: 400 MB from some kB."""
    path = folder / "bomb.parquet"
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(5_000_000, np.int32)), pa.array([1.0]))
    table = pa.table({f"c{i}": column for i in range(10)})
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        writer.write_table(table, row_group_size=5_000_000)
    return path


def matlab_bomb(folder):
    path = folder / "bomb.mat"
    scipy.io.savemat(path, {"x": np.zeros((50_000, 1000))}, do_compression=True)
    return path


def matlab_sparse_bomb(folder):
    """A sparse matrix of Matlab whose parts inflate a thousandfold."""
    path = folder / "sparse.mat"
    matrix = scipy.sparse.csc_array((np.zeros(6_000_000), np.zeros(6_000_000, int), np.arange(101) * 60_000))
    scipy.io.savemat(path, {"x": matrix}, do_compression=True)
    return path


def false_matlab(folder):
    path = folder / "false.mat"
    scipy.io.savemat(path, {"x": np.zeros((4, 4))})
    data = bytearray(path.read_bytes())
    place = data.index(struct.pack("<ii", 4, 4))
    data[place : place + 8] = struct.pack("<ii", 2**30, 2**30)
    path.write_bytes(data)
    return path


def false_matlab_4(folder):
    path = folder / "four.mat"
    path.write_bytes(struct.pack("<5i", 0, 2**30, 2**30, 0, 2) + b"x\0" + bytes(64))
    return path


def tampered_matlab_73(folder):
    matrix = entries()
    path = write_sparse(folder, "tampered", "mat73", matrix, LabelledMatrix(matrix, "npy"))
    with h5py.File(path, "r+") as file:
        file["tampered/ir"][4] = 10**12
    return path


def matlab_73_link(folder):
    external_link(folder)
    path = folder / "link.mat"
    shutil.copy(folder / "link.h5", path)
    return f"{path}::x"


def endless_line(folder):
    path = folder / "line.csv"
    path.write_bytes(b"x" * 2**25)
    return path


def pipe(folder):
    os.mkfifo(folder / "pipe.csv")
    return folder / "pipe.csv"


HOSTILE = [
    false_npy, overflowing_npy, pickled_npy, pickled_npz, zip_bomb, false_npz, bad_index, negative_index, bad_pointer,
    endless_rows, hdf5_bomb, compressed_hdf5_bomb, external_link, external_storage, virtual_dataset, circle,
    hdf5_objects, zarr_bomb, zarr_pickle, zarr_outside, parquet_bomb, matlab_bomb, matlab_sparse_bomb, false_matlab,
    false_matlab_4, tampered_matlab_73, matlab_73_link, endless_line, pipe,
]  # fmt: skip

REFUSE = """
import resource, sys, time
from rankwolf.files import read_matrix
for name in ("h5py", "zarr", "pyarrow.parquet", "scipy.io", "pandas", "scipy.sparse"):
    __import__(name)
for address in sys.argv[1:]:
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    try:
        read_matrix(address)
        message = "was read"
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{time.perf_counter() - started:.3f} {grown / 1024:.1f} {message}", flush=True)
"""


def test_hostile_files_are_refused_at_once(tmp_path):
    """In a process of its own, so that its memory can be measured; none of them runs anything."""
    addresses = [str(make(tmp_path)) for make in HOSTILE]
    done = subprocess.run(
        [sys.executable, "-c", REFUSE, *addresses],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert len(lines) == len(HOSTILE), done.stderr
    for make, line in zip(HOSTILE, lines, strict=True):
        seconds, megabytes, message = line.split(" ", 2)
        assert message.startswith("ValueError: Cannot read"), f"{make.__name__}: {line}"
        assert float(seconds) < 1.0, f"{make.__name__}: {line}"
        assert float(megabytes) < 200.0, f"{make.__name__}: {line}"
    assert not (tmp_path / "sprung").exists()
