"""A surveillance scene with known truth, for the demo, the tests and the benchmarks: nothing to download.

A textured wall and floor under a few lamps, some of which drift and some of which are switched; textured discs and
rectangles that cross the picture; sensor noise; if asked for, water in a corner of the floor, and a person who comes,
stands still for a third of the time and goes. Before noise, waves and rounding to 8 bits, the background of all frames
together is a matrix of rank ``n_lamps`` exactly.

Every frame is a function of the settings and its number alone. So a long video can be rendered piece by piece, with the
same frames however it is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad
from rankwolf.ground.once import computed_once

# The range of gray levels of the background; objects are darker or brighter than nearly all of it.
DARKEST, BRIGHTEST = 50.0, 190.0
DARK_OBJECT, BRIGHT_OBJECT = 18.0, 228.0
# Independent random streams of one seed.
_SURFACE, _LAMPS, _OBJECTS, _PATHS, _NOISE, _WATER, _PERSON = range(7)


@dataclass(frozen=True)
class Rendered:
    """Consecutive frames and their truth, each of shape (frames, height, width)."""

    start: int
    frames: Array
    """What the camera saw, uint8."""
    background: Array
    """The scene without objects and noise, float32."""
    masks: Array
    """Where an object is, bool."""

    @property
    def matrix(self) -> Array:
        """The frames as rows, uint8, without a copy."""
        return self.frames.reshape(len(self.frames), -1)


@dataclass(frozen=True)
class Scene:
    """The settings of a scene. ``noise`` is a standard deviation in gray levels, ``water`` the height of the waves.

    The waves are not part of the true ``background``: like noise, they are added to it.

    Cost: linear in the pixels, most of it for the noise. Memory of a piece: 6 bytes a pixel and frame.

    >>> scene = Scene(height=30, width=40, n_frames=100, n_lamps=2)
    >>> video = scene.render()
    >>> video.frames.shape, video.frames.dtype
    ((100, 30, 40), dtype('uint8'))
    >>> import numpy as np
    >>> int(np.linalg.matrix_rank(video.background.reshape(100, -1), rtol=1e-5))
    2
    >>> sum(len(piece.frames) for piece in scene.pieces(32))
    100
    """

    height: int = 120
    width: int = 160
    n_frames: int = 300
    noise: float = 2.0
    n_objects: int = 5
    n_lamps: int = 3
    seed: int = 0
    water: float = 0.0
    person: bool = False

    def __post_init__(self) -> None:
        for name, least in (
            ("height", 8),
            ("width", 8),
            ("n_frames", 1),
            ("n_objects", 0),
            ("n_lamps", 1),
            ("seed", 0),
        ):
            if getattr(self, name) < least:
                raise bad(name, f"at least {least}", repr(getattr(self, name)), "Scene")
        if not 0.0 <= self.water < 128.0:
            raise bad("water", "from 0 to 127 gray levels", repr(self.water), "Scene")
        if not 0.0 <= self.noise < 256.0:
            raise bad("noise", "from 0 to 255 gray levels", repr(self.noise), "Scene")

    def render(self, start: int = 0, stop: int | None = None) -> Rendered:
        """Frames ``start`` to before ``stop``, by default all of them, with their truth."""
        numbers = range(*slice(start, stop).indices(self.n_frames))
        shape = (len(numbers), self.height, self.width)
        background = np.zeros(shape, np.float32)
        for strength, pattern in zip(self.lamp_strengths(numbers).T, self._lamp_patterns, strict=True):
            background += strength[:, None, None] * pattern
        frames, masks = np.empty(shape, np.uint8), np.zeros(shape, np.bool_)
        for i, number in enumerate(numbers):
            seen = self._noise_of(number)
            waves = self._waves(number)
            seen += self._with_objects(
                number, background[i] if waves is None else background[i] + waves, masks[i]
            )
            np.rint(seen, out=seen)
            np.clip(seen, 0.0, 255.0, out=seen)
            frames[i] = seen
        return Rendered(numbers.start, frames, background, masks)

    def pieces(self, size: int = 256) -> Iterator[Rendered]:
        """All frames in order, ``size`` at a time; only one piece is in memory."""
        for start in range(0, self.n_frames, size):
            yield self.render(start, start + size)

    def __iter__(self) -> Iterator[Array]:
        """The frames one by one, uint8."""
        for piece in self.pieces(64):
            yield from piece.frames

    def __len__(self) -> int:
        return self.n_frames

    def lamp_strengths(self, numbers: range) -> Array:
        """How bright each lamp is in each frame, of shape (frames, n_lamps), float32.

        Lamps 1, 3, … are switched on and off within a few frames; lamps 0, 2, … drift slowly.
        """
        time = np.arange(numbers.start, numbers.stop, dtype=np.float64)[:, None]
        drift, switch = self._lamp_clocks
        slow = 0.7 + 0.15 * np.sin(time * drift[0] + drift[1]) + 0.15 * np.sin(time * drift[2] + drift[3])
        # tanh makes the sine so steep that it is a switch: off, a few frames of change, on.
        switched = 0.5 + 0.5 * np.tanh(25.0 * np.sin(time * switch[0] + switch[1]))
        odd = np.arange(self.n_lamps) % 2 == 1
        strengths: Array = np.where(odd, switched, slow).astype(np.float32)
        return strengths

    @computed_once
    def _lamp_clocks(self) -> tuple[Array, Array]:
        """Frequencies and phases of drifting lamps, two sines each, and of switches.

        A sine swings once in 100 to 600 frames, a switch acts every 100 to 200.
        """
        rng = np.random.default_rng([self.seed, _LAMPS])
        drift = 2.0 * np.pi / rng.uniform(100.0, 600.0, (4, self.n_lamps))
        drift[1::2] = rng.uniform(0.0, 2.0 * np.pi, (2, self.n_lamps))
        switch = np.stack(
            [np.pi / rng.uniform(100.0, 200.0, self.n_lamps), rng.uniform(0.0, np.pi, self.n_lamps)]
        )
        return drift, switch

    @computed_once
    def _lamp_patterns(self) -> Array:
        """What each lamp alone makes of the surface, of shape (n_lamps, height, width), float32."""
        rng = np.random.default_rng([self.seed, _LAMPS, 1])
        y, x = np.mgrid[0 : self.height, 0 : self.width].astype(np.float64)
        y, x = y / self.height, x / self.width
        patterns = np.empty((self.n_lamps, self.height, self.width))
        for k in range(self.n_lamps):
            place, reach = rng.uniform(0.1, 0.9, 2), rng.uniform(0.15, 0.3)
            spot = np.exp(-((y - place[0]) ** 2 + (x - place[1]) ** 2) / (2.0 * reach**2))
            patterns[k] = (0.9 + 0.2 * x) if k == 0 else spot
        # The first lamp is the daylight, which lights everything; the others together are at most 1.5 times as bright.
        if self.n_lamps > 1:
            patterns[1:] *= 1.5 * patterns[0].max() / patterns[1:].sum(axis=0).max()
        patterns *= self._surface()
        patterns *= BRIGHTEST / patterns.sum(axis=0).max()
        return patterns.astype(np.float32, copy=False)

    def _surface(self) -> Array:
        """How much light each place returns, from DARKEST/BRIGHTEST to 1: a wall of panels above a tiled floor."""
        rng = np.random.default_rng([self.seed, _SURFACE])
        y, x = np.mgrid[0 : self.height, 0 : self.width]
        horizon = round(0.45 * self.height)
        panel, tile = max(4, self.width // 6), max(3, self.width // 16)
        shades = rng.uniform(-0.12, 0.12, self.width // panel + 1)
        wall = 0.62 + shades[x // panel] - 0.25 * (x % panel == 0)
        # Floor tiles grow towards the viewer.
        depth = np.sqrt(np.maximum(y - horizon, 0) / max(1, self.height - horizon))
        row, column = (
            np.floor(7.0 * depth).astype(int),
            np.floor((x - self.width / 2) / (tile * (0.6 + depth))).astype(int),
        )
        floor = 0.42 + 0.13 * ((row + column) % 2)
        surface = np.where(y < horizon, wall, floor) + rng.normal(0.0, 0.025, (self.height, self.width))
        surface -= 0.3 * (np.abs(y - horizon) < 1)
        low = DARKEST / BRIGHTEST
        surface = (surface - surface.min()) / np.ptp(surface)
        return np.asarray(low + (1.0 - low) * surface)

    def _waves(self, number: int) -> Array | None:
        """What water adds to the lower right part of the picture in one frame; None without water."""
        if self.water == 0.0:
            return None
        rng = np.random.default_rng([self.seed, _WATER])
        top, left = round(0.72 * self.height), round(0.4 * self.width)
        y, x = np.mgrid[top : self.height, left : self.width].astype(np.float32)
        height = np.zeros(y.shape, np.float32)
        # Waves a few pixels long, foreshortened as seen from the side, each with a speed of its own.
        for across, along, speed, phase in rng.uniform((0.15, 0.5, 0.4, 0.0), (0.5, 1.4, 1.7, 6.28), (7, 4)):
            direction = 1.0 if phase < 3.14 else -1.0
            height += np.sin(across * x * direction + along * y + speed * number + phase)
        waves = np.zeros((self.height, self.width), np.float32)
        waves[top:, left:] = self.water * np.tanh(height / 2.0)
        return waves

    def _noise_of(self, number: int) -> Array:
        if self.noise == 0.0:
            return np.zeros((self.height, self.width), np.float32)
        rng = np.random.Generator(np.random.SFC64([self.seed, _NOISE, number]))
        sample = rng.standard_normal((self.height, self.width), np.float32)
        sample *= np.float32(self.noise)
        return sample

    def _with_objects(self, number: int, background: Array, mask: Array) -> Array:
        """The noiseless picture with its objects, of which later ones hide earlier ones. Marks them in ``mask``."""
        picture = background.copy()
        places = [path.at(number) for path in self._paths]
        if self.person:
            places.append(self._person_at(number))
        for top, left, sprite in places:
            rows = slice(max(top, 0), max(top + sprite.texture.shape[0], 0))
            columns = slice(max(left, 0), max(left + sprite.texture.shape[1], 0))
            seen = mask[rows, columns]
            inside = (
                slice(rows.start - top, rows.start - top + seen.shape[0]),
                slice(columns.start - left, columns.start - left + seen.shape[1]),
            )
            shape = sprite.shape[inside]
            seen |= shape
            np.copyto(picture[rows, columns], sprite.texture[inside], where=shape)
        return picture

    def _person_at(self, number: int) -> tuple[int, int, _Sprite]:
        """Top, left and picture of the person in one frame.

        The person comes from the left, stands from a third to two thirds of the time, swaying a little, and goes on.
        """
        time, (height, width) = number / self.n_frames, self._person.shape.shape
        way = 0.3 + 2.2 * (min(time - 1 / 3, 0.0) + max(time - 2 / 3, 0.0))
        sway = round(0.006 * self.width * float(np.sin(number / 9.0)))
        return round(0.93 * self.height) - height, round(way * self.width) - width // 2 + sway, self._person

    @computed_once
    def _person(self) -> _Sprite:
        """A head on a body, about a third of the picture high."""
        height, width = max(8, round(0.36 * self.height)), max(5, round(0.12 * self.width))
        y, x = np.mgrid[0:height, 0:width]
        up, aside = y / height, (2 * x + 1 - width) / width
        head = ((up - 0.12) / 0.12) ** 2 + (aside / 0.55) ** 2 <= 1.0
        body = (up > 0.2) & (np.abs(aside) < 0.55 + 0.45 * np.minimum(1.0, 4.0 * (up - 0.2)) * (up < 0.6))
        rng = np.random.default_rng([self.seed, _PERSON])
        texture = np.where(up < 0.24, 212.0, np.where(up < 0.6, 24.0, 36.0)) + rng.normal(0.0, 4.0, y.shape)
        return _Sprite(texture.astype(np.float32), head | body)

    @computed_once
    def _paths(self) -> list[_Path]:
        rng = np.random.default_rng([self.seed, _OBJECTS])
        return [_Path.draw(self, index, rng) for index in range(self.n_objects)]


@dataclass(frozen=True)
class _Sprite:
    """An object's picture: ``texture`` where ``shape`` is True."""

    texture: Array
    shape: Array

    @classmethod
    def draw(cls, height: int, width: int, disc: bool, rng: np.random.Generator) -> _Sprite:
        """A dark or bright disc or rectangle with stripes."""
        y, x = np.mgrid[0:height, 0:width]
        level = DARK_OBJECT if rng.random() < 0.5 else BRIGHT_OBJECT
        stripes = 12.0 * np.sin(y * rng.uniform(0.5, 1.5) + x * rng.uniform(0.5, 1.5))
        round_y, round_x = (2 * y + 1 - height) / height, (2 * x + 1 - width) / width
        shape = round_y**2 + round_x**2 <= 1.0 if disc else np.ones((height, width), np.bool_)
        return cls((level + stripes).astype(np.float32), shape)


@dataclass(frozen=True)
class _Path:
    """An object that crosses the picture, leaves it for a while, and comes back at another height."""

    scene: Scene
    index: int
    sprite: _Sprite
    speed: float
    phase: float

    @classmethod
    def draw(cls, scene: Scene, index: int, rng: np.random.Generator) -> _Path:
        """An object of random size, speed and start.

        It is 10 to 24 % of the picture high and 6 to 14 % wide, and moves by 0.4 to 1.5 % of the width a frame.
        """
        height = max(3, round(scene.height * rng.uniform(0.10, 0.24)))
        width = max(3, round(scene.width * rng.uniform(0.06, 0.14)))
        sprite = _Sprite.draw(height, width, bool(index % 2), rng)
        speed = scene.width * rng.uniform(0.004, 0.015) * (1.0 if rng.random() < 0.5 else -1.0)
        return cls(scene, index, sprite, speed, rng.random())

    def at(self, number: int) -> tuple[int, int, _Sprite]:
        """Top, left and picture of the object in one frame; between two crossings these lie outside the frame."""
        height, width = self.sprite.shape.shape
        run = 1.25 * self.scene.width + width  # a crossing, and some way outside of the picture
        way = self.phase * run + abs(self.speed) * number
        crossing, way = int(way // run), way % run
        # A small hash, not a random generator, which would be slow: this is called for every frame.
        lane = (crossing * 0.6180339887 + self.index * 0.7548776662 + self.phase) % 1.0
        left = round(way) - width if self.speed > 0 else self.scene.width - round(way)
        return round(lane * (self.scene.height - height)), left, self.sprite
