"""The mask of ``rankwolf separate`` on fifteen videos, beside OpenCV's: ``python -m benchmarks cdnet``.

Four of CDnet (cars, waves, a man who stands still, spray), five of SBI and six of UCSD. Everybody is scored by
:mod:`rankwolf.video.scoring` on every frame that CDnet counts. Rankwolf runs as a user would run it, with no option at
all. MOG2, KNN, GSOC and CNT get all frames, and the better of two settings by the truth: their defaults, and those with
a median filter of 5 × 5.

``--rivals`` runs those four alone. ``--stages`` leaves out one stage after the other. ``--leave-one-out`` tries
neighbours of every constant that was chosen on data, takes the best on the other videos, and scores it on one, one
constant at a time and then all at once: the honest number. ``--cost`` takes the time of a frame and of the model,
``--race`` that of all beside OpenCV's. ``--masks`` scores the masks at defaults alone,
``--live`` those of frames that come one by one.
``--constants`` are some of those. ``--every N`` scores every N-th frame, which is quicker and nearly the same.
``--videos`` takes some of the fifteen. With ``--keep FOLDER`` the L of a video and its scores are kept there and not
made again, so that a long measurement can be made in pieces.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import MissingDataError, folder
from benchmarks.harness.options import options_of
from rankwolf.api.decompose import decompose
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.video.choosing_weights import temporal_noise, weights_for
from rankwolf.video.live import Separator
from rankwolf.video.mask import Look, MaskModel, Threshold
from rankwolf.video.picture import Picture
from rankwolf.video.reading import Selection, open_frames
from rankwolf.video.residual_noise import Residual
from rankwolf.video.rule import MaskRule
from rankwolf.video.scoring import Score, Truth, score_folder, score_frame
from rankwolf.video.tidy import majority

CDNET = ("highway", "canoe", "office", "fountain01")
SBI = ("highway1", "hall", "board", "cavignal", "foliage")
UCSD = tuple(f"ucsd_{name}" for name in ("birds", "freeway", "ocean", "peds", "surfers", "zodiac"))
VIDEOS = (*CDNET, *SBI, *UCSD)
Masks = Iterator[tuple[int, Array]]


def frames_of(name: str, color: bool | None = None) -> Array:
    path = folder() / name / "input"
    if not path.is_dir():
        raise MissingDataError(f"{name}: {path} is not there. Set RANKWOLF_DATA to the folder that holds it.")
    return np.stack(list(open_frames(path, Selection(color=color))))


class Solved:
    """A video with its L at the default weights; its masks by any rule. ``frames`` are (count, height, width[, 3])."""

    def __init__(
        self, frames: Array, lambdas: tuple[float, float] | None = None, kept: Path | None = None
    ) -> None:
        self.picture = Picture(frames.shape[1], frames.shape[2], 3 if frames.ndim == 4 else 1)
        self.matrix = frames.reshape(len(frames), -1)
        self.noise = temporal_noise(self.matrix)
        shape = (self.matrix.shape[0], self.matrix.shape[1])
        weights = lambdas or weights_for(self.noise, shape)
        if kept is not None and kept.exists():
            with np.load(kept) as file:
                self.low_rank = LowRank(file["u"], file["s"], file["vt"])
        else:
            self.low_rank = decompose(self.matrix, lambdas=weights, rng=0).low_rank
            if kept is not None:
                np.savez(kept, u=self.low_rank.u, s=self.low_rank.s, vt=self.low_rank.vt)
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
    """The default, and without one part each."""
    plain = MaskRule()
    return {
        "everything": plain,
        "one threshold instead of the model": None,
        "all samples are background": replace(plain, visits=0),
        "only what came back is background": replace(plain, visits=1000),
        "one match": replace(plain, matches=1),
        "the residual alone decides": replace(plain, share=1e6),
        "moving samples count as still ones": replace(plain, still=1e6),
        "L's objects are background": replace(plain, least_object=10**9),
        "small pieces are objects": replace(plain, least_object=0),
        "no vote": replace(plain, side=1),
        "specks kept": replace(plain, least_area=0),
    }


# Every constant of the mask, its default first, then values around it.
CHOICES: dict[str, tuple[float, ...]] = {
    "samples": (60, 40, 90), "radius": (3.0, 2.5, 3.5), "matches": (2, 1, 3), "visits": (4, 3, 6),
    "still": (4.0, 3.0, 6.0), "share": (0.1, 0.05, 0.2), "rare": (0.2, 0.15, 0.3), "side": (7, 5, 9),
    "least_area": (77, 40, 120), "least_object": (1500, 1000, 2000),
}  # fmt: skip


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


@dataclass(frozen=True)
class Desk:
    """Which videos are measured, how many of their frames, and where what was measured is kept."""

    videos: list[str]
    every: int = 1
    keep: Path | None = None
    constants: Sequence[str] = tuple(CHOICES)

    def solved(self, name: str) -> Solved:
        """A video with its L."""
        return Solved(frames_of(name), kept=None if self.keep is None else self.keep / f"{name}.npz")

    def scores(self, what: str, measure: Callable[[str], dict[str, float]]) -> dict[str, dict[str, float]]:
        """F-measures by video, then by name."""
        found = {}
        for name in self.videos:
            kept = None if self.keep is None else self.keep / f"{what}-{name}-{self.every}.json"
            if kept is not None and kept.exists():
                found[name] = json.loads(kept.read_text(encoding="utf-8"))
                continue
            found[name] = measure(name)
            if kept is not None:
                kept.write_text(json.dumps(found[name], indent=1), encoding="utf-8")
        return found

    def show(self, found: dict[str, dict[str, float]]) -> None:
        """A row for each name."""
        for what in found[self.videos[0]]:
            row(what, [found[name][what] for name in self.videos])


def defaults(desk: Desk) -> None:
    """The command in colour and in gray."""

    def measure(name: str) -> dict[str, float]:
        scores: dict[str, float] = {}
        for options in ((), ("--gray",)):
            score, what = command(name, *options), " ".join(["rankwolf separate", *options])
            scores |= {what: score.f_measure, f"{what}: precision": score.precision}
        return scores

    desk.show(desk.scores("defaults", measure))


def subtractors() -> dict[str, Callable[[], Any]]:
    """What makes OpenCV's models, at their defaults."""
    import cv2

    cv2.setNumThreads(1)
    return {
        "MOG2": partial(cv2.createBackgroundSubtractorMOG2, detectShadows=True),
        "KNN": partial(cv2.createBackgroundSubtractorKNN, detectShadows=True),
        "GSOC": cv2.bgsegm.createBackgroundSubtractorGSOC,
        "CNT": cv2.bgsegm.createBackgroundSubtractorCNT,
    }


def masks(desk: Desk) -> None:
    """The masks at defaults, without writing them to a file."""

    def measure(name: str) -> dict[str, float]:
        judge = Judge(name, desk.every)
        score = judge.score(desk.solved(name).masks(MaskRule(), judge.numbers))
        return {"F-measure": score.f_measure, "precision": score.precision, "recall": score.recall}

    desk.show(desk.scores("masks", measure))


def rivals(desk: Desk) -> None:
    """Each the better of two by the truth: its defaults, and those with a median filter of 5 × 5."""
    makers = subtractors()

    def measure(name: str) -> dict[str, float]:
        video, judge, best = frames_of(name)[..., ::-1], Judge(name), {}
        for rival, make in makers.items():
            model, plain, filtered = make(), Score(), Score()
            for number, frame in enumerate(video):
                raw = model.apply(np.ascontiguousarray(frame)) == 255  # 127 is its shadow
                if number in judge.labels:
                    labels = judge.labels[number]
                    plain += score_frame(raw, labels, judge.region)
                    filtered += score_frame(majority(raw, None, 5), labels, judge.region)
            best[f"OpenCV {rival}, the better of two"] = max(plain.f_measure, filtered.f_measure)
        return best

    desk.show(desk.scores("rivals", measure))


def show_stages(desk: Desk) -> None:
    """Without one stage after the other."""

    def measure(name: str) -> dict[str, float]:
        judge, solved = Judge(name, desk.every), desk.solved(name)
        return {
            stage: judge.score(solved.masks(rule, judge.numbers)).f_measure
            for stage, rule in stages().items()
        }

    desk.show(desk.scores("stages", measure))


def _changed(rule: MaskRule, constant: str, value: Any) -> MaskRule:
    change: dict[str, Any] = {constant: value}
    return replace(rule, **change)


def leave_one_out(desk: Desk) -> None:
    """A constant is chosen as the value with the best mean over the other videos; its F-measure on this one counts.

    The last row has all constants at once at the values that the other videos chose for each.
    """
    constants = {name: found for name, found in CHOICES.items() if name in desk.constants}
    solved: dict[str, Callable[[MaskRule], float]] = {}

    def scorer(name: str) -> Callable[[MaskRule], float]:
        if name not in solved:
            judge, video = Judge(name, desk.every), desk.solved(name)
            solved.clear()  # one video in memory
            solved[name] = lambda rule: judge.score(video.masks(rule, judge.numbers)).f_measure
        return solved[name]

    def measure(name: str) -> dict[str, float]:
        score, default = scorer(name), scorer(name)(MaskRule())
        return {
            f"{constant} {k}": default if k == 0 else score(_changed(MaskRule(), constant, choice))
            for constant, values in constants.items()
            for k, choice in enumerate(values)
        }

    found = desk.scores(f"leave-one-out-of-{len(constants)}", measure)
    if len(desk.videos) == 1:
        return  # there is nothing to choose on; what was measured is kept for all of them together
    together = dict.fromkeys(desk.videos, MaskRule())
    for constant, values in constants.items():
        table = np.array(
            [[found[name][f"{constant} {k}"] for k in range(len(values))] for name in desk.videos]
        )
        taken = [int(np.delete(table, k, axis=0).mean(axis=0).argmax()) for k in range(len(table))]
        for name, k in zip(desk.videos, taken, strict=True):
            together[name] = _changed(together[name], constant, values[k])
        each = ", ".join(f"{mean:.3f}" for mean in table.mean(axis=0))
        own = [float(table[k, value]) for k, value in enumerate(taken)]
        row(constant, own, f"took {taken} of {list(values)}; means {each}")
    first = next(iter(constants))
    row("as they are", [found[name][f"{first} 0"] for name in desk.videos])
    at_once = desk.scores(
        f"all-left-out-of-{len(constants)}", lambda name: {"all": scorer(name)(together[name])}
    )
    row("all at once", [at_once[name]["all"] for name in desk.videos])


def race(desk: Desk) -> None:
    """Processor milliseconds a frame of decoded frames: solving, learning and masks beside OpenCV's."""
    for name in desk.videos:
        video = frames_of(name)
        spent = {}
        started = time.process_time()
        solved = Solved(video)
        spent["solve"] = time.process_time() - started
        started = time.process_time()
        for _ in solved.masks(MaskRule(), list(range(len(video)))):
            pass
        spent["mask"] = time.process_time() - started
        for rival, make in subtractors().items():
            model = make()
            started = time.process_time()
            for frame in video:
                model.apply(frame)
            spent[rival] = time.process_time() - started
        batch = spent["solve"] + spent["mask"]
        said = ", ".join(f"{what} {1000.0 * seconds / len(video):.2f}" for what, seconds in spent.items())
        ratios = ", ".join(f"{rival} {batch / spent[rival]:.1f}" for rival in ("MOG2", "KNN", "GSOC"))
        size = f"{video.shape[2]} × {video.shape[1]}"
        print(f"{name}, {size}, ms a frame: {said}; batch is so many times: {ratios}", flush=True)


def live(desk: Desk) -> None:
    """The masks of the separator that takes frame by frame; frames of its warm-up are not counted."""

    def measure(name: str) -> dict[str, float]:
        judge, separator, total = Judge(name, desk.every), Separator(), Score()
        for number, frame in enumerate(frames_of(name)):
            mask = separator.update(frame)[1]
            if separator.ready and number in judge.labels:
                total += score_frame(mask, judge.labels[number], judge.region)
        return {"live": total.f_measure}

    desk.show(desk.scores("live", measure))


def cost(desk: Desk) -> None:
    """Seconds of the model and milliseconds of a frame, of one thread's processor time."""
    for name in desk.videos:
        solved, rule = desk.solved(name), MaskRule()
        solved.masker(rule)  # compiled
        started = time.process_time()
        masker = solved.masker(rule)
        learned = time.process_time()
        looks = [solved.look(number) for number in range(0, len(solved.matrix), 17)]
        begin = time.process_time()
        for look in looks:
            masker.mask(look)
        each = (time.process_time() - begin) / len(looks)
        size = f"{solved.picture.width} × {solved.picture.height}"
        print(
            f"{name}, {size}: model {learned - started:.1f} s, mask {1000.0 * each:.1f} ms a frame",
            flush=True,
        )


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--videos", nargs="+", choices=VIDEOS, default=list(VIDEOS))
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    which: dict[str, Callable[[Desk], None]] = {
        "rivals": rivals, "stages": show_stages, "leave-one-out": leave_one_out, "cost": cost, "race": race,
        "masks": masks, "live": live,
    }  # fmt: skip
    for option in which:
        parser.add_argument(f"--{option}", action="append_const", const=option, dest="what")
    parser.add_argument(
        "--constants", nargs="+", metavar="NAME", choices=list(CHOICES), default=list(CHOICES)
    )
    arguments = parser.parse_args()
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    desk = Desk(arguments.videos, arguments.every, arguments.keep, arguments.constants)
    if arguments.what not in (["cost"], ["race"]):
        print(
            f"| what | {' | '.join(desk.videos)} | mean | note\n|---|"
            + "---|" * (len(desk.videos) + 1)
            + "---"
        )
    for what in arguments.what or []:
        which[what](desk)
    if not arguments.what:
        defaults(desk)
        rivals(desk)


if __name__ == "__main__":
    main()
