"""Files made by people who mean harm are refused at once, with little memory and nothing run."""

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
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.io
import scipy.sparse
import zarr

from rankwolf.files import LabelledMatrix, write_sparse


def numbers():
    return np.random.default_rng(0).standard_normal((30, 7))


def entries():
    return scipy.sparse.random_array((30, 20), density=0.2, rng=np.random.default_rng(1), format="csr")


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
        assert message.startswith("RefusedError: Cannot read"), f"{make.__name__}: {line}"
        assert float(seconds) < 1.0, f"{make.__name__}: {line}"
        assert float(megabytes) < 200.0, f"{make.__name__}: {line}"
    assert not (tmp_path / "sprung").exists()
