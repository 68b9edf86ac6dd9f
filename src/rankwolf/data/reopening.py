"""Stored matrices in other processes: where they are, and how they are opened again there.

A result that is pickled carries the place of its data, not the data. Where the file cannot be opened, L and all numbers
of the result are there all the same, and asking for S raises an error that names the file.

The classes of :mod:`rankwolf.data.stored` name the functions below in their pickles, and the functions make objects of
those classes: each module needs the other, so the functions here import that one when they are called.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class InFile:
    """Where in a file the first number of a memory map is, and how far apart rows and columns are, in bytes."""

    path: str
    position: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class InStore:
    """A dataset of an HDF5 file (``library`` "h5py"), or an array of a Zarr folder ("zarr"), by its name."""

    library: str
    path: str
    name: str


def place_in_file(array: np.memmap[Any, Any], mapped: mmap.mmap) -> InFile | None:
    """Where a memory map, or a part of one, is in its file; None where it has no file."""
    if array.filename is None:
        return None
    start = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY  # where the map begins in the file
    position = start + array.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
    return InFile(os.path.abspath(array.filename), position, array.strides)


def place_of(dataset: Any) -> InStore | None:
    """Where an HDF5 dataset or a Zarr array is, in a local file or folder; None for one that is anywhere else.

    The path is absolute, so that it holds when the process changes its folder.
    """
    if type(dataset).__module__.partition(".")[0] == "h5py":
        path, name, library = os.path.abspath(dataset.file.filename), str(dataset.name), "h5py"
    elif type(dataset.store).__name__ == "LocalStore":
        path, name, library = str(Path(dataset.store.root).absolute()), str(dataset.path), "zarr"
    else:
        return None
    return InStore(library, path, name) if os.path.exists(path) else None


def anchored(array: Any) -> Any:
    """The same Zarr array with an absolute path.

    With a relative one, all chunks would be missing once the process has changed its folder, and Zarr reads missing
    chunks as the fill value without a warning.
    """
    place = place_of(array)
    if place is None or Path(array.store.root).is_absolute():
        return array
    return type(array).open(Path(place.path) / place.name)


def map_again(place: InFile, shape: tuple[int, ...], dtype: Any) -> Any:
    """The memory map at ``place`` as a stored matrix; an Absent where the file cannot be mapped."""
    from rankwolf.data.stored import Absent, MappedArray  # that module imports this one

    try:
        whole = np.memmap(place.path, np.uint8, "r")
        array = np.ndarray(shape, dtype, whole, place.position, place.strides)
    except (OSError, ValueError, TypeError) as error:
        return Absent(shape, dtype, f"{place.path}: {error}")
    return MappedArray(array, whole._mmap, place)  # type: ignore[attr-defined]


def open_again(kind: Any, place: InStore, shape: tuple[int, ...], dtype: Any) -> Any:
    """The dataset at ``place`` as a stored matrix of the class ``kind``; an Absent where it cannot be opened."""
    from rankwolf.data.stored import Absent  # that module imports this one

    try:
        if place.library == "h5py":
            import h5py

            dataset = h5py.File(place.path, "r")[place.name]
        else:
            import zarr

            dataset = zarr.open_array(place.path, path=place.name, mode="r")
        if tuple(dataset.shape) != tuple(shape):
            raise ValueError(f"its shape is {tuple(dataset.shape)} by now and was {tuple(shape)}")
        return kind(dataset)
    except Exception as error:  # each library has its own errors for files that are not there
        return Absent(shape, dtype, f"{place.path}: {error}")
