"""Real backgrounds, real objects, exact truth, nothing tuned on them: ``python -m benchmarks collages``.

The constants of the mask were chosen on four videos, so their F-measures flatter it. Here their parts are put together
anew: water, a fountain and an office, from the frames before anything comes, and objects that were cut out along the
truth of the other videos (cars, a man, a canoe). Four objects cross the picture, at other speeds than they had, and a
fifth comes, stands for a quarter of the time, and goes. Masks at their defaults, every fourth frame; ``--rivals`` shows
OpenCV's on the same frames, each the better of two as in :mod:`benchmarks.quality.cdnet`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.ndimage

from benchmarks.data import folder
from benchmarks.harness.options import options_of
from benchmarks.quality.cdnet import Solved, frames_of, subtractors
from rankwolf.ground.arrays import Array
from rankwolf.video.mask import MaskRule
from rankwolf.video.reading import Moment, Selection, open_frames
from rankwolf.video.scoring import Score, Truth, score_frame
from rankwolf.video.tidy import majority

# Frames of each video in which nothing moves but the background.
EMPTY = {"canoe": 780, "fountain01": 390, "office": 560}
# Where objects are cut out, and how many pixels they have.
SOURCES = {"highway": (1500, 9000), "office": (6000, 40000), "canoe": (1500, 12000)}
CROSSINGS, STANDS = 4, 0.25


@dataclass(frozen=True)
class Cutout:
    """An object: its colours (height, width, 3) where ``shape`` is True."""

    colors: Array
    shape: Array


def frame_of(name: str, number: int) -> Array:
    """One frame of a video."""
    one = Selection(Moment(number), Moment(number + 1), color=True)
    return next(iter(open_frames(folder() / name / "input", one)))


def cutouts(name: str, count: int, rng: np.random.Generator) -> list[Cutout]:
    """Objects of a video, from frames drawn at random, without the outermost pixel."""
    truth = Truth(folder() / name)
    least, most = SOURCES[name]
    found: list[Cutout] = []
    for number in rng.permutation(list(truth.numbers)):
        labels = truth.labels(int(number))
        parts, _ = scipy.ndimage.label(labels == 255)
        for k, box in enumerate(scipy.ndimage.find_objects(parts), start=1):
            shape = scipy.ndimage.binary_erosion(parts[box] == k)
            inside = all(
                side.start > 0 and side.stop < size for side, size in zip(box, labels.shape, strict=True)
            )
            if inside and least <= np.count_nonzero(shape) <= most:
                found.append(Cutout(frame_of(name, int(number))[box], shape))
        if len(found) >= count:
            break
    return found[:count]


def paste(frame: Array, mask: Array, thing: Cutout, top: int, left: int) -> None:
    """Draw an object, as far as it is in the picture."""
    height, width = thing.shape.shape
    rows = slice(max(top, 0), min(top + height, frame.shape[0]))
    columns = slice(max(left, 0), min(left + width, frame.shape[1]))
    if rows.start >= rows.stop or columns.start >= columns.stop:
        return
    part = (slice(rows.start - top, rows.stop - top), slice(columns.start - left, columns.stop - left))
    shape = thing.shape[part]
    frame[rows, columns][shape] = thing.colors[part][shape]
    mask[rows, columns] |= shape


def collage(name: str, objects: list[Cutout], rng: np.random.Generator) -> tuple[Array, Array]:
    """(frames, masks): the background of ``name`` with these objects; the last one stands."""
    video = frames_of(name)[: EMPTY[name]].copy()
    count, height, width, _ = video.shape
    masks = np.zeros(video.shape[:3], np.bool_)
    ways: list[tuple[Cutout, Callable[[int], float], int]] = []
    for thing in objects[:-1]:
        start, speed = rng.uniform(0.0, 0.7) * count, width * rng.uniform(0.003, 0.012)
        size = thing.shape.shape
        top = int(rng.uniform(0.2, 0.95) * height) - size[0] // 2

        def cross(k: int, start: float = start, speed: float = speed, across: int = size[1]) -> float:
            return -across + (k - start) * speed if k >= start else -9999.0

        ways.append((thing, cross, top))
    stander, begin, place = objects[-1], rng.uniform(0.2, 0.5), rng.uniform(0.3, 0.6) * width

    def stand(k: int) -> float:
        time = k / count
        return float(place + 3.0 * width * (min(time - begin, 0.0) + max(time - begin - STANDS, 0.0)))

    ways.append((stander, stand, height - stander.shape.shape[0] - height // 12))
    for k in range(count):
        for thing, way, top in ways:
            paste(video[k], masks[k], thing, top, round(way(k)))
    return video, masks


def scene(name: str, seed: int) -> tuple[Array, Array]:
    """The collage of one background; its objects come from the other videos."""
    rng = np.random.default_rng([seed, *map(ord, name)])
    things = [thing for source in SOURCES if source != name for thing in cutouts(source, CROSSINGS, rng)]
    rng.shuffle(things)
    return collage(name, things[: CROSSINGS + 1], rng)


def rival_scores(video: Array, masks: Array, numbers: range) -> dict[str, float]:
    """OpenCV's, which see all frames."""
    found = {}
    for rival, make in subtractors().items():
        model, plain, filtered = make(), Score(), Score()
        for k, frame in enumerate(video):
            raw = model.apply(np.ascontiguousarray(frame[..., ::-1])) == 255
            if k in numbers:
                plain += score_frame(raw, masks[k])
                filtered += score_frame(majority(raw, None, 5), masks[k])
        found[rival] = max(plain.f_measure, filtered.f_measure)
    return found


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--backgrounds", nargs="+", choices=list(EMPTY), default=list(EMPTY))
    parser.add_argument("--seeds", type=int, default=2, help="collages of each (default: 2)")
    parser.add_argument("--rivals", action="store_true")
    arguments = parser.parse_args()
    print("| background | seed | F-measure | precision | recall | others\n|---|---|---|---|---|---")
    for name in arguments.backgrounds:
        for seed in range(arguments.seeds):
            video, masks = scene(name, seed)
            numbers = range(0, len(video), 4)
            found = Solved(video).masks(MaskRule(), list(numbers))
            score = sum((score_frame(mask, masks[k]) for k, mask in found), start=Score())
            cells = f"{score.f_measure:.3f} | {score.precision:.3f} | {score.recall:.3f}"
            others = rival_scores(video, masks, numbers) if arguments.rivals else {}
            said = ", ".join(f"{rival} {value:.3f}" for rival, value in others.items())
            print(f"| {name} | {seed} | {cells} | {said}", flush=True)


if __name__ == "__main__":
    main()
