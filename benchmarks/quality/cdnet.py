"""The mask of ``rankwolf separate`` on four CDnet videos, beside OpenCV's: ``python -m benchmarks cdnet``.

Highway (cars), office (a man who stands still), canoe (waves) and fountain01 (spray). Everybody is scored by
:mod:`rankwolf.video.scoring` on every frame that CDnet counts. Rankwolf runs as a user would run it, with no option at
all. MOG2, KNN, GSOC and CNT get all frames, and the better of two settings by the truth: their defaults, and those with
a median filter of 5 × 5.

``--stages`` leaves out one stage after the other. ``--leave-one-out`` tries neighbours of every constant that was
chosen on data, takes the best on three videos, and scores it on the fourth: the honest number. Both solve each video
once; ``--every N`` scores every N-th frame, which is quicker and nearly the same.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import MissingDataError, folder
from rankwolf.api.decompose import decompose
from rankwolf.ground.arrays import Array
from rankwolf.video.absorbed import AbsorbedRule
from rankwolf.video.consensus import ConsensusRule
from rankwolf.video.light import LightTest
from rankwolf.video.mask import Look, MaskModel, MaskRule, Threshold
from rankwolf.video.noise import temporal_noise, weights_for
from rankwolf.video.picture import Picture
from rankwolf.video.reading import Selection, open_frames
from rankwolf.video.residual import Residual
from rankwolf.video.scoring import Score, Truth, score_folder, score_frame
from rankwolf.video.tidy import majority

VIDEOS = ("highway", "office", "canoe", "fountain01")
Masks = Iterator[tuple[int, Array]]


def frames_of(name: str, color: bool = True) -> Array:
    path = folder() / name / "input"
    if not path.is_dir():
        raise MissingDataError(f"{name}: {path} is not there. Set RANKWOLF_DATA to the folder that holds it.")
    return np.stack(list(open_frames(path, Selection(color=color))))


class Solved:
    """A video with its L at the default weights; its masks by any rule. ``frames`` are (count, height, width[, 3])."""

    def __init__(self, frames: Array, lambdas: tuple[float, float] | None = None) -> None:
        self.picture = Picture(frames.shape[1], frames.shape[2], 3 if frames.ndim == 4 else 1)
        self.matrix = frames.reshape(len(frames), -1)
        self.noise = temporal_noise(self.matrix)
        shape = (self.matrix.shape[0], self.matrix.shape[1])
        weights = lambdas or weights_for(self.noise, shape)
        self.low_rank = decompose(self.matrix, lambdas=weights, rng=0).low_rank
        self.residual = Residual.sample(self.matrix, None, self.low_rank, self.picture)

    def look(self, number: int) -> Look:
        return Look.at(self.picture, self.matrix[number], None, self.low_rank[number])

    def masker(self, rule: MaskRule | None) -> MaskModel | Threshold:
        """None is the rule of photographs: one level for all pixels."""
        if rule is None:
            return Threshold.choose(MaskRule(), self.residual.noise, self.residual.contrast)
        return MaskModel.learn(rule, len(self.matrix), self.look, self.noise)

    def masks(self, rule: MaskRule | None, numbers: list[int]) -> Masks:
        masker = self.masker(rule)
        for number in numbers:
            yield number, masker.mask(self.look(number))


class Judge:
    """The truth of every ``every``-th counted frame."""

    def __init__(self, name: str, every: int = 1) -> None:
        truth = Truth(folder() / name)
        self.region = truth.region
        self.numbers = list(truth.numbers)[::every]
        self.labels = {number: truth.labels(number) for number in self.numbers}

    def score(self, masks: Masks) -> Score:
        found = (score_frame(mask, self.labels[k], self.region) for k, mask in masks if k in self.labels)
        return sum(found, start=Score())


def stages() -> dict[str, MaskRule | None]:
    """The default, and without one stage each."""
    plain, absorbed = MaskRule(), AbsorbedRule()
    consensus = plain.consensus
    return {
        "everything": plain,
        "one threshold instead of the model": None,
        "no cleaning of the samples": replace(plain, consensus=replace(consensus, cleaning=0)),
        "one round of cleaning": replace(plain, consensus=replace(consensus, cleaning=1)),
        "few visits are enough everywhere": replace(plain, consensus=replace(consensus, many_visits=3)),
        "no samples of neighbours": replace(plain, consensus=replace(consensus, borrowed=0)),
        "three matches whatever the noise": replace(plain, consensus=replace(consensus, sensitivity=99.0)),
        "what stays is background": replace(plain, absorbed=None),
        "no test for light": replace(plain, absorbed=replace(absorbed, light=LightTest(2.0, 2.0))),
        "shadows of what stays move": replace(plain, shadows=False),
        "no vote": replace(plain, vote=1),
        "holes kept": replace(plain, fill_holes=False),
        "specks kept": replace(plain, least_area=0.0),
    }


def neighbours() -> dict[str, list[MaskRule]]:
    """For each constant that was chosen on data: the default first, then values around it."""
    plain, consensus, absorbed = MaskRule(), ConsensusRule(), AbsorbedRule()

    def of_consensus(name: str, *values: Any) -> list[MaskRule]:
        return [plain] + [replace(plain, consensus=replace(consensus, **{name: value})) for value in values]

    def of_absorbed(name: str, *values: Any) -> list[MaskRule]:
        return [plain] + [replace(plain, absorbed=replace(absorbed, **{name: value})) for value in values]

    return {
        "radius": of_consensus("radius", 14.0, 23.0),
        "matches": of_consensus("matches", 2, 5),
        "samples": of_consensus("samples", 40, 90),
        "reach": of_consensus("reach", 1.0, 3.0),
        "near": of_consensus("near", 9.0, 15.0),
        "few visits": of_consensus("few_visits", 2, 5),
        "many visits": of_consensus("many_visits", 8, 18),
        "flicker": of_consensus("flicker", (0.15, 0.25), (0.3, 0.45)),
        "absorbed level": of_absorbed("level", 15.0, 27.0),
        "activity factor": of_absorbed("activity_factor", 2.0, 4.0),
        "shadow distance": of_absorbed("shadow_distance", 10.0, 18.0),
        "texture": of_absorbed("light", LightTest(texture=0.65), LightTest(texture=0.85)),
        "vote": [plain, replace(plain, vote_side=5.0), replace(plain, vote_side=9.0)],
        "least area": [plain, replace(plain, least_area=0.0005), replace(plain, least_area=0.002)],
    }


def row(name: str, values: list[float], note: str = "") -> None:
    cells = " | ".join(f"{value:.3f}" for value in [*values, float(np.mean(values))])
    print(f"| {name} | {cells} | {note}", flush=True)


def command(name: str, *options: str) -> Score:
    """The command line, from decoding to the score of what it wrote."""
    with tempfile.TemporaryDirectory() as place:
        target = Path(place) / "out"
        words = [
            "separate",
            str(folder() / name / "input"),
            "-o",
            str(target),
            "--quiet",
            "--no-report",
            *options,
        ]
        subprocess.run([sys.executable, "-m", "rankwolf", *words], check=True)
        return score_folder(target, Truth(folder() / name))


def defaults() -> None:
    for options in ((), ("--gray",)):
        scores = [command(name, *options) for name in VIDEOS]
        note = "precision " + ", ".join(f"{score.precision:.3f}" for score in scores)
        row(" ".join(["rankwolf separate", *options]), [score.f_measure for score in scores], note)


def rivals() -> None:
    import cv2

    makers: dict[str, Callable[[], Any]] = {
        "MOG2": partial(cv2.createBackgroundSubtractorMOG2, detectShadows=True),
        "KNN": partial(cv2.createBackgroundSubtractorKNN, detectShadows=True),
        "GSOC": cv2.bgsegm.createBackgroundSubtractorGSOC,
        "CNT": cv2.bgsegm.createBackgroundSubtractorCNT,
    }
    best: dict[str, list[float]] = {rival: [] for rival in makers}
    for name in VIDEOS:
        video, judge = frames_of(name)[..., ::-1], Judge(name)
        for rival, make in makers.items():
            model = make()
            raw = [model.apply(np.ascontiguousarray(frame)) == 255 for frame in video]  # 127 is its shadow
            plain = judge.score(enumerate(raw))
            filtered = judge.score((k, majority(mask, None, 5)) for k, mask in enumerate(raw))
            best[rival].append(max(plain.f_measure, filtered.f_measure))
    for rival, values in best.items():
        row(f"OpenCV {rival}, the better of two", values)


def show_stages(every: int) -> None:
    judges = {name: Judge(name, every) for name in VIDEOS}
    table: dict[str, list[float]] = {}
    for name, judge in judges.items():
        solved = Solved(frames_of(name))
        for stage, rule in stages().items():
            score = judge.score(solved.masks(rule, judge.numbers))
            table.setdefault(stage, []).append(score.f_measure)
    for stage, values in table.items():
        row(stage, values)


def leave_one_out(every: int) -> None:
    """A constant is chosen as the value with the best mean over three videos; its F-measure on the fourth counts."""
    scores: dict[str, list[list[float]]] = {constant: [] for constant in neighbours()}
    for name in VIDEOS:
        judge, solved = Judge(name, every), Solved(frames_of(name))
        default = judge.score(solved.masks(MaskRule(), judge.numbers)).f_measure
        for constant, rules in neighbours().items():
            others = [judge.score(solved.masks(rule, judge.numbers)).f_measure for rule in rules[1:]]
            scores[constant].append([default, *others])
    for constant, by_video in scores.items():
        table = np.array(by_video)
        chosen = [int(np.delete(table, k, axis=0).mean(axis=0).argmax()) for k in range(len(VIDEOS))]
        row(constant, [float(table[k, value]) for k, value in enumerate(chosen)], f"took value {chosen}")


def cost(name: str = "highway") -> None:
    """Seconds of the model and milliseconds of a frame, on one thread."""
    solved, rule = Solved(frames_of(name)), MaskRule()
    solved.masker(rule)  # compiled
    started = time.perf_counter()
    masker = solved.masker(rule)
    learned = time.perf_counter()
    looks = [solved.look(number) for number in range(0, len(solved.matrix), 17)]
    begin = time.perf_counter()
    for look in looks:
        masker.mask(look)
    each = (time.perf_counter() - begin) / len(looks)
    print(f"{name}: model {learned - started:.1f} s, mask {1000.0 * each:.1f} ms a frame, one thread")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N")
    for option in ("stages", "leave-one-out", "cost"):
        parser.add_argument(f"--{option}", action="store_true")
    arguments = parser.parse_args()
    if arguments.cost:
        cost()
        return
    print(f"| what | {' | '.join(VIDEOS)} | mean | note\n|---|" + "---|" * (len(VIDEOS) + 1) + "---")
    if arguments.stages:
        show_stages(arguments.every)
    elif arguments.leave_one_out:
        leave_one_out(arguments.every)
    else:
        defaults()
        rivals()


if __name__ == "__main__":
    main()
