"""Where pictures go: H.264 in mp4, lossless FFV1 in mkv, or a folder of PNG files."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from rankwolf.files.address import Address, RefusedError
from rankwolf.files.door import open_foreign, open_video
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed

FORMATS = {"mp4": ".mp4", "ffv1": ".mkv", "png": ""}
CONTAINERS = {".mp4": "mp4", ".mkv": "matroska"}
DEFAULT_RATE = Fraction(25)
# On 120 frames of vtest, "ultrafast" at 22 is closer to the pictures than "veryfast" at 18: 48.5 dB against 46 for the
# background, 52 against 50 for the foreground, and no pixel is off by more than 12 levels, against 60. It takes 42 % of
# the time, and makes files 2.5 (background) and 1.4 (foreground) times as large.
H264_OPTIONS = {"crf": "22", "preset": "ultrafast"}
FFV1_OPTIONS = {"level": "3", "slicecrc": "1"}


class Sink(ABC):
    """A place that takes uint8 pictures in order, gray or RGB."""

    @abstractmethod
    def write(self, picture: Array) -> None:
        """Take the next picture."""

    @abstractmethod
    def close(self) -> None:
        """Finish the file after the last picture; without this it is incomplete."""

    @abstractmethod
    def abandon(self) -> None:
        """Close the file as it is, after an error; the caller removes it."""


@dataclass(frozen=True)
class Shape:
    """The size of a video in pixels, its frames a second, and the width of a pixel over its height.

    A ``rate`` of None is 25 frames a second, an ``aspect`` of None is 1.
    """

    height: int
    width: int
    rate: Fraction | None = None
    aspect: Fraction | None = None


@dataclass(frozen=True)
class Sound:
    """The sound of a video file, from the time of its frame ``numbers.start`` to that of ``numbers.stop``."""

    path: Path
    numbers: range
    rate: Fraction | None

    def open(self) -> Any:
        """The file as a container of PyAV; a ValueError if it has no sound."""
        try:
            address = Address(self.path)
            source: Any = open_video(address, open_foreign(address))
        except (RefusedError, OSError) as error:
            raise ValueError(
                f"--audio needs a video file as input. Got {str(self.path)!r} instead."
            ) from error
        if not source.streams.audio:
            raise ValueError(f"{str(self.path)!r} has no sound: leave --audio out.")
        return source

    def stream_in(self, container: Any, path: Path) -> tuple[Any, Any]:
        """(stream, source): a new stream for the sound in ``container``, and the open file that has the sound.

        ``path`` is where the container is written; a ValueError if it cannot hold this sound.
        """
        needed("av")
        import av

        source = self.open()
        try:
            return container.add_stream_from_template(source.streams.audio[0]), source
        except (av.error.FFmpegError, ValueError) as error:
            codec = source.streams.audio[0].codec_context.name
            raise ValueError(
                f"The sound of {str(self.path)!r} is {codec}, which does not go into {path.suffix}. "
                "Give --format ffv1, or leave --audio out."
            ) from error

    def copy_into(self, container: Any, stream: Any, source: Any) -> None:
        """Copy the packets of the selected time into ``stream``, without decoding them; their times begin at 0."""
        rate = self.rate or DEFAULT_RATE
        begin, end = float(self.numbers.start / rate), float(self.numbers.stop / rate)
        for packet in source.demux(source.streams.audio[0]):
            if (
                packet.pts is None
                or packet.dts is None
                or not begin <= float(packet.pts * packet.time_base) < end
            ):
                continue
            shift = round(begin / float(packet.time_base))
            packet.pts, packet.dts, packet.stream = packet.pts - shift, packet.dts - shift, stream
            container.mux(packet)


class Target:
    """A new file for FFmpeg to write to. Its first error is kept until :meth:`check` or :meth:`close` raises it.

    FFmpeg does not close a file that it opened itself if it cannot write the header; and the traceback of an error that
    is raised inside ``write`` would be printed.
    """

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb")  # noqa: SIM115
        self._error: OSError | None = None

    def write(self, part: bytes) -> int:
        """Write ``part``; after an error, nothing. Returns its length in any case, so that FFmpeg goes on."""
        self._try(self._file.write, part)
        return len(part)

    def seek(self, place: int, whence: int = 0) -> int:
        """Go to a place in the file, as ``io.IOBase.seek`` does, and return it."""
        return self._try(self._file.seek, place, whence)

    def tell(self) -> int:
        """The present place in the file."""
        return self._try(self._file.tell)

    def check(self) -> None:
        """Raise the error, if there was one."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Close the file in any case, then raise the error, if there was one."""
        self._try(self._file.close)
        self.check()

    def _try(self, action: Callable[..., int | None], *arguments: Any) -> int:
        if self._error is None or action == self._file.close:
            try:
                return action(*arguments) or 0
            except OSError as error:
                self._error = self._error or error
        return 0


class VideoSink(Sink):
    """A video file, lossless for the codec ``ffv1``, else H.264, to which ``sound`` is added at the end.

    H.264 stores colours at half the height and width: an odd height or width is made even by repeating the last row or
    column.
    """

    def __init__(self, path: Path, codec: str, shape: Shape, sound: Sound | None = None) -> None:
        needed("av")
        import av

        self._path, self._lossless = path, codec == "ffv1"
        self._file = Target(path)
        self._container = av.open(self._file, "w", format=CONTAINERS[path.suffix])
        options = FFV1_OPTIONS if self._lossless else H264_OPTIONS
        stream: Any = self._container.add_stream(codec, rate=shape.rate or DEFAULT_RATE, options=options)
        self._stream, height, width = stream, shape.height, shape.width
        if shape.aspect is not None:
            self._stream.codec_context.sample_aspect_ratio = shape.aspect
        self._sound = sound
        self._heard = None if sound is None else sound.stream_in(self._container, path)
        self._odd = (0, 0) if self._lossless else (height % 2, width % 2)
        self._stream.height, self._stream.width = height + self._odd[0], width + self._odd[1]
        # The videos are encoded side by side. More threads for each would take memory and save no time.
        self._stream.codec_context.thread_count = 1
        self._started = False

    def write(self, picture: Array) -> None:
        """Encode one picture."""
        needed("av")
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
            if self._sound is not None and self._heard is not None:
                stream, source = self._heard
                self._sound.copy_into(self._container, stream, source)
                source.close()
            self._container.close()
            self._file.close()

    def abandon(self) -> None:
        """Close the file; errors are ignored, such as a full disk that has no room for the index."""
        for opened in (self._container, self._file):
            with suppress(OSError):
                opened.close()

    def _mux(self, frame: Any) -> None:
        with _named(self._path):
            for packet in self._stream.encode(frame):
                self._container.mux(packet)
            self._file.check()


class PngSink(Sink):
    """A folder of PNG files, named after the frames that they belong to."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        folder.mkdir()
        self._folder, self._names, self._next = folder, names, 0

    def write(self, picture: Array) -> None:
        """Write one file, named after its frame, or by its number where frames have no names."""
        needed("PIL")
        from PIL import Image

        name = self._names[self._next] if self._next < len(self._names) else f"{self._next:06d}"
        Image.fromarray(picture).save(self._folder / f"{name}.png", compress_level=3)
        self._next += 1

    def close(self) -> None:
        """Every file is whole already."""

    def abandon(self) -> None:
        """Nothing is open."""


def open_sink(
    folder: Path, name: str, kind: str, shape: Shape, names: list[str], sound: Sound | None = None
) -> Sink:
    """The sink that writes ``name`` into ``folder`` as ``kind``, one of :data:`FORMATS`.

    ``names`` are the names of PNG files without their ending; ``sound`` is for videos.
    """
    path = folder / f"{name}{FORMATS[kind]}"
    if kind == "png":
        return PngSink(path, names)
    return VideoSink(path, "ffv1" if kind == "ffv1" else "libx264", shape, sound)


class _named:  # noqa: N801
    """Inside the block, errors of FFmpeg and of the file become an OSError with the name of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        needed("av")
        import av

        if isinstance(error, av.error.FFmpegError | OSError):
            number = error.errno or errno.EIO
            raise OSError(number, error.strerror or os.strerror(number), str(self._path)) from error
