"""Files that appear whole or not at all, and matrices written to them part by part, never held whole."""

from __future__ import annotations

import errno
import os
import shutil
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Name = str | os.PathLike[str]
Part = tuple[slice, slice, Array]


@contextmanager
def whole(path: Name, *, overwrite: bool = True) -> Iterator[Path]:
    """A temporary name beside ``path``, for a file or a folder; it becomes ``path`` when the block ends well.

    Otherwise nothing is left, and what ``path`` was before is untouched. A full disk is an OSError that names ``path``.
    """
    target = Path(path)
    if not overwrite and os.path.lexists(target):
        raise ValueError(f"{os.fspath(path)!r} exists already. Remove it, or give overwrite=True.")
    # Not tempfile: its files are for their owner alone, and os.replace would keep that.
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield temporary
        if temporary.is_dir():
            _replace_folder(temporary, target)
        else:
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, target)
    except OSError as error:
        if error.errno == errno.ENOSPC:  # whichever part of it was being written
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.unlink(missing_ok=True)


def _replace_folder(temporary: Path, target: Path) -> None:
    """A folder cannot be replaced in one step: the old one makes room first."""
    aside = target.with_name(f"{temporary.name}.old")
    try:
        if os.path.lexists(target):
            os.replace(target, aside)
        os.replace(temporary, target)
    finally:
        if os.path.lexists(aside) and not os.path.lexists(target):  # broken off in between
            os.replace(aside, target)
        elif aside.is_dir() and not aside.is_symlink():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink(missing_ok=True)


@contextmanager
def archive(path: Name, compression: int = zipfile.ZIP_STORED) -> Iterator[zipfile.ZipFile]:
    """A new zip file. After an error or Ctrl-C it stays unfinished, without a word.

    zipfile alone would try to finish it, and complain about a member that is still open in place of what happened.
    """
    with open(path, "xb") as file:
        made = zipfile.ZipFile(file, "w", compression)
        try:
            yield made
            made.close()
        finally:
            made.fp = None  # closed, whatever it thinks


def write_npy(path: Name, shape: tuple[int, int], dtype: Any, parts: Iterable[Part], overwrite: bool) -> None:
    """An ``.npy`` file in the order of rows."""
    with whole(path, overwrite=overwrite) as temporary:
        with temporary.open("xb") as file:
            header = {
                "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
                "fortran_order": False,
                "shape": shape,
            }
            np.lib.format.write_array_header_1_0(file, header)
            first = file.tell()
        _write_rows(temporary, first, shape, dtype, parts)


def write_hdf5(
    path: Name, name: str, shape: tuple[int, int], dtype: Any, parts: Iterable[Part], overwrite: bool
) -> None:
    """One dataset in an HDF5 file, in the order of rows, without chunks.

    HDF5 only lays out the file. It is filled past HDF5, which crashes the process when it meets a full disk.
    """
    import h5py

    with whole(path, overwrite=overwrite) as temporary:
        with h5py.File(temporary, "x") as file:
            group, _, last = name.strip("/").rpartition("/")
            layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            place = file.require_group(group) if group else file
            kind, space = h5py.h5t.py_create(np.dtype(dtype)), h5py.h5s.create_simple(shape)
            first = h5py.h5d.create(place.id, last.encode(), kind, space, layout).get_offset()
        _write_rows(temporary, first, shape, dtype, parts)


def _write_rows(path: Path, first: int, shape: tuple[int, int], dtype: Any, parts: Iterable[Part]) -> None:
    """Entries in the order of rows from byte ``first`` on; the room for them is reserved before any is computed."""
    dtype = np.dtype(dtype)
    row_bytes = shape[1] * dtype.itemsize
    with path.open("r+b", buffering=0) as file:
        _reserve(file.fileno(), first + shape[0] * row_bytes)
        for rows, columns, entries in parts:
            block = np.ascontiguousarray(entries, dtype)
            start = first + rows.start * row_bytes + columns.start * dtype.itemsize
            if block.shape[1] == shape[1]:
                _write_at(file.fileno(), block, start)
            else:
                for number, row in enumerate(block):
                    _write_at(file.fileno(), row, start + number * row_bytes)


def write_zarr(
    path: Name, shape: tuple[int, int], dtype: Any, parts: Iterable[Part], overwrite: bool, version: int
) -> None:
    """A Zarr array in a folder, one chunk for each part; zeros compress to almost nothing."""
    import zarr

    iterator = iter(parts)
    first = next(iterator)
    chunks = (first[2].shape[0], first[2].shape[1])
    with whole(path, overwrite=overwrite) as temporary:
        array = zarr.create_array(
            store=str(temporary), shape=shape, dtype=dtype, chunks=chunks, fill_value=0, zarr_format=version,  # type: ignore[arg-type]
            config={"write_empty_chunks": True},
        )  # fmt: skip
        for rows, columns, entries in chain([first], iterator):
            array[rows, columns] = np.ascontiguousarray(entries)


def _reserve(number: int, size: int) -> None:
    """Fail now rather than in an hour; a file system that cannot reserve will say so when it is full."""
    try:
        os.posix_fallocate(number, 0, size)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        os.ftruncate(number, size)


def _write_at(number: int, block: Array, start: int) -> None:
    view = memoryview(block.reshape(-1).view(np.uint8).data)
    while view:
        written = os.pwrite(number, view, start)
        view, start = view[written:], start + written
