"""A separated frame as pictures, and all of them written in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed
from rankwolf.ground.low_rank import LowRank
from rankwolf.kernels.pictures import quantiles
from rankwolf.result.residual import sparse_of
from rankwolf.video.mask import Look, MaskModel, Threshold
from rankwolf.video.picture import Picture
from rankwolf.video.picture_writers import Sink
from rankwolf.video.shake import Steady, moved
from rankwolf.video.side_by_side import finish
from rankwolf.video.tracks import Box

T = TypeVar("T")

MIDDLE_GRAY = 128
# How many bytes a block of frames that are separated together takes as float32.
BLOCK_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, eq=False)
class FrameBlock:
    """Consecutive frames from number ``first`` on: rows of the matrix, of the mask of what is observed, and of L."""

    first: int
    frames: Array
    present: Array | None
    low_rank: Array


def rows_at_once(picture: Picture) -> int:
    """How many frames make a block: as many as fit into BLOCK_BYTES as float32, at least one."""
    return max(1, BLOCK_BYTES // (4 * picture.columns))


@dataclass(frozen=True, eq=False)
class Pictures:
    """One frame, separated, as pictures: uint8, and bool for the mask."""

    number: int
    observed: Array
    background: Array
    foreground: Array
    mask: Array

    @property
    def activity(self) -> float:
        """The share of the picture that moves."""
        return np.count_nonzero(self.mask) / self.mask.size


@dataclass(frozen=True, eq=False)
class Painter:
    """Makes the pictures of a frame from its row and its row of L.

    ``style`` of the foreground: "signed" is S on middle gray, "absolute" is |S|, "cutout" the frame inside the mask.
    """

    picture: Picture
    lambda_S: float
    masker: MaskModel | Threshold
    style: str = "signed"
    steady: Steady | None = None
    """What moved the frames; their pictures are moved back."""

    def paint(self, number: int, row: Array, present: Array | None, low_rank: Array) -> Pictures:
        """One frame as pictures; ``present`` is True where an entry is observed, None for everywhere.

        Entries that are not observed are black in the frame, and zero in S.
        """
        picture, region = self.picture, self.picture.region
        look = Look.at(picture, row, present, low_rank)
        if isinstance(self.masker, MaskModel):
            mask, background = self.masker.separate(look)
            low_rank = picture.to_row(background.reshape(picture.shape))
        else:
            mask = self.masker.mask(look)
        if region is not None:
            mask &= region
        residual = np.subtract(row, low_rank, dtype=np.float32)
        if present is not None:
            residual[~present] = 0.0
            row = np.where(present, row, np.uint8(0))
        pictures = (
            picture.to_frame(row),
            picture.to_frame(to_gray_levels(low_rank)),
            self._foreground(row, residual, mask),
            mask,
        )
        if self.steady is not None:
            down, right = self.steady.shifts[number]
            pictures = tuple(moved(part, (-down, -right)) for part in pictures)  # type: ignore[assignment]
        return Pictures(number, *pictures)

    def _foreground(self, row: Array, residual: Array, mask: Array) -> Array:
        if self.style == "cutout":
            frame = self.picture.to_frame(row)
            return np.where(mask if frame.ndim == 2 else mask[..., None], frame, np.uint8(0))
        sparse = sparse_of(residual, self.lambda_S)
        if self.style == "absolute":
            return self.picture.to_frame(to_gray_levels(np.abs(sparse)))
        sparse += MIDDLE_GRAY
        return self.picture.to_frame(to_gray_levels(sparse), outside=MIDDLE_GRAY)


def overlay(pictures: Pictures, boxes: Iterable[Box]) -> Array:
    """The frame in colour, red where something moves, with a yellow box and the number of each object: uint8."""
    needed("PIL")
    from PIL import Image, ImageDraw

    frame = pictures.observed
    shown = (np.stack([frame] * 3, axis=-1) if frame.ndim == 2 else frame).copy()
    shown[pictures.mask] = shown[pictures.mask] // 2 + np.array([127, 0, 0], np.uint8)
    canvas = Image.fromarray(shown)
    pen = ImageDraw.Draw(canvas)
    for box in boxes:
        right, bottom = box.left + box.width - 1, box.top + box.height - 1
        pen.rectangle((box.left, box.top, right, bottom), outline=(255, 220, 0))
        pen.text((box.left + 2, box.top), str(box.id), fill=(255, 220, 0))
    return np.asarray(canvas)


def to_gray_levels(values: Array) -> Array:
    """The values rounded, and clipped to 0 … 255, as uint8."""
    rounded = np.rint(values)
    np.clip(rounded, 0.0, 255.0, out=rounded)
    return rounded.astype(np.uint8)


def write_pictures(
    blocks: Iterable[FrameBlock],
    painter: Painter,
    sinks: dict[str, Sink],
    visit: Callable[[Pictures], None],
    n_threads: int,
) -> None:
    """Separate every frame, in order: each picture goes to the sink of its name, all pictures of a frame to ``visit``.

    While one block is separated, its frames side by side in ``n_threads`` threads, the next one is read or fitted, and
    the one before is written; each sink, and ``visit``, has a thread of its own. A block is written only after the one
    before, so no more than two blocks of pictures are in memory.
    """
    # Set after an error, so that the writers stop at once instead of finishing their block.
    stop = threading.Event()
    writing: list[Future[None]] = []
    with ThreadPoolExecutor(n_threads) as workers, ThreadPoolExecutor(1 + len(sinks)) as writers:
        try:
            for block in ahead(blocks):
                done = list(
                    workers.map(lambda i, b=block: _of_block(painter, b, i), range(len(block.frames)))
                )
                finish(writing)
                writing = [
                    writers.submit(_write, sink, [getattr(p, name) for p in done], stop)
                    for name, sink in sinks.items()
                ]
                writing.append(writers.submit(_visit, visit, done, stop))
            finish(writing)
            for sink in sinks.values():
                sink.close()
        except BaseException:
            stop.set()
            writers.shutdown()
            writing.clear()
            for sink in sinks.values():
                sink.abandon()
            raise


def ahead(items: Iterable[T]) -> Iterator[T]:
    """The same items; a thread makes the next one while the caller works on the present one.

    >>> list(ahead(range(3)))
    [0, 1, 2]
    """
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1) as maker:
        coming: Future[Any] = maker.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = maker.submit(next, iterator, end)
            yield item


def _of_block(painter: Painter, block: FrameBlock, i: int) -> Pictures:
    present = None if block.present is None else block.present[i]
    return painter.paint(block.first + i, block.frames[i], present, block.low_rank[i])


def _write(sink: Sink, pictures: list[Array], stop: threading.Event) -> None:
    for picture in pictures:
        if stop.is_set():
            return
        sink.write(picture.astype(np.uint8) * 255 if picture.dtype == np.bool_ else picture)


def _visit(visit: Callable[[Pictures], None], frames: list[Pictures], stop: threading.Event) -> None:
    for pictures in frames:
        if stop.is_set():
            return
        visit(pictures)


def median_background(low_rank: LowRank, picture: Picture, most: int = 101) -> Array:
    """The median of L over at most ``most`` frames, spread over time, pixel by pixel: a frame of uint8."""
    rows = np.unique(np.linspace(0, low_rank.shape[0] - 1, most).astype(int))
    still = np.empty(picture.columns, np.uint8)
    step = max(1, 4 * 1024 * 1024 // rows.size)
    scaled = (low_rank.u[rows] * low_rank.s).astype(np.float32)
    for first in range(0, picture.columns, step):
        part = scaled @ low_rank.vt[:, first : first + step].astype(np.float32)
        still[first : first + step] = to_gray_levels(quantiles(part.astype(np.float16), 0.5))
    return picture.to_frame(still)
