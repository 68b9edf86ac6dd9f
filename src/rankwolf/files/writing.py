"""Writing L and S: row by row where the kind of file allows it, so that L is never in memory as a dense matrix."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np

from rankwolf.files.address import is_plain_name
from rankwolf.files.kinds import TEXTS, LabelledMatrix, Labels, kind_named
from rankwolf.files.npz import write_npz
from rankwolf.files.part_wise import Part, write_hdf5, write_npy, write_zarr
from rankwolf.files.tables import Dialect
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed

if TYPE_CHECKING:
    import scipy.sparse

BLOCK_ENTRIES = 2**20
# The most rows and columns of a sheet, by the format itself.
MOST_ROWS_WRITTEN, MOST_COLUMNS_WRITTEN = 1_048_576, 16_384
Advance = Callable[[int], object]


class RowSliceable(Protocol):
    """A matrix whose slices of rows are arrays: LowRank, SparsePart, an array."""

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the slices."""

    def __getitem__(self, key: slice, /) -> Array: ...


def write_rows(
    folder: Path,
    name: str,
    kind: str,
    part: RowSliceable,
    like: LabelledMatrix,
    advance: Advance,
    parts: Iterable[Part] | None = None,
) -> Path:
    """Write ``part`` as a dense matrix to a file of ``kind``, with the labels of ``like``; returns the path.

    ``advance`` is told how many rows are done. ``parts``: the blocks of ``part`` in the order in which they are
    computed fastest, for kinds of file that take blocks in any order (npy, HDF5, Zarr).
    """
    path = folder / f"{name}{kind_named(kind).endings[0]}"
    member = _member(kind, like)
    blocks = row_blocks(part, advance)
    if kind in ("npy", "hdf5", "zarr"):
        everywhere = slice(0, part.shape[1])
        placed = ((rows, everywhere, block) for rows, block in blocks)
        chosen: Iterator[Part] = placed if parts is None else _counted(parts, part.shape[1], advance)
        if kind == "npy":
            write_npy(path, part.shape, part.dtype, chosen, overwrite=False)
        elif kind == "hdf5":
            write_hdf5(path, member or name, part.shape, part.dtype, chosen, overwrite=False)
        else:
            write_zarr(path, part.shape, part.dtype, chosen, overwrite=False, name=member)
    elif kind in TEXTS:
        with _open_text(path) as file:
            write_text(file, blocks, like.labels, dialect_for(kind, like))
    elif kind in ("parquet", "feather"):
        _write_arrow(path, kind, blocks, like.labels)
    elif kind == "xlsx":
        _write_xlsx(path, blocks, like.labels, member or name)
    else:
        _write_arrays(path, kind, {member or name: np.concatenate([block for _, block in blocks])})
    return path


def write_sparse(
    folder: Path, name: str, kind: str, matrix: scipy.sparse.csr_array, like: LabelledMatrix
) -> Path:
    """Write a sparse matrix to a kind of file that can hold one, npz, mat or mat73; returns the path."""
    path = folder / f"{name}{kind_named(kind).endings[0]}"
    if kind == "npz":
        from scipy.sparse import save_npz

        save_npz(path, matrix)
    else:
        _write_arrays(path, kind, {_member(kind, like) or name: matrix})
    return path


def write_factors(folder: Path, name: str, kind: str, factors: dict[str, Array]) -> Path:
    """Write ``u``, ``s`` and ``vt`` of an L that is too large to be written densely; returns the path."""
    path = folder / f"{name}{kind_named(kind).endings[0]}"
    _write_arrays(path, kind, factors)
    return path


def _member(kind: str, like: LabelledMatrix) -> str | None:
    """The name that the matrix had in its file, if that was of the same ``kind`` and the name is harmless; else None.

    A stranger's ``../x`` would lead out of the folder of whoever unpacks the archive that is written.
    """
    if like.kind != kind or not like.member:
        return None
    steps = like.member.strip("/").split("/")
    if kind in ("mat", "mat73"):  # Matlab takes letters, digits and _, a letter first
        fits = re.fullmatch(r"[A-Za-z]\w{0,62}", like.member, re.ASCII) is not None
    else:
        fits = (kind in ("hdf5", "zarr", "xlsx") or len(steps) == 1) and all(map(is_plain_name, steps))
    return "/".join(steps) if fits else None


def row_blocks(part: RowSliceable, advance: Advance | None = None) -> Iterator[tuple[slice, Array]]:
    """(rows, entries) of ``part`` in blocks of about BLOCK_ENTRIES entries, from top to bottom."""
    rows, columns = part.shape
    step = max(1, BLOCK_ENTRIES // max(1, columns))
    for first in range(0, rows, step):
        place = slice(first, min(first + step, rows))
        yield place, np.ascontiguousarray(part[place])
        if advance is not None:
            advance(place.stop - place.start)


def _counted(parts: Iterable[Part], columns: int, advance: Advance) -> Iterator[Part]:
    """The same parts; after each, ``advance`` is told how many more rows the entries so far would fill."""
    entries = 0
    for rows, place, block in parts:
        yield rows, place, block
        done, entries = entries // columns, entries + block.size
        advance(entries // columns - done)


def _write_arrays(path: Path, kind: str, arrays: dict[str, Any]) -> None:
    if kind == "npz":
        write_npz(path, arrays)
    elif kind == "mat73":
        write_mat73(path, arrays)
    else:
        from scipy.io import savemat

        for name, array in arrays.items():
            if isinstance(array, np.ndarray) and array.nbytes >= 2**31:
                raise ValueError(
                    f"The variable {name!r} is too large for this version of Matlab files. Give --format mat73."
                )
        savemat(path, arrays, do_compression=True)


def write_mat73(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a file of version 7.3: HDF5, behind a block of 512 bytes with Matlab's header."""
    classes = {"f8": "double", "f4": "single", "b1": "logical"}
    with needed("h5py").File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            if isinstance(array, np.ndarray):
                stored = file.create_dataset(name, data=np.ascontiguousarray(np.atleast_2d(array).T))
                word = classes.get(array.dtype.str[1:], array.dtype.name)
                stored.attrs["MATLAB_class"] = np.bytes_(word)
                continue
            columns, group = array.tocsc(), file.create_group(name)
            group.attrs["MATLAB_class"] = np.bytes_("double")
            group.attrs["MATLAB_sparse"] = np.uint64(columns.shape[0])
            group["data"] = columns.data.astype(np.float64)
            group["ir"], group["jc"] = (part.astype(np.uint64) for part in (columns.indices, columns.indptr))
    text = b"MATLAB 7.3 MAT-file, Platform: any, Created by: Rankwolf HDF5 schema 1.00 ."
    with path.open("r+b") as file:
        file.write(text.ljust(116) + bytes(8) + struct.pack("<H", 0x0200) + b"IM")


def _frame(block: Array, place: slice, labels: Labels) -> Any:
    pd = needed("pandas")
    index = None
    if labels.index is not None:
        index = pd.Index(labels.index[place], name=labels.index_name or None)
    return pd.DataFrame(block, index=index)


def dialect_for(kind: str, like: LabelledMatrix) -> Dialect:
    """The dialect in which a text is written: that of ``like``, if it was read from a file of the same ``kind``.

    Otherwise commas or tabs, by the kind, with decimal points.
    """
    if like.kind == kind and like.dialect is not None:
        return like.dialect
    return Dialect("\t" if kind.startswith("tsv") else ",")


@contextmanager
def _open_text(path: Path) -> Iterator[IO[str]]:
    if path.suffix != ".gz":
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    # gzip's header gets neither time nor name, so that the same table gives the same bytes.
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, 0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as file,
    ):
        yield file


def write_text(
    file: IO[str], blocks: Iterable[tuple[slice, Array]], labels: Labels, dialect: Dialect
) -> None:
    """Write the heading, if there are names of columns, and the rows of ``blocks`` to a table of text."""
    separator = dialect.separator
    if labels.columns is not None:
        names = [] if labels.index is None else [labels.index_name or ""]
        csv.writer(file, delimiter=separator, lineterminator="\n").writerow([*names, *labels.columns])
    for place, block in blocks:
        _frame(block, place, labels).to_csv(
            file,
            sep=separator,
            decimal=dialect.decimal,
            header=False,
            index=labels.index is not None,
            lineterminator="\n",
        )


def _write_arrow(path: Path, kind: str, blocks: Iterator[tuple[slice, Array]], labels: Labels) -> None:
    """Parquet, or Feather, which is Arrow's own file with compression: block by block."""
    pa, schema = needed("pyarrow"), None
    writer: Any = None
    try:
        for place, block in blocks:
            frame = _frame(block, place, labels)
            frame.columns = list(map(str, labels.columns or range(block.shape[1])))
            table = pa.Table.from_pandas(frame, schema, preserve_index=labels.index is not None)
            if writer is None:
                schema, fast = table.schema, pa.ipc.IpcWriteOptions(compression="lz4")
                writer = (
                    needed("pyarrow.parquet").ParquetWriter(path, schema)
                    if kind == "parquet"
                    else pa.ipc.new_file(os.fspath(path), schema, options=fast)
                )
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _write_xlsx(path: Path, blocks: Iterator[tuple[slice, Array]], labels: Labels, name: str) -> None:
    openpyxl = needed("openpyxl")
    cell = needed("openpyxl.cell").WriteOnlyCell
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet(re.sub(r"[\\/*?:\[\]]", "_", name)[:31])

    def word(text: Any) -> Any:
        made = cell(sheet, value=illegal.sub("", str(text)))
        made.data_type = "s"  # text, also where it begins like a formula
        return made

    illegal = re.compile(r"[\000-\010\013\014\016-\037]")
    if labels.columns is not None:
        names = [] if labels.index is None else [labels.index_name or ""]
        sheet.append([word(text) for text in (*names, *labels.columns)])
    for place, block in blocks:
        index = None if labels.index is None else labels.index[place]
        for number, numbers in enumerate(block.tolist()):
            # NaN and infinity become empty cells: the format has no numbers for them.
            row = [value if isfinite(value) else None for value in numbers]
            sheet.append(row if index is None else [word(index[number]), *row])
    book.save(path)


def check_room(shape: tuple[int, int]) -> None:
    """Refuse to write a matrix that, with one row and column of names, does not fit into a sheet."""
    if shape[0] + 1 > MOST_ROWS_WRITTEN or shape[1] + 1 > MOST_COLUMNS_WRITTEN:
        raise ValueError(
            f"An .xlsx file has room for {MOST_ROWS_WRITTEN:,} rows and {MOST_COLUMNS_WRITTEN:,} columns. "
            f"The table has {shape[0]:,} × {shape[1]:,}. Give --format csv."
        )
