"""Where frames come from: a video file, a folder of images or a pattern of their names, an array of frames.

A reader knows the size of its pictures before it decodes any, yields each selected frame once as a uint8 array of
shape (height, width) or (height, width, 3), and can tell afterwards what was damaged.
"""

from __future__ import annotations

from pathlib import Path

from rankwolf.files.address import Address
from rankwolf.video.reading.array_file import ArrayReader
from rankwolf.video.reading.base import Moment, Reader, Selection
from rankwolf.video.reading.image_folder import ImageReader
from rankwolf.video.reading.video_file import VideoReader

__all__ = ["Moment", "Reader", "Selection", "is_pattern", "open_frames"]


def open_frames(path: Path, selection: Selection) -> Reader:
    """The reader of a folder or pattern of images, of .npy or .npz, and of anything else as a video."""
    if path.is_dir():
        kind: type[ImageReader] | type[ArrayReader] | type[VideoReader] = ImageReader
    elif is_pattern(path):
        kind = ImageReader
    else:
        path.stat()  # raises the system's own error for a name that does not exist
        kind = ArrayReader if path.suffix.lower() in (".npy", ".npz") else VideoReader
    with Address(path).reading(kind.words):
        return kind(path, selection)


def is_pattern(path: Path) -> bool:
    """Whether a path is a pattern for several files, such as ``cam/*.jpg``, and not the name of a file that exists."""
    return not path.exists() and bool(set(str(path)) & set("*?["))
