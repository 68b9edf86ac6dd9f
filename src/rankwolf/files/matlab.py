"""Matlab's files: versions 4 to 7.2 through SciPy, 7.3 (which is HDF5) through h5py; dense or sparse."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.files.address import Address
from rankwolf.files.arrays import checked_sparse
from rankwolf.files.claims import Budget, check_kind
from rankwolf.files.matrix import Array, LabelledMatrix
from rankwolf.files.stores import check_dataset, follow

HEADER_BYTES = 128
# Of a variable: enough for its tag, flags, dimensions and name.
FIRST_BYTES = 1024
COMPRESSED = 15
CLASSES = dict(enumerate(
    ("cell", "struct", "object", "char", "sparse", "double", "single", "int8", "uint8", "int16", "uint16", "int32",
     "uint32", "int64", "uint64", "function", "opaque"), start=1,
))  # fmt: skip
# Classes of Matlab that are matrices of real numbers, with the bytes of an element.
NUMERIC = {
    "double": 8, "single": 4, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8,
    "uint64": 8, "logical": 1, "sparse": 0,
}  # fmt: skip


def read_mat(address: Address, budget: Budget) -> LabelledMatrix:
    """The named variable, or the only matrix of numbers."""
    with address.path.open("rb") as file:
        start = file.read(HEADER_BYTES)
    if b"MATLAB 7.3" in start[:20] or start.startswith(b"\x89HDF"):
        return _read_hdf5(address, budget)
    try:
        return _read_old(address, start, budget)
    except Exception as error:  # SciPy's readers fail in a dozen ways
        if isinstance(error, MemoryError) or str(error).startswith("Cannot read"):
            raise
        raise address.bad(f"it is not a Matlab file, or damaged ({error}).") from error


@dataclass(frozen=True)
class Variable:
    """One entry of an old Matlab file. ``packed``: its compressed bytes, ``claimed``: what they should grow to."""

    name: str
    shape: tuple[int, ...]
    kind: str
    packed: bytes | None = None
    claimed: int = 0


def _read_old(address: Address, start: bytes, budget: Budget) -> LabelledMatrix:
    from scipy.io import loadmat

    variables = {variable.name: variable for variable in _directory(address, start)}
    matrices = [name for name, v in variables.items() if v.kind in NUMERIC and len(v.shape) == 2]
    large = [name for name in matrices if prod(variables[name].shape) > 1]  # not the sides of one, beside it
    names = list(variables) if address.member in variables else large or matrices
    chosen = variables[address.choose(names, "matrix")]
    if chosen.kind not in NUMERIC:
        raise address.bad(f"it must hold real numbers. Its class is {chosen.kind}.")
    check_kind(address, chosen.shape, np.dtype(float))
    size = address.path.stat().st_size
    if chosen.kind == "sparse":
        budget.check_sparse(address, chosen.shape, size)
    budget.check(address, prod(chosen.shape) * NUMERIC[chosen.kind], size)
    opened: Any = (
        address.path if chosen.packed is None else io.BytesIO(start + _inflated(address, chosen, budget))
    )
    values: Any = loadmat(opened, variable_names=[chosen.name])[chosen.name]
    if chosen.kind == "sparse":
        turned = values.tocsc()
        values = checked_sparse(
            address, "csc", values.shape, turned.data, turned.indices, turned.indptr, budget
        )
    check_kind(address, values.shape, values.dtype)
    return LabelledMatrix(values, "mat", member=chosen.name)


def _directory(address: Address, start: bytes) -> Iterator[Variable]:
    """What the file holds, from the first bytes of each variable: SciPy's own listing would inflate everything."""
    if start[126:128] not in (b"IM", b"MI"):  # version 4, never compressed
        from scipy.io import whosmat

        yield from (Variable(name, shape, kind) for name, shape, kind in whosmat(address.path))
        return
    order, size = "<" if start[126:128] == b"IM" else ">", address.path.stat().st_size
    with address.path.open("rb") as file:
        file.seek(HEADER_BYTES)
        while len(tag := file.read(8)) == 8:
            kind, count = struct.unpack(order + "II", tag)
            body = file.read(min(count, size if kind == COMPRESSED else FIRST_BYTES))
            if kind == COMPRESSED:
                first = zlib.decompressobj().decompress(body, FIRST_BYTES)
                variable = _describe(first, order)
                yield replace(variable, packed=body, claimed=struct.unpack(order + "II", first[:8])[1] + 8)
            else:
                file.seek(count - len(body), io.SEEK_CUR)
                yield _describe(tag + body, order)


def _describe(element: bytes, order: str) -> Variable:
    """Tag, array flags, dimensions, name: each with a tag of its own, padded to 8 bytes."""
    flags = struct.unpack_from(order + "I", element, 16)[0]
    kind = CLASSES.get(flags & 0xFF, "unknown")
    if flags & 0x0800:
        kind = f"complex {kind}"
    place, parts = 24, []
    for _ in range(2):
        word, count = struct.unpack_from(order + "II", element, place)
        if word >> 16:  # up to four bytes, inside the tag
            count, data, after = word >> 16, place + 4, place + 8
        else:
            data, after = place + 8, place + 8 + -(-count // 8) * 8
        parts.append(element[data : data + count])
        place = after
    shape = struct.unpack(f"{order}{len(parts[0]) // 4}i", parts[0])
    return Variable(parts[1].decode("latin-1"), shape, kind)


def _inflated(address: Address, variable: Variable, budget: Budget) -> bytes:
    """The bytes of a compressed variable, and not one more than its tag says: SciPy would go on inflating."""
    assert variable.packed is not None
    budget.check(address, variable.claimed, len(variable.packed))
    inflater = zlib.decompressobj()
    element = inflater.decompress(variable.packed, variable.claimed)
    if not inflater.eof and inflater.decompress(inflater.unconsumed_tail, 1):
        raise address.bad("a compressed part of it is longer than it says.")
    return element


def _read_hdf5(address: Address, budget: Budget) -> LabelledMatrix:
    import h5py

    try:
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
    except (OSError, RuntimeError, KeyError) as error:
        raise address.bad(f"it is damaged ({error}).") from error


def _is_matrix(item: Any) -> bool:
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
    """Version 5, compressed; it can hold 2 GB in one variable."""
    from scipy.io import savemat

    for name, array in arrays.items():
        if not scipy.sparse.issparse(array) and array.nbytes >= 2**31:
            raise ValueError(
                f"The variable {name!r} is too large for this version of Matlab files. Give --format mat73."
            )
    savemat(path, arrays, do_compression=True)


def write_mat73(path: Path, arrays: dict[str, Any]) -> None:
    """Version 7.3: HDF5 behind 512 bytes that say so."""
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
