"""Frames that come one by one and may never end: a camera, an address, a device, standard input, a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from rankwolf.files.address import Address, RefusedError
from rankwolf.files.door import open_foreign, open_stream
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed
from rankwolf.video.reading import Selection, is_pattern, open_frames
from rankwolf.video.reading.base import check_scale
from rankwolf.video.reading.video_file import (
    decoded_frames,
    has_colors,
    pixel_aspect,
    quarter_turns,
    upright_picture,
)

STDIN = "-"


@dataclass(frozen=True)
class RawShape:
    """The shape of the pictures in a stream of raw bytes, gray or RGB, one after the other."""

    width: int
    height: int
    color: bool

    @classmethod
    def parse(cls, text: str) -> RawShape:
        """``640x480`` is gray, ``640x480xrgb`` has three bytes a pixel.

        >>> RawShape.parse("640x480xrgb")
        RawShape(width=640, height=480, color=True)
        """
        width, _, rest = text.partition("x")
        height, _, kind = rest.partition("x")
        sizes = (int(side) if side.isdecimal() and len(side) < 7 else 0 for side in (width, height))
        if not (all(sizes) and kind in ("", "gray", "rgb")):
            raise ValueError(f"--raw must be WIDTHxHEIGHT or WIDTHxHEIGHTxrgb. Got {text!r} instead.")
        return cls(int(width), int(height), kind == "rgb")

    def read(self, file: IO[bytes]) -> Iterator[Array]:
        """Pictures until the bytes end; a last one that is not whole is left out."""
        shape = (self.height, self.width, 3) if self.color else (self.height, self.width)
        size = int(np.prod(shape))
        while len(content := file.read(size)) == size:
            yield np.frombuffer(content, np.uint8).reshape(shape)


@dataclass(frozen=True)
class Opened:
    """A stream's pictures, how many come in a second, and the width of a pixel over its height, where it is not 1."""

    frames: Iterator[Array]
    rate: Fraction | None = None
    aspect: Fraction | None = None


@dataclass(frozen=True)
class Stream:
    """``source`` is a path, an address (``https://…``, ``rtsp://…``), a device (``/dev/video0``) or ``-``.

    All pictures are converted to the size of the first, so that a camera that changes its size, or a damaged packet
    that claims another one, does not end a stream. Raw pictures are taken as they come: ``color`` and ``scale`` do not
    go with ``raw``.
    """

    source: str
    raw: RawShape | None = None
    color: bool | None = None
    """None: in colour if the first picture has colours."""
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_scale(self.scale)
        given = {"--color": self.color is True, "--gray": self.color is False, "--scale": self.scale != 1.0}
        for option, is_given in given.items():
            if is_given and self.raw is not None:
                raise ValueError(f"{option} does not go with --raw: raw pictures are taken as they come.")

    def open(self) -> Opened:
        """The opened stream; its pictures are uint8. Of an encoded stream, the first picture is decoded at once."""
        if self.raw is not None:
            return Opened(_raw_frames(self.source, self.raw))
        path, is_address = Path(self.source), "://" in self.source
        is_array = path.suffix.lower() in (".npy", ".npz")
        if not is_address and (path.is_dir() or is_array or is_pattern(path)):
            reader = open_frames(path, Selection(color=self.color, scale=self.scale))
            return Opened(iter(reader), reader.rate)
        return self._decoded()

    def _decoded(self) -> Opened:
        needed("av")
        import av

        is_device, is_address = self.source.startswith("/dev/"), "://" in self.source
        try:
            source: Any = self.source
            if self.source == STDIN:
                source = sys.stdin.buffer
            elif not is_device and not is_address:
                source = open_foreign(Address(Path(self.source)))
            container: Any = open_stream(source, is_device)
        except RefusedError:
            raise
        except (av.error.FFmpegError, ValueError) as error:
            said = getattr(error, "strerror", None) or error
            raise ValueError(f"The stream {self.source!r} cannot be opened: {said}.") from error
        if not container.streams.video:
            raise ValueError(f"The stream {self.source!r} has no video.")
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        frames = _whole_frames(container, stream)
        first = next(frames, None)
        if first is None:
            return Opened(iter(()))
        convert = self._converter(first)
        aspect = pixel_aspect(stream.codec_context.sample_aspect_ratio, quarter_turns(first))
        return Opened(map(convert, chain([first], frames)), stream.average_rate, aspect)

    def _converter(self, first: Any) -> Callable[[Any], Array]:
        """A function that makes a uint8 picture of a decoded frame, in the size, colours and rotation of the first."""
        color = has_colors(first) if self.color is None else self.color
        width, height = (max(1, round(side * self.scale)) for side in (first.width, first.height))
        return partial(upright_picture, size=(width, height), color=color, turns=quarter_turns(first))


def _raw_frames(source: str, shape: RawShape) -> Iterator[Array]:
    with nullcontext(sys.stdin.buffer) if source == STDIN else Path(source).open("rb") as file:
        yield from shape.read(file)


def _whole_frames(container: Any, stream: Any) -> Iterator[Any]:
    """The decoded frames; damaged packets of a camera are skipped."""
    with container:
        yield from (frame for frame in decoded_frames(container, stream) if frame is not None)
