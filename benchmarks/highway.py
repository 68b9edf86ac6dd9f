"""The mask of ``rankwolf separate`` on CDnet's highway, beside other ways: ``python -m benchmarks.highway``.

Everybody is scored by :mod:`rankwolf.video.scoring`, on the frames 470 to 1700 that CDnet counts. Rankwolf runs as a
user would run it, with no option at all. The others get their defaults, and then the best of a grid of thresholds and
filters, chosen by looking at the truth, which flatters them. ``--choices`` shows what each of Rankwolf's own choices is
worth; ``--deltas`` takes the paper's weights instead of ours, ``--colours`` solves them together and one by one, and
``--fista`` solves the same problem by FISTA: these three on every fourth frame.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.ndimage

from benchmarks.data import MissingDataError, folder
from rankwolf.api import decompose
from rankwolf.result import Decomposition
from rankwolf.video.drawing import Separator
from rankwolf.video.mask import MaskRule, drop_small, fill_holes
from rankwolf.video.noise import BACKGROUND_SHARE, LIMIT_IN_SIGMAS, temporal_noise, weights_for
from rankwolf.video.picture import Picture
from rankwolf.video.reading import Selection, open_frames
from rankwolf.video.residual import Residual
from rankwolf.video.scoring import Score, Truth, score_folder, score_frame

Array = np.ndarray[Any, np.dtype[Any]]
Filter = Callable[[Array], Array]
Masks = Iterator[tuple[int, Array]]


def _median(size: int) -> Filter:
    return lambda mask: np.asarray(scipy.ndimage.uniform_filter(mask.astype(np.float32), size) > 0.5)


def _ours(mask: Array) -> Array:
    return drop_small(fill_holes(_median(5)(mask)), 0.001 * mask.size)


FILTERS: dict[str, Filter] = {
    "no filter": lambda mask: mask,
    "median 3": _median(3),
    "median 5": _median(5),
    "median 7": _median(7),
    "median 5, holes filled, specks dropped": _ours,
}


# Where all frames would take too long: FISTA, the paper's weights with their large rank, colours one by one.
EVERY = 4


class Judge:
    """The truth of the counted frames, in memory."""

    def __init__(self, truth: Truth) -> None:
        self.numbers = list(truth.numbers)
        self.labels = {number: truth.labels(number) for number in self.numbers}

    def score(self, masks: Masks) -> Score:
        total = Score()
        for number, mask in masks:
            if number in self.labels:
                total += score_frame(mask, self.labels[number])
        return total


def frames(color: bool, every: int = 1) -> Array:
    path = folder() / "highway" / "input"
    if not path.is_dir():
        raise MissingDataError(
            f"highway: {path} is not there. Set RANKWOLF_DATA to the folder that holds it."
        )
    return np.stack(list(open_frames(path, Selection(color=color, every=every))))


def row(name: str, score: Score, note: str = "") -> None:
    print(
        f"| {name:<44} | {score.f_measure:.4f} | {score.precision:.4f} | {score.recall:.4f} | "
        f"{score.false_positive_rate:.4f} | {note}",
        flush=True,
    )


def best_of(
    name: str, judge: Judge, masks_at: Callable[[float], Masks], thresholds: tuple[float, ...]
) -> None:
    """The best filter and threshold, by the truth."""
    best: tuple[float, str, Score] = (-1.0, "", Score())
    for value in thresholds:
        kept = [(number, mask) for number, mask in masks_at(value) if number in judge.labels]
        for label, clean in FILTERS.items():
            score = judge.score((number, clean(mask)) for number, mask in kept)
            best = max(
                best, (score.f_measure, f"threshold {value:g}, {label}", score), key=lambda item: item[0]
            )
    row(f"{name}, best", best[2], best[1])


def opencv(judge: Judge) -> None:
    import cv2

    video = frames(color=True)[..., ::-1]

    def run(make: Callable[[], Any]) -> Masks:
        model = make()
        for number, frame in enumerate(video):
            yield number, model.apply(np.ascontiguousarray(frame)) == 255  # 127 is what it takes for shadow

    row("OpenCV MOG2, its defaults", judge.score(run(cv2.createBackgroundSubtractorMOG2)))
    row("OpenCV KNN, its defaults", judge.score(run(cv2.createBackgroundSubtractorKNN)))

    def mog2(threshold: float) -> Masks:
        return run(lambda: cv2.createBackgroundSubtractorMOG2(varThreshold=threshold))

    def knn(threshold: float) -> Masks:
        return run(lambda: cv2.createBackgroundSubtractorKNN(dist2Threshold=threshold))

    best_of("OpenCV MOG2", judge, mog2, (8, 16, 32, 64, 96))
    best_of("OpenCV KNN", judge, knn, (100, 200, 400, 800, 1600))


def median_background(judge: Judge) -> None:
    video = frames(color=False)
    still = np.median(video[::5], axis=0).astype(np.float32)

    def masks(threshold: float) -> Masks:
        return ((number, np.abs(video[number] - still) > threshold) for number in judge.numbers)

    best_of("median of frames", judge, masks, (10, 14, 18, 22, 26, 30))


def command(judge: Judge, *options: str) -> None:
    """The command line, from decoding to the score of what it wrote."""
    with tempfile.TemporaryDirectory() as place:
        target = Path(place) / "out"
        words = ["separate", str(folder() / "highway" / "input"), "-o", str(target), "--quiet", *options]
        subprocess.run([sys.executable, "-m", "rankwolf", *words], check=True)
        score = score_folder(target, Truth(folder() / "highway"))
        summary = json.loads((target / "summary.json").read_text())
    note = (
        f"rank {summary['rank']}, threshold {summary['threshold']:.1f}, {summary['seconds']['total']:.0f} s"
    )
    row(" ".join(["rankwolf separate", *options]), score, note)


class Trial:
    """One solution, masked in several ways. ``video`` has every ``every``-th frame."""

    def __init__(
        self, video: Array, lambdas: tuple[float, float], method: str = "auto", every: int = 1, **limits: Any
    ) -> None:
        self.lambdas, self.every = lambdas, every
        self.picture = Picture(video.shape[1], video.shape[2], 3 if video.ndim == 4 else 1)
        self.matrix = video.reshape(len(video), -1)
        started = time.perf_counter()
        self.fit: Decomposition = decompose(self.matrix, lambdas=lambdas, method=method, rng=0, **limits)
        self.seconds = time.perf_counter() - started
        self.residual = Residual.sample(self.matrix, None, self.fit.low_rank, self.picture)

    def level(self, rule: MaskRule) -> float:
        return rule.level(self.residual.noise, self.residual.contrast)

    def masks(self, rule: MaskRule, numbers: list[int]) -> Masks:
        separator = Separator(self.picture, self.lambdas[1], self.level(rule), rule)
        for number in numbers:
            k, left = divmod(number, self.every)
            if left == 0:
                yield number, separator.separate(number, self.matrix[k], None, self.fit.low_rank[k]).mask

    def show(self, name: str, judge: Judge, rule: MaskRule | None = None) -> None:
        rule = rule or MaskRule()
        note = f"rank {self.fit.low_rank.rank}, gap {self.fit.relative_gap:.1e}, threshold {self.level(rule):.1f}"
        row(name, judge.score(self.masks(rule, judge.numbers)), f"{note}, {self.seconds:.0f} s")


def weights_of(matrix: Array) -> tuple[float, float]:
    """As ``rankwolf separate`` chooses them."""
    return weights_for(temporal_noise(matrix), (matrix.shape[0], matrix.shape[1]))


def choices(judge: Judge) -> None:
    """What each choice is worth: one is changed, the others are the defaults."""
    video = frames(color=False)
    lambda_L, lambda_S = weights_of(video.reshape(len(video), -1))
    plain, rule = Trial(video, (lambda_L, lambda_S)), MaskRule()
    plain.show("defaults", judge)
    for part in (24.0, 16.0, 9.0):
        plain.show(f"tolerance 1/{part:g} instead of 1/12", judge, replace(rule, tolerance=1.0 / part))
    for sigmas in (4.0, 5.0, 6.0, 7.0, 8.0, 10.0):
        changed = replace(rule, sigmas=sigmas, tolerance=0.0)
        plain.show(f"{sigmas:g} sigma and no tolerance", judge, changed)
    plain.show("S != 0 as the mask: threshold lambda_S", judge, replace(rule, threshold=lambda_S))
    for vote in (1, 3, 7):
        plain.show(f"vote among {vote} x {vote} instead of 5 x 5", judge, replace(rule, vote=vote))
    plain.show("holes kept", judge, replace(rule, fill_holes=False))
    for area in (0.0, 0.0005, 0.002, 0.005):
        plain.show(f"least area {area:g} instead of 0.001", judge, replace(rule, least_area=area))
    plain.show("no morphology at all", judge, replace(rule, vote=1, fill_holes=False, least_area=0.0))
    for sigmas in (1.0, 2.0, 5.0):
        ratio = sigmas / LIMIT_IN_SIGMAS
        trial = Trial(video, (ratio * lambda_L, ratio * lambda_S))
        trial.show(f"lambda_S = {sigmas:g} sigma instead of {LIMIT_IN_SIGMAS:g}", judge)
    for share in (0.002, 0.01, 0.02, 0.1):
        trial = Trial(video, ((share / BACKGROUND_SHARE) ** 0.5 * lambda_L, lambda_S), max_seconds=600.0)
        trial.show(f"theta = {share:g} instead of {BACKGROUND_SHARE:g}", judge)


def deltas(judge: Judge) -> None:
    """The paper's weights instead of ours, on every fourth frame."""
    video = frames(color=False, every=EVERY)
    matrix = video.reshape(len(video), -1)
    Trial(video, weights_of(matrix), every=EVERY).show("every 4th frame, defaults", judge)
    norm = float(np.linalg.norm(matrix.astype(np.float32)))
    for delta in (1e-3, 3e-3, 1e-2):
        weights = (delta * norm, delta * norm / max(matrix.shape) ** 0.5)
        trial = Trial(video, weights, every=EVERY, max_seconds=120.0)
        trial.show(f"every 4th frame, the paper's rule, delta = {delta:g}", judge)


def colours(judge: Judge) -> None:
    """Colour: the channels in one matrix, and one by one; on every fourth frame."""
    video = frames(color=True, every=EVERY)
    weights = weights_of(video.reshape(len(video), -1))
    Trial(video, weights, every=EVERY).show("every 4th frame, colour in one matrix", judge)
    trials = []
    for channel in range(3):
        plane = np.ascontiguousarray(video[..., channel])
        trials.append(Trial(plane, weights_of(plane.reshape(len(plane), -1)), every=EVERY))
    rule = replace(MaskRule(), vote=1, fill_holes=False, least_area=0.0)

    def masks() -> Masks:
        for parts in zip(*(trial.masks(rule, judge.numbers) for trial in trials), strict=True):
            yield parts[0][0], _ours(parts[0][1] | parts[1][1] | parts[2][1])

    note = "ranks " + ", ".join(str(trial.fit.low_rank.rank) for trial in trials)
    row(
        "every 4th frame, colours one by one",
        judge.score(masks()),
        f"{note}, {sum(trial.seconds for trial in trials):.0f} s",
    )


def fista(judge: Judge) -> None:
    """The same problem by FISTA: what differs is the solver alone. All frames would take it half an hour."""
    video = frames(color=False, every=EVERY)
    weights = weights_of(video.reshape(len(video), -1))
    for method in ("hybrid", "fista"):
        trial = Trial(video, weights, method, EVERY, max_seconds=1200.0)
        trial.show(f"every {EVERY}th frame, by {method}", judge)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    extra = {"choices": choices, "deltas": deltas, "colours": colours, "fista": fista}
    for name in extra:
        parser.add_argument(f"--{name}", action="store_true")
    arguments = parser.parse_args()
    judge = Judge(Truth(folder() / "highway"))
    print("| what | F-measure | precision | recall | false positive rate | note\n|---|---|---|---|---|---")
    if asked := [run for name, run in extra.items() if getattr(arguments, name)]:
        for run in asked:
            run(judge)
        return
    command(judge)
    command(judge, "--color")
    median_background(judge)
    opencv(judge)


if __name__ == "__main__":
    main()
