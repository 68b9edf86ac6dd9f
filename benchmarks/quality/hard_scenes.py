"""Rendered videos of what makes masks fail, in colour, with exact truth: ``python -m benchmarks hard_scenes``.

Each kind has one difficulty, which its function describes, on a textured wall and floor that people cross. They tell
how a rule behaves on a kind of scene that none of the real videos has; no constant was chosen on them alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.fft
import scipy.ndimage

from benchmarks.harness.options import options_of
from benchmarks.quality.cdnet import Solved
from rankwolf.ground.arrays import Array
from rankwolf.video.mask import MaskRule
from rankwolf.video.scoring import Score, score_frame

HEIGHT, WIDTH, FRAMES, NOISE = 120, 160, 300, 2.0


@dataclass(eq=False)
class Stage:
    """A video in the making: ``background`` (frames, height, width, 3) as float32, then people on top of it."""

    rng: np.random.Generator
    frames: int = FRAMES
    height: int = HEIGHT
    width: int = WIDTH
    background: Array = field(init=False)
    masks: Array = field(init=False)
    drawn: list[tuple[int, int, int, Array, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        still = texture(self.rng, self.height, self.width)
        self.background = np.repeat(still[None], self.frames, axis=0)
        self.masks = np.zeros((self.frames, self.height, self.width), np.bool_)

    def person(self, way: Callable[[int], tuple[float, float] | None], tall: float = 0.3) -> None:
        """Somebody who is at ``way(frame)`` = (x, y) of the feet, as shares of the picture; None is not there."""
        height, width = round(tall * self.height), max(4, round(0.4 * tall * self.height))
        y, x = np.mgrid[0:height, 0:width]
        shape = ((2 * y + 1 - height) / height) ** 4 + ((2 * x + 1 - width) / width) ** 2 <= 1.0
        color = self.rng.choice([20.0, 60.0, 200.0, 235.0]) + self.rng.uniform(-20.0, 20.0, 3)
        look = color + 10.0 * np.sin(0.9 * y + 0.3 * x)[..., None]
        for frame in range(self.frames):
            place = way(frame)
            if place is not None:
                left, foot = round(place[0] * self.width - width / 2), round(place[1] * self.height)
                self.drawn.append((frame, foot - height, left, look, shape))

    def walkers(self, count: int, pause: float = 0.3) -> None:
        """People who cross the picture once each, at random times, heights and speeds."""
        for _ in range(count):
            start = self.rng.uniform(-0.2, 1.0) * self.frames
            speed = self.rng.uniform(0.008, 0.02) * self.rng.choice([-1.0, 1.0])
            foot = self.rng.uniform(0.55, 0.98)

            def way(frame: int, start: float = start, speed: float = speed, foot: float = foot) -> Any:
                x = (frame - start) * speed + (0.0 if speed > 0 else 1.0)
                return (x, foot) if frame >= start and -0.1 < x < 1.1 else None

            self.person(way, self.rng.uniform(0.2, 0.4))

    def finish(self, noise: float = NOISE, shadow: float = 0.0) -> tuple[Array, Array]:
        """(frames, masks): people drawn, noise added, rounded to 8 bits."""
        video = self.background
        shade = np.zeros(self.masks.shape, np.bool_)
        for frame, top, left, look, shape in self.drawn:
            rows = slice(max(top, 0), min(top + shape.shape[0], self.height))
            columns = slice(max(left, 0), min(left + shape.shape[1], self.width))
            if rows.start < rows.stop and columns.start < columns.stop:
                part = (
                    slice(rows.start - top, rows.stop - top),
                    slice(columns.start - left, columns.stop - left),
                )
                inside, colors = shape[part], look[part]
                self.masks[frame, rows, columns] |= inside
                video[frame, rows, columns][inside] = colors[inside]
                shade[frame, rows, columns] |= inside
        if shadow:
            moved = np.roll(shade, (3, 8), (1, 2)) & ~self.masks
            video *= np.where(moved, 1.0 - shadow, 1.0)[..., None]
        video += self.rng.normal(0.0, noise, video.shape)
        return np.clip(np.rint(video), 0, 255).astype(np.uint8), self.masks


def texture(rng: np.random.Generator, height: int, width: int) -> Array:
    """A wall of panels above a floor, with fine and coarse grain, in colour."""
    y, _ = np.mgrid[0:height, 0:width]
    picture = np.where((y < 0.45 * height)[..., None], rng.uniform(90, 150, 3), rng.uniform(80, 130, 3))
    for size, strength in ((1.0, 7.0), (4.0, 9.0), (14.0, 14.0)):
        grain = scipy.ndimage.gaussian_filter(rng.standard_normal((height, width)), size)
        picture += strength * (grain / grain.std())[..., None] * rng.uniform(0.7, 1.3, 3)
    for _ in range(8):
        top, left = rng.integers(0, height - 12), rng.integers(0, width - 16)
        box = (slice(top, top + rng.integers(8, 30)), slice(left, left + rng.integers(8, 30)))
        picture[box] += rng.uniform(-35, 35, 3)
    return np.clip(picture, 25, 225).astype(np.float32)


def moving_field(rng: np.random.Generator, stage: Stage, rows: int, smooth: tuple[float, ...]) -> Array:
    """A random field over time, height and width with unit deviation."""
    noise = scipy.ndimage.gaussian_filter(rng.standard_normal((stage.frames, rows, stage.width)), smooth)
    return np.asarray(noise / noise.std(), np.float32)


def plain(stage: Stage) -> tuple[Array, Array]:
    """Nothing but people."""
    stage.walkers(6)
    return stage.finish()


def waves(stage: Stage) -> tuple[Array, Array]:
    """The lower half is water: bright and dark stripes that travel, 18 gray levels strong."""
    rows = stage.height // 2
    field_ = moving_field(stage.rng, stage, rows, (1.5, 0.8, 3.0))
    stage.background[:, -rows:] += 18.0 * field_[..., None] * np.array([0.9, 1.0, 1.1], np.float32)
    stage.walkers(6)
    return stage.finish()


def leaves(stage: Stage) -> tuple[Array, Array]:
    """The upper half of the picture sways: its texture is displaced by up to three pixels."""
    rows = stage.height // 2
    y, x = np.mgrid[0:rows, 0 : stage.width].astype(np.float32)
    sway = moving_field(stage.rng, stage, rows, (2.0, 6.0, 6.0))
    still = stage.background[0, :rows].copy()
    still += stage.rng.normal(0.0, 18.0, (*still.shape[:2], 1)).astype(np.float32)
    for k in range(stage.frames):
        for channel in range(3):
            where = [y + 0.6 * sway[k], x + 1.5 * sway[k]]
            stage.background[k, :rows, :, channel] = scipy.ndimage.map_coordinates(
                still[..., channel], where, order=1, mode="nearest"
            )
    stage.walkers(6)
    return stage.finish()


def spray(stage: Stage) -> tuple[Array, Array]:
    """A fountain: in a column of the picture, drops that are up to 80 gray levels brighter, each in its place."""
    left, right = round(0.35 * stage.width), round(0.65 * stage.width)
    drops = np.maximum(moving_field(stage.rng, stage, stage.height, (0.7, 1.2, 1.2)) - 0.6, 0.0)
    stage.background[:, :, left:right] += 45.0 * drops[:, :, left:right, None]
    stage.walkers(6)
    return stage.finish()


def jitter(stage: Stage) -> tuple[Array, Array]:
    """The camera shakes by up to a pixel and a half."""
    still = stage.background[0].copy()
    moves = scipy.ndimage.gaussian_filter1d(stage.rng.standard_normal((stage.frames, 2)), 1.0, axis=0)
    for k, move in enumerate(1.2 * moves):
        stage.background[k] = scipy.ndimage.shift(still, (*move, 0.0), order=1, mode="nearest")
    stage.walkers(6)
    return stage.finish()


def lamp(stage: Stage) -> tuple[Array, Array]:
    """A lamp lights a sixth of the picture, and is on for two fifths of the time, in two pieces."""
    y, x = np.mgrid[0 : stage.height, 0 : stage.width]
    spot = np.exp(-(((y / stage.height - 0.35) / 0.16) ** 2 + ((x / stage.width - 0.7) / 0.14) ** 2))
    time = np.arange(stage.frames) / stage.frames
    on = ((time > 0.2) & (time < 0.4)) | ((time > 0.7) & (time < 0.9))
    stage.background *= 1.0 + 0.7 * on[:, None, None, None] * spot[None, ..., None]
    stage.walkers(6)
    return stage.finish()


def window(stage: Stage) -> tuple[Array, Array]:
    """Sunlight through a window: a bright patch with sharp borders, there for a third of the time."""
    time = np.arange(stage.frames) / stage.frames
    on = (time > 0.5) & (time < 0.83)
    patch = np.zeros((stage.height, stage.width))
    patch[
        round(0.6 * stage.height) : round(0.9 * stage.height),
        round(0.2 * stage.width) : round(0.5 * stage.width),
    ] = 1
    stage.background *= (
        1.0 + 0.6 * on[:, None, None, None] * scipy.ndimage.gaussian_filter(patch, 0.7)[..., None]
    )
    stage.walkers(6)
    return stage.finish()


def gain(stage: Stage) -> tuple[Array, Array]:
    """The camera's gain drifts by a fifth and jumps twice."""
    time = np.arange(stage.frames) / stage.frames
    strength = 1.0 + 0.1 * np.sin(7.0 * time) + 0.15 * (time > 0.4) - 0.2 * (time > 0.75)
    stage.background *= strength[:, None, None, None]
    stage.walkers(6)
    return stage.finish()


def shadows(stage: Stage) -> tuple[Array, Array]:
    """Beside every person a soft shadow that takes 12 % of the light; the truth does not count it."""
    stage.walkers(6)
    return stage.finish(shadow=0.12)


def _stays(share: float, leaves_again: bool = True) -> Callable[[Stage], tuple[Array, Array]]:
    def scene(stage: Stage) -> tuple[Array, Array]:
        begin = 0.4 if leaves_again else 1.0 - share
        end = begin + share

        def way(frame: int) -> tuple[float, float] | None:
            time = frame / stage.frames
            if time < begin:
                x = 0.55 - 2.5 * (begin - time)
            elif time < end:
                x = 0.55 + 0.004 * np.sin(frame / 7.0)
            else:
                x = 0.55 + 2.5 * (time - end)
            return (x, 0.92) if -0.2 < x < 1.2 else None

        stage.person(way, 0.55)
        stage.walkers(4)
        return stage.finish()

    return scene


def leaver(stage: Stage) -> tuple[Array, Array]:
    """Somebody who stands there from the beginning and leaves after a third of the time."""

    def way(frame: int) -> tuple[float, float] | None:
        x = 0.4 + 2.5 * max(0.0, frame / stage.frames - 0.33)
        return (x, 0.92) if x < 1.2 else None

    stage.person(way, 0.5)
    stage.walkers(4)
    return stage.finish()


def branches(stage: Stage) -> tuple[Array, Array]:
    """Trees in the wind: dark leaves before a bright sky that sway by up to eight pixels, slowly, for a second each."""
    rows = round(0.6 * stage.height)
    y, x = np.mgrid[0:rows, 0 : stage.width].astype(np.float32)
    sway = moving_field(stage.rng, stage, rows, (8.0, 10.0, 10.0))
    gust = scipy.ndimage.gaussian_filter1d(stage.rng.standard_normal(stage.frames), 12.0)
    gust /= gust.std()
    grain = scipy.ndimage.gaussian_filter(stage.rng.standard_normal((rows, stage.width)), 1.5)
    still = np.where(grain[..., None] > 0.3 * grain.std(), [190.0, 200.0, 215.0], [60.0, 85.0, 45.0])
    for k in range(stage.frames):
        where = [y + 1.0 * sway[k], x + 2.0 * sway[k] + 2.0 * gust[k]]
        for channel in range(3):
            stage.background[k, :rows, :, channel] = scipy.ndimage.map_coordinates(
                still[..., channel], where, order=1, mode="reflect"
            )
    stage.walkers(6)
    return stage.finish()


def boats(stage: Stage) -> tuple[Array, Array]:
    """Small things that cross wide water slowly: a twentieth of the picture high, two minutes at sea."""
    rows = round(0.7 * stage.height)
    field_ = moving_field(stage.rng, stage, rows, (2.0, 0.7, 4.0))
    stage.background[:, -rows:] = stage.background[:, -rows:].mean(axis=(0, 1, 2))
    stage.background[:, -rows:] += 14.0 * field_[..., None] * np.array([0.9, 1.0, 1.1], np.float32)
    for _ in range(3):
        begin, speed = (
            stage.rng.uniform(0.0, 0.4),
            stage.rng.choice([-1.0, 1.0]) * stage.rng.uniform(1.2, 2.2),
        )
        foot, middle = stage.rng.uniform(0.45, 0.95), stage.rng.uniform(0.3, 0.7)

        def way(
            frame: int, begin: float = begin, speed: float = speed, foot: float = foot, middle: float = middle
        ) -> Any:
            x = middle + speed * (frame / stage.frames - begin) - 0.5 * np.sign(speed)
            return (x, foot) if -0.1 < x < 1.1 else None

        stage.person(way, 0.13)
    return stage.finish()


def far(stage: Stage) -> tuple[Array, Array]:
    """People far away: a tenth of the picture high, a few pixels wide."""
    for _ in range(8):
        start, foot = stage.rng.uniform(-0.2, 0.9) * stage.frames, stage.rng.uniform(0.5, 0.95)
        speed = stage.rng.uniform(0.004, 0.008) * stage.rng.choice([-1.0, 1.0])

        def way(frame: int, start: float = start, speed: float = speed, foot: float = foot) -> Any:
            x = (frame - start) * speed + (0.0 if speed > 0 else 1.0)
            return (x, foot) if frame >= start and -0.1 < x < 1.1 else None

        stage.person(way, stage.rng.uniform(0.1, 0.14))
    return stage.finish()


def station(stage: Stage) -> tuple[Array, Array]:
    """A hall: four people come one after the other, each stands for a quarter of the time, while others pass."""
    for k in range(4):
        begin, place = 0.05 + 0.2 * k, 0.15 + 0.22 * k

        def way(frame: int, begin: float = begin, place: float = place) -> Any:
            time = frame / stage.frames
            x = place + 2.5 * (min(time - begin, 0.0) + max(time - begin - 0.25, 0.0))
            x += 0.006 * np.sin(frame / 11.0 + place)
            return (x, 0.85 + 0.04 * (place > 0.5)) if -0.2 < x < 1.2 else None

        stage.person(way, 0.4)
    stage.walkers(6)
    return stage.finish()


def coded(stage: Stage) -> tuple[Array, Array]:
    """Noise of 4 gray levels through a coder with few bits: blocks of 8 × 8 that keep their largest coefficients, and
    are repeated while they hardly change."""
    stage.walkers(6)
    frames, masks = stage.finish(noise=4.0)
    return _coded(frames), masks


def _coded(frames: Array) -> Array:
    count, height, width, _ = frames.shape
    result, before = np.empty_like(frames), np.zeros(frames.shape[1:], np.float32)
    for k in range(count):
        change = frames[k].astype(np.float32) - before
        blocks = change.reshape(height // 8, 8, width // 8, 8, 3)
        terms = scipy.fft.dctn(blocks, axes=(1, 3), norm="ortho")
        step = 24.0
        terms = step * np.rint(terms / step)
        before = before + scipy.fft.idctn(terms, axes=(1, 3), norm="ortho").reshape(before.shape)
        result[k] = np.clip(np.rint(before), 0, 255)
    return result


def heat(stage: Stage) -> tuple[Array, Array]:
    """A thermal camera: the same gray in all channels, low contrast, people a little warmer than the floor, whose
    warmth drifts."""
    stage.background[:] = 90.0 + 0.3 * (stage.background.mean(axis=-1, keepdims=True) - 110.0)
    time = np.arange(stage.frames) / stage.frames
    stage.background += (6.0 * np.sin(5.0 * time))[:, None, None, None]
    stage.walkers(6)
    stage.drawn = [
        (frame, top, left, np.full_like(look, 135.0) + 8.0 * (look[..., :1] > 100.0), shape)
        for frame, top, left, look, shape in stage.drawn
    ]
    frames, masks = stage.finish()
    return np.repeat(frames[..., :1], 3, axis=3), masks


def from_the_start(stage: Stage) -> tuple[Array, Array]:
    """A hundred frames, in the first of which people are there already, and walk slowly."""
    for k in range(4):
        foot, speed = 0.6 + 0.1 * k, 0.6 + 0.15 * k

        def way(frame: int, k: int = k, foot: float = foot, speed: float = speed) -> Any:
            x = 0.15 + 0.22 * k + speed * frame / stage.frames * (1.0 if k % 2 else -1.0)
            return (x, foot) if -0.1 < x < 1.1 else None

        stage.person(way, 0.3)
    return stage.finish()


def crowd(stage: Stage) -> tuple[Array, Array]:
    """Many people: no frame is empty, and some places are hidden for a third of the time."""
    stage.walkers(60)
    return stage.finish()


def noisy(stage: Stage) -> tuple[Array, Array]:
    """Noise of 10 gray levels."""
    stage.walkers(6)
    return stage.finish(noise=10.0)


def clip(stage: Stage) -> tuple[Array, Array]:
    """Twenty frames."""
    stage.walkers(5)
    return stage.finish()


KINDS: dict[str, Callable[[Stage], tuple[Array, Array]]] = {
    "plain": plain, "waves": waves, "leaves": leaves, "spray": spray, "jitter": jitter, "lamp": lamp,
    "window": window, "gain": gain, "shadows": shadows, "stands 10 %": _stays(0.1), "stands 25 %": _stays(0.25),
    "stands 40 %": _stays(0.4), "parks 20 %": _stays(0.2, False), "parks 40 %": _stays(0.4, False),
    "leaver": leaver, "crowd": crowd, "noisy": noisy, "clip": clip, "branches": branches, "boats": boats,
    "far": far, "station": station, "coded": coded, "heat": heat, "from the start": from_the_start,
}  # fmt: skip


LENGTHS = {"clip": 20, "from the start": 100, "branches": 600, "boats": 600, "station": 600}


def render(kind: str, seed: int = 0) -> tuple[Array, Array]:
    """(frames, masks) of one kind: uint8 (frames, height, width, 3) and bool (frames, height, width)."""
    stage = Stage(np.random.default_rng([seed, *map(ord, kind)]), frames=LENGTHS.get(kind, FRAMES))
    return KINDS[kind](stage)


def f_measure(video: Array, masks: Array, every: int = 4) -> float:
    """Of the default mask, over every ``every``-th frame."""
    found = Solved(video).masks(MaskRule(), list(range(0, len(video), every)))
    return sum((score_frame(mask, masks[k]) for k, mask in found), start=Score()).f_measure


def main() -> None:
    """The F-measure of the default mask on scenes of each kind, in colour and in gray; every fourth frame."""
    parser = options_of(__doc__)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--seeds", type=int, default=2, help="scenes of each kind (default: 2)")
    parser.add_argument("--color", action="store_true", help="not in gray")
    arguments = parser.parse_args()
    print("| scene | colour | gray |\n|---|---|---|")
    for kind in arguments.kinds:
        color, gray = [], []
        for seed in range(arguments.seeds):
            frames, masks = render(kind, seed)
            color.append(f_measure(frames, masks))
            if not arguments.color:
                weights = np.array([0.299, 0.587, 0.114])
                gray.append(f_measure(np.rint(frames @ weights).astype(np.uint8), masks))
        print(f"| {kind} | {np.mean(color):.3f} | {f'{np.mean(gray):.3f}' if gray else ''} |", flush=True)


if __name__ == "__main__":
    main()
