"""What all readers share: which frames are asked for, how many will come, and how many were lost."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from rankwolf.files.address import Address
from rankwolf.ground.arrays import Array

# A video that has lost more than this share of its frames is refused; a smaller loss is a warning.
MOST_LOST = 0.1
# A picture is gray if the channels of each pixel differ by at most this: a codec rounds the chroma.
GRAY_TOLERANCE = 6


@dataclass(frozen=True)
class Moment:
    """A place in the input: a frame number, counted from 0, or a time in seconds."""

    value: float
    in_seconds: bool = False

    @classmethod
    def parse(cls, text: str) -> Moment:
        """``120`` is a frame; ``12.5s`` and ``1:30`` are times.

        >>> Moment.parse("120"), Moment.parse("1:30")
        (Moment(value=120, in_seconds=False), Moment(value=90.0, in_seconds=True))
        """
        if re.fullmatch(r"\d+", text):
            return cls(int(text))
        if match := re.fullmatch(r"(?:(\d+):)?(?:(\d+):)?(\d+(?:\.\d*)?)(s?)", text):
            first, second, seconds, suffix = match.groups()
            if first is not None or suffix:
                hours, minutes = (first, second) if second is not None else ("0", first or "0")
                return cls(3600.0 * int(hours) + 60.0 * int(minutes) + float(seconds), True)
        raise ValueError(f"A moment is a frame number (120) or a time (12.5s, 1:30). Got {text!r} instead.")

    def frame(self, rate: Fraction | None) -> int:
        """The frame number, given the frames per second."""
        if not self.in_seconds:
            return int(self.value)
        if rate is None:
            raise ValueError(
                "This input has no clock: give --start and --end as frame numbers, not as times."
            )
        return round(self.value * float(rate))


@dataclass(frozen=True)
class Selection:
    """Which frames are read: every ``every``-th from ``start`` on, before ``end``; and how: resized, gray or in colour.

    ``color`` None means in colour if the input has colours.
    """

    start: Moment = Moment(0)
    end: Moment | None = None
    every: int = 1
    scale: float = 1.0
    color: bool | None = False

    def __post_init__(self) -> None:
        check_scale(self.scale)


def check_scale(scale: float) -> None:
    """Refuse a ``--scale`` that is not above 0, or is above 16: such pictures would be empty, or fill the memory."""
    if not 0.0 < scale <= 16.0:
        raise ValueError(f"--scale must be above 0 and at most 16. Got {scale:g} instead.")


class Reader(ABC):
    """The selected frames of an input, in order, each yielded once as a uint8 picture.

    ``rate``: frames a second, None without a clock. ``names``: one for each frame of the input, where frames have
    names. ``aspect``: the width of a pixel over its height, None for 1. ``count``: how many frames the input has, None
    where it does not say. ``decoded``: how many pictures were yielded so far; ``damaged``: how often decoding met
    damage. ``words``: what the file should be, for a complaint about one that is not.
    """

    kind: str
    words: str
    rate: Fraction | None = None
    names: list[str] | None = None
    aspect: Fraction | None = None

    def __init__(
        self, path: Path, selection: Selection, size: tuple[int, int], count: int | None, colored: bool = True
    ) -> None:
        self.path, self.selection, self.count = path, selection, count
        self.height, self.width = (max(1, round(side * selection.scale)) for side in size)
        self.channels = 3 if (colored if selection.color is None else selection.color) else 1
        self.decoded, self.damaged = 0, 0

    @property
    def numbers(self) -> range:
        """The frame numbers that are asked for; up to 2⁶² where neither the input nor the selection has an end."""
        start = self.selection.start.frame(self.rate)
        end = self.selection.end.frame(self.rate) if self.selection.end else 2**62
        if end <= start:
            raise ValueError(f"--end must lie after --start. Got {start} and {end} instead.")
        if self.count is not None:
            if start >= self.count:
                raise ValueError(f"--start is frame {start}, and {str(self.path)!r} has {self.count} frames.")
            end = min(end, self.count)
        return range(start, end, self.selection.every)

    @property
    def expected(self) -> int | None:
        """How many frames should come; None where the input does not say how many it has."""
        return None if self.count is None else len(self.numbers)

    @property
    def estimate(self) -> int | None:
        """About how many frames will come, for a progress bar: those up to ``--end``; None where no end is known."""
        return None if self.count is None and self.selection.end is None else len(self.numbers)

    def __iter__(self) -> Iterator[Array]:
        pictures = self.read(self.numbers)
        while True:
            # Only around the decoder: an error in the code that uses a picture is not the file's fault.
            with Address(self.path).reading(self.words):
                picture = next(pictures, None)
            if picture is None:
                break
            self.decoded += 1
            yield picture
        if self.decoded == 0 and self.numbers.start > 0:
            raise ValueError(
                f"--start is frame {self.numbers.start}, and {str(self.path)!r} has fewer frames."
            )
        if self.decoded == 0:
            raise ValueError(f"No frame could be read from {str(self.path)!r}.")

    @abstractmethod
    def read(self, numbers: range) -> Iterator[Array]:
        """The pictures of these frames, uint8, in order; fewer if the input ends before."""

    def losses(self, strict: bool) -> str | None:
        """A sentence about frames that were lost, to be asked for after reading; None if nothing was lost.

        A ValueError if more than a tenth of the frames is missing, or with ``strict`` for any loss.
        """
        found = self.damage()
        if found is None:
            return None
        said, too_much = found
        if strict:
            raise ValueError(f"{said}. Without --strict a small loss is a warning.")
        if too_much:
            last = self.numbers[self.decoded - 1] + 1
            raise ValueError(f"{said}. Give --end {last} to separate what is there.")
        return said + "."

    def damage(self) -> tuple[str, bool] | None:
        """What was lost, as a sentence without its full stop, and whether it is too much; None if nothing was."""
        expected = self.expected
        missing = 0 if expected is None else max(0, expected - self.decoded)
        if not missing and not self.damaged:
            return None
        said = f"{str(self.path)!r} is truncated or damaged: {self.decoded} frames decoded"
        said += f" of {expected} declared" if expected is not None else ""
        said += f", {self.damaged} damaged on the way" if self.damaged else ""
        return said, missing > MOST_LOST * (expected or 0)


def is_colored(rgb: Array) -> bool:
    """Whether a picture (height, width, 3), uint8, is more than shades of gray."""
    return bool(np.ptp(rgb.astype(np.int16), axis=-1).max() > GRAY_TOLERANCE)
