"""NumPy's files: ``.npy``, and ``.npz`` with dense arrays or a matrix of ``scipy.sparse.save_npz``."""

from __future__ import annotations

import io
import zipfile
import zlib
from math import prod
from typing import IO, Any

import numpy as np
import scipy.sparse

from rankwolf.files.address import Address
from rankwolf.files.claims import Budget, check_kind
from rankwolf.files.matrix import Array, LabelledMatrix

Header = tuple[tuple[int, ...], bool, np.dtype[Any]]
SPARSE_FORMATS = ("csr", "csc", "coo")
SPARSE_PARTS = ("data", "indices", "indptr", "row", "col")


def read_npy(address: Address, budget: Budget) -> LabelledMatrix:
    """A memory map: rows are read when they are needed."""
    size = address.path.stat().st_size
    with address.path.open("rb") as file:
        shape, fortran_order, dtype = read_header(address, file, size)
        budget.check_array(address, shape, dtype, size, copied=False)
        offset = file.tell()
    order = "F" if fortran_order else "C"
    values: Array = np.memmap(address.path, dtype, "r", offset, shape, order=order)  # type: ignore[call-overload]
    return LabelledMatrix(values, "npy")


def read_npz(address: Address, budget: Budget) -> LabelledMatrix:
    """The named array, the only array, or the sparse matrix."""
    try:
        with zipfile.ZipFile(address.path) as archive:
            members = {
                info.filename.removesuffix(".npy"): info
                for info in archive.infolist()
                if info.filename.endswith(".npy")
            }
            if address.member is None and {"format", "shape", "data"} <= set(members):
                return LabelledMatrix(_read_sparse(address, archive, members, budget), "npz")
            name = address.choose(sorted(members), "array")
            values = read_member(address, archive, members[name], budget)
            return LabelledMatrix(values, "npz", member=name)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise address.bad(f"it is damaged ({error}).") from error


def read_member(
    address: Address, archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget, dimensions: int = 2
) -> Array:
    """One array of an archive, after its header has been held against the member's size."""
    with archive.open(info) as file:
        shape, fortran_order, dtype = read_header(address, file, info.file_size)
        if dimensions == 2:
            check_kind(address, shape, dtype)
        elif len(shape) != dimensions:
            raise address.bad(
                f"its part {info.filename!r} has {len(shape)} dimensions instead of {dimensions}."
            )
        count = prod(shape) * dtype.itemsize
        budget.check(address, count, info.compress_size)
        # Straight into the array: the bytes are in memory once.
        flat = np.empty(count, np.uint8)
        view = io.BufferedReader(file, 2**20)  # type: ignore[type-var]
        if view.readinto(flat.data) != count:
            raise EOFError("the data ends early")
    return flat.view(dtype).reshape(shape, order="F" if fortran_order else "C")


def read_header(address: Address, file: IO[bytes], size: int) -> Header:
    """Shape, order and type of an ``.npy``, if its ``size`` bytes can hold them. Leaves ``file`` at the data."""
    try:
        version = np.lib.format.read_magic(file)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in readers:
            raise ValueError(f"format {version} is not known")
        shape, fortran_order, dtype = readers[version](file)
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise address.bad(f"it is not a NumPy array ({error}).") from error
    if dtype.hasobject:
        raise address.bad("it holds Python objects, which are not read: they could run anything.")
    if any(side < 0 for side in shape) or prod(shape) * dtype.itemsize > size:
        raise address.bad(f"its header claims the shape {shape} of {dtype}, more than the file holds.")
    return shape, fortran_order, dtype


def _read_sparse(
    address: Address, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], budget: Budget
) -> scipy.sparse.csr_array:
    def part(name: str, dimensions: int = 1) -> Array:
        if name not in members:
            raise address.bad(f"it is a sparse matrix without {name!r}.")
        return read_member(address, archive, members[name], budget, dimensions)

    parts = [members[name] for name in SPARSE_PARTS if name in members]
    budget.check(address, sum(info.file_size for info in parts), sum(info.compress_size for info in parts))
    written = part("format", 0).item()
    form = written.decode("ascii", "replace") if isinstance(written, bytes) else str(written)
    if form not in SPARSE_FORMATS:
        raise address.bad(f"its sparse format is {form!r}. Read are {', '.join(SPARSE_FORMATS)}.")
    shape = tuple(int(side) for side in part("shape"))
    names = ("row", "col") if form == "coo" else ("indices", "indptr")
    return checked_sparse(address, form, shape, part("data"), part(names[0]), part(names[1]), budget)


def checked_sparse(
    address: Address, form: str, shape: tuple[int, ...], data: Array, first: Array, second: Array, budget: Budget
) -> scipy.sparse.csr_array:  # fmt: skip
    """A CSR array whose every index was looked at: a wrong one is a crash inside a product, not an error."""
    budget.check_sparse(address, shape, data.nbytes + first.nbytes + second.nbytes)
    if data.dtype.kind not in "biuf" or {first.dtype.kind, second.dtype.kind} - set("iu"):
        raise address.bad("its values must be real numbers and its indices whole ones.")
    try:
        if form == "coo":
            if not data.size == first.size == second.size:
                raise ValueError("rows, columns and values differ in number")
            for indices, side in ((first, shape[0]), (second, shape[1])):
                if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < side:
                    raise ValueError("an index is out of range")
            return scipy.sparse.csr_array(scipy.sparse.coo_array((data, (first, second)), shape=shape))
        kind: Any = scipy.sparse.csr_array if form == "csr" else scipy.sparse.csc_array
        matrix = kind((data, first, second), shape=shape)
        matrix.check_format(full_check=True)
        return scipy.sparse.csr_array(matrix)
    except (ValueError, IndexError, OverflowError) as error:
        raise address.bad(f"its sparse indices are damaged ({error}).") from error
