"""Whether a part of the picture that changed is the same surface under another light, or something else.

A lamp makes a surface brighter, and its texture with it. Something that stands in front of the surface replaces the
texture, and ends sharply. Two numbers tell them apart:

- *texture*: the correlation, inside the part, of the fine detail of both pictures. Detail is the difference from a
  local mean; that of the old picture is multiplied by the local ratio of the means. The texture is near 1 for light,
  whatever its shape, and near 0 for an object.
- *softness*, which decides where there is hardly any detail, because the surface is plain or because a codec has
  flattened what was dark: 1 − rise/change, where the rise is that of the change across the border of the part, over a
  few pixels. A lamp fades out over many pixels: above 0.6. An object's border is sharp: below 0.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.ndimage

from rankwolf.ground.arrays import Array
from rankwolf.video.tidy import dilate, erode, odd_side


@dataclass(frozen=True)
class LightTest:
    """The limits of the test: a part is light if its texture is as before or, without detail, if its border is soft."""

    texture: float = 0.75
    """The texture is as before if its correlation with the old one is above this."""
    softness: float = 0.55
    """A border whose softness is above this is soft."""
    detail: float = 4.0
    """Where the detail of either picture is weaker than this, root mean square in gray levels, a texture that is not as
    before proves nothing, and the border decides."""
    side: float = 7.0
    """The side of the square that separates detail from the rest, in a picture of 320 × 240; at least 5 pixels."""

    def is_light(self, part: Array, now: Array, before: Array) -> bool:
        """Whether a part of the picture ``now`` is that of the picture ``before`` under another light.

        ``part`` (height, width) is True in the part; the pictures are (height, width, channels).
        """
        side = max(5, odd_side(self.side, part.shape))
        box = _around(part, 2 * side)
        part, now, before = part[box], now[box], before[box]
        likeness, detail = texture(part, now.mean(axis=-1), before.mean(axis=-1), side)
        if likeness > self.texture or detail > self.detail:
            return likeness > self.texture
        return border_softness(part, np.abs(now - before).max(axis=-1), side) > self.softness


def texture(part: Array, now: Array, before: Array, side: int) -> tuple[float, float]:
    """(correlation, strength) of the detail of two gray pictures in the part; strength: the weaker root mean square.

    Pixels near the border of the part are left out, unless that leaves less than a tenth of it.
    """
    mean_now, mean_before = _mean(now, side), _mean(before, side)
    inner = erode(part, side)
    where = inner if 10 * np.count_nonzero(inner) >= np.count_nonzero(part) else part
    one, two = (now - mean_now)[where], (before - mean_before)[where]
    detail = min(np.sqrt(np.mean(one**2)), np.sqrt(np.mean(two**2)))
    two = two * (mean_now / np.maximum(mean_before, 5.0))[where]
    return float(one @ two / np.sqrt((one @ one) * (two @ two) + 1e-9)), float(detail)


def border_softness(part: Array, change: Array, side: int) -> float:
    """1 − rise/change. The rise is that of ``change`` in the square around a border pixel, a median over all of them.

    The change of the part is the 0.9 quantile in it, at least 1. A part that is the whole picture has no border: 0.
    """
    change = _mean(change, 3)
    border = part & dilate(~part, 3)
    if not border.any():
        return 0.0
    highest = scipy.ndimage.maximum_filter(change, side)
    rise = np.median((highest - scipy.ndimage.minimum_filter(change, side))[border])
    return 1.0 - float(rise / max(np.quantile(change[part], 0.9), 1.0))


def _mean(picture: Array, side: int) -> Array:
    return np.asarray(scipy.ndimage.uniform_filter(picture, side, mode="nearest"))


def _around(part: Array, margin: int) -> tuple[slice, slice]:
    rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
    return (
        slice(max(rows[0] - margin, 0), rows[-1] + margin + 1),
        slice(max(columns[0] - margin, 0), columns[-1] + margin + 1),
    )
