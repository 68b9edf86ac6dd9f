"""``rankwolf.separate``: a video, separated; its pictures are made when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad
from rankwolf.platform import available_memory
from rankwolf.video.drawing import Painter, Pictures
from rankwolf.video.picture import Picture
from rankwolf.video.reading import Selection, open_frames
from rankwolf.video.residual_noise import Residual
from rankwolf.video.rule import MaskRule
from rankwolf.video.separation import (
    Clip,
    Job,
    Silent,
    SolveSettings,
    background_image,
    learn_masker,
    solve_clip,
)
from rankwolf.video.shake import steadied
from rankwolf.video.store import FrameStore
from rankwolf.video.tracks import Box, Tracker

if TYPE_CHECKING:
    from rankwolf.result.decomposition import Decomposition


@dataclass(frozen=True, eq=False)
class Frames:
    """One kind of picture of every frame, made when it is asked for: ``frames[3]``, ``frames[10:20]``, a loop.

    ``np.asarray(frames)`` makes all of them at once.
    """

    _separated: Separated
    _name: str

    def __len__(self) -> int:
        return len(self._separated)

    @property
    def shape(self) -> tuple[int, ...]:
        """(frames, height, width) or (frames, height, width, 3)."""
        return (len(self), *self[0].shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """bool for masks, else uint8."""
        return np.dtype(np.bool_ if self._name == "mask" else np.uint8)

    @overload
    def __getitem__(self, which: int) -> Array: ...
    @overload
    def __getitem__(self, which: slice) -> Array: ...
    def __getitem__(self, which: int | slice) -> Array:
        if isinstance(which, slice):
            numbers = range(*which.indices(len(self)))
            return (
                np.stack([self[k] for k in numbers])
                if numbers
                else np.empty((0, *self.shape[1:]), self.dtype)
            )
        return np.asarray(getattr(self._separated.pictures(which), self._name))

    def __iter__(self) -> Iterator[Array]:
        return (self[k] for k in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)


@dataclass(frozen=True, eq=False)
class Separated:
    """What :func:`separate` returns: ``masks``, ``backgrounds`` and ``foregrounds`` are read like arrays.

    ``background`` is one picture of the scene without objects, ``fit`` the decomposition behind it.
    """

    clip: Clip
    fit: Decomposition
    background: Array
    _painter: Painter = field(repr=False)

    def __len__(self) -> int:
        return len(self.clip.frames)

    def pictures(self, number: int) -> Pictures:
        """All pictures of one frame; negative numbers count from the end."""
        count = len(self)
        if not -count <= number < count:
            raise IndexError(f"The video has {count} frames: number {number} is not among them.")
        number %= count
        return self._painter.paint(
            number, self.clip.frames[number : number + 1][0], None, self.fit.low_rank[number]
        )

    @property
    def masks(self) -> Frames:
        """Where something moves: bool."""
        return Frames(self, "mask")

    @property
    def backgrounds(self) -> Frames:
        """The scene without objects, in the light of each frame: uint8."""
        return Frames(self, "background")

    @property
    def foregrounds(self) -> Frames:
        """The frames inside their masks, black elsewhere: uint8."""
        return Frames(self, "foreground")

    def objects(self) -> Iterator[list[Box]]:
        """The objects of each frame, with the numbers of their tracks."""
        tracker = Tracker()
        for number, mask in enumerate(self.masks):
            yield tracker.follow(number, mask)


def separate(
    video: str | Path | Array,
    *,
    rule: MaskRule | None = None,
    color: bool | None = None,
    every: int = 1,
    scale: float = 1.0,
    lambdas: tuple[float, float] | None = None,
    seed: int = 0,
    n_threads: int | None = None,
) -> Separated:
    """Separate a video: background, foreground, masks, objects.

    ``video`` is a path that ``rankwolf separate`` reads, or frames as a uint8 array (frames, height, width) or (frames,
    height, width, 3). The frames are kept, in memory while they take at most half of it, else on disk; the pictures are
    made when they are asked for. ``color``, ``every`` and ``scale`` say how a path is read.

    >>> import rankwolf as rw
    >>> from rankwolf.video.scene import Scene
    >>> frames = Scene(height=30, width=40, n_frames=60).render().frames
    >>> found = rw.separate(frames)
    >>> found.masks.shape, found.masks[7].dtype, found.background.shape
    ((60, 30, 40), dtype('bool'), (30, 40))
    """
    if isinstance(every, bool) or every < 1:
        raise bad("every", "a whole number of at least 1", repr(every), "separate")
    limit = available_memory() // 2
    if isinstance(video, str | Path):
        reader = open_frames(Path(video), Selection(every=every, scale=scale, color=color))
        picture = Picture(reader.height, reader.width, reader.channels)
        source: Any = reader
        expected = reader.expected
        name = Path(video)
    else:
        if color is not None or scale != 1.0:
            raise ValueError("color and scale say how a file is read. Leave them out where frames are given.")
        is_video = isinstance(video, np.ndarray) and video.dtype == np.uint8
        if not is_video or not (video.ndim == 3 or (video.ndim == 4 and video.shape[3] == 3)):
            got = (
                f"{video.dtype} of shape {video.shape}"
                if isinstance(video, np.ndarray)
                else type(video).__name__
            )
            rule_said = "a path, or a uint8 array (frames, height, width) or (frames, height, width, 3)"
            raise bad("video", rule_said, got, "separate")
        source = video[::every]
        picture = Picture(video.shape[1], video.shape[2], 1 if video.ndim == 3 else 3)
        expected, name = len(source), Path()
    store = FrameStore(picture.columns, expected, limit, Path(gettempdir()))
    steady, steady_frames = steadied(source)
    for frame in steady_frames:
        store.append(picture.to_row(frame))
    store.flush()
    if len(store) < 2:
        raise ValueError(
            f"A background needs at least 2 frames to be told from the rest. Got {len(store)} instead."
        )
    job = Job(
        source=name,
        solve=SolveSettings(lambdas=lambdas, seed=seed, n_threads=n_threads),
        rule=rule or MaskRule(),
        style="cutout",
    )
    clip = Clip(picture, store)
    fit = solve_clip(clip, job.solve, 1.0, Silent())
    masker = learn_masker(clip, fit, job, Residual.sample(store, None, fit.low_rank, picture))
    assert fit.lambdas is not None
    painter = Painter(picture, fit.lambdas[1], masker, job.style, steady)
    return Separated(clip, fit, background_image(fit, picture, masker), painter)
