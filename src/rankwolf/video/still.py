"""Pixels whose background stands still: how likely a colour is there, judged by when the pixel stood still.

A background may be hidden for more than half of the time, and L takes objects in that stay. But a background stands
still, and what hides it mostly does not. So each pixel keeps samples of the frames themselves. A sample weighs as much
as the pixel stood still around it, and nothing where the mask of its frame says object. What is rare, compared with the
most frequent colour of these weighted samples, is foreground.

**Learning** repeats two steps: the density of each sample among those of other times, which gives a mask of its frame
(smoothed in space, holes filled, parts widened); and new weights from these masks.

**Where it holds.** Waves, leaves and spray never stand still, so that stillness tells nothing about them. ``stands``
says where a pixel stands still for a fair share of the time, compared with the stillest tenth of the picture. The
other pixels are left to :mod:`rankwolf.video.consensus`.

**Light.** A lamp, the sun or a shadow makes a surface brighter or darker, and its texture with it; an object replaces
the texture. So what shows the scene's texture is the scene in another light.

Cost: n samples take n·(channels + 1) bytes a pixel. A frame takes n comparisons of each pixel; learning takes
ROUNDS·n frames' worth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.ndimage

from rankwolf.ground.arrays import Array
from rankwolf.kernels.pictures import add_density, mark_shaded
from rankwolf.video.rule import MaskRule
from rankwolf.video.side_by_side import for_each
from rankwolf.video.tidy import Runs, dilate, drop_small, fill_holes

# The number of a frame to its picture, (height, width, channels), and where it was observed (None: everywhere).
FrameOf = Callable[[int], tuple[Array, Array | None]]
# A weight is kept as a whole number up to this.
WHOLE = 255
# Rounds of learning; a sample is judged by those that are at least this share of the video away from it.
ROUNDS, APART = 4, 0.06
# In learning, evidence is smoothed over squares of this side, and masks are widened by as much.
MARGIN = 5
# The width of the density's kernel, as a share of the contrast of the frames, which is little in fog and at night, and
# at least in gray levels, because frames are rounded. It ends at three times that.
WIDTH, LEAST_WIDTH = 0.02, 1.5
# A shadow or a reflection is the scene times a factor in this range.
DARKEST, BRIGHTEST = 0.45, 1.2
# The scene in another light: its detail has the same sign more often than this, half-way between chance and always less
# what noise takes away.
SAME_TEXTURE = 0.65


@dataclass(frozen=True, eq=False)
class Still:
    """``colors`` (n, channels, height, width) and their ``weights`` (n, height, width), uint8, of each pixel.

    ``mode`` is the highest density, ``stands`` where the model holds, both (height, width). ``scene`` (height, width,
    channels), uint8, is the densest sample of each pixel. ``width`` of the density's kernel is in gray levels.
    """

    rule: MaskRule
    colors: Array
    weights: Array
    mode: Array
    stands: Array
    scene: Array
    width: float

    @classmethod
    def learn(cls, rule: MaskRule, count: int, number: int, look: FrameOf, n_threads: int = 1) -> Still:
        """The model of a video of ``count`` frames, from ``number`` of them."""
        chosen = [int((k + 0.5) * count / number) for k in range(number)]
        first = look(0)[0]
        shape = (number, *first.shape[:2])
        colors = np.empty((number, first.shape[2], *first.shape[:2]), np.uint8)
        near, far = (np.empty(shape, np.float32) for _ in range(2))
        seen = np.ones(shape, np.bool_)

        def collect(k: int) -> None:
            frame, observed = look(chosen[k])
            colors[k] = _color(frame)
            beside = [_change(frame, look(chosen[k] + step)[0]) for step in _steps(chosen[k], count, (-1, 1))]
            near[k] = np.minimum.reduce(beside)
            farther = [
                _change(frame, look(chosen[k] + step)[0]) for step in _steps(chosen[k], count, (-3, 3))
            ]
            far[k] = np.maximum.reduce(beside + farther)
            if observed is not None:
                seen[k] = observed

        for_each(number, collect, n_threads)
        # √2σ of the quietest tenth of the pixels, at their quietest quarter of the time.
        quietest = max(0.7, float(np.quantile(np.quantile(near, 0.25, axis=0), 0.1)))
        dark, bright = np.percentile(colors[:, :, ::4, ::4], (1, 99))
        width = max(LEAST_WIDTH, WIDTH * float(bright - dark))
        stillness = np.exp(-np.square(far / (rule.still * quietest)))
        time_still = stillness.mean(axis=0)
        time_still /= max(float(np.quantile(time_still, 0.9)), 1e-6)
        trust = 1.0 / (1.0 + np.exp(4.0 - 4.0 * time_still / rule.share))
        stands = scipy.ndimage.uniform_filter((time_still > rule.share).astype(np.float32), 9) > 0.5
        still_weights = np.where(seen, stillness**trust, 0.0)
        mode = np.empty(shape[1:], np.float32)
        model = cls(rule, colors, _whole(still_weights), mode, stands, np.empty(0), width)
        model._clean(still_weights, n_threads)
        density = model._densities(0, n_threads)
        model.mode[...] = _mode(density)
        densest = np.take_along_axis(colors, density.argmax(axis=0)[None, None], axis=0)[0]
        return replace(model, scene=np.ascontiguousarray(densest.transpose(1, 2, 0)))

    def _clean(self, still_weights: Array, n_threads: int) -> None:
        """Let the masks of the samples' own frames decide which samples count."""
        for _ in range(ROUNDS):
            density = self._densities(max(1, round(APART * len(self.colors))), n_threads)
            self.mode[...] = _mode(density)

            def judge(k: int, density: Array = density) -> None:
                evidence = scipy.ndimage.uniform_filter(self._evidence(density[k]), MARGIN, mode="nearest")
                mask = drop_small(fill_holes(evidence < 0.0), self.rule.least_area)
                self.weights[k] = _whole(still_weights[k] * ~dilate(mask, MARGIN))

            for_each(len(density), judge, n_threads)

    def _densities(self, apart: int, n_threads: int) -> Array:
        """The density of each sample among all samples, or with ``apart`` among those that are so many places away."""
        density = np.zeros(self.weights.shape, np.float32)

        def find(k: int) -> None:
            others = (slice(0, max(0, k - apart + 1)), slice(k + apart, None)) if apart else (slice(None),)
            for part in others:
                add_density(self.colors[k], self.colors[part], self.weights[part], self._reach, density[k])

        for_each(len(density), find, n_threads)
        return density

    @property
    def _reach(self) -> float:
        """The reciprocal of the kernel's squared radius, over all channels."""
        return float(1.0 / (self.colors.shape[1] * (3.0 * self.width) ** 2))

    def _evidence(self, density: Array) -> Array:
        """log(density/(rare·mode)) in units of its greatest value, clipped to ±1: below 0 is foreground."""
        rare = self.rule.rare
        ratio = np.clip(density / (rare * self.mode), rare, 1.0 / rare)
        return np.asarray(np.log(ratio) / -np.log(rare), np.float32)

    def unusual(self, frame: Array) -> Array:
        """Where a frame (height, width, channels) shows what is rare where the background stands still: bool.

        A shadow or a reflection, the scene times one factor up to half of the kernel's radius, is not.
        """
        density = np.zeros(self.mode.shape, np.float32)
        add_density(_color(frame), self.colors, self.weights, self._reach, density)
        unusual = (density < self.rule.rare * self.mode) & self.stands
        if frame.shape[-1] > 1:  # in gray any plain surface is another one in a shadow
            shaded = np.empty_like(unusual)
            half = 0.25 / self._reach  # the square of half of the kernel's radius
            mark_shaded(frame, self.scene, unusual, DARKEST, BRIGHTEST, half, shaded)
            unusual &= ~shaded
        return unusual

    def objects(self, where: Array, frame: Array) -> Array:
        """The pieces of ``where``, unusual pixels of a frame, that are objects whatever L shows there: bool.

        A piece has at least ``least_object`` pixels, and not the texture of the scene.
        """
        found = drop_small(fill_holes(where), self.rule.least_object)
        return np.asarray(found & ~lit(found, frame, self.scene))

    def replace(self, slots: Array, where: Array, frame: Array) -> None:
        """Overwrite the samples in these slots, at the pixels ``where``, by those of a frame of the background."""
        for slot in slots:
            np.copyto(self.colors[slot], _color(frame), where=where)
            np.copyto(self.weights[slot], WHOLE, where=where)


def lit(mask: Array, frame: Array, scene: Array) -> Array:
    """The connected parts of a mask in which a frame shows the texture of the scene: it is in another light there."""
    found, runs = np.zeros_like(mask), Runs.of(mask)
    for part in runs.masks(mask, np.arange(runs.parts)):
        found[part] = texture(part, frame.mean(axis=-1), scene.mean(axis=-1)) > SAME_TEXTURE
    return found


def texture(part: Array, one: Array, other: Array) -> float:
    """How often the fine detail of two gray pictures has the same sign in a part of them: from 0 to 1.

    Detail is the difference from the mean of 7 × 7 pixels. Its sign depends neither on the strength of the light nor on
    a few pixels of something else. Without anything in common it is the same in half of the pixels.
    """
    rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
    box = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    bright = [
        (picture - scipy.ndimage.uniform_filter(picture, 7, mode="nearest"))[part[box]] > 0.0
        for picture in (one[box], other[box])
    ]
    return float(np.mean(bright[0] == bright[1]))


def _mode(density: Array) -> Array:
    """The mean of the three highest densities of each pixel, or of all if there are fewer."""
    first = max(0, len(density) - 3)
    highest = np.partition(density, first, axis=0)[first:] if first else density
    return np.asarray(np.maximum(highest.mean(axis=0), 1e-3))


def _color(frame: Array) -> Array:
    return np.ascontiguousarray(np.clip(np.rint(frame), 0, WHOLE).astype(np.uint8).transpose(2, 0, 1))


def _steps(number: int, count: int, steps: tuple[int, ...]) -> list[int]:
    """Those of the steps that stay inside the video; of a single frame, none but 0."""
    return [step for step in steps if 0 <= number + step < count] or [0]


def _change(one: Array, two: Array) -> Array:
    """The root mean square difference of two frames over channels and 3 × 3 pixels: (height, width)."""
    square = np.square(one - two).mean(axis=-1)
    return np.asarray(np.sqrt(scipy.ndimage.uniform_filter(square, 3)))


def _whole(weights: Array) -> Array:
    return np.asarray(np.rint(np.clip(weights, 0.0, 1.0) * WHOLE), np.uint8)
