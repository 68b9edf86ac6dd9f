"""Matlab's files: version 7.3, which is HDF5, through h5py; older ones by :mod:`rankwolf.files.matlab_old`."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.files.address import Address
from rankwolf.files.claims import Budget
from rankwolf.files.matlab_old import HEADER_BYTES, read_old
from rankwolf.files.named_matrix import LabelledMatrix
from rankwolf.files.numpy_files import checked_sparse
from rankwolf.files.stores import check_dataset, follow
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed


def read_mat(address: Address, budget: Budget) -> LabelledMatrix:
    """The named variable, or the only matrix of numbers."""
    with address.path.open("rb") as file:
        start = file.read(HEADER_BYTES)
    is_hdf5 = b"MATLAB 7.3" in start[:20] or start.startswith(b"\x89HDF")
    return _read_hdf5(address, budget) if is_hdf5 else read_old(address, budget)


def _read_hdf5(address: Address, budget: Budget) -> LabelledMatrix:
    needed("h5py")
    import h5py

    with h5py.File(address.path, "r") as file:
        names = [
            name
            for name in file
            if isinstance(file.get(name, getlink=True), h5py.HardLink) and _is_matrix(file[name])
        ]
        named = address if address.member else Address(address.path, address.choose(names, "matrix"))
        item = follow(named, file)
        name = str(named.member).strip("/")
        if isinstance(item, h5py.Group):
            return LabelledMatrix(_sparse_of_group(named, item, budget), "mat73", member=name)
        stored = check_dataset(named, item)
        # Matlab stores columns, HDF5 rows: the shape is the other way round.
        budget.check_array(named, item.shape[::-1], item.dtype, stored)
        return LabelledMatrix(np.asarray(item[...]).T, "mat73", member=name)


def _is_matrix(item: Any) -> bool:
    needed("h5py")
    import h5py

    if isinstance(item, h5py.Group):
        return "MATLAB_sparse" in item.attrs
    return item.shape is not None and len(item.shape) == 2 and item.dtype.kind in "biuf" and item.size > 1


def _sparse_of_group(address: Address, group: Any, budget: Budget) -> scipy.sparse.csr_array:
    """Matlab's compressed columns: data, ir (rows), jc (where columns begin); the number of rows is an attribute."""
    if "MATLAB_sparse" not in group.attrs:
        raise address.bad("it is a structure, not a matrix.")
    parts = []
    for name in ("data", "ir", "jc"):
        if name not in group:  # a matrix without entries has only jc
            parts.append(np.zeros(0, np.float64 if name == "data" else np.int64))
            continue
        part = follow(Address(address.path, f"{group.name}/{name}"), group.file)
        stored = check_dataset(address, part)
        budget.check(address, part.size * part.dtype.itemsize, stored)
        parts.append(np.asarray(part[...]).ravel())
    data, rows, starts = parts
    shape = (int(group.attrs["MATLAB_sparse"]), starts.size - 1)
    # uint64, as Matlab writes them, would make SciPy's indices unsigned.
    indices = [part.astype(np.int64) for part in (rows, starts)]
    return checked_sparse(address, "csc", shape, data, indices[0], indices[1], budget)


def write_mat(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a file of version 5, compressed; a ValueError for a variable of 2 GB or more."""
    from scipy.io import savemat

    for name, array in arrays.items():
        if not scipy.sparse.issparse(array) and array.nbytes >= 2**31:
            raise ValueError(
                f"The variable {name!r} is too large for this version of Matlab files. Give --format mat73."
            )
    savemat(path, arrays, do_compression=True)


def write_mat73(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a file of version 7.3: HDF5, behind a block of 512 bytes with Matlab's header."""
    needed("h5py")
    import h5py

    classes = {"f8": "double", "f4": "single", "b1": "logical"}
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                columns = array.tocsc()
                group = file.create_group(name)
                group.attrs["MATLAB_class"] = np.bytes_("double")
                group.attrs["MATLAB_sparse"] = np.uint64(columns.shape[0])
                for part, values in (("data", columns.data), ("ir", columns.indices), ("jc", columns.indptr)):
                    group[part] = values.astype(np.float64 if part == "data" else np.uint64)
                continue
            matrix: Array = np.atleast_2d(array)
            stored = file.create_dataset(name, data=np.ascontiguousarray(matrix.T))
            word = classes.get(matrix.dtype.str[1:], matrix.dtype.name)
            stored.attrs["MATLAB_class"] = np.bytes_(word)
    text = b"MATLAB 7.3 MAT-file, Platform: any, Created by: Rankwolf HDF5 schema 1.00 ."
    with path.open("r+b") as file:
        file.write(text.ljust(116) + bytes(8) + struct.pack("<H", 0x0200) + b"IM")
