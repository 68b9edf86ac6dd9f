"""Pixels whose background stands still: how likely a colour is there, judged by when the pixel stood still.

A background may be hidden for more than half of the time, and L takes objects in that stay. But a background stands
still, and what hides it mostly does not. So each pixel keeps samples of the frames themselves. A sample weighs as much
as the pixel stood still around it, and hardly anything where the mask of its frame says object. What is rare, compared
with the most frequent colour of these weighted samples, is foreground.

**Learning** repeats two steps: the density of each sample among those of other times, which gives a mask of its frame
(smoothed in space, holes filled, parts widened); and new weights from these masks.

**Where it holds.** Waves, leaves and spray never stand still, so that stillness tells nothing about them. ``stands``
says where a pixel stands still for a fair share of the time, compared with the stillest tenth of the picture. The
other pixels are left to :mod:`rankwolf.video.consensus`.

Cost: n samples take n·(channels + 1) bytes a pixel. A frame takes n comparisons of each pixel; learning takes
``rounds``·n frames' worth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.ndimage

from rankwolf.ground.arrays import Array
from rankwolf.kernels.pictures import add_density
from rankwolf.video.light import LightTest
from rankwolf.video.side_by_side import for_each
from rankwolf.video.tidy import Runs, dilate, drop_small, fill_holes, odd_side

# The number of a frame to its picture, (height, width, channels), and where it was observed (None: everywhere).
FrameOf = Callable[[int], tuple[Array, Array | None]]
# A weight is kept as a whole number up to this.
WHOLE = 255


@dataclass(frozen=True)
class StillRule:
    """The constants of the model. Distances are root mean squares over channels."""

    samples: int = 40
    """Frames that are remembered, spread evenly over the video."""
    width: float = 1.5
    """The width of the kernel of the density, in σ of the pixel's noise between frames."""
    least_width: float = 5.0
    """The least width in gray levels: a codec hides the noise between consecutive frames."""
    still: float = 4.0
    """A pixel stands still while it changes by less than about this many σ of the quietest pixels within 3 frames."""
    share: float = 0.1
    """Stillness counts where a pixel stands still at least for this share of the time, compared with the stillest
    tenth of the picture."""
    rare: float = 0.2
    """A colour less dense than this share of the pixel's mode is foreground."""
    apart: float = 0.06
    """In learning, a sample is judged by those that are at least this share of the video away from it."""
    margin: int = 5
    """In learning, masks are widened by a square of this side, in pixels."""
    least_part: float = 0.015
    """An object that is found by the frames alone covers at least this share of the picture. Spray, which stands still
    in between, covers less."""
    light: tuple[float, float] = (0.45, 1.2)
    alike: float = 0.25
    """A pixel is the scene in a shadow or a reflection if it is the scene times a factor in this range, up to a
    distance whose square is at most ``alike`` of that of the kernel's radius."""
    rounds: int = 3
    """Rounds of learning."""
    faint: float = 0.02
    """The weight of a sample that moves, or that a mask covers, so that a pixel which is always covered has a mode."""


@dataclass(frozen=True, eq=False)
class Still:
    """``colors`` (n, channels, height, width) and their ``weights`` (n, height, width), uint8, of each pixel.

    ``reach`` is the reciprocal of the kernel's squared radius, ``mode`` the highest density, ``stands`` where the model
    holds, all (height, width). ``scene`` (height, width, channels), uint8, is the densest sample of each pixel.
    """

    rule: StillRule
    colors: Array
    weights: Array
    reach: Array
    mode: Array
    stands: Array
    scene: Array

    @classmethod
    def learn(
        cls, rule: StillRule, count: int, look: FrameOf, side: int, least_area: float, n_threads: int = 1
    ) -> Still:
        """The model of a video of ``count`` frames; ``side`` and ``least_area`` (a share) are those of the mask."""
        number = min(rule.samples, count)
        chosen = [int((k + 0.5) * count / number) for k in range(number)]
        height, width, channels = look(0)[0].shape
        colors = np.empty((number, channels, height, width), np.uint8)
        near, far = (np.empty((number, height, width), np.float32) for _ in range(2))
        seen = np.ones((number, height, width), np.bool_)

        def collect(k: int) -> None:
            frame, observed = look(chosen[k])
            colors[k] = np.clip(np.rint(frame), 0, WHOLE).transpose(2, 0, 1)
            beside = [_change(frame, look(chosen[k] + step)[0]) for step in _steps(chosen[k], count, (-1, 1))]
            near[k] = np.minimum.reduce(beside)
            farther = [
                _change(frame, look(chosen[k] + step)[0]) for step in _steps(chosen[k], count, (-3, 3))
            ]
            far[k] = np.maximum.reduce(beside + farther)
            if observed is not None:
                seen[k] = observed

        for_each(number, collect, n_threads)
        sigma = np.quantile(near, 0.25, axis=0) / 2.0**0.5
        quietest = max(0.5, float(np.quantile(sigma, 0.1)))
        stillness = np.exp(-np.square(far / (rule.still * 2.0**0.5 * quietest)))
        time_still = stillness.mean(axis=0)
        time_still /= max(float(np.quantile(time_still, 0.9)), 1e-6)
        trust = 1.0 / (1.0 + np.exp((rule.share - time_still) / (rule.share / 4.0)))
        kernel = np.maximum(rule.least_width, rule.width * np.maximum(sigma, quietest))
        reach = (1.0 / (9.0 * channels * np.square(kernel))).astype(np.float32)
        stands = scipy.ndimage.uniform_filter((time_still > rule.share).astype(np.float32), 9) > 0.5
        still_weights = np.where(seen, (stillness + rule.faint) ** trust, 0.0)
        model = cls(rule, colors, _whole(still_weights), reach, np.empty_like(reach), stands, np.empty(0))
        model._clean(still_weights, side, least_area, n_threads)
        density = model._densities(0, n_threads)
        model.mode[...] = model._mode(density)
        densest = np.take_along_axis(colors, density.argmax(axis=0)[None, None], axis=0)[0]
        return replace(model, scene=np.ascontiguousarray(densest.transpose(1, 2, 0)))

    def _clean(self, still_weights: Array, side: int, least_area: float, n_threads: int) -> None:
        """Let the masks of the samples' own frames decide which samples count."""
        number, height, width = self.weights.shape
        apart = max(1, round(self.rule.apart * number))
        for _ in range(self.rule.rounds):
            density = self._densities(apart, n_threads)
            self.mode[...] = self._mode(density)
            factors = np.empty(density.shape, np.float32)

            def judge(k: int, density: Array = density, factors: Array = factors) -> None:
                evidence = scipy.ndimage.uniform_filter(self._evidence(density[k]), side, mode="nearest")
                mask = drop_small(fill_holes(evidence < 0.0), least_area * height * width)
                factors[k] = np.where(dilate(mask, self.rule.margin), self.rule.faint, 1.0)

            for_each(number, judge, n_threads)
            self.weights[...] = _whole(still_weights * factors)

    def _densities(self, apart: int, n_threads: int) -> Array:
        """The density of each sample among all samples, or with ``apart`` among those that are so many places away."""
        density = np.zeros(self.weights.shape, np.float32)

        def find(k: int) -> None:
            for part in (
                (slice(0, max(0, k - apart + 1)), slice(k + apart, None)) if apart else (slice(None),)
            ):
                add_density(
                    self.colors[k],
                    self.colors[part],
                    self.weights[part],
                    self.reach,
                    density[k],
                )

        for_each(len(density), find, n_threads)
        return density

    def _mode(self, density: Array) -> Array:
        """The mean of the three highest densities of each pixel, or of all if there are fewer."""
        first = max(0, len(density) - 3)
        highest = np.partition(density, first, axis=0)[first:] if first else density
        return np.asarray(np.maximum(highest.mean(axis=0), 1e-3))

    def _evidence(self, density: Array) -> Array:
        """log(density/(rare·mode)) in units of its greatest value, clipped to ±1: below 0 is foreground."""
        rare = self.rule.rare
        ratio = np.clip(density / (rare * self.mode), rare, 1.0 / rare)
        return np.asarray(np.log(ratio) / -np.log(rare), np.float32)

    def evidence(self, frame: Array) -> Array:
        """How sure it is that a pixel of the frame (height, width, channels) is background: from −1 to 1."""
        color = np.ascontiguousarray(np.clip(np.rint(frame), 0, WHOLE).astype(np.uint8).transpose(2, 0, 1))
        density = np.zeros(self.mode.shape, np.float32)
        add_density(color, self.colors, self.weights, self.reach, density)
        return self._evidence(density)

    def objects(self, where: Array, frame: Array) -> Array:
        """The pieces of ``where``, the unusual pixels of a frame, that are objects whatever L shows there: bool.

        A piece covers at least ``least_part`` of the picture, and is not the scene under another light.
        """
        found = drop_small(fill_holes(where), self.rule.least_part * where.size)
        runs, test, scene = Runs.of(found), LightTest(), self.scene.astype(np.float32)
        for part in runs.masks(found, np.arange(runs.parts)):
            found[part] = not test.is_light(part, frame, scene)
        return found

    def shaded(self, frame: Array) -> Array:
        """Where the frame may be the scene under another light: bool, (height, width).

        Over 3 × 3 pixels it is the scene times one factor, within the kernel of the density. In gray nothing is: there
        any plain surface is another one times a factor.
        """
        if frame.shape[-1] == 1:
            return np.zeros(frame.shape[:2], np.bool_)
        scene = self.scene.astype(np.float32)
        square, product, light = (
            scipy.ndimage.uniform_filter(part.sum(axis=-1), 3, mode="nearest")
            for part in (np.square(scene), frame * scene, np.square(frame))
        )
        factor = product / np.maximum(square, 1.0)
        distance = np.maximum(light - factor * product, 0.0)
        low, high = self.rule.light
        near = distance * self.reach < self.rule.alike
        return np.asarray(self.stands & near & (factor > low) & (factor < high))

    def replace(self, slots: Array, where: Array, frame: Array) -> None:
        """Overwrite the samples in these slots, at the pixels ``where``, by those of a frame of the background."""
        color = np.clip(np.rint(frame), 0, WHOLE).astype(np.uint8).transpose(2, 0, 1)
        for slot in slots:
            np.copyto(self.colors[slot], color, where=where)
            np.copyto(self.weights[slot], WHOLE, where=where)


def _steps(number: int, count: int, steps: tuple[int, ...]) -> list[int]:
    """Those of the steps that stay inside the video; of a single frame, none but 0."""
    return [step for step in steps if 0 <= number + step < count] or [0]


def _change(one: Array, two: Array) -> Array:
    """The root mean square difference of two frames over channels and 3 × 3 pixels: (height, width)."""
    square = np.square(one - two).mean(axis=-1)
    return np.asarray(np.sqrt(scipy.ndimage.uniform_filter(square, 3)))


def _whole(weights: Array) -> Array:
    return np.asarray(np.rint(np.clip(weights, 0.0, 1.0) * WHOLE), np.uint8)


def side_of_evidence(shape: tuple[int, int]) -> int:
    """The side of the square over which evidence is averaged in learning: 5 in a picture of 320 × 240, at least 3."""
    return max(3, odd_side(5.0, shape))
