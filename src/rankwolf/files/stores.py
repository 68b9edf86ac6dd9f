"""HDF5 and Zarr: matrices in stores, opened only if all of their data is inside the store and safe to decode.

:func:`open_dataset` gives the dataset itself, which stays on the disk; ``dataset[start:stop]`` reads rows.
"""

from __future__ import annotations

import json
import os
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from rankwolf.files.address import Address
from rankwolf.files.claims import Budget
from rankwolf.files.named_matrix import LabelledMatrix
from rankwolf.ground.extras import needed
from rankwolf.ground.machine import free_memory

# Codecs that only turn bytes into bytes. Zarr's registry also has one that unpickles.
ZARR_CODECS = set(
    "adler32 astype bitround blosc bytes bz2 crc32 crc32c delta fixedscaleoffset fletcher32 gzip lz4 lzma quantize "
    "sharding_indexed shuffle transpose zlib zstd".split()
)
MOST_METADATA = 2**20
# A matrix of up to this share of the free memory is read once and kept; a larger one is read in every pass.
KEPT_SHARE = 0.25


def open_dataset(address: Any, budget: Budget | None = None, copied: bool = True) -> Any:
    """The two-dimensional ``h5py.Dataset`` or ``zarr.Array`` at ``file.h5::/path``; nothing of it is read yet.

    Refused with a ValueError of one line: data that lives in other files (external links, external storage, virtual
    datasets), types that are not real numbers, Zarr codecs that could run code, and, where a ``budget`` is given,
    shapes that do not fit into it, if they are to be ``copied`` into memory.
    """
    address = Address.parse(address)
    if not address.path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(address.path))
    is_zarr, allowed = address.path.is_dir(), budget or Budget()
    with address.reading("a Zarr array" if is_zarr else "an HDF5 file"):
        dataset, stored = (_open_zarr if is_zarr else _open_hdf5)(address)
        dtype = np.dtype(dataset.dtype)
        allowed.check_array(address, dataset.shape, dtype, stored, copied=copied and budget is not None)
    return dataset


def read_store(address: Address, budget: Budget, may_stay: bool) -> LabelledMatrix:
    """The matrix in HDF5 or Zarr: read into memory, or, with ``may_stay`` and above KEPT_SHARE, the open dataset."""
    dataset = open_dataset(address, Budget(budget.most_bytes), copied=not may_stay)
    kind = "zarr" if address.path.is_dir() else "hdf5"
    warnings = () if kind == "hdf5" else absent_chunks(dataset)
    values: Any = dataset
    size = prod(dataset.shape) * np.dtype(dataset.dtype).itemsize
    if not may_stay or size <= KEPT_SHARE * (budget.most_bytes or free_memory()):
        values = np.asarray(dataset[...])
    member = dataset.name if kind == "hdf5" else dataset.path
    return LabelledMatrix(values, kind, member=member or None, warnings=warnings)


def absent_chunks(array: Any) -> tuple[str, ...]:
    """A warning, in a tuple, if chunks of a Zarr array are absent: they read as the fill value, but may be lost.

    The tuple is empty if none is absent, or if the fill value is NaN.
    """
    fill = array.fill_value
    absent = int(array.nchunks) - int(array.nchunks_initialized)
    if absent <= 0 or (fill is not None and np.isnan(fill)):
        return ()
    return (f"{absent} of {array.nchunks} chunks are not in the Zarr store; they count as {fill}.",)


def _open_hdf5(address: Address) -> tuple[Any, int]:
    needed("h5py")
    import h5py

    if not h5py.is_hdf5(address.path):
        raise address.bad("it is not an HDF5 file.")
    file = h5py.File(address.path, "r")
    dataset = follow(address, file) if address.member else file[address.choose(datasets(file), "matrix")]
    if not isinstance(dataset, h5py.Dataset):
        inside = [f"{address.member}/{name}" for name in datasets(dataset)]
        address.choose(inside, "matrix")
    return dataset, check_dataset(address, dataset)


def check_dataset(address: Address, dataset: Any) -> int:
    """How many bytes an HDF5 dataset has in this file; a ValueError if its data lies in other files."""
    if dataset.external or dataset.is_virtual:
        raise address.bad("its data lies in other files, which are not opened. Copy it into one file first.")
    if dataset.shape is None:
        raise address.bad("it is an empty dataset.")
    return int(dataset.id.get_storage_size())


def follow(address: Address, file: Any) -> Any:
    """The object at the address, found one link at a time; a ValueError at a link to another file."""
    needed("h5py")
    import h5py

    place, steps = file, [step for step in (address.member or "").split("/") if step]
    for _ in range(100):
        if not steps:
            return place
        link = place.get(steps[0], getlink=True) if isinstance(place, h5py.Group) else None
        if link is None:
            raise address.bad(
                f"there is no {steps[0]!r} in it. It holds {', '.join(datasets(file)[:8]) or 'no matrix'}."
            )
        if isinstance(link, h5py.ExternalLink):
            raise address.bad("it is a link to another file, which is not opened.")
        if isinstance(link, h5py.SoftLink):
            place = file if link.path.startswith("/") else place
            steps = [step for step in link.path.split("/") if step] + steps[1:]
        else:
            place, steps = place[steps[0]], steps[1:]
    raise address.bad("its links lead in a circle.")


def datasets(group: Any, depth: int = 8) -> list[str]:
    """Paths of two-dimensional datasets below a group, along hard links, at most 8 levels deep; about 100 at most."""
    needed("h5py")
    import h5py

    found = []
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            continue
        item = group[name]
        if isinstance(item, h5py.Dataset):
            found += [name] if item.shape is not None and len(item.shape) == 2 else []
        elif depth and isinstance(item, h5py.Group):
            found += [f"{name}/{inner}" for inner in datasets(item, depth - 1)]
        if len(found) > 100:
            break
    return found


def _open_zarr(address: Address) -> tuple[Any, int]:
    needed("zarr")
    import zarr

    root = address.path.resolve()
    place = (root / (address.member or "").strip("/")).resolve()
    if not place.is_relative_to(root):
        raise address.bad("its path leads out of the store.")
    if not _is_array(place):
        names = sorted(str(Path(path.parent).relative_to(root)) for path in _array_files(place))
        place = root / address.choose([name for name in names if name != "."], "array")
    check_codecs(address, place)
    stored = _stored_bytes(address, place)
    inside = "" if place == root else place.relative_to(root).as_posix()
    return zarr.open_array(store=str(root), path=inside, mode="r"), stored


def _stored_bytes(address: Address, folder: Path) -> int:
    """How many bytes all files below a folder have; a ValueError if one is not a plain file.

    A symbolic link in the place of a chunk could lead to any file that this user may read, and a pipe may never end.
    """
    total, folders = 0, [os.fspath(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_size
                else:
                    place = os.path.relpath(entry.path, folder)
                    raise address.bad(
                        f"{place!r} in it is a symbolic link or no plain file, and not followed. Copy the store with "
                        "'cp -rL' first."
                    )
    return total


def _array_files(folder: Path) -> list[Path]:
    return [*folder.rglob(".zarray"), *(p for p in folder.rglob("zarr.json") if _is_array(p.parent))]


def _is_array(folder: Path) -> bool:
    if (folder / ".zarray").is_file():
        return True
    return _metadata(folder / "zarr.json").get("node_type") == "array"


def _metadata(path: Path) -> dict[str, Any]:
    if not path.is_file() or path.stat().st_size > MOST_METADATA:
        return {}
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def check_codecs(address: Address, folder: Path) -> None:
    """Refuse a Zarr array that is encoded with anything but ZARR_CODECS."""
    metadata = _metadata(folder / ".zarray") or _metadata(folder / "zarr.json")
    if not metadata:
        raise address.bad("its metadata is damaged.")
    if metadata.get("storage_transformers"):
        raise address.bad("its storage transformers are not known.")
    pipeline = [metadata.get(name) for name in ("compressor", "filters", "codecs")]
    for name in _names(pipeline):
        if name.lower().removeprefix("numcodecs.") not in ZARR_CODECS:
            raise address.bad(
                f"it is encoded with {name!r}, which is not among the codecs that are known to be safe."
            )


def _names(part: Any) -> list[str]:
    if isinstance(part, list):
        return [name for item in part for name in _names(item)]
    if isinstance(part, dict):
        own = [str(part[key]) for key in ("id", "name") if key in part]
        inner = part.get("configuration")
        nested = (
            _names([inner.get(key) for key in ("codecs", "index_codecs")]) if isinstance(inner, dict) else []
        )
        return own + nested
    return []
