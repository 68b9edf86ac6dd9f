"""Zip files of NumPy arrays, as ``np.savez`` writes them: ``.npz``, saved results, checkpoints.

Nothing is unpickled. A member is read when it is asked for, after its header was compared with its size, and its size
with the memory that there is; a member that nobody asks for costs nothing.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import IO, Any, NamedTuple

import numpy as np

from rankwolf.files.address import Address
from rankwolf.files.claims import REAL_KINDS, Budget
from rankwolf.ground.arrays import Array
from rankwolf.ground.whole import Name

# np.savez writes no other compressions, and Python's readers of the others inflate without a limit.
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# The most bytes of a text, which is a description in JSON with a record for each iteration; and the most bytes of
# memory that a byte of JSON becomes, in the worst case "[[],[],…".
MOST_TEXT, BYTES_FOR_JSON = 64 * 2**20, 24


class Header(NamedTuple):
    """The header of an array in NumPy's format."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """How many bytes the array takes."""
        return prod(self.shape) * self.dtype.itemsize


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
    """An open zip file of arrays; ``names`` are those of its arrays."""

    def __init__(self, address: Address, file: zipfile.ZipFile, budget: Budget) -> None:
        self._address, self._file, self._budget = address, file, budget
        self._members = {info.filename: info for info in file.infolist()}
        self.names = sorted(name.removesuffix(".npy") for name in self._members if name.endswith(".npy"))

    def check_sizes(self, names: Iterable[str]) -> None:
        """Refuse arrays that together would take too much memory, before the first of them is read."""
        infos = [self._members[f"{name}.npy"] for name in names if f"{name}.npy" in self._members]
        stored = sum(info.compress_size for info in infos)
        self._budget.check(self._address, sum(info.file_size for info in infos), stored)

    def header(self, name: str) -> Header:
        """Shape, order and type of one array, from its header."""
        info = self._info(f"{name}.npy")
        with self._file.open(info) as file:
            return read_header(self._address, file, info.file_size)

    def array(self, name: str, dimensions: int | None = None, kinds: str = REAL_KINDS) -> Array:
        """One array; a ValueError if it has other ``dimensions``, or a type not among ``kinds`` (NumPy's letters)."""
        with self.opened(name) as (file, header):
            shape, fortran_order, dtype = header
            if dimensions is not None and len(shape) != dimensions:
                raise self._address.bad(
                    f"its part {name!r} has {len(shape)} dimensions instead of {dimensions}."
                )
            if dtype.kind not in kinds:
                raise self._address.bad(f"its part {name!r} must hold real numbers. Its type is {dtype}.")
            # Read straight into the array, so that the bytes are in memory only once.
            flat = np.empty(header.nbytes, np.uint8)
            buffered = io.BufferedReader(file, 2**20)
            if buffered.readinto(flat.data) != header.nbytes:
                raise EOFError("the data ends early")
        return flat.view(dtype).reshape(shape, order="F" if fortran_order else "C")

    @contextmanager
    def opened(self, name: str, copied: bool = True) -> Iterator[tuple[Any, Header]]:
        """(file, header) of one array, to be read in pieces: the file stands at the first entry.

        ``copied``: all of it will be in memory, and is checked against the budget first.
        """
        info = self._info(f"{name}.npy")
        with self._file.open(info) as file:
            header = read_header(self._address, file, info.file_size)
            if copied:
                self._budget.check(self._address, header.nbytes, info.compress_size)
            yield file, header

    def word(self, name: str) -> str:
        """The text in an array of dimension 0, such as NumPy makes of a str."""
        self._check_text(name, self.header(name).nbytes, self._info(f"{name}.npy").compress_size)
        written = self.array(name, 0, "SU").item()
        return written.decode("utf-8") if isinstance(written, bytes) else str(written)

    def text(self, name: str) -> str:
        """The content of a member that is a text file, in UTF-8."""
        info = self._info(name)
        self._check_text(name, info.file_size, info.compress_size)
        return self._file.read(info).decode("utf-8")

    def _check_text(self, name: str, nbytes: int, stored: int) -> None:
        if nbytes > MOST_TEXT:
            raise self._address.bad(
                f"its text {name!r} has {nbytes:,} bytes. At most {MOST_TEXT:,} are read."
            )
        self._budget.check(self._address, BYTES_FOR_JSON * nbytes, stored)

    def _info(self, name: str) -> zipfile.ZipInfo:
        if name not in self._members:
            raise self._address.bad(f"it has no part {name.removesuffix('.npy')!r}.")
        if self._members[name].compress_type not in COMPRESSIONS:
            raise self._address.bad("it is compressed in a way that NumPy does not use.")
        return self._members[name]


@contextmanager
def opened_archive(address: Address, budget: Budget) -> Iterator[Archive]:
    """The arrays in a zip file, open until the block ends."""
    with zipfile.ZipFile(address.path) as file:
        yield Archive(address, file, budget)


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

    ``level`` 1 takes an eighth of the time of zlib's default, and a fifth more room for arrays of noise.
    """
    with new_archive(path, zipfile.ZIP_DEFLATED, level) as made:
        for name, array in arrays.items():
            with made.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
