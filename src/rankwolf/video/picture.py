"""A frame as a row of the matrix, and a row as a frame."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankwolf.files.door import open_image
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed


@dataclass(frozen=True, eq=False)
class Picture:
    """The geometry of a frame. ``region`` (height, width) is True inside the region of interest; None means everywhere.

    Pixels outside the region have no column in the matrix: they cost nothing and cannot disturb L. The three channels
    of a pixel are neighbouring columns, so that all share one L: they have the same light and the same objects, and one
    background for all of them has a third of the freedom of three separate ones.
    """

    height: int
    width: int
    channels: int = 1
    region: Array | None = None

    @property
    def pixels(self) -> int:
        """The number of pixels in the region."""
        return self.height * self.width if self.region is None else int(np.count_nonzero(self.region))

    @property
    def columns(self) -> int:
        """The length of a row of the matrix: pixels · channels."""
        return self.pixels * self.channels

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a frame as an array."""
        return (self.height, self.width) if self.channels == 1 else (self.height, self.width, self.channels)

    def to_row(self, frame: Array) -> Array:
        """The row of a frame: its pixels in the region, the channels of each side by side."""
        row: Array = frame.reshape(-1) if self.region is None else frame[self.region].reshape(-1)
        return row

    def to_frame(self, row: Array, outside: float = 0) -> Array:
        """The frame of a row; ``outside`` fills what is not in the region."""
        if self.region is None:
            return row.reshape(self.shape)
        frame = np.full(self.shape, outside, row.dtype)
        frame[self.region] = row.reshape((self.pixels, *self.shape[2:]))
        return frame

    def pixels_to_frame(self, values: Array, outside: float = 0) -> Array:
        """One number for each pixel of the region as an array (height, width); ``outside`` fills the rest."""
        return Picture(self.height, self.width, 1, self.region).to_frame(values, outside)


def read_region(path: Path, height: int, width: int) -> Array:
    """A region of interest from an image, (height, width): True where it is white, above 127 of 255.

    The image is resized to the frames, without blending.
    """
    needed("PIL")
    from PIL import Image

    with open_image(path, path.parent) as image:
        gray = image.convert("L").resize((width, height), Image.Resampling.NEAREST)
    region = np.asarray(gray) > 127
    if not region.any():
        raise ValueError(f"The mask {str(path)!r} is black everywhere: white marks the region of interest.")
    return region
