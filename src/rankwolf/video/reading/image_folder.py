"""The images of a folder as frames, read by Pillow."""

from __future__ import annotations

import glob
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rankwolf.files.address import Address, RefusedError
from rankwolf.files.door import open_image
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed
from rankwolf.video.reading.base import Reader, Selection, is_colored

# How many images of more than 8 bits are looked at to find how many bits they use.
DEEP_SAMPLE = 16
# The EXIF tag that says how a camera was held, from 1 to 8: 1 is upright; from 5 on height and width are exchanged.
ORIENTATION, UPRIGHT, LYING = 0x0112, 1, 5
# Kinds of images whose EXIF tags Pillow reads without decoding the image.
WITH_EXIF = ("JPEG", "MPO", "TIFF", "WEBP")
IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp")


class ImageReader(Reader):
    """The images of a folder, or of a pattern, in the natural order of their paths: 2.png comes before 10.png."""

    kind, words = "images", "a folder of images"

    def __init__(self, path: Path, selection: Selection) -> None:
        found = path.iterdir() if path.is_dir() else map(Path, glob.iglob(str(path), recursive=True))
        self._files = sorted(
            (file for file in found if file.suffix.lower() in IMAGES and not file.name.startswith(".")),
            key=lambda file: natural_key(str(file)),
        )
        if not self._files:
            what = "the folder" if path.is_dir() else "the pattern"
            raise Address(path).bad(f"{what} has no images ({', '.join(IMAGES)}).")
        width, height = self._common_size()
        self.names = [file.name for file in self._files]
        self._levels = self._range()
        colored = selection.color is None and self._colored(self._files[0])
        super().__init__(path, selection, (height, width), len(self._files), colored)

    def _common_size(self) -> tuple[int, int]:
        """(width, height) of all images, from their headers alone; a ValueError if they differ."""
        first = self._size(self._files[0])
        for file in self._files[1:]:
            if (size := self._size(file)) != first:
                raise Address(file.parent).bad(
                    f"the images of a folder must have one size. {self._files[0].name!r} is {first[0]} × {first[1]}, "
                    f"{file.name!r} is {size[0]} × {size[1]}."
                )
        return first

    def _range(self) -> tuple[int, int]:
        """The darkest and the brightest level of images of more than 8 bits, from some of them; else (0, 255).

        A thermal camera uses a few hundred of its 65536 levels. They become 0 to 255; a range that is narrower keeps
        its steps.
        """
        darkest, brightest = 2**31, 0
        for file in self._files[:: -(-len(self._files) // DEEP_SAMPLE)]:
            with open_image(file, file.parent) as image:
                if image.mode == "F":
                    raise Address(file).bad("its pixels are fractions. Save the images with 8 or 16 bits.")
                if not image.mode.startswith("I"):
                    return 0, 255
                try:
                    levels = np.asarray(image)
                except (OSError, ValueError, SyntaxError):  # reading it will say so
                    continue
                darkest, brightest = min(darkest, int(levels.min())), max(brightest, int(levels.max()))
        return (0, 255) if brightest <= 255 else (darkest, max(brightest, darkest + 255))

    @staticmethod
    def _colored(file: Path) -> bool:
        """Whether an image is more than shades of gray; True also where it cannot be decoded."""
        with open_image(file, file.parent) as image:
            if image.mode in ("1", "L", "LA", "F") or image.mode.startswith("I"):
                return False
            try:
                rgb = np.asarray(image.convert("RGB"))
            except (OSError, ValueError, SyntaxError):  # reading it will say so
                return True
        return is_colored(rgb)

    @staticmethod
    def _size(file: Path) -> tuple[int, int]:
        with open_image(file, file.parent) as image:
            width, height = image.size
            lying = orientation(image) >= LYING
        return (height, width) if lying else (width, height)

    def read(self, numbers: range) -> Iterator[Array]:
        """The pictures of these images, decoded one by one."""
        for number in numbers:
            yield self._picture(self._files[number])

    def _picture(self, file: Path) -> Array:
        with open_image(file, file.parent) as image:
            try:
                return fit_image(image, self.width, self.height, self.channels, self._levels)
            except RefusedError:
                raise
            except Exception as error:  # Pillow's decoders raise what they like over damaged pixels
                raise Address(file).bad(f"the image is damaged ({error}). Replace or remove it.") from error


def natural_key(name: str) -> list[Any]:
    """A key for sorting names: digits compare as numbers, letters without regard to case.

    >>> sorted(["f10.png", "f2.png"], key=natural_key)
    ['f2.png', 'f10.png']
    """
    return [int(part) if part.isdecimal() else part.lower() for part in re.split(r"(\d+)", name)]


def orientation(image: Any) -> int:
    """How the camera was held, from 1 to 8 as EXIF counts; 1, upright, where no tag can be read."""
    if image.format not in WITH_EXIF:
        return UPRIGHT
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            held = image.getexif().get(ORIENTATION, UPRIGHT)
    except Exception:  # Pillow raises what it likes over damaged tags; the picture may be whole
        return UPRIGHT
    return held if held in range(1, 9) else UPRIGHT


def fit_image(
    image: Any, width: int, height: int, channels: int, levels: tuple[int, int] = (0, 65535)
) -> Array:
    """A Pillow image, upright, as uint8 pixels of this size and number of channels.

    Of more than 8 bits, the first of ``levels`` becomes 0 and the last 255.
    """
    needed("PIL")
    from PIL import Image, ImageOps

    if orientation(image) != UPRIGHT:
        image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):  # convert("L") would cut everything above 255
        deep = (np.asarray(image).astype(np.float64) - levels[0]) * (255.0 / (levels[1] - levels[0]))
        image = Image.fromarray(np.clip(np.rint(deep), 0, 255).astype(np.uint8))
    image = image.convert("RGB" if channels == 3 else "L")
    if image.size != (width, height):
        smaller = width < image.size[0]
        image = image.resize((width, height), Image.Resampling.BOX if smaller else Image.Resampling.BILINEAR)
    return np.asarray(image)
