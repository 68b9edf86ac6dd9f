"""Objects that stay: what L has taken for background although it is there for less than half of the time.

Something that stands in one place for long enough becomes part of L (:mod:`rankwolf.video.choosing_weights` says when),
and then M − L knows nothing of it. But L does: it changes where the object comes and goes. So the *scenery* is taken
from L as a median over time, in which each frame counts by how quiet it was near the pixel. Where a frame's L differs
from the scenery, in one piece that is neither tiny nor large, and not merely because the light is another one
(:mod:`rankwolf.video.light`), an object was absorbed.

The limits of this. *Half of the time*: an object that is there for longer is the scenery, and its absence is then taken
for an object. *The size*: pieces below half a per cent of the picture would often be errors of L, and pieces above a
quarter a camera that moved. *The lamps*: where they are switched so often that no light is there for most of the time,
there is no scenery (``coherent``), and what stays long enough is background. Where an object stands in the spot of a
lamp that is on, both are one piece; the lit floor is taken out of the piece where its detail is strong enough to be
recognised. *The light*: a lamp that lights a surface without texture, with a sharp border, cannot be told from an
object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.ndimage

from rankwolf.ground.arrays import Array
from rankwolf.ground.once import computed_once
from rankwolf.kernels.pictures import mark_differences, quantiles, weighted_medians
from rankwolf.video.light import LightTest
from rankwolf.video.side_by_side import for_bands, for_each
from rankwolf.video.tidy import Runs, dilate, drop_small, majority

# About how many pixels, evenly spaced, are looked at to measure the gain of a frame, and to compare stills.
MEASURED, COMPARED = 20000, 1000


@dataclass(frozen=True)
class AbsorbedRule:
    """How the scenery is learned, and what in L is not part of it. Levels are gray levels of the largest channel."""

    level: float = 20.0
    """L differs from the scenery where the difference is above this plus ``activity_factor`` times the activity."""
    activity_factor: float = 3.0
    """The activity is the lower quartile over time of |M − L|, smoothed: the error of L where there is no object."""
    least_area: float = 0.005
    most_area: float = 0.25
    """An absorbed object covers between these shares of the picture."""
    quiet: float = 2.0
    quiet_power: float = 3.0
    """The weight of a frame in the median is (quiet + local activity)^(−quiet_power), so that frames without objects
    nearby decide. The local activity is the frame's |M − L|, averaged over a square."""
    hides: float = 0.25
    """An object that stands before waves hides them, and its place must not count as quiet. So the local activity is
    raised to the usual one, its lower quartile over time, in which hollows are filled to the level around them if they
    are at most this share of the picture's longer side wide."""
    stills: int = 12
    """Of how many frames L is kept, to see what a part of the picture looked like when no object was in it."""
    coherence: float = 0.975
    """One of the stills must agree with the scenery in this share of the picture. Where lamps are switched, a median
    takes one lamp's light here and another's there, and such a patchwork is no scenery to compare with."""
    light: LightTest = field(default_factory=LightTest)
    shadow: tuple[float, float] = (0.75, 1.15)
    shadow_distance: float = 14.0
    """Inside an absorbed object a pixel is a shadow or a reflection on the scenery, and no object, if it lies within
    this distance of the scenery times a factor in this range. The distance is Euclidean over three channels; for c
    channels it is multiplied by √(c/3)."""


@dataclass(frozen=True, eq=False)
class Scenery:
    """The background without objects that stayed: ``picture`` (height, width, channels), and how to compare L with it.

    ``reference`` is the median of L over time. The gain of a frame is measured against it on the pixels where
    ``measurable`` is True: those that are neither black nor saturated. Up to ``level`` (height, width) a difference
    from the scenery may be L's own error. ``stills`` (n, height, width, channels), uint8, are the L of some frames,
    each divided by its gain: unlike the median, a picture that was there as a whole.
    """

    rule: AbsorbedRule
    picture: Array
    reference: Array
    measurable: Array
    level: Array
    stills: Array

    @classmethod
    def learn(
        cls, rule: AbsorbedRule, count: int, look: Callable[[int], tuple[Array, Array]], n_threads: int = 1
    ) -> Scenery:
        """The scenery of ``count`` frames; ``look(n)`` gives (M − L, L) of the n-th, each (height, width, channels).

        Memory: (2·channels + 2)·count bytes a pixel.
        """
        first = look(0)[1]
        shape = first.shape
        lights, activity = np.empty((count, *shape), np.float16), np.empty((count, *shape[:2]), np.float16)

        def collect(n: int) -> None:
            residual, lights[n] = look(n)
            activity[n] = np.abs(residual).max(axis=-1)

        for_each(count, collect, n_threads)
        reference, quiet = np.empty(shape, np.float32), np.empty(shape[:2], np.float32)

        def summarise(rows: slice) -> None:
            reference[rows] = quantiles(lights[:, rows].reshape(count, -1), 0.5).reshape(-1, *shape[1:])
            quiet[rows] = quantiles(activity[:, rows].reshape(count, -1), 0.25).reshape(-1, shape[1])

        for_bands(shape[0], summarise, n_threads)
        measurable = (reference.min(axis=-1) > 20.0) & (reference.max(axis=-1) < 245.0)
        if np.count_nonzero(measurable) < 100:
            measurable = np.ones(shape[:2], np.bool_)
        level = rule.level + rule.activity_factor * scipy.ndimage.uniform_filter(quiet, 9, mode="nearest")
        still = cls(rule, reference, reference, measurable, level.astype(np.float32), np.empty(0))
        side = 2 * int(max(shape) / 32) + 1

        def even_out(n: int) -> None:
            lights[n] /= still.gain(lights[n])
            activity[n] = scipy.ndimage.uniform_filter(activity[n].astype(np.float32), side)

        for_each(count, even_out, n_threads)
        usual = _usual(activity, rule.hides, n_threads)
        picture = np.empty(shape, np.float32)

        def take_medians(rows: slice) -> None:
            busy = np.maximum(activity[:, rows].astype(np.float32), usual[rows])
            weights = (rule.quiet + busy) ** -rule.quiet_power
            weights = np.repeat(weights.reshape(count, -1), shape[2], axis=1)
            weighted_medians(
                lights[:, rows].reshape(count, -1).astype(np.float32), weights, picture[rows].reshape(-1)
            )

        for_bands(shape[0], take_medians, n_threads)
        some = lights[np.unique(np.linspace(0, count - 1, rule.stills).astype(int))]
        stills = np.clip(np.rint(some), 0, 255).astype(np.uint8)
        return cls(rule, picture, reference, measurable, still.level, stills)

    def gain(self, low_rank: Array) -> Array:
        """How much brighter than the reference a frame is: the median of L/reference by channel, from 0.3 to 3."""
        where, reference = self._measured
        now = low_rank.reshape(-1, low_rank.shape[-1])[where].astype(np.float32)
        return np.clip(np.median(now / reference, axis=0), 0.3, 3.0).astype(np.float32)

    @computed_once
    def _measured(self) -> tuple[Array, Array]:
        """The pixels at which the gain is measured, and the reference there."""
        where = np.flatnonzero(self.measurable)
        where = where[:: max(1, len(where) // MEASURED)]
        return where, np.maximum(self.reference.reshape(-1, self.reference.shape[-1])[where], 1.0)

    def absorbed(self, low_rank: Array, gain: Array) -> Array | None:
        """Where absorbed objects are in a frame's L, with a margin: bool, (height, width); None if there are none."""
        rule = self.rule
        differs = np.empty(low_rank.shape[:2], np.bool_)
        mark_differences(low_rank, self.picture, gain, self.level, differs)
        differs = majority(differs, None, 5)
        if not differs.any():
            return None
        runs = Runs.of(differs)
        size = runs.areas / differs.size
        which = np.flatnonzero((size >= rule.least_area) & (size <= rule.most_area))
        found = np.zeros_like(differs)
        for part in runs.masks(differs, which):
            before = gain * self.still_like(part)
            if not rule.light.is_light(part, low_rank, before):
                found |= part & ~rule.light.lit(part, low_rank, before)
        found = drop_small(majority(found, None, 5), rule.least_area * found.size)
        if not found.any():
            return None
        return dilate(found, 2 * int(max(differs.shape) / 64) + 1)

    @property
    def coherent(self) -> bool:
        """Whether one of the stills agrees with the scenery in nearly all of the picture."""
        alike = [(np.abs(still - self.picture).max(axis=-1) <= self.level).mean() for still in self.stills]
        return bool(max(alike) >= self.rule.coherence)

    def still_like(self, part: Array) -> Array:
        """The still that is most like the scenery in a part of the picture: (height, width, channels), float32."""
        where = np.flatnonzero(part)
        where = where[:: max(1, len(where) // COMPARED)]
        channels = self.picture.shape[-1]
        stills = self.stills.reshape(len(self.stills), -1, channels)[:, where]
        distance = np.abs(stills - self.picture.reshape(-1, channels)[where]).mean(axis=(1, 2))
        still: Array = self.stills[distance.argmin()]
        return still.astype(np.float32)

    def shadows(self, where: Array, observed: Array, scenery: Array) -> Array:
        """For each pixel that is True in ``where``: whether it is the scenery under a little less or more light.

        ``observed`` is near f·``scenery`` for one factor f in ``rule.shadow``, within ``rule.shadow_distance``.
        """
        one, two = observed[where], scenery[where]
        factor = (one * two).sum(axis=-1) / np.maximum((two * two).sum(axis=-1), 1.0)
        distance = np.linalg.norm(one - factor[:, None] * two, axis=-1)
        low, high = self.rule.shadow
        most = self.rule.shadow_distance * (one.shape[-1] / 3.0) ** 0.5
        result: Array = (factor > low) & (factor < high) & (distance < most)
        return result


def _usual(activity: Array, hides: float, n_threads: int) -> Array:
    """The lower quartile of the activity (n, height, width) over time, with hollows filled: (height, width)."""
    count, height, width = activity.shape
    quiet = np.empty((height, width), np.float32)

    def find(rows: slice) -> None:
        quiet[rows] = quantiles(activity[:, rows].reshape(count, -1), 0.25).reshape(-1, width)

    for_bands(height, find, n_threads)
    side = 2 * int(hides * max(height, width) / 2.0) + 1
    return np.asarray(scipy.ndimage.grey_closing(quiet, (side, side), mode="nearest"))
