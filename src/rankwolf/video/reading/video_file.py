"""Frames of a video file, through PyAV."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rankwolf.video.reading.base import Array, Reader, Selection


class VideoReader(Reader):
    """A video file: the first video stream, decoded once, scaled and converted by FFmpeg's own code."""

    kind = "video"

    def __init__(self, path: Path, selection: Selection) -> None:
        import av

        try:
            self._container = av.open(str(path))
        except av.error.FFmpegError as error:
            raise ValueError(f"{str(path)!r} is not a video that can be read: {error.strerror}.") from error
        if not self._container.streams.video:
            raise ValueError(f"{str(path)!r} has no video stream.")
        self._stream = self._container.streams.video[0]
        self._stream.thread_type = "AUTO"
        self.rate = self._stream.average_rate
        codec = self._stream.codec_context
        if not codec.width or not codec.height:
            raise ValueError(f"{str(path)!r} does not say how large its pictures are.")
        super().__init__(path, selection, (codec.height, codec.width), self._declared())

    def _declared(self) -> int | None:
        """The container's own count, else what its duration and rate amount to, else None."""
        if self._stream.frames:
            return int(self._stream.frames)
        if self._container.duration and self.rate:
            return max(1, round(self._container.duration / 1_000_000 * float(self.rate)))
        return None

    @property
    def exact(self) -> bool:
        """Whether the count is the container's own; one from the duration may be off by a frame or two."""
        return bool(self._stream.frames)

    def read(self, numbers: range) -> Iterator[Array]:
        """Decode from the beginning; only frames that are asked for are converted."""
        wanted = iter(numbers)
        following = next(wanted, None)
        with self._container:
            for number, frame in enumerate(self._decode()):
                if number != following:
                    continue
                picture = frame.reformat(
                    self.width, self.height, "rgb24" if self.channels == 3 else "gray", interpolation="AREA"
                )
                yield picture.to_ndarray()
                following = next(wanted, None)
                if following is None:
                    return

    def _decode(self) -> Iterator[Any]:
        import av

        packets = self._container.demux(self._stream)
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    return
                frames = packet.decode()
            except EOFError:
                return
            except av.error.FFmpegError:
                self.damaged += 1
                continue
            for frame in frames:
                self.damaged += frame.is_corrupt
                yield frame

    def losses(self, strict: bool) -> str | None:
        """A count that is only an estimate may be missed by a little."""
        expected = self.expected
        if (
            not self.exact
            and not self.damaged
            and expected is not None
            and self.decoded >= 0.98 * expected - 2
        ):
            return None
        return super().losses(strict)
