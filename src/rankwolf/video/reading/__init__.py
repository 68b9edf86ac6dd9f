"""Where frames come from: a video file, a folder of images or a pattern of their names, an array of frames.

A reader knows the size of its pictures before it decodes any, yields each selected frame once as a uint8 array of
shape (height, width) or (height, width, 3), and can tell afterwards what was damaged. Videos and images are decoded in
the cell (:mod:`rankwolf.files.cell`), never in this process.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

from rankwolf.files.address import Address
from rankwolf.files.cell import Cell
from rankwolf.files.tables import Answer
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import require
from rankwolf.video.reading.array_file import ArrayReader
from rankwolf.video.reading.base import Moment, Reader, Selection
from rankwolf.video.reading.image_folder import ImageReader
from rankwolf.video.reading.video_file import VideoReader

__all__ = ["Moment", "Reader", "Selection", "is_pattern", "open_frames"]


def open_frames(path: Path, selection: Selection) -> Reader:
    """The reader of a folder or pattern of images, of .npy or .npz, and of anything else as a video.

    A folder of CDnet, with ``input`` and ``groundtruth`` in it, stands for its ``input``.
    """
    if (path / "input").is_dir() and (path / "groundtruth").is_dir():
        path = path / "input"
    if path.is_dir() or is_pattern(path):
        return ReaderInCell(path, selection, ImageReader)
    path.stat()  # raises the system's own error for a name that does not exist
    if path.suffix.lower() in (".npy", ".npz"):
        with Address(path).reading(ArrayReader.words):
            return ArrayReader(path, selection)
    return ReaderInCell(path, selection, VideoReader)


def is_pattern(path: Path) -> bool:
    """Whether a path is a pattern for several files, such as ``cam/*.jpg``, and not the name of a file that exists."""
    return not path.exists() and bool(set(str(path)) & set("*?["))


class ReaderInCell(Reader):
    """The frames that a reader in the cell decodes, as they come out of it."""

    def __init__(self, path: Path, selection: Selection, kind: type[ImageReader] | type[VideoReader]) -> None:
        require("PIL" if kind is ImageReader else "av")
        self.kind, self.words = kind.kind, kind.words
        request = {"kind": kind.kind, "words": kind.words, "selection": asdict(selection)}
        self._cell = Cell("rankwolf.video.reading:frames", request, Address(path), 2 * 10**7, None)
        weakref.finalize(self, self._cell.close)
        self._messages = iter(self._cell)
        about = next(self._messages)[0]
        super().__init__(path, selection, (1, 1), about["count"])
        self.height, self.width, self.channels = about["shape"]
        self.rate, self.aspect = (None if pair is None else Fraction(*pair) for pair in about["fractions"])
        self.names, self._estimate = about["names"], about["estimate"]
        self._damage: tuple[str, bool] | None = None

    @property
    def estimate(self) -> int | None:
        """As the reader in the cell says."""
        return super().estimate if self._estimate is None else int(self._estimate)

    def read(self, numbers: range) -> Iterator[Array]:
        """The pictures, uint8, in order; each reader gives them once."""
        for words, arrays in self._messages:
            self.damaged = words["damaged"]
            if "picture" not in arrays:
                self._damage = words["damage"] and tuple(words["damage"])
                break
            yield arrays["picture"]
        self._cell.close()

    def damage(self) -> tuple[str, bool] | None:
        """As the reader in the cell says."""
        return self._damage


def frames(address: Address, request: dict[str, Any]) -> Iterator[Answer]:
    """The job in the cell: what is known beforehand, each picture, and what was damaged."""
    given = request["selection"]
    start, end = (moment and Moment(**moment) for moment in (given.pop("start"), given.pop("end")))
    selection = Selection(start, end, **given)
    reader = (ImageReader if request["kind"] == ImageReader.kind else VideoReader)(address.path, selection)
    about = {
        "shape": (reader.height, reader.width, reader.channels),
        "fractions": [
            None if value is None else (value.numerator, value.denominator)
            for value in (reader.rate, reader.aspect)
        ],
        "names": reader.names,
        "count": reader.count,
        "estimate": _estimate(reader),
    }
    yield about, {}
    for picture in reader.read(reader.numbers):
        reader.decoded += 1
        yield {"damaged": reader.damaged}, {"picture": picture}
    yield {"damaged": reader.damaged, "damage": reader.damage()}, {}


def _estimate(reader: Reader) -> int | None:
    try:
        return reader.estimate
    except ValueError:  # the selection does not fit; whoever reads is told so
        return None
