"""Frames in an array file, .npy or .npz, read one by one."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from rankwolf.video.reading.base import Array, Reader, Selection
from rankwolf.video.reading.image_folder import fit_image


class ArrayReader(Reader):
    """Frames in a .npy or .npz file, of shape (frames, height, width) or (frames, height, width, 3)."""

    kind = "array"

    def __init__(self, path: Path, selection: Selection) -> None:
        self._path = path
        shape = self._open()[1]
        super().__init__(path, selection, (shape[1], shape[2]), shape[0])

    def _open(self) -> tuple[Any, tuple[int, ...]]:
        """The frames, one after the other, and the shape of them all; nothing is read yet."""
        try:
            frames, shape = _npz(self._path) if self._path.suffix.lower() == ".npz" else _npy(self._path)
        except (ValueError, zipfile.BadZipFile, EOFError) as error:
            raise ValueError(f"{str(self._path)!r} is not an array of frames: {error}") from error
        return frames, shape

    def read(self, numbers: range) -> Iterator[Array]:
        """Frame by frame, so that a compressed file is never in memory as a whole."""
        frames, _ = self._open()
        for frame in islice(frames, numbers.start, numbers.stop, numbers.step):
            yield self._picture(frame)

    def _picture(self, frame: Array) -> Array:
        from PIL import Image

        pixels = as_uint8(frame, self._path)
        if pixels.shape == (self.height, self.width) and self.channels == 1:
            return pixels
        return fit_image(Image.fromarray(pixels), self.width, self.height, self.channels)


def as_uint8(frame: Array, path: Path) -> Array:
    """Gray levels from 0 to 255 as uint8, whatever real type they were stored in."""
    if frame.dtype == np.uint8:
        return np.ascontiguousarray(frame)
    if frame.dtype.kind not in "biuf":
        raise ValueError(
            f"The frames in {str(path)!r} must be real numbers. Got dtype {frame.dtype} instead."
        )
    low, high = (float(frame.min()), float(frame.max())) if frame.size else (0.0, 0.0)
    if not (low >= 0.0 and high <= 255.0):  # NaN as well
        raise ValueError(
            f"The frames in {str(path)!r} must be gray levels from 0 to 255. Got {low:g} to {high:g}."
        )
    if frame.dtype.kind == "f" and 0.0 < high <= 1.0:
        raise ValueError(f"The frames in {str(path)!r} lie between 0 and 1: multiply them by 255 first.")
    return np.rint(frame).astype(np.uint8)


def _npy(path: Path) -> tuple[Iterator[Array], tuple[int, ...]]:
    frames = np.load(path, mmap_mode="r", allow_pickle=False)  # a false header fails at once
    return iter(frames), _check_shape(frames.shape)


def _npz(path: Path) -> tuple[Iterator[Array], tuple[int, ...]]:
    """The member named ``frames``, or the only one."""
    with zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
    names = [info.filename.removesuffix(".npy") for info in members]
    if "frames" not in names and len(names) != 1:
        raise ValueError(
            f"it must hold one array, or one named 'frames'. It holds {', '.join(names) or 'none'}."
        )
    member = members[names.index("frames") if "frames" in names else 0]
    with zipfile.ZipFile(path) as archive, archive.open(member) as file:
        shape, dtype = _header(file)
        if int(np.prod(shape)) * dtype.itemsize > member.file_size:
            raise ValueError("its header claims more numbers than the file holds.")
    return _stream(path, member), shape


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its format {version} is not known.")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(file)
    if fortran_order or dtype.hasobject:
        raise ValueError("its frames must lie one after the other, as plain numbers.")
    return _check_shape(shape), dtype


def _stream(path: Path, member: zipfile.ZipInfo) -> Iterator[Array]:
    with zipfile.ZipFile(path) as archive, archive.open(member) as file:
        shape, dtype = _header(file)
        size = int(np.prod(shape[1:])) * dtype.itemsize
        for number in range(shape[0]):
            try:
                content = file.read(size)
            except (zipfile.BadZipFile, zlib.error, EOFError) as error:
                raise ValueError(f"{str(path)!r} is damaged at frame {number}: {error}") from error
            yield np.frombuffer(content, dtype).reshape(shape[1:])


def _check_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    if not (len(shape) == 3 or (len(shape) == 4 and shape[3] == 3)) or 0 in shape:
        raise ValueError(
            f"its shape must be (frames, height, width) or (frames, height, width, 3), not {shape}."
        )
    return shape
