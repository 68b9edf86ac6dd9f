"""Our own files: zip archives of NumPy arrays with a description, written and read by a :mod:`~rankwolf.files.schema`.

``np.load(path)`` shows them. Nothing is unpickled, nothing native parses them, and no array is made before its header
was compared with the schema, and its size with the memory that it may take. So they are read without the cell.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import IO, Any, NamedTuple

import numpy as np

from rankwolf.files.address import Address
from rankwolf.files.door import check_memory, most_memory, open_foreign, open_zip, stored_bytes
from rankwolf.files.schema import Entry, Schema
from rankwolf.ground.arrays import Array
from rankwolf.ground.whole import Name

# The most bytes of memory that a byte of JSON becomes: "[[],[],…".
BYTES_FOR_JSON = 24
# What an array may be that a schema does not name.
ANY = Entry("b i u f c", ())
# The longest whole number of a description: those of a random generator have 128 bits.
MOST_DIGITS = 40


class Header(NamedTuple):
    """The header of an array in NumPy's format."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """How many bytes the array takes."""
        return prod(self.shape) * self.dtype.itemsize

    def mapped(self, file: IO[bytes]) -> Array:
        """The array in the file, which stands at the data, as a memory map: rows are read when they are needed."""
        order = "F" if self.fortran_order else "C"
        return np.memmap(file, self.dtype, "r", file.tell(), self.shape, order)  # type: ignore[call-overload,no-any-return]


def read_header(address: Address, file: IO[bytes], size: int) -> Header:
    """Shape, order and type of an ``.npy``; a ValueError if its ``size`` bytes cannot hold so much, or hold objects.

    Leaves ``file`` at the data.
    """
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise address.bad(f"its format {version} is not known.")
    header = Header(*readers[version](file))
    if header.dtype.hasobject:
        raise address.bad("it holds Python objects, which are not read: they could run anything.")
    empty = header.dtype.itemsize == 0 and prod(header.shape) > 1
    if any(side < 0 for side in header.shape) or empty or header.nbytes > size:
        raise address.bad(
            f"its header claims the shape {header.shape} of {header.dtype}, more than it holds."
        )
    return header


class Archive:
    """An open file of a schema: ``about`` is its description, checked; arrays are read when they are asked for."""

    def __init__(self, address: Address, file: zipfile.ZipFile, schema: Schema, most: int) -> None:
        self._address, self._file, self._schema, self._most = address, file, schema, most
        self._members = {info.filename: info for info in file.infolist()}
        self._sides: dict[str, int] = {}
        text = self._info(f"{schema.about}.json")
        check_memory(address, BYTES_FOR_JSON * text.file_size, most)
        found = json.loads(file.read(text).decode("utf-8"), parse_int=_whole_number)
        self.about = schema.check_settings(found)

    @property
    def names(self) -> list[str]:
        """The names of the arrays that the schema has, and the file too."""
        return [name for name in self._schema.arrays if f"{name}.npy" in self._members]

    def arrays(self) -> dict[str, Array]:
        """All arrays of the schema."""
        absent = {name for name, entry in self._schema.arrays.items() if not entry.optional} - set(self.names)
        if absent:
            raise ValueError(f"it has no part {min(absent)!r}")
        return {name: self.array(name) for name in self.names}

    def array(self, name: str) -> Array:
        """One array, whole; a ValueError unless it is what the schema says."""
        entry = self._schema.arrays.get(name)
        with self.opened(name) as (file, header):
            if entry is not None:
                entry.check_type(name, header.shape, header.dtype, self._sides)
            else:
                ANY.check_type(name, (), header.dtype, {})
            check_memory(self._address, header.nbytes, self._most)
            # Read straight into the array, so that the bytes are in memory only once.
            flat = np.empty(header.nbytes, np.uint8)
            if io.BufferedReader(file, 2**20).readinto(flat.data) != header.nbytes:
                raise EOFError("the data ends early")
        array: Array = flat.view(header.dtype).reshape(
            header.shape, order="F" if header.fortran_order else "C"
        )
        if entry is not None:
            entry.check(name, array)
        return array

    @contextmanager
    def opened(self, name: str) -> Iterator[tuple[Any, Header]]:
        """(file, header) of one array, to be read in pieces: the file stands at the first entry."""
        if name not in self._schema.arrays and not name.startswith(self._schema.others):
            raise ValueError(f"its part {name!r} is not known")
        info = self._info(f"{name}.npy")
        with self._file.open(info) as file:
            yield file, read_header(self._address, file, info.file_size)

    def _info(self, name: str) -> zipfile.ZipInfo:
        if name not in self._members:
            raise self._address.bad(
                f"it is not {self._schema.words}: it has no part {name.rpartition('.')[0]!r}."
            )
        return self._members[name]


def _whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError("a number of it has too many digits")
    return int(digits)


@contextmanager
def opened_archive(address: Address, schema: Schema, max_memory: int | None = None) -> Iterator[Archive]:
    """A file of this schema, open until the block ends. An error in the block is one of the file."""
    most = most_memory(stored_bytes(address), max_memory)
    names = {f"{schema.about}.json", *(f"{name}.npy" for name in schema.arrays)}
    with (
        address.reading(schema.words),
        open_foreign(address) as file,
        open_zip(address, file, most, names) as archive,
    ):
        yield Archive(address, archive, schema, most)


@contextmanager
def new_archive(
    path: Name, compression: int = zipfile.ZIP_STORED, level: int | None = None
) -> Iterator[zipfile.ZipFile]:
    """A new zip file, finished when the block ends. After an error or Ctrl-C it is left unfinished.

    zipfile alone would try to finish it then, and its complaint about a member that is still open would hide the error.
    """
    with open(path, "xb") as file:
        made = zipfile.ZipFile(file, "w", compression, compresslevel=level)
        try:
            yield made
            made.close()
        finally:
            made.fp = None  # so that zipfile takes itself for closed, and does not write its directory


def write_npz(path: Name, arrays: Mapping[str, Any], level: int | None = None) -> None:
    """Write arrays to a new compressed ``.npz``; unlike np.savez, it takes an array with the name ``file``.

    ``level`` 1 takes an eighth of the time of zlib's default, and a fifth more room for arrays of noise. A value that
    is a str becomes a text file of that name.
    """
    with new_archive(path, zipfile.ZIP_DEFLATED, level) as made:
        for name, array in arrays.items():
            if isinstance(array, str):
                made.writestr(name, array)
                continue
            with made.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def write_schema(
    path: Name, schema: Schema, settings: dict[str, Any], arrays: Mapping[str, Any], level: int | None = None
) -> None:
    """Write a file of a schema; a ValueError where it would not be read again."""
    about = json.loads(json.dumps({"format": schema.format, **settings}))
    schema.check_settings(about)
    sides: dict[str, int] = {}
    for name, array in arrays.items():
        schema.arrays[name].check_type(name, array.shape, array.dtype, sides)
    write_npz(path, {f"{schema.about}.json": json.dumps(about), **arrays}, level)
