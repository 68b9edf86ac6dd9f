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
from rankwolf.ground.arrays import Array
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
        if kind in ("csv", "csv.gz", "tsv", "tsv.gz"):
            yield read_text(address, file, options, "\t" if kind.startswith("tsv") else ",")
        elif kind == "parquet":
            yield read_arrow(address, needed("pyarrow.parquet").ParquetFile(file).read(), options)
        elif kind == "feather":
            yield read_arrow(address, needed("pyarrow.feather").read_table(file, memory_map=False), options)
        elif kind == "xlsx":
            open_zip(address, file, most).close()
            file.seek(0)
            yield read_xlsx(address, file, options)
        elif kind == "npz":
            with open_zip(address, file, most) as archive:
                names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
            file.seek(0)
            yield _npz(address, file, names)
        else:
            start = file.read(20)
            file.seek(0)
            is_hdf5 = b"MATLAB 7.3" in start or start.startswith(b"\x89HDF")
            yield _mat73(address, most) if is_hdf5 else _mat(address, file)


def _dense(address: Address, values: Any, most: int, **words: Any) -> Answer:
    check_matrix(address, values.shape, values.dtype)
    check_memory(address, values.size * values.dtype.itemsize, most)
    return words, {"values": np.asarray(values[...])}


def check_matrix(address: Address, shape: tuple[int, ...], dtype: Any) -> None:
    """Refuse anything but real numbers in two dimensions, neither of them empty."""
    if np.dtype(dtype).kind not in REAL_KINDS:
        raise address.bad(f"it must hold real numbers. Its type is {dtype}.")
    if len(shape) != 2:
        remedy = " For frames there is 'rankwolf separate'." if len(shape) in (3, 4) else ""
        raise address.bad(f"it must be a matrix, with two dimensions. Its shape is {tuple(shape)}.{remedy}")
    if min(shape) < 1:
        raise address.bad(f"it must have at least one row and one column. Its shape is {tuple(shape)}.")


def _sparse(address: Address, found: Any, **words: Any) -> Answer:
    """A sparse matrix as its three arrays. Every index is checked: a wrong one would crash a product."""
    if found.dtype.kind not in REAL_KINDS:
        raise address.bad(f"it must hold real numbers. Its type is {found.dtype}.")
    check_matrix(address, found.shape, found.dtype)
    if found.format == "coo":
        for indices, side in zip(found.coords, found.shape, strict=True):
            if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < side:
                raise ValueError("an index is out of range")
    else:
        found.check_format(full_check=True)
    rows = found.tocsr()
    arrays = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    return {**words, "sparse": [int(side) for side in rows.shape]}, arrays


def _npz(address: Address, file: Any, names: list[str]) -> Answer:
    """The named array, the only array, or the matrix of ``scipy.sparse.save_npz``."""
    if address.member is None and {"format", "shape", "data"} <= set(names):
        from scipy.sparse import load_npz

        return _sparse(address, load_npz(file))
    with np.load(file, allow_pickle=False) as loaded:
        name = address.choose(sorted(names), "array")
        values = loaded[name]
    check_matrix(address, values.shape, values.dtype)
    return {"member": name}, {"values": values}


# Matlab


def _mat(address: Address, file: Any) -> Answer:
    from scipy.io import loadmat, whosmat
    from scipy.sparse import issparse

    held = {name: (shape, kind) for name, shape, kind in whosmat(file)}
    numbers = [
        name
        for name, (shape, kind) in held.items()
        if len(shape) == 2
        and max(shape) > 1
        and kind not in ("char", "cell", "struct", "object", "function", "opaque")
    ]
    name = address.member if address.member in held else address.choose(numbers, "matrix")
    if name not in numbers and held[name][1] in ("char", "cell", "struct", "object", "function", "opaque"):
        raise address.bad(f"its class is {held[name][1]}, which is no matrix of numbers.")
    file.seek(0)
    found = loadmat(file, variable_names=[name])[name]
    if issparse(found):
        return _sparse(address, found, member=name)
    check_matrix(address, found.shape, found.dtype)
    return {"member": name}, {"values": found}


def _mat73(address: Address, most: int) -> Answer:
    h5py = needed("h5py")
    with h5py.File(address.path, "r") as file:
        names = [
            name
            for name in file
            if isinstance(file.get(name, getlink=True), h5py.HardLink) and _is_matrix(h5py, file[name])
        ]
        named = (
            address
            if address.member
            else Address(address.path, address.choose(names, "matrix"), address.shown)
        )
        item = follow(named, file)
        member = str(named.member).strip("/")
        if not isinstance(item, h5py.Group):
            check_place(named, item)
            check_matrix(named, item.shape, item.dtype)
            check_memory(named, item.size * item.dtype.itemsize, most)
            return {"member": member, "hdf5": True}, {
                "values": np.asarray(item[...]).T
            }  # Matlab stores columns, HDF5 rows
        if "MATLAB_sparse" not in item.attrs:
            raise named.bad("it is a structure, not a matrix.")
        from scipy.sparse import csc_array

        # Compressed columns: data, ir (rows), jc (where columns begin). A matrix without entries has only jc.
        parts: list[Array] = [np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64)]
        for place, name in enumerate(("data", "ir", "jc")):
            if name in item:
                part = follow(Address(address.path, f"{item.name}/{name}"), file)
                check_place(named, part)
                check_memory(named, part.size * part.dtype.itemsize, most)
                parts[place] = np.asarray(part[...]).ravel()
        shape = (int(item.attrs["MATLAB_sparse"]), parts[2].size - 1)
        # uint64, as Matlab writes them, would make SciPy's indices unsigned.
        indices = (parts[1].astype(np.int64), parts[2].astype(np.int64))
        return _sparse(named, csc_array((parts[0], *indices), shape=shape), member=member, hdf5=True)


def _is_matrix(h5py: Any, item: Any) -> bool:
    if isinstance(item, h5py.Group):
        return "MATLAB_sparse" in item.attrs
    return item.shape is not None and len(item.shape) == 2 and item.dtype.kind in "biuf" and item.size > 1


# Stores


def _stored(address: Address, kind: str, request: dict[str, Any]) -> Answer:
    """The matrix in HDF5 or Zarr: its numbers, or only its name where it is to stay."""
    found = (_hdf5 if kind == "hdf5" else _zarr)(address)
    member = (found.name if kind == "hdf5" else found.path) or None
    check_matrix(address, found.shape, found.dtype)
    nbytes = found.shape[0] * found.shape[1] * np.dtype(found.dtype).itemsize
    stays = request["stays"] is not None and nbytes > request["stays"]
    limit = request["plausible"] if stays else request["most"]
    if limit is not None:
        check_memory(address, nbytes, limit)
    words = {"member": member, "warnings": absent_chunks(found) if kind == "zarr" else []}
    if stays:
        if request["look"]:
            step = max(1, PORTION * found.shape[0] // nbytes)
            for start in range(0, found.shape[0], step):
                found[start : start + step]
        return {**words, "stays": True}, {}
    return _dense(address, found, request["most"], **words)


def _hdf5(address: Address) -> Any:
    h5py = needed("h5py")
    if not h5py.is_hdf5(address.path):
        raise address.bad("it is not an HDF5 file.")
    file = h5py.File(address.path, "r")
    dataset = follow(address, file) if address.member else file[address.choose(datasets(file), "matrix")]
    if not isinstance(dataset, h5py.Dataset):
        address.choose([f"{address.member}/{name}" for name in datasets(dataset)], "matrix")
    check_place(address, dataset)
    return dataset


def check_place(address: Address, dataset: Any) -> None:
    """Refuse an HDF5 dataset whose data lies in other files, or that is empty."""
    if dataset.external or dataset.is_virtual:
        raise address.bad("its data lies in other files, which are not opened. Copy it into one file first.")
    if dataset.shape is None:
        raise address.bad("it is an empty dataset.")


def follow(address: Address, file: Any) -> Any:
    """The object at the address, found one link at a time; a ValueError at a link to another file."""
    h5py = needed("h5py")
    place, steps = file, [step for step in (address.member or "").split("/") if step]
    for _ in range(MOST_NAMES):
        if not steps:
            return place
        link = place.get(steps[0], getlink=True) if isinstance(place, h5py.Group) else None
        if link is None:
            held = ", ".join(datasets(file)[:8]) or "no matrix"
            raise address.bad(f"there is no {steps[0]!r} in it. It holds {held}.")
        if isinstance(link, h5py.ExternalLink):
            raise address.bad("it is a link to another file, which is not opened.")
        if isinstance(link, h5py.SoftLink):
            place = file if link.path.startswith("/") else place
            steps = [step for step in link.path.split("/") if step] + steps[1:]
        else:
            place, steps = place[steps[0]], steps[1:]
    raise address.bad("its links lead in a circle.")


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
    inside = "" if place == root else place.relative_to(root).as_posix()
    return needed("zarr").open_array(store=str(root), path=inside, mode="r")


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
