"""Which inputs are matrices on the disk: memory maps, HDF5 datasets, Zarr arrays, and lists of these or of files.

h5py and zarr are not imported here: whoever hands in a dataset has imported its library.
"""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from rankwolf.data.reopening import anchored, place_in_file
from rankwolf.data.request import READ_TABLE
from rankwolf.data.stored import Dataset, MappedArray, Stacked, Stored
from rankwolf.files import Address, is_table, open_dataset, read_matrix
from rankwolf.ground.complaints import bad


def as_stored(X: Any) -> Stored | None:
    """``X`` as a stored matrix if it is a memory map, an HDF5 dataset, a Zarr array, or a list of these or of files.

    The items of a list are put one below the other. None for anything else.
    """
    if isinstance(X, Stored):
        return X
    if isinstance(X, np.memmap) and isinstance(mapped := getattr(X, "_mmap", None), mmap.mmap):
        # Changed pages of a copy-on-write map are in no file: they must not be given back.
        return MappedArray(X) if X.mode == "c" else MappedArray(X, mapped, place_in_file(X, mapped))
    if _class_of(X) == ("h5py", "Dataset"):
        if X.shape is None:
            raise ValueError(f"The HDF5 dataset {X.name!r} is empty: it has a type but no shape.")
        return Dataset(X)
    if _class_of(X) == ("zarr", "Array"):
        return Dataset(anchored(X))
    if isinstance(X, list | tuple) and X and all(_is_storable(item) for item in X):
        return _stack([item for item in (as_stored(_opened(item)) for item in X) if item is not None])
    return None


def _class_of(X: Any) -> tuple[str, str]:
    return type(X).__module__.partition(".")[0], type(X).__name__


def _is_storable(item: Any) -> bool:
    kinds = (("h5py", "Dataset"), ("zarr", "Array"))
    return isinstance(item, str | os.PathLike | np.memmap) or _class_of(item) in kinds


def _opened(item: Any) -> Any:
    """The array or dataset in a file, opened; ``item`` itself where it is no path."""
    if not isinstance(item, str | os.PathLike):
        return item
    address = Address.parse(item)
    if is_table(address.path) and address.path.is_file():
        raise address.bad(f"tables do not stay on the disk. {READ_TABLE}")
    return read_matrix(address).values if address.path.suffix == ".npy" else open_dataset(address)


def _stack(parts: list[Stored]) -> Stored:
    shapes = [part.shape for part in parts]
    if any(len(shape) != 2 for shape in shapes) or len({shape[1] for shape in shapes}) > 1:
        rule = "files of matrices with the same number of columns, which are put one below the other"
        raise bad("X", rule, f"shapes {', '.join(map(str, shapes[:8]))}")
    return parts[0] if len(parts) == 1 else Stacked(parts)
