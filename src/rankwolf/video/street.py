"""A street in colour with known truth, for the demo: cars that pass, somebody who waits, light that changes.

Every frame is a function of the settings and its number. Pictures are drawn by Pillow at three times the size, so that
edges are as soft as a camera's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import pi, sin
from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.once import computed_once

# Drawn at this multiple of the size, and then made smaller.
FINER = 3
# The drawing's own units: everything below is given for a picture of this size.
WIDTH, HEIGHT = 320, 180
SKY, ROAD, PAVEMENT, GRASS = (150, 190, 225), (92, 94, 98), (172, 166, 156), (104, 140, 82)
HOUSES = ((196, 120, 88), (216, 188, 140), (150, 88, 76), (186, 176, 160), (122, 136, 150))
CARS = ((196, 36, 36), (236, 236, 232), (34, 78, 156), (232, 178, 30), (28, 84, 66), (60, 128, 84))
SKIN, GLASS, TYRE, LAMP = (222, 176, 146), (168, 200, 216), (24, 24, 26), (70, 72, 76)


@dataclass(frozen=True)
class Filmed:
    """One frame: what the camera saw (uint8, RGB), the street without cars and people, and where they are."""

    frame: Array
    background: Array
    mask: Array


@dataclass(frozen=True)
class Street:
    """A street of ``n_frames`` frames; each ``seed`` has other cars. ``noise`` is a standard deviation in gray levels.

    Cars drive in two lanes. One person walks by; another comes, waits at the lamp for a third of the time and goes.
    The sun dims and brightens by a sixth. Cost: about 10 ms a frame.

    >>> street = Street(n_frames=9, height=90, width=160)
    >>> film = street.film(4)
    >>> film.frame.shape, film.mask.shape, len(list(street))
    ((90, 160, 3), (90, 160), 9)
    """

    n_frames: int = 300
    height: int = HEIGHT
    width: int = WIDTH
    seed: int = 0
    noise: float = 2.5

    def film(self, number: int) -> Filmed:
        """One frame with its truth."""
        from PIL import Image, ImageDraw

        canvas, shape = self._empty.copy(), Image.new("L", self._empty.size)
        for drawn, colours in ((canvas, True), (shape, False)):
            pen = _Pen(
                ImageDraw.Draw(drawn), self.width / WIDTH * FINER, self.height / HEIGHT * FINER, colours
            )
            self._actors(pen, number)
        light = 1.0 - sin(2.0 * pi * number / 240.0) / 12.0
        background = light * self._small(self._empty)
        mask = self._small(shape) > 127.0
        seen = np.where(mask[..., None], light * self._small(canvas), background)
        rng = np.random.Generator(np.random.SFC64([self.seed, number]))
        seen = seen + self.noise * rng.standard_normal(seen.shape, np.float32)
        return Filmed(np.clip(np.rint(seen), 0, 255).astype(np.uint8), background, mask)

    def __iter__(self) -> Iterator[Filmed]:
        return map(self.film, range(self.n_frames))

    def __len__(self) -> int:
        return self.n_frames

    def _small(self, picture: Any) -> Array:
        from PIL import Image

        return np.asarray(picture.resize((self.width, self.height), Image.Resampling.BOX), np.float32)

    @computed_once
    def _empty(self) -> Any:
        """The street without cars and people, at the size at which it is drawn."""
        from PIL import Image, ImageDraw

        picture = Image.new("RGB", (self.width * FINER, self.height * FINER), SKY)
        pen = _Pen(ImageDraw.Draw(picture), self.width / WIDTH * FINER, self.height / HEIGHT * FINER, True)
        rng, left = np.random.default_rng(7), 0.0
        for colour in HOUSES:
            _house(pen, left, colour, rng)
            left += 66.0
        pen.box(0, 92, WIDTH, 100, GRASS)
        for x in (40, 128, 236, 300):
            pen.box(x - 2, 74, x + 2, 98, (96, 70, 48))
            pen.disc(x, 62, 15, 17, (74, 118, 62))
            pen.disc(x - 5, 58, 8, 9, (92, 138, 74))
        pen.box(0, 100, WIDTH, 112, PAVEMENT)
        pen.box(0, 112, WIDTH, 166, ROAD)
        pen.box(0, 166, WIDTH, HEIGHT, PAVEMENT)
        for x in range(4, WIDTH, 32):
            pen.box(x, 137.5, x + 16, 139.5, (222, 218, 206))
        pen.box(213, 52, 216, 106, LAMP)
        pen.box(206, 50, 223, 54, LAMP)
        return picture

    def _actors(self, pen: _Pen, number: int) -> None:
        """Cars and people, the farthest first."""
        time = number / self.n_frames
        _person(pen, (1.25 * time - 0.1) * WIDTH, 108, (70, 90, 150), number)
        waits = min(time - 1 / 3, 0.0) + max(time - 2 / 3, 0.0)
        _person(pen, 196 + 620 * waits, 111, (176, 52, 70), number if waits else 0)
        for lane, rest in ((0, 134.0), (1, 161.0)):
            for start, speed, colour in self._traffic[lane]:
                run = number - start
                x = speed * run - 60.0 if lane else WIDTH + 60.0 - speed * run
                if -70.0 < x < WIDTH + 70.0:
                    _car(pen, x, rest, colour, 1.0 + 0.25 * lane, 1 if lane else -1)

    @computed_once
    def _traffic(self) -> list[list[tuple[float, float, tuple[int, int, int]]]]:
        """For each lane (frame of entry, pixels a frame, colour) of its cars; nobody overtakes."""
        rng = np.random.default_rng([self.seed, 1])
        lanes = []
        for lane in range(2):
            speed, start, cars = rng.uniform(3.5, 5.0), rng.uniform(-60.0, 0.0), []
            while start < self.n_frames:
                cars.append((start, speed, CARS[int(rng.integers(len(CARS)))]))
                start += rng.uniform(45.0, 110.0) + 10.0 * lane
            lanes.append(cars)
        return lanes


@dataclass(frozen=True)
class _Pen:
    """Draws in the units of the street; without ``colours`` everything is white."""

    draw: Any
    across: float
    down: float
    colours: bool

    def _colour(self, colour: tuple[int, int, int]) -> Any:
        return colour if self.colours else 255

    def _points(self, *points: float) -> list[float]:
        return [value * (self.down if k % 2 else self.across) for k, value in enumerate(points)]

    def box(self, left: float, top: float, right: float, bottom: float, colour: tuple[int, int, int]) -> None:
        self.draw.rectangle(self._points(left, top, right, bottom), fill=self._colour(colour))

    def disc(self, x: float, y: float, wide: float, high: float, colour: tuple[int, int, int]) -> None:
        self.draw.ellipse(self._points(x - wide, y - high, x + wide, y + high), fill=self._colour(colour))

    def shape(self, points: list[float], colour: tuple[int, int, int]) -> None:
        self.draw.polygon(self._points(*points), fill=self._colour(colour))

    def line(self, points: list[float], wide: float, colour: tuple[int, int, int]) -> None:
        self.draw.line(
            self._points(*points), fill=self._colour(colour), width=max(1, round(wide * self.across))
        )


def _house(pen: _Pen, left: float, colour: tuple[int, int, int], rng: np.random.Generator) -> None:
    top = float(rng.uniform(14.0, 34.0))
    pen.box(left, top, left + 64, 94, colour)
    pen.shape([left - 2, top, left + 32, top - 16, left + 66, top], (112, 60, 52))
    for row in range(3):
        for column in range(4):
            x, y = left + 7 + 14 * column, top + 7 + 19 * row
            if y + 12 < 88:
                pen.box(x, y, x + 8, y + 11, (236, 232, 222))
                pen.box(x + 1, y + 1, x + 7, y + 10, (86, 104, 122))
    pen.box(left + 27, 76, left + 37, 94, (84, 56, 44))


def _car(pen: _Pen, x: float, rest: float, colour: tuple[int, int, int], size: float, way: int) -> None:
    """A car whose wheels stand at the height ``rest``, its middle at x."""
    s, w = size, size * way
    roof = [
        x - 13 * w,
        rest - 13 * s,
        x - 8 * w,
        rest - 20 * s,
        x + 6 * w,
        rest - 20 * s,
        x + 13 * w,
        rest - 13 * s,
    ]
    pen.shape(roof, colour)
    pen.shape([x - 24 * w, rest - 4 * s, x - 24 * w, rest - 12 * s, x + 14 * w, rest - 13 * s, x + 23 * w,
               rest - 10 * s, x + 24 * w, rest - 4 * s], colour)  # fmt: skip
    pen.shape(
        [x - 10 * w, rest - 13 * s, x - 6.5 * w, rest - 18 * s, x - w, rest - 18 * s, x - w, rest - 13 * s],
        GLASS,
    )
    pen.shape(
        [x + w, rest - 13 * s, x + w, rest - 18 * s, x + 5 * w, rest - 18 * s, x + 10 * w, rest - 13 * s],
        GLASS,
    )
    for wheel in (-14, 14):
        pen.disc(x + wheel * w, rest - 3.5 * s, 4.5 * s, 4.5 * s, TYRE)
        pen.disc(x + wheel * w, rest - 3.5 * s, 2 * s, 2 * s, (150, 152, 156))


def _person(pen: _Pen, x: float, rest: float, coat: tuple[int, int, int], number: int) -> None:
    """Somebody whose feet are at the height ``rest``; the legs swing with the number of the frame, 0 stands still."""
    step = 4.0 * sin(number / 3.0)
    for leg in (step, -step):
        pen.line([x, rest - 14, x + leg, rest], 4.0, (46, 48, 62))
    pen.shape([x - 5.5, rest - 13, x - 4.5, rest - 28, x + 4.5, rest - 28, x + 5.5, rest - 13], coat)
    pen.disc(x, rest - 33, 4.2, 5, SKIN)
    pen.disc(x, rest - 35.5, 4.4, 3.4, (58, 40, 30))
