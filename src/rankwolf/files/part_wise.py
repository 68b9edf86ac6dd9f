"""Matrices written part by part, never held whole: ``.npy``, HDF5, Zarr."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed
from rankwolf.ground.whole import Name, whole
from rankwolf.platform import reserve

Part = tuple[slice, slice, Array]
"""Rows, columns, and the entries there."""


def write_npy(path: Name, shape: tuple[int, int], dtype: Any, parts: Iterable[Part], overwrite: bool) -> None:
    """Write the parts, in any order, to an ``.npy`` file in C order."""
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
    """Write the parts, in any order, to one dataset of an HDF5 file, in C order and without chunks.

    HDF5 only lays out the file. The entries are written without it, since it crashes the process on a full disk.
    """
    needed("h5py")
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
    """Write the parts to a matrix in C order that begins at byte ``first``; its room on the disk is reserved first."""
    dtype = np.dtype(dtype)
    row_bytes = shape[1] * dtype.itemsize
    with path.open("r+b", buffering=0) as file:
        reserve(file, first + shape[0] * row_bytes)
        for rows, columns, entries in parts:
            block = np.ascontiguousarray(entries, dtype)
            start = first + rows.start * row_bytes + columns.start * dtype.itemsize
            if block.shape[1] == shape[1]:
                _write_at(file, block, start)
            else:
                for number, row in enumerate(block):
                    _write_at(file, row, start + number * row_bytes)


def write_zarr(
    path: Name,
    shape: tuple[int, int],
    dtype: Any,
    parts: Iterable[Part],
    overwrite: bool,
    version: int = 3,
    name: str | None = None,
) -> None:
    """Write the parts to a Zarr array, or to the array ``name`` of a Zarr group; the first part is the size of a chunk.

    Chunks of zeros are written too, since a chunk that is absent might also be lost; they compress to almost nothing.
    """
    needed("zarr")
    import zarr

    iterator = iter(parts)
    first = next(iterator)
    chunks = (first[2].shape[0], first[2].shape[1])
    with whole(path, overwrite=overwrite) as temporary:
        array = zarr.create_array(
            store=str(temporary),
            name=name,
            shape=shape,
            dtype=dtype,
            chunks=chunks,
            fill_value=0,
            zarr_format=version,  # type: ignore[arg-type]
            config={"write_empty_chunks": True},
        )
        for rows, columns, entries in chain([first], iterator):
            array[rows, columns] = np.ascontiguousarray(entries)


def _write_at(file: IO[bytes], block: Array, start: int) -> None:
    view = memoryview(block.reshape(-1).view(np.uint8).data)
    file.seek(start)
    while view:
        view = view[file.write(view) :]
