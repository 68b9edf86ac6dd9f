"""Masks against known truth, as CDnet counts: precision, recall, F-measure, false positive rate; and backgrounds.

Labels of the truth: 0 static, 50 hard shadow (static for the score), 85 outside the region of interest, 170 unknown,
255 moving. Pixels marked 85 and 170 are not counted, nor are frames outside the temporal range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankwolf.files.door import open_image, read_json, read_small
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed
from rankwolf.ground.low_rank import LowRank
from rankwolf.ground.result_files import SUMMARY
from rankwolf.video.reading import Moment, Selection, open_frames
from rankwolf.video.reading.image_folder import IMAGES, natural_key
from rankwolf.video.scene import Rendered

SHADOW, OUTSIDE, UNKNOWN, MOVING = 50, 85, 170, 255


@dataclass(frozen=True)
class Score:
    """Counts of pixels, and the measures that follow from them; NaN where a measure would divide by 0.

    ``shadow_positives`` are those false positives that are hard shadows.
    """

    true_positives: int = 0
    false_positives: int = 0
    true_negatives: int = 0
    false_negatives: int = 0
    shadow_positives: int = 0
    frames: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def precision(self) -> float:
        """The share of the pixels in the mask that moves."""
        return _share(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> float:
        """The share of the moving pixels that is in the mask."""
        return _share(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def f_measure(self) -> float:
        """The harmonic mean of precision and recall."""
        wrong = self.false_positives + self.false_negatives
        return _share(2 * self.true_positives, 2 * self.true_positives + wrong)

    @property
    def false_positive_rate(self) -> float:
        """The share of the static pixels that is in the mask."""
        return _share(self.false_positives, self.false_positives + self.true_negatives)

    def as_dict(self) -> dict[str, float]:
        """The four measures and the counts, by name."""
        names = ("precision", "recall", "f_measure", "false_positive_rate", *self.__dataclass_fields__)
        return {name: getattr(self, name) for name in names}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def score_frame(mask: Array, labels: Array, region: Array | None = None) -> Score:
    """The score of one frame. ``mask`` is bool; ``labels`` are CDnet's, or a bool mask of what moves.

    ``region`` is True where pixels are counted; None for everywhere.
    """
    truth = labels if labels.dtype == np.bool_ else labels == MOVING
    counted = np.ones(labels.shape, np.bool_) if region is None else region
    if labels.dtype != np.bool_:
        counted = counted & (labels != OUTSIDE) & (labels != UNKNOWN)
    found, missed = mask & counted, ~mask & counted
    hits, misses = int(np.count_nonzero(found & truth)), int(np.count_nonzero(missed & truth))
    shadow = 0 if labels.dtype == np.bool_ else int(np.count_nonzero(found & (labels == SHADOW)))
    return Score(
        hits, int(np.count_nonzero(found)) - hits, int(np.count_nonzero(missed)) - misses, misses, shadow, 1
    )


def score_frames(masks: Iterable[Array], labels: Iterable[Array]) -> Score:
    """The score of as many frames as there are, from the mask and the labels of each (:func:`score_frame`)."""
    return sum(map(score_frame, masks, labels), start=Score())


def background_distances(video: Rendered, low_rank: LowRank) -> dict[str, float]:
    """Root mean square distances from the true background in gray levels: of the frames, of their median, and of L.

    ``low_rank_behind_objects`` counts only the pixels that an object hides, or all where there is no object.
    """
    truth = video.background
    found = low_rank[:].reshape(truth.shape)
    hidden = video.masks if video.masks.any() else np.ones_like(video.masks)

    def distance(error: Array) -> float:
        return float(np.sqrt(np.mean(np.square(error, dtype=np.float64))))

    return {
        "frames": distance(video.frames - truth),
        "median": distance(np.median(video.frames, axis=0) - truth),
        "low_rank": distance(found - truth),
        "low_rank_behind_objects": distance((found - truth)[hidden]),
    }


class Truth:
    """A folder of labelled masks in CDnet's layout, or just the masks.

    ``groundtruth/`` (or the folder itself) has one image for each frame, in natural order, or only for the frames in
    ``temporalROI.txt``: that file has the first and the last frame to count, numbered from 1. ``ROI.bmp`` is white in
    the region of interest. ``numbers`` are the frames to count, numbered from 0.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise ValueError(f"The truth {str(folder)!r} is not a folder of masks.")
        inner = folder / "groundtruth" if (folder / "groundtruth").is_dir() else folder
        found = (file for file in inner.iterdir() if file.suffix.lower() in IMAGES and file.stem != "ROI")
        self.files = sorted(found, key=lambda file: natural_key(file.name))
        if not self.files:
            raise ValueError(f"The folder {str(inner)!r} has no masks.")
        region = next(
            (file for file in (folder / "ROI.bmp", folder / "ROI.png", folder / "ROI.jpg") if file.exists()),
            None,
        )
        self.region = None if region is None else _gray(region) > 127
        wanted = _temporal_range(folder / "temporalROI.txt")
        # A folder may hold the masks of the counted frames alone.
        first = wanted.start if wanted is not None and len(self.files) <= len(wanted) else 0
        self._first = first
        whole = range(first, first + len(self.files))
        self.numbers = whole if wanted is None else range(wanted.start, min(wanted.stop, whole.stop))

    def labels(self, number: int) -> Array:
        """The labels of one frame, counted from 0."""
        return _gray(self.files[number - self._first])


def score_folder(output: Path, truth: Truth) -> Score:
    """The score of the masks that ``rankwolf separate`` wrote to ``output``, over all frames that the truth counts."""
    total = Score()
    for number, mask in masks_of(output):
        if number not in truth.numbers:
            continue
        labels = truth.labels(number)
        region = truth.region
        if region is not None and region.shape != labels.shape:
            raise ValueError(
                f"The region of interest is {region.shape}, the masks of the truth are {labels.shape}."
            )
        total += score_frame(_resize(mask, labels.shape), labels, region)
    if total.frames == 0:
        raise ValueError(
            f"No frame of {str(output)!r} is among the frames {truth.numbers.start} to {truth.numbers.stop - 1} "
            "that the truth counts."
        )
    return total


def masks_of(output: Path) -> Iterator[tuple[int, Array]]:
    """(number in the input, mask) of each frame, from the folder that ``rankwolf separate`` wrote."""
    try:
        summary = read_json(output / SUMMARY)
        first, every = int(summary["first_frame"]), int(summary["every"])
        height, width = int(summary["height"]), int(summary["width"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{str(output)!r} is not a folder that 'rankwolf separate' wrote: {error}"
        ) from error
    source = next((p for p in (output / n for n in ("mask.mp4", "mask.mkv", "mask")) if p.exists()), None)
    if source is None:
        raise ValueError(f"The folder {str(output)!r} has no mask.")
    for i, picture in enumerate(open_frames(source, Selection(Moment(0)))):
        yield first + i * every, picture[:height, :width] > 127


def _temporal_range(path: Path) -> range | None:
    if not path.exists():
        return None
    try:
        first, last = (int(word) for word in read_small(path).split())
    except ValueError as error:
        raise ValueError(f"{str(path)!r} must hold two frame numbers.") from error
    return range(max(0, first - 1), last)


def _gray(path: Path) -> Array:
    with open_image(path, path.parent) as image:
        return np.asarray(image.convert("L"))


def _resize(mask: Array, shape: tuple[int, ...]) -> Array:
    """The mask in the size of the truth, without blending: ``--scale`` may have made it smaller or larger."""
    needed("PIL")
    from PIL import Image

    if mask.shape == shape:
        return mask
    size = (shape[1], shape[0])
    return (
        np.asarray(Image.fromarray(mask.astype(np.uint8) * 255).resize(size, Image.Resampling.NEAREST)) > 127
    )
