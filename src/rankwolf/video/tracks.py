"""Objects from masks: a box around each connected part, and a number that it keeps from frame to frame.

A part goes on with the track whose last box it overlaps most, if that was seen within :data:`MOST_GAP` frames. Large
parts choose first. So two objects that meet go on as one, with the number of the larger overlap.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.video.tidy import Runs

# An object that is hidden for so many frames keeps its number: a fifth of a second at 25 frames a second.
MOST_GAP = 5


@dataclass(frozen=True)
class Box:
    """One object in one frame: the track ``id``, from 1 on, its box in pixels, and how many of them it covers."""

    frame: int
    id: int
    left: int
    top: int
    width: int
    height: int
    area: int

    def overlap(self, other: Box) -> int:
        """How many pixels both boxes share."""
        across = min(self.left + self.width, other.left + other.width) - max(self.left, other.left)
        down = min(self.top + self.height, other.top + other.height) - max(self.top, other.top)
        return max(across, 0) * max(down, 0)


@dataclass(eq=False)
class Tracker:
    """Gives the objects of one mask after the other their numbers.

    >>> import numpy as np
    >>> tracker, mask = Tracker(), np.zeros((20, 30), bool)
    >>> mask[5:9, 3:8] = True
    >>> tracker.follow(0, mask)
    [Box(frame=0, id=1, left=3, top=5, width=5, height=4, area=20)]
    >>> tracker.follow(1, np.roll(mask, 2, axis=1))[0].id
    1
    """

    _last: list[Box] = field(default_factory=list)
    _count: int = 0

    def follow(self, frame: int, mask: Array) -> list[Box]:
        """The objects of a mask (height, width), the largest first."""
        known = [box for box in self._last if frame - box.frame <= MOST_GAP]
        found = []
        for left, top, width, height, area in sorted(_parts(mask), key=lambda part: -part[-1]):
            box = Box(frame, 0, left, top, width, height, area)
            best = max(known, key=box.overlap, default=None)
            if best is not None and box.overlap(best):
                known.remove(best)
                number = best.id
            else:
                self._count += 1
                number = self._count
            found.append(Box(frame, number, left, top, width, height, area))
        self._last = found + known
        return found


def _parts(mask: Array) -> list[tuple[int, int, int, int, int]]:
    """(left, top, width, height, area) of each connected part."""
    if not mask.any():
        return []
    runs, columns = Runs.of(mask), mask.shape[1]
    low = np.full((2, runs.parts), np.iinfo(np.int64).max)
    high = np.zeros((2, runs.parts), np.int64)
    row, column = runs.first // columns, runs.first % columns
    for axis, (first, last) in enumerate(((column, column + runs.length), (row, row + 1))):
        np.minimum.at(low[axis], runs.part, first)
        np.maximum.at(high[axis], runs.part, last)
    return [tuple(map(int, part)) for part in np.column_stack([*low, *(high - low), runs.areas])]  # type: ignore[misc]


def write_objects(path: Path, boxes: Iterable[Box], go_on: bool = False) -> None:
    """Write the boxes as a table with a line for each object of each frame; ``go_on`` adds lines to a table."""
    with path.open("a" if go_on else "w", newline="", encoding="ascii") as file:
        table = csv.writer(file)
        if not go_on:
            table.writerow([part.name for part in fields(Box)])
        table.writerows(map(astuple, boxes))
