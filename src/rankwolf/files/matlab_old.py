"""Matlab's files of versions 4 to 7.2, read by this module alone.

SciPy's reader is not used: it takes the types of data elements out of the file and indexes tables with them unchecked,
so that one changed byte ends the process by SIGSEGV or SIGBUS. Here every count is compared with the bytes that there
are before it is used. Only dense and sparse matrices of real numbers are read; of other variables, only the names.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import IO

import numpy as np
import scipy.sparse

from rankwolf.files.address import Address
from rankwolf.files.claims import Budget, check_kind
from rankwolf.files.named_matrix import LabelledMatrix
from rankwolf.files.numpy_files import checked_sparse
from rankwolf.ground.arrays import Array

HEADER_BYTES = 128
# The first bytes of a variable that are read to describe it: enough for its tag, flags, dimensions and name.
FIRST_BYTES = 1024
MATRIX, COMPRESSED = 14, 15
# Version 5: the NumPy types of data elements by their codes, the classes of arrays by theirs, and the NumPy type of an
# array of each numeric class.
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
CLASS_NAMES = (
    "cell",
    "struct",
    "object",
    "char",
    "sparse",
    "double",
    "single",
    *INTEGERS,
    "function",
    "opaque",
)
CLASSES = dict(enumerate(CLASS_NAMES, start=1))
NUMERIC = {"sparse": "f8", "double": "f8", "single": "f4", **{name: name for name in INTEGERS}}
IS_COMPLEX = 0x0800
# Version 4: bytes of a variable's header, types of numbers and forms of matrices by their codes.
OLD_HEADER, OLD_TYPES, OLD_FORMS = 20, ("f8", "f4", "i4", "i2", "u2", "u1"), ("double", "char", "sparse")
MOST_NAME = 1024


@dataclass(frozen=True)
class Variable:
    """One variable of the file: ``size`` bytes from ``place`` on, of the class ``kind``.

    ``claimed``: how many bytes it takes when it is inflated. ``order``: "<" or ">". ``stored``: in version 4, the NumPy
    type of its numbers.
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    place: int
    size: int
    claimed: int
    order: str
    is_compressed: bool = False
    stored: str = ""


def read_old(address: Address, budget: Budget) -> LabelledMatrix:
    """The named variable, or the only matrix of numbers."""
    size = address.path.stat().st_size
    with address.path.open("rb") as file:
        start = file.read(HEADER_BYTES)
        if len(start) < OLD_HEADER:
            raise EOFError("it is too short")
        is_five = start[126:128] in (b"IM", b"MI")
        variables = {v.name: v for v in (_directory if is_five else _old_directory)(file, start, size)}
        chosen = variables[address.choose(_choice(address, variables), "matrix")]
        if chosen.kind not in NUMERIC:
            raise address.bad(f"it must hold real numbers. Its class is {chosen.kind}.")
        check_kind(address, chosen.shape, np.dtype(float))
        if chosen.kind == "sparse":
            budget.check_sparse(address, chosen.shape, size)
        else:
            itemsize = np.dtype(NUMERIC[chosen.kind]).itemsize
            budget.check(address, prod(chosen.shape) * itemsize, chosen.size)
        budget.check(address, chosen.claimed, chosen.size)
        content = _content(address, file, chosen)
    values = (
        _matrix(address, chosen, content, budget)
        if is_five
        else _old_matrix(address, chosen, content, budget)
    )
    return LabelledMatrix(values, "mat", member=chosen.name)


def _choice(address: Address, variables: dict[str, Variable]) -> list[str]:
    """The names to choose from: all, if one was named; else the matrices, or single numbers if there are none."""
    if address.member in variables:
        return list(variables)
    matrices = [name for name, v in variables.items() if v.kind in NUMERIC and len(v.shape) == 2]
    return [name for name in matrices if prod(variables[name].shape) > 1] or matrices


def _content(address: Address, file: IO[bytes], variable: Variable) -> bytes:
    """The bytes of a variable, inflated if they are compressed; a ValueError if they are more than its tag claims."""
    file.seek(variable.place)
    packed = file.read(variable.size)
    if not variable.is_compressed:
        return packed
    inflater = zlib.decompressobj()
    content = inflater.decompress(packed, variable.claimed)
    if not inflater.eof and inflater.decompress(inflater.unconsumed_tail, 1):
        raise address.bad("a compressed part of it is longer than it says.")
    return content


def _directory(file: IO[bytes], start: bytes, size: int) -> Iterator[Variable]:
    """The variables of a file of version 5, described from the first bytes of each."""
    order = "<" if start[126:128] == b"IM" else ">"
    file.seek(HEADER_BYTES)
    while len(tag := file.read(8)) == 8:
        kind, count = struct.unpack(order + "II", tag)
        place = file.tell()
        if count > size - place:
            raise EOFError("a variable ends after the file")
        if kind == COMPRESSED:
            first = zlib.decompressobj().decompress(file.read(min(count, 4 * FIRST_BYTES)), FIRST_BYTES)
            inner, length = struct.unpack_from(order + "II", first)
            if inner == MATRIX:
                yield _describe(first[8:], order, place, count, length + 8, True)
        elif kind == MATRIX:
            yield _describe(file.read(min(count, FIRST_BYTES)), order, place, count, count, False)
        file.seek(place + count)


def _describe(body: bytes, order: str, place: int, size: int, claimed: int, is_compressed: bool) -> Variable:
    """The variable that ``body`` begins: its first elements are flags, dimensions and name.

    Opaque arrays, which Matlab keeps for its own classes, have no such elements: only their kind is known.
    """
    elements = _elements(body, order, partly=True)
    flags = int(np.frombuffer(next(elements)[1][:4], order + "u4")[0])
    kind = CLASSES.get(flags & 0xFF, "unknown")
    if kind in ("opaque", "unknown"):
        return Variable("", (), kind, place, size, claimed, order, is_compressed)
    dimensions, name = next(elements)[1], next(elements)[1]
    shape = tuple(np.frombuffer(dimensions[: len(dimensions) // 4 * 4], order + "i4").tolist())
    kind = f"complex {kind}" if flags & IS_COMPLEX else kind
    return Variable(bytes(name).decode("latin-1"), shape, kind, place, size, claimed, order, is_compressed)


def _elements(body: bytes, order: str, partly: bool = False) -> Iterator[tuple[int, memoryview]]:
    """(type, bytes) of the data elements in ``body``, one after the other; ``partly``: the last may be cut off."""
    view, place = memoryview(body), 0
    while place + 8 <= len(view):
        word, count = struct.unpack_from(order + "II", view, place)
        if word >> 16:  # a short element: its one to four bytes are inside the tag
            kind, count, first, after = word & 0xFFFF, word >> 16, place + 4, place + 8
            if count > 4:
                raise ValueError("a short data element is longer than four bytes")
        else:
            kind, first, after = word, place + 8, place + 8 + -(-count // 8) * 8
        if not partly and count > len(view) - first:
            raise EOFError("a data element ends after its variable")
        yield kind, view[first : first + count]
        place = after


def _numbers(element: tuple[int, memoryview], order: str) -> Array:
    kind, content = element
    if kind not in TYPES:
        raise ValueError(f"a data element has the type {kind}, which is not a type of numbers")
    dtype = np.dtype(order + TYPES[kind])
    if len(content) % dtype.itemsize:
        raise ValueError("a data element is cut off within a number")
    return np.frombuffer(content, dtype)


def _matrix(
    address: Address, variable: Variable, content: bytes, budget: Budget
) -> Array | scipy.sparse.csr_array:
    """A matrix of version 5, in the type of its class; Matlab stores numbers in the narrowest type that holds them."""
    body = content[8:] if variable.is_compressed else content
    parts = [_numbers(element, variable.order) for element in list(_elements(body, variable.order))[3:]]
    if variable.kind == "sparse":
        rows, starts, values = (_native(part) for part in parts[:3])
        stored = int(starts[-1]) if starts.size else 0
        if not 0 <= stored <= min(rows.size, values.size):
            raise ValueError("a sparse matrix has fewer entries than it says")
        return checked_sparse(
            address,
            "csc",
            variable.shape,
            values[:stored],
            rows[:stored].astype(np.int64),
            starts.astype(np.int64),
            budget,
        )
    if parts[0].size != prod(variable.shape):
        raise ValueError(f"there are {parts[0].size} numbers for the shape {variable.shape}")
    return parts[0].astype(NUMERIC[variable.kind]).reshape(variable.shape, order="F")


def _native(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder("="))


def _old_directory(file: IO[bytes], start: bytes, size: int) -> Iterator[Variable]:
    """The variables of a file of version 4: each is five whole numbers, the name, and the matrix by columns."""
    order = "<" if 0 <= struct.unpack_from("<i", start)[0] < 5000 else ">"
    place = 0
    while place + OLD_HEADER <= size:
        file.seek(place)
        code, rows, columns, is_complex, length = struct.unpack(order + "5i", file.read(OLD_HEADER))
        machine, precision, form = code // 1000, code // 10 % 10, code % 10
        if (
            machine != (order == ">")
            or code // 100 % 10
            or precision > 5
            or form > 2
            or is_complex not in (0, 1)
        ):
            raise ValueError("it has no header of any version")
        if min(rows, columns) < 0 or not 1 <= length <= MOST_NAME:
            raise ValueError("a variable has sides or a name that cannot be")
        stored = np.dtype(order + OLD_TYPES[precision])
        first, claimed = place + OLD_HEADER + length, rows * columns * stored.itemsize
        after = first + claimed * (1 + is_complex)
        if after > size:
            raise EOFError("a variable ends after the file")
        name = file.read(length).partition(b"\0")[0].decode("latin-1")
        kind, shape = OLD_FORMS[form], (rows, columns)
        if kind == "sparse":
            if columns == 3:
                shape = _old_sparse_shape(file, first, rows, stored)
            else:
                kind = "complex sparse"
        kind = f"complex {kind}" if is_complex else kind
        yield Variable(name, shape, kind, first, claimed, claimed, order, stored=stored.str)
        place = after


def _old_sparse_shape(
    file: IO[bytes], first: int, rows: int, stored: np.dtype[np.generic]
) -> tuple[int, int]:
    """The shape of a sparse matrix of version 4, which is in the last row of its (row, column, value) table."""
    sides = []
    for column in (1, 2):
        file.seek(first + (column * rows - 1) * stored.itemsize)
        side = float(np.frombuffer(file.read(stored.itemsize), stored)[0])
        sides.append(int(side) if 0.0 <= side < 2**62 else -1)
    return sides[0], sides[1]


def _old_matrix(
    address: Address, variable: Variable, content: bytes, budget: Budget
) -> Array | scipy.sparse.csr_array:
    numbers = _native(np.frombuffer(content, variable.stored))
    if variable.kind != "sparse":
        return numbers.reshape(variable.shape, order="F")
    table = numbers.reshape(-1, 3, order="F")[:-1]
    places = table[:, :2].astype(np.float64) - 1.0
    if not np.all((places == np.rint(places)) & (places >= 0.0) & (places < 2**62)):
        raise ValueError("an index of a sparse matrix is not a whole number")
    rows, columns = places.astype(np.int64).T
    return checked_sparse(
        address, "coo", variable.shape, np.ascontiguousarray(table[:, 2]), rows, columns, budget
    )
