"""What runs in the cell: a matrix out of any kind of file, by the ordinary library of that kind.

Nothing here asks whether the file is damaged: a library that crashes, hangs or takes too much memory ends the cell.
What is checked is what a whole file may mean: links to other files, codecs that run code, indices out of range.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rankwolf.files.address import Address
from rankwolf.files.door import check_codecs, check_memory, open_foreign, open_zip, zarr_metadata
from rankwolf.files.tables import Answer, TableOptions, read_arrow, read_text, read_xlsx
from rankwolf.ground.extras import needed

REAL_KINDS = "biuf"
# At most so many names are looked up in a file for a message, and so deep.
MOST_NAMES, DEPTH = 100, 8
# Bytes that are read at once where all of a large file is looked at.
PORTION = 32 * 2**20


def matrix(address: Address, request: dict[str, Any]) -> Iterator[Answer]:
    """The job: the matrix at an address. ``request``: kind, options of tables, ``most`` bytes, and what may stay.

    Of what stays where it is, only the name comes out. ``look``: all of it is read once, so that whoever reads it in
    place meets nothing new.
    """
    kind, most = request["kind"], request["most"]
    options = TableOptions(**request["options"])
    if kind in ("hdf5", "zarr"):
        yield _stored(address, kind, request)
        return
    with open_foreign(address) as file:
        if kind.startswith(("csv", "tsv")):
            yield read_text(address, file, options, "\t" if kind.startswith("tsv") else ",")
        elif kind == "parquet":
            yield read_arrow(address, needed("pyarrow.parquet").ParquetFile(file).read(), options)
        elif kind == "feather":
            yield read_arrow(address, needed("pyarrow.feather").read_table(file, memory_map=False), options)
        elif kind in ("xlsx", "npz"):
            names = open_zip(address, file, most).namelist()
            file.seek(0)
            yield read_xlsx(address, file, options) if kind == "xlsx" else _npz(address, file, names)
        else:
            start = file.read(20)
            file.seek(0)
            is_hdf5 = b"MATLAB 7.3" in start or start.startswith(b"\x89HDF")
            yield _mat73(address, most) if is_hdf5 else _mat(address, file)


def check_matrix(address: Address, shape: tuple[int, ...], dtype: Any) -> None:
    """Refuse anything but real numbers in two dimensions, neither of them empty."""
    if np.dtype(dtype).kind not in REAL_KINDS:
        raise address.bad(f"it must hold real numbers. Its type is {dtype}.")
    if len(shape) != 2:
        remedy = " For frames there is 'rankwolf separate'." if len(shape) in (3, 4) else ""
        raise address.bad(f"it must be a matrix, with two dimensions. Its shape is {tuple(shape)}.{remedy}")
    if min(shape) < 1:
        raise address.bad(f"it must have at least one row and one column. Its shape is {tuple(shape)}.")


def _numbers(address: Address, found: Any, **words: Any) -> Answer:
    """A matrix of NumPy or SciPy. Every index of a sparse one is checked: a wrong one would crash a product."""
    check_matrix(address, found.shape, found.dtype)
    if isinstance(found, np.ndarray):
        return words, {"values": found}
    if found.format == "coo":
        for indices, side in zip(found.coords, found.shape, strict=True):
            if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < side:
                raise ValueError("an index is out of range")
    else:
        found.check_format(full_check=True)
    rows = found.tocsr()
    arrays = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    return {**words, "sparse": [int(side) for side in rows.shape]}, arrays


def _npz(address: Address, file: Any, members: list[str]) -> Answer:
    """The named array, the only array, or the matrix of ``scipy.sparse.save_npz``."""
    names = sorted(name.removesuffix(".npy") for name in members if name.endswith(".npy"))
    if address.member is None and {"format", "shape", "data"} <= set(names):
        from scipy.sparse import load_npz

        return _numbers(address, load_npz(file))
    with np.load(file, allow_pickle=False) as loaded:
        name = address.choose(names, "array")
        return _numbers(address, loaded[name], member=name)


# Matlab


def _mat(address: Address, file: Any) -> Answer:
    from scipy.io import loadmat, whosmat

    held = {name: (shape, kind) for name, shape, kind in whosmat(file)}
    strange = {name: kind for name, (_, kind) in held.items()
               if kind in ("char", "cell", "struct", "object", "function", "opaque")}  # fmt: skip
    if address.member in strange:
        raise address.bad(f"its class is {strange[address.member]}, which is no matrix of numbers.")
    numbers = [
        name for name, (shape, _) in held.items()
        if name == address.member or (name not in strange and len(shape) == 2 and max(shape) > 1)
    ]  # fmt: skip
    name = address.choose(numbers, "matrix")
    file.seek(0)
    return _numbers(address, loadmat(file, variable_names=[name])[name], member=name)


def _mat73(address: Address, most: int) -> Answer:
    """Matlab stores columns, HDF5 rows; a sparse matrix is a group of ``data``, ``ir`` (rows), ``jc`` (columns)."""
    h5py = needed("h5py")

    def is_matrix(item: Any) -> bool:
        if isinstance(item, h5py.Group):
            return "MATLAB_sparse" in item.attrs
        return (
            item.shape is not None
            and len(item.shape) == 2
            and item.dtype.kind in REAL_KINDS
            and item.size > 1
        )

    with h5py.File(address.path, "r") as file:
        hard = [name for name in file if isinstance(file.get(name, getlink=True), h5py.HardLink)]
        member = address.member or address.choose([name for name in hard if is_matrix(file[name])], "matrix")
        item = follow(address, file, member)
        words = {"member": member.strip("/"), "kind": "mat73"}
        if isinstance(item, h5py.Dataset):
            check_matrix(address, item.shape, item.dtype)
            return _numbers(address, held(address, item, most).T, **words)
        if "MATLAB_sparse" not in item.attrs:
            raise address.bad("it is a structure, not a matrix.")
        from scipy.sparse import csc_array

        # A matrix without entries has only jc. uint64, as Matlab writes them, would make SciPy's indices unsigned.
        parts = [
            held(address, follow(address, file, f"{item.name}/{name}"), most) if name in item else np.zeros(0)
            for name in ("data", "ir", "jc")
        ]
        data, rows, columns = (part.ravel() for part in parts)
        shape = (int(item.attrs["MATLAB_sparse"]), columns.size - 1)
        indices = (rows.astype(np.int64), columns.astype(np.int64))
        return _numbers(address, csc_array((data, *indices), shape=shape), **words)


# Stores


def _stored(address: Address, kind: str, request: dict[str, Any]) -> Answer:
    """The matrix in HDF5 or Zarr: its numbers, or only its name where it is to stay."""
    found = (_hdf5 if kind == "hdf5" else _zarr)(address)
    check_matrix(address, found.shape, found.dtype)
    nbytes = found.shape[0] * found.shape[1] * np.dtype(found.dtype).itemsize
    stays = request["stays"] is not None and nbytes > request["stays"]
    if (limit := request["plausible" if stays else "most"]) is not None:
        check_memory(address, nbytes, limit)
    words = {"member": (found.name if kind == "hdf5" else found.path) or None}
    words["warnings"] = absent_chunks(found) if kind == "zarr" else []
    if not stays:
        return _numbers(address, np.asarray(found[...]), **words)
    if request["look"]:
        step = max(1, PORTION * found.shape[0] // nbytes)
        for start in range(0, found.shape[0], step):
            found[start : start + step]
    return {**words, "stays": True}, {}


def held(address: Address, dataset: Any, most: int) -> Any:
    """The entries of a dataset as an array, if they take at most so many bytes."""
    check_memory(address, dataset.size * np.dtype(dataset.dtype).itemsize, most)
    return np.asarray(dataset[...])


def _hdf5(address: Address) -> Any:
    h5py = needed("h5py")
    if not h5py.is_hdf5(address.path):
        raise address.bad("it is not an HDF5 file.")
    file = h5py.File(address.path, "r")
    member = address.member or address.choose(datasets(file), "matrix")
    dataset = follow(address, file, member)
    if isinstance(dataset, h5py.Group):
        address.choose([f"{member}/{name}" for name in datasets(dataset)], "matrix")
    return dataset


def follow(address: Address, file: Any, member: str) -> Any:
    """The object ``member``, found one link at a time; a ValueError where it or its data lies in another file."""
    h5py = needed("h5py")
    place, steps = file, [step for step in member.split("/") if step]
    for _ in range(MOST_NAMES):
        if not steps:
            break
        link = place.get(steps[0], getlink=True) if isinstance(place, h5py.Group) else None
        if link is None:
            known = ", ".join(datasets(file)[:8]) or "no matrix"
            raise address.bad(f"there is no {steps[0]!r} in it. It holds {known}.")
        if isinstance(link, h5py.ExternalLink):
            raise address.bad("it is a link to another file, which is not opened.")
        if isinstance(link, h5py.SoftLink):
            place = file if link.path.startswith("/") else place
            steps = [step for step in link.path.split("/") if step] + steps[1:]
        else:
            place, steps = place[steps[0]], steps[1:]
    else:
        raise address.bad("its links lead in a circle.")
    if isinstance(place, h5py.Dataset):
        if place.external or place.is_virtual:
            raise address.bad(
                "its data lies in other files, which are not opened. Copy it into one file first."
            )
        if place.shape is None:
            raise address.bad("it is an empty dataset.")
    return place


def datasets(group: Any, depth: int = DEPTH) -> list[str]:
    """Paths of two-dimensional datasets below a group, along hard links; about MOST_NAMES at most."""
    h5py = needed("h5py")
    found = []
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            continue
        item = group[name]
        if isinstance(item, h5py.Dataset):
            found += [name] if item.shape is not None and len(item.shape) == 2 else []
        elif depth and isinstance(item, h5py.Group):
            found += [f"{name}/{inner}" for inner in datasets(item, depth - 1)]
        if len(found) > MOST_NAMES:
            break
    return found


def _zarr(address: Address) -> Any:
    root = address.path.resolve()
    place = (root / (address.member or "").strip("/")).resolve()
    if not place.is_relative_to(root):
        raise address.bad("its path leads out of the store.")
    if not zarr_metadata(place):
        files = [*place.rglob(".zarray"), *place.rglob("zarr.json")]
        names = sorted({str(file.parent.relative_to(root)) for file in files if zarr_metadata(file.parent)})
        place = root / address.choose([name for name in names if name != "."], "array")
    check_codecs(address, place)
    return open_in_place(root, "" if place == root else place.relative_to(root).as_posix())


def absent_chunks(array: Any) -> list[str]:
    """A warning, in a list, if chunks of a Zarr array are absent: they read as the fill value, but may be lost.

    The list is empty if none is absent, or if the fill value is NaN.
    """
    fill = array.fill_value
    absent = int(array.nchunks) - int(array.nchunks_initialized)
    if absent <= 0 or (fill is not None and np.isnan(fill)):
        return []
    return [f"{absent} of {array.nchunks} chunks are not in the Zarr store; they count as {fill}."]


def open_in_place(path: Path, member: str | None) -> Any:
    """The dataset of a store that the cell has looked at, to be read in place."""
    if path.is_dir():
        return needed("zarr").open_array(store=str(path.resolve()), path=member or "", mode="r")
    return needed("h5py").File(path, "r")[member]
