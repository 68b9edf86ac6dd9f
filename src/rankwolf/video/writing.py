"""Where pictures go: H.264 in mp4, lossless FFV1 in mkv, or a folder of PNG files."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

FORMATS = {"mp4": ".mp4", "ffv1": ".mkv", "png": ""}
DEFAULT_RATE = Fraction(25)
# Visually lossless for what these pictures are; "veryfast" costs a few per cent of size and halves the time.
H264_OPTIONS = {"crf": "18", "preset": "veryfast"}
FFV1_OPTIONS = {"level": "3", "slicecrc": "1"}


class Sink(ABC):
    """A place that takes uint8 pictures in order, gray or RGB."""

    @abstractmethod
    def write(self, picture: Array) -> None:
        """Take the next picture."""

    @abstractmethod
    def close(self) -> None:
        """After the last picture. Without it, what was written is not whole."""

    @abstractmethod
    def abandon(self) -> None:
        """Let go of the file as it is; somebody else removes it."""


class VideoSink(Sink):
    """A video file. An odd height or width of mp4 is made even by repeating the last row or column, for 4:2:0."""

    def __init__(self, path: Path, codec: str, height: int, width: int, rate: Fraction | None) -> None:
        import av

        self._path, self._lossless = path, codec == "ffv1"
        self._container = av.open(str(path), "w")
        options = FFV1_OPTIONS if self._lossless else H264_OPTIONS
        stream: Any = self._container.add_stream(codec, rate=rate or DEFAULT_RATE, options=options)
        self._stream = stream
        self._odd = (0, 0) if self._lossless else (height % 2, width % 2)
        self._stream.height, self._stream.width = height + self._odd[0], width + self._odd[1]
        # The three videos are encoded side by side. More threads for each take memory and save no time.
        self._stream.codec_context.thread_count = 1
        self._started = False

    def write(self, picture: Array) -> None:
        """Encode one picture."""
        import av

        form = "gray" if picture.ndim == 2 else "rgb24"
        if not self._started:  # FFV1 keeps gray as gray and colour as RGB; H.264 players expect 4:2:0
            self._stream.pix_fmt = {"gray": "gray", "rgb24": "bgr0"}[form] if self._lossless else "yuv420p"
            self._started = True
        if any(self._odd):
            picture = np.pad(
                picture, [(0, self._odd[0]), (0, self._odd[1])] + [(0, 0)] * (picture.ndim - 2), "edge"
            )
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format=form)
        self._mux(frame)

    def close(self) -> None:
        """Flush the encoder and write the index."""
        self._mux(None)
        with _named(self._path):
            self._container.close()

    def abandon(self) -> None:
        """Close the file; that a full disk has no room for its index does not matter any more."""
        with suppress(OSError):
            self._container.close()

    def _mux(self, frame: Any) -> None:
        with _named(self._path):
            for packet in self._stream.encode(frame):
                self._container.mux(packet)


class PngSink(Sink):
    """A folder of PNG files, named after the frames that they belong to."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        folder.mkdir()
        self._folder, self._names, self._next = folder, names, 0

    def write(self, picture: Array) -> None:
        """One file."""
        from PIL import Image

        name = self._names[self._next] if self._next < len(self._names) else f"{self._next:06d}"
        Image.fromarray(picture).save(self._folder / f"{name}.png", compress_level=3)
        self._next += 1

    def close(self) -> None:
        """Every file is whole already."""

    def abandon(self) -> None:
        """Nothing is open."""


def open_sink(
    folder: Path, name: str, kind: str, height: int, width: int, rate: Fraction | None, names: list[str]
) -> Sink:
    """``name`` in ``folder``, as one of :data:`FORMATS`."""
    path = folder / f"{name}{FORMATS[kind]}"
    if kind == "png":
        return PngSink(path, names)
    return VideoSink(path, "ffv1" if kind == "ffv1" else "libx264", height, width, rate)


class _named:  # noqa: N801
    """FFmpeg's errors as the system's own, with the name of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import av

        if isinstance(error, av.error.FFmpegError):
            number = error.errno or errno.EIO
            raise OSError(number, error.strerror or os.strerror(number), str(self._path)) from error
