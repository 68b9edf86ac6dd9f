"""Events of a video: each follows one object from when it is first seen until it is gone.

Only the largest connected part of each mask is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.ndimage

from rankwolf.ground.arrays import Array

# A cut-out has a margin of this share of the object's size on each side, and is at least so many pixels wide and high.
MARGIN, LEAST_SIDE = 0.25, 48
# From one picture on the page to the next, an object may move by this share of the picture's width and height.
MOST_JUMP = 0.2


@dataclass(frozen=True)
class Sighting:
    """The largest object of one frame: its box (top, bottom, left, right) and its area, as shares of the picture."""

    number: int
    box: tuple[float, float, float, float]
    area: float

    @classmethod
    def of(cls, number: int, mask: Array) -> Sighting | None:
        """The sighting in this mask; None if the mask is empty."""
        parts, count = scipy.ndimage.label(mask)
        if count == 0:
            return None
        areas = np.bincount(parts.ravel())
        areas[0] = 0
        largest = int(areas.argmax())
        rows, columns = scipy.ndimage.find_objects(parts, largest)[largest - 1]
        height, width = mask.shape
        box = (rows.start / height, rows.stop / height, columns.start / width, columns.stop / width)
        return cls(number, box, float(areas[largest] / mask.size))

    def near(self, other: Sighting) -> bool:
        """Whether ``other``, on the next picture of the page, is close enough to be the same object."""
        (top, bottom, left, right), (top2, bottom2, left2, right2) = self.box, other.box
        return (
            left - MOST_JUMP <= right2
            and left2 - MOST_JUMP <= right
            and top - MOST_JUMP <= bottom2
            and top2 - MOST_JUMP <= bottom
        )

    def cut_out(self, picture: Array) -> Array:
        """The part of ``picture`` that shows the object with a margin around it; a view, not a copy."""
        height, width = picture.shape[:2]
        rows = _widened(self.box[0] * height, self.box[1] * height, height)
        columns = _widened(self.box[2] * width, self.box[3] * width, width)
        return picture[rows, columns]


def _widened(low: float, high: float, size: int) -> slice:
    room = max(MARGIN * (high - low), 0.5 * (LEAST_SIDE - (high - low)), 0.0)
    return slice(max(0, round(low - room)), min(size, round(high + room)))


@dataclass
class Event:
    """Consecutive sightings of one object."""

    sightings: list[Sighting] = field(default_factory=list)

    @property
    def best(self) -> Sighting:
        """The sighting in which the object is largest."""
        return max(self.sightings, key=lambda sighting: sighting.area)


def events_of(sightings: Sequence[Sighting | None], window: int) -> list[Event]:
    """The sightings grouped by object; they are in order, at most one for each ``window`` of frames.

    A sighting belongs to the last event if it is near that event's last sighting, and less than two windows later.
    """
    events: list[Event] = []
    for sighting in sightings:
        if sighting is None:
            continue
        last = events[-1].sightings[-1] if events else None
        apart = 2 if last is None else (sighting.number - last.number) / window
        if last is not None and apart < 2.0 and last.near(sighting):
            events[-1].sightings.append(sighting)
        else:
            events.append(Event([sighting]))
    return events
