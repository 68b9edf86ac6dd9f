"""Frames in an array file, .npy or .npz, read one by one."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

from rankwolf.files.address import Address
from rankwolf.files.door import open_foreign, open_zip, stored_bytes
from rankwolf.files.npz import Header, read_header
from rankwolf.files.readers import REAL_KINDS
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed
from rankwolf.video.reading.base import Reader, Selection
from rankwolf.video.reading.image_folder import fit_image

# Frames are read one by one, so that a file may hold more than the memory.
MOST_BYTES = 2**62


class ArrayReader(Reader):
    """Frames in a .npy or .npz file, of shape (frames, height, width) or (frames, height, width, 3)."""

    kind, words = "array", "an array of frames"

    def __init__(self, path: Path, selection: Selection) -> None:
        self._address = Address(path)
        with self._opened() as (header, _):
            shape = header.shape
        super().__init__(path, selection, (shape[1], shape[2]), shape[0], len(shape) == 4)

    def read(self, numbers: range) -> Iterator[Array]:
        """The pictures of these frames, one by one: a compressed file is never in memory as a whole."""
        self._refuse_fractions()
        with self._opened() as (_, frames):
            for frame in islice(frames, numbers.start, numbers.stop, numbers.step):
                yield self._picture(frame)

    def _refuse_fractions(self) -> None:
        """A ValueError if no frame leaves the range 0 to 1, unless all are black: the levels should be 0 to 255.

        Reads up to the first frame with a level above 1, usually one frame; integers are not read at all.
        """
        with self._opened() as (header, frames):
            if header.dtype.kind != "f":
                return
            brightest = 0.0
            for frame in frames:
                brightest = max(brightest, float(frame.max()))
                if brightest > 1.0 or not frame.min() >= 0.0:  # also for NaN, about which as_uint8 complains
                    return
        if brightest > 0.0:
            raise self._address.bad("its frames lie between 0 and 1: multiply them by 255 first.")

    @contextmanager
    def _opened(self) -> Iterator[tuple[Header, Iterator[Array]]]:
        """(header, frames): the header of the file's array, and an iterator over its frames, while the block lasts."""
        address = self._address
        with open_foreign(address) as file:
            if address.path.suffix.lower() != ".npz":
                header = _checked(address, read_header(address, file, stored_bytes(address)))
                order = "F" if header.fortran_order else "C"
                yield header, iter(np.memmap(file, header.dtype, "r", file.tell(), header.shape, order))  # type: ignore[call-overload]
                return
            with open_zip(address, file, MOST_BYTES) as archive:
                names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
                name = "frames" if "frames" in names else address.choose(names, "array named 'frames'")
                with archive.open(f"{name}.npy") as member:
                    header = read_header(address, member, archive.getinfo(f"{name}.npy").file_size)
                    if header.fortran_order:
                        raise address.bad("its frames must lie one after the other.")
                    yield _checked(address, header), _read(address, member, header)

    def _picture(self, frame: Array) -> Array:
        needed("PIL")
        from PIL import Image

        pixels = as_uint8(frame, self._address)
        if pixels.shape == (self.height, self.width) and self.channels == 1:
            return pixels
        return fit_image(Image.fromarray(pixels), self.width, self.height, self.channels)


def as_uint8(frame: Array, address: Address) -> Array:
    """A frame of any real type as uint8, rounded; a ValueError for levels outside 0 to 255."""
    if frame.dtype == np.uint8:
        return np.ascontiguousarray(frame)
    low, high = float(frame.min()), float(frame.max())
    if not (low >= 0.0 and high <= 255.0):  # NaN as well
        raise address.bad(f"its frames must be gray levels from 0 to 255. Got {low:g} to {high:g}.")
    return np.rint(frame).astype(np.uint8)


def _checked(address: Address, header: Header) -> Header:
    shape, dtype = header.shape, header.dtype
    if not (len(shape) == 3 or (len(shape) == 4 and shape[3] == 3)) or 0 in shape:
        raise address.bad(
            f"its shape must be (frames, height, width) or (frames, height, width, 3), not {shape}."
        )
    if dtype.kind not in REAL_KINDS:
        raise address.bad(f"its frames must be real numbers. Got dtype {dtype} instead.")
    return header


def _read(address: Address, file: IO[bytes], header: Header) -> Iterator[Array]:
    """The frames in ``file`` from its present place on, one by one, in the stored type."""
    shape = header.shape[1:]
    size = prod(shape) * header.dtype.itemsize
    for number in range(header.shape[0]):
        try:
            frame = np.frombuffer(file.read(size), header.dtype).reshape(shape)
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
            raise address.bad(f"it is damaged at frame {number} ({error}).") from error
        yield frame
