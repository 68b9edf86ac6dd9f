"""Whether a part of the picture that changed is the same surface under another light, or something else.

A lamp makes a surface brighter, and its texture with it. Something that stands in front of the surface replaces the
texture, and ends sharply. Two numbers tell them apart:

- *texture*: the correlation, inside the part, of the fine detail of both pictures, each its difference from a local
  mean, the one of the old picture scaled by the local ratio of the means. It is near 1 for light, whatever the light's
  shape, and near 0 for an object.
- *softness*, where there is hardly any detail, because the surface is plain or because a codec has flattened what was
  dark: one minus the rise of the change across the border of the part, over a few pixels, as a share of the whole
  change. A lamp fades out over many pixels: above 0.6. An object's border is sharp: below 0.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.ndimage

from rankwolf.ground.arrays import Array
from rankwolf.video.tidy import dilate, erode, odd_side


@dataclass(frozen=True)
class LightTest:
    """A part is light if its texture is as before; where there is hardly any, if its border is soft."""

    texture: float = 0.75
    """A texture whose correlation with the old one is above this is as before."""
    softness: float = 0.55
    """A border whose softness is above this is soft."""
    detail: float = 4.0
    """Root mean square, in gray levels: below this, in either picture, a texture that is not as before proves nothing,
    and the border decides."""
    least_detail: float = 1.5
    """Where a piece is partly light and partly an object: detail that is weaker than this tells nothing."""
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

    def lit(self, part: Array, now: Array, before: Array) -> Array:
        """Where in the part the detail around a pixel is as before and strong enough to tell: light, not an object.

        (height, width), bool; the arguments are those of :meth:`is_light`.
        """
        side = max(5, odd_side(self.side, part.shape))
        box = _around(part, 2 * side)  # as far as the squares of both means reach
        gray_now, gray_before = now[box].mean(axis=-1), before[box].mean(axis=-1)
        mean_now, mean_before = _mean(gray_now, side), _mean(gray_before, side)
        one = gray_now - mean_now
        two = (gray_before - mean_before) * mean_now / np.maximum(mean_before, 5.0)
        wide = 2 * side + 1
        both, first, second = _mean(one * two, wide), _mean(one * one, wide), _mean(two * two, wide)
        strong = np.minimum(first, second) > self.least_detail**2
        result = np.zeros_like(part)
        result[box] = strong & (both > self.texture * np.sqrt(np.maximum(first * second, 0.0)))
        result &= part
        return result


def texture(part: Array, now: Array, before: Array, side: int) -> tuple[float, float]:
    """The correlation of the detail of two gray pictures in the part, and the root mean square of the weaker detail.

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
    """One minus the median rise of the change within the square around a border pixel, as a share of the change.

    The change of a part is its 0.9 quantile, at least 1. The whole picture has no border: 0.
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
