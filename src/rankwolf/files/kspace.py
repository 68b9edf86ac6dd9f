"""k-space from files: NumPy arrays, BART's cfl and hdr, ISMRMRD's h5, read in the cell; images as npy, cfl or nii.

A series is one array (frames, coils, …image), complex, with zeros where nothing was measured. ``centred`` says that the
zero frequency is in the middle, as BART and scanners have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankwolf.files.address import Address
from rankwolf.files.cell import ask
from rankwolf.files.door import check_memory, most_memory, open_foreign, stored_bytes
from rankwolf.files.readers import follow
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed

# Kinds of files that hold k-space, beside .npy, and their endings.
KSPACE_KINDS = {"cfl": (".cfl", ".hdr"), "ismrmrd": (".h5", ".hdf5", ".mrd")}
# Which of BART's sixteen dimensions are coils and time; the first three are the places x, y, z.
COILS, TIME = 3, 10
# An acquisition of ISMRMRD with this bit among its flags measures noise.
NOISE_SCAN = 1 << 18


class KSpace(NamedTuple):
    """Measured values (frames, coils, …image), or samples (frames, coils, …) at ``points`` (frames, samples, 2)."""

    values: Array
    centred: bool
    points: Array | None = None
    image_shape: tuple[int, ...] | None = None


def read_kspace(address: Any, max_memory: int | None = None) -> KSpace:
    """The series in a file; a ValueError of one line if it cannot be read.

    A ``.npy`` is (frames, height, width), or (frames, coils, …image) with four dimensions or more.
    """
    values, words, arrays = _ask(address, "series", max_memory)
    shape = words.get("image_shape")
    return KSpace(values, words["centred"], arrays.get("points"), None if shape is None else tuple(shape))


def read_array(address: Any, max_memory: int | None = None) -> tuple[Array, bool]:
    """(array, whether BART's) for masks, maps, trajectories: ``.npy`` as it is, cfl turned and without axes of 1."""
    values, words, _ = _ask(address, "array", max_memory)
    return values, bool(words["centred"])


def _ask(address: Any, what: str, max_memory: int | None) -> tuple[Array, Any, dict[str, Array]]:
    address = Address.parse(address)
    if not address.path.exists() and address.path.with_suffix(".cfl").exists():
        address = Address(address.path.with_suffix(".cfl"))  # BART names files without an ending
    endings = (".npy", *KSPACE_KINDS["cfl"], *KSPACE_KINDS["ismrmrd"])
    if not address.path.name.lower().endswith(endings):
        raise address.bad(f"its ending is not known. Known are {', '.join(endings)}.")
    stored = stored_bytes(address)
    if address.path.suffix == ".hdr":
        stored = stored_bytes(Address(address.path.with_suffix(".cfl")))
    most = most_memory(stored, max_memory)
    request = {"what": what, "most": most, "words": "a file of k-space"}
    words, arrays = ask("rankwolf.files.kspace:measured", request, address, stored, most)
    return arrays["values"], words, arrays


def measured(address: Address, request: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Array]]]:
    """The job in the cell."""
    ending, series = address.path.suffix.lower(), request["what"] == "series"
    if ending in KSPACE_KINDS["cfl"]:
        values = _bart(address, request["most"])
        yield {"centred": True}, {"values": _bart_series(values) if series else np.squeeze(values).T}
    elif ending in KSPACE_KINDS["ismrmrd"]:
        yield _ismrmrd(address, request["most"])
    else:
        with open_foreign(address) as file:
            values = np.load(file, allow_pickle=False)
        if values.dtype.kind not in "biufc" or values.size == 0:
            raise address.bad(f"it must hold numbers. Its type is {values.dtype}, its shape {values.shape}.")
        if series and values.ndim < 3:
            raise address.bad(f"k-space must be (frames, coils, …image). Its shape is {values.shape}.")
        values = values[:, None] if series and values.ndim == 3 else values
        yield {"centred": False}, {"values": np.asarray(values)}


def _bart(address: Address, most: int) -> Array:
    """All dimensions of a cfl file, whose header is a text beside it; numbers are complex64 in Fortran's order."""
    header, data = (Address(address.path.with_suffix(ending)) for ending in (".hdr", ".cfl"))
    with open_foreign(header) as file:
        lines = file.read(2**16).decode("ascii", "replace").splitlines()
    places = [k for k, line in enumerate(lines) if line.strip() == "# Dimensions"]
    if not places or places[0] + 1 >= len(lines):
        raise header.bad("it has no line '# Dimensions'.")
    shape = tuple(map(int, lines[places[0] + 1].split()))
    if not shape or min(shape) < 1 or len(shape) > 16:
        raise header.bad(f"its dimensions are {shape}.")
    count = prod(shape)
    check_memory(data, 8 * count, most)
    with open_foreign(data) as file:
        values = np.fromfile(file, "<c8", count)
    if values.size != count:
        raise data.bad(f"it has {values.size} numbers where its header says {count}.")
    return values.reshape(shape + (1,) * (16 - len(shape)), order="F")


def _bart_series(values: Array) -> Array:
    """(frames, coils, z, y, x) of BART's dimensions, without a z of length 1; the others must have length 1."""
    places = (TIME, COILS, 2, 1, 0)
    rest = [k for k in range(16) if k not in places]
    long = [k for k in rest if values.shape[k] > 1]
    if long:
        raise ValueError(
            f"dimension {long[0]} has length {values.shape[long[0]]}; only 0 to 3 and 10 are read"
        )
    series = values.transpose(*places, *rest).reshape([values.shape[k] for k in places])
    return np.ascontiguousarray(series[:, :, 0] if series.shape[2] == 1 else series)


def _ismrmrd(address: Address, most: int) -> tuple[Any, dict[str, Array]]:
    """Cartesian lines put on their grid, or the samples of a trajectory with their places."""
    h5py = needed("h5py")
    with h5py.File(address.path, "r") as file:
        group = address.member or ("dataset" if "dataset" in file else address.choose(list(file), "group"))
        found = follow(address, file, f"{group}/data")
        if not {"head", "traj", "data"} <= set(found.dtype.names or ()):
            raise address.bad("it is no ISMRMRD file: its 'data' has no head, traj and data.")
        lines = [line for line in found[...] if not int(line["head"]["flags"]) & NOISE_SCAN]
    if not lines:
        raise address.bad("it holds no measurement.")
    heads = np.array([line["head"] for line in lines])
    counts, index = heads[["active_channels", "number_of_samples", "trajectory_dimensions"]], heads["idx"]
    if (counts != counts[0]).any():
        raise address.bad("its acquisitions have different numbers of channels or samples.")
    coils, samples, dimensions = map(int, counts[0])
    order = index["phase"] if np.ptp(index["phase"]) else index["repetition"]
    frames = np.unique(order, return_inverse=True)[1]
    count = int(frames.max()) + 1
    data = np.stack([np.asarray(line["data"], "<f4").view("<c8").reshape(coils, samples) for line in lines])
    if dimensions:
        if np.ptp(np.bincount(frames)):
            raise address.bad(
                "its frames have different numbers of spokes, which only rankwolf.recover in Python takes."
            )
        chosen = np.argsort(frames, kind="stable")
        points = np.stack(
            [np.asarray(lines[k]["traj"], np.float64).reshape(samples, dimensions) for k in chosen]
        )
        spokes = np.swapaxes(data[chosen].reshape(count, -1, coils, samples), 1, 2)
        side = int(heads[0]["center_sample"]) * 2 or samples
        return (
            {"centred": True, "image_shape": [side, side]},
            {
                "values": spokes.reshape(count, coils, -1),
                "points": points.reshape(count, -1, dimensions)[..., ::-1],
            },
        )
    rows, depths = index["kspace_encode_step_1"], index["kspace_encode_step_2"]
    shape = (count, coils, int(depths.max()) + 1, int(rows.max()) + 1, samples)
    check_memory(address, 8 * prod(shape), most)
    grid = np.zeros(shape, np.complex64)
    grid[frames, :, depths, rows] = data
    return {"centred": True}, {"values": grid[:, :, 0] if shape[2] == 1 else grid}


def write_images(path: Path, images: Array, kind: str) -> None:
    """(frames, …image) as ``path`` with the ending of ``kind``: npy, cfl with its hdr, or nii (magnitudes).

    NIfTI and BART have the place first and time last: (x, y, z, frame), and BART's dimension 10.
    """
    if kind == "npy":
        np.save(path.with_suffix(".npy"), images)
        return
    turned = images.T  # (…places, frames), the fastest first
    places = turned.shape[:-1] + (1,) * (3 - (turned.ndim - 1))
    if kind == "nii":
        nibabel = needed("nibabel")
        volume = np.abs(turned).astype(np.float32).reshape(*places, turned.shape[-1])
        nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), path.with_suffix(".nii"))
        return
    shape = (*places, *([1] * 7), turned.shape[-1], *([1] * 5))
    path.with_suffix(".hdr").write_text(f"# Dimensions\n{' '.join(map(str, shape))}\n", encoding="ascii")
    np.asarray(turned, "<c8").ravel(order="F").tofile(path.with_suffix(".cfl"))
