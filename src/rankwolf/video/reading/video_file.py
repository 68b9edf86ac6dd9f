"""Frames of a video file, through PyAV, the way a player would show them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from rankwolf.files.address import Address
from rankwolf.files.door import open_foreign, open_video
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed
from rankwolf.video.reading.base import MOST_LOST, Reader, Selection, is_colored

# A file has lost frames if its last frame comes earlier than its end by more than so many seconds, and by more than
# this share of its duration.
MOST_SILENCE, MOST_SILENCE_SHARE = 1.0, 0.02


@dataclass(frozen=True)
class First:
    """What the first frame says of all: how many quarter turns to the left make it upright, and if it has colours."""

    turns: int = 0
    colored: bool = True


class VideoReader(Reader):
    """A video file: the first video stream, decoded once, scaled and converted by FFmpeg's own code.

    Pictures are turned as the file's rotation says (a telephone that was held upright). ``aspect`` is the width of a
    pixel over its height, where the file says that it is not 1.
    """

    kind, words = "video", "a video that can be read"

    def __init__(self, path: Path, selection: Selection) -> None:
        address = Address(path)
        self._container, self._stream = _open(address)
        self._stream.thread_type = "AUTO"
        self.rate = self._stream.average_rate
        codec = self._stream.codec_context
        if codec is None:
            raise address.bad("its video is encoded in a way that is not known.")
        if not codec.width or not codec.height:
            raise address.bad("it does not say how large its pictures are.")
        self._first = _first_frame(address)
        size = (codec.height, codec.width) if self._first.turns % 2 == 0 else (codec.width, codec.height)
        self.aspect = pixel_aspect(codec.sample_aspect_ratio, self._first.turns)
        self._ended, self._last = False, 0.0
        self._duration = float(self._container.duration or 0) / 1_000_000
        # None where the file declares no count: duration times rate would be wrong for a variable rate.
        count = int(self._stream.frames) or None
        super().__init__(path, selection, size, count, self._first.colored)

    @property
    def estimate(self) -> int | None:
        """About how many frames will come: by duration times rate, where the file does not count them."""
        if self.expected is not None or not self._duration or not self.rate:
            return super().estimate
        numbers = self.numbers
        frames = min(numbers.stop, round(self._duration * float(self.rate)))
        return max(1, len(range(numbers.start, frames, numbers.step)))

    def read(self, numbers: range) -> Iterator[Array]:
        """Decode from the beginning; only frames that are asked for are converted."""
        wanted = iter(numbers)
        following = next(wanted, None)
        turns = self._first.turns
        width, height = (self.width, self.height) if turns % 2 == 0 else (self.height, self.width)
        with self._container:
            for number, frame in enumerate(self._decode()):
                if frame.time is not None:
                    self._last = max(self._last, float(frame.time))
                if number != following:
                    continue
                yield upright_picture(frame, (width, height), self.channels == 3, turns)
                following = next(wanted, None)
                if following is None:
                    return
            self._ended = True

    def _decode(self) -> Iterator[Any]:
        """All frames in order. Packets that cannot be decoded and corrupt frames are counted as ``damaged``."""
        for frame in decoded_frames(self._container, self._stream):
            self.damaged += frame is None or frame.is_corrupt
            if frame is not None:
                yield frame

    def damage(self) -> tuple[str, bool] | None:
        """As in :class:`Reader`; a file that declares no count has lost frames if its last one comes too early."""
        duration = self._duration
        silence = duration - self._last - (0.0 if not self.rate else 1.0 / float(self.rate))
        cut = self._ended and silence > max(MOST_SILENCE, MOST_SILENCE_SHARE * duration)
        if self.count is not None or self.damaged or not cut:
            return super().damage()
        said = f"{str(self.path)!r} is truncated: its last frame is at {self._last:.1f} of {duration:.1f} seconds"
        return said, silence > MOST_LOST * duration


def _open(address: Address) -> tuple[Any, Any]:
    container = open_video(address, open_foreign(address))
    if not container.streams.video:
        raise address.bad("it has no video stream.")
    return container, container.streams.video[0]


def _first_frame(address: Address) -> First:
    needed("av")
    import av

    container, stream = _open(address)
    with container:
        try:
            frame = next(container.decode(stream))
        except (av.error.FFmpegError, StopIteration, EOFError):
            return First()  # reading will say what is wrong
    return First(quarter_turns(frame), has_colors(frame))


def decoded_frames(container: Any, stream: Any) -> Iterator[Any]:
    """The decoded frames of a stream, in order; None in the place of a packet that cannot be decoded."""
    needed("av")
    import av

    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets, None)
            if packet is None:
                return
            frames = packet.decode()
        except EOFError:
            return
        except av.error.FFmpegError:
            yield None
            continue
        yield from frames


def upright_picture(frame: Any, size: tuple[int, int], color: bool, turns: int) -> Array:
    """A decoded frame as a uint8 picture, resized to ``size`` (width, height) and then turned to the left.

    ``turns`` counts quarter turns. The picture is RGB, or gray without ``color``.
    """
    picture: Array = frame.reformat(*size, "rgb24" if color else "gray", interpolation="AREA").to_ndarray()
    return np.ascontiguousarray(np.rot90(picture, turns)) if turns else picture


def quarter_turns(frame: Any) -> int:
    """How many quarter turns to the left make a decoded frame upright."""
    turns: int = round(frame.rotation / 90) % 4
    return turns


def has_colors(frame: Any) -> bool:
    """Whether a decoded frame is more than shades of gray."""
    if frame.format.name.startswith("gray"):
        return False
    return is_colored(frame.reformat(format="rgb24").to_ndarray())


def pixel_aspect(ratio: Fraction | None, turns: int) -> Fraction | None:
    """The width of a pixel over its height after so many quarter turns; None for 1."""
    if not ratio or ratio == 1:
        return None
    return ratio if turns % 2 == 0 else 1 / ratio
