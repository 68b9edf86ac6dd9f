"""NumPy's files: ``.npy``, and ``.npz`` with dense arrays or a matrix of ``scipy.sparse.save_npz``."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.files.address import Address
from rankwolf.files.archive import Archive, opened_archive, read_header
from rankwolf.files.claims import Budget, check_kind
from rankwolf.files.named_matrix import LabelledMatrix
from rankwolf.ground.arrays import Array

SPARSE_FORMATS = ("csr", "csc", "coo")
SPARSE_PARTS = ("data", "indices", "indptr", "row", "col")


def read_npy(address: Address, budget: Budget) -> LabelledMatrix:
    """The array as a memory map: rows are read when they are needed."""
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
    with opened_archive(address, budget) as archive:
        if address.member is None and {"format", "shape", "data"} <= set(archive.names):
            return LabelledMatrix(_read_sparse(address, archive, budget), "npz")
        name = address.choose(archive.names, "array")
        header = archive.header(name)
        check_kind(address, header.shape, header.dtype)
        return LabelledMatrix(archive.array(name, 2), "npz", member=name)


def _read_sparse(address: Address, archive: Archive, budget: Budget) -> scipy.sparse.csr_array:
    archive.check_sizes(SPARSE_PARTS)
    form = archive.word("format")
    if form not in SPARSE_FORMATS:
        raise address.bad(
            f"its sparse format is {form!r}. Those that can be read are {', '.join(SPARSE_FORMATS)}."
        )
    shape = tuple(int(side) for side in archive.array("shape", 1))
    names = ("row", "col") if form == "coo" else ("indices", "indptr")
    data, first, second = (archive.array(name, 1) for name in ("data", *names))
    return checked_sparse(address, form, shape, data, first, second, budget)


def checked_sparse(
    address: Address,
    form: str,
    shape: tuple[int, ...],
    data: Array,
    first: Array,
    second: Array,
    budget: Budget,
) -> scipy.sparse.csr_array:
    """A CSR array of the parts of a ``form`` (csr, csc or coo); every index is checked.

    A wrong index would crash the process inside a product. ``first`` and ``second`` are indices and pointers, or rows
    and columns for coo.
    """
    budget.check_sparse(address, shape, data.nbytes + first.nbytes + second.nbytes)
    if data.dtype.kind not in "biuf" or {first.dtype.kind, second.dtype.kind} - set("iu"):
        raise address.bad("its values must be real numbers and its indices whole ones.")
    with address.reading("a sparse matrix whose indices are in order"):
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
