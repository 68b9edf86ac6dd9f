"""``--live`` beside the batch, and over an hour: ``python -m benchmarks live``.

On the four videos of :mod:`benchmarks.quality.cdnet`, the F-measure of :class:`rankwolf.video.Separator` over the
counted frames, each answered when it came. With ``hour``: rendered gray video, 25 frames a second, in which the light
dims, the camera is bumped, and a car parks; for every minute the F-measure, frames a second of one thread's processor
time, and the memory of the process. ``--part`` and ``--state`` make it in pieces, each resumed from the file that the
one before has saved.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness.options import options_of
from benchmarks.quality.cdnet import VIDEOS, Judge, frames_of
from rankwolf.ground.arrays import Array
from rankwolf.platform import resident_memory
from rankwolf.video.live import LiveSettings, Separator
from rankwolf.video.scene import Scene
from rankwolf.video.scoring import Score, score_frame

RATE = 25


def videos(names: list[str], gray: bool, every: int) -> None:
    print("| video | F-measure | precision | recall | relearned |\n|---|---|---|---|---|")
    for name in names:
        judge, separator, total = Judge(name, every), Separator(), Score()
        for number, frame in enumerate(frames_of(name, color=not gray)):
            _, mask = separator.update(frame)
            if number in judge.labels:
                total += score_frame(mask, judge.labels[number], judge.region)
        cells = f"{total.f_measure:.3f} | {total.precision:.3f} | {total.recall:.3f}"
        print(f"| {name} | {cells} | {separator.relearned} |", flush=True)


@dataclass(frozen=True)
class Hour:
    """Rendered gray video with three changes.

    The light falls by a third from a quarter to a half of the time, the camera is bumped at the half, and a car parks
    from six tenths to the end. The truth counts the car until it has stood as long as ``absorb_after`` says: from then
    on it is background.
    """

    minutes: int
    height: int
    width: int

    @property
    def count(self) -> int:
        """Frames."""
        return 60 * RATE * self.minutes

    def frames(self, begin: int, end: int) -> Iterator[tuple[Array, Array]]:
        """Pictures and masks from frame ``begin`` to before ``end``."""
        height, width = self.height, self.width
        scene = Scene(height=height, width=width, n_frames=self.count, n_objects=4, n_lamps=1, seed=3)
        place = (slice(5 * height // 6, 23 * height // 24), slice(width // 8, 19 * width // 64))
        y, x = np.mgrid[place]
        car = (205.0 + 12.0 * np.sin(0.3 * x + 0.2 * y)).astype(np.float32)
        bump, forgotten = (height // 50, -width // 45), LiveSettings().absorb_after
        for first in range(begin, end, 64):
            piece = scene.render(first, min(first + 64, end))
            for i, frame in enumerate(piece.frames):
                number = first + i
                time_ = number / self.count
                picture, mask = frame.astype(np.float32), piece.masks[i]
                picture *= 1.0 - np.clip((time_ - 0.25) / 0.25, 0.0, 1.0) / 3.0
                if time_ >= 0.6:
                    picture[place] = car
                    mask[place] = number < 0.6 * self.count + forgotten
                if time_ >= 0.5:
                    picture, mask = np.roll(picture, bump, (0, 1)), np.roll(mask, bump, (0, 1))
                yield np.clip(np.rint(picture), 0, 255).astype(np.uint8), mask


def hour(video: Hour, begin: int, end: int, state: Path | None) -> None:
    """Minutes ``begin`` to ``end``; the first row of a table comes with minute 0. ``state`` is read and written."""
    go_on = begin > 0 and state is not None
    separator = Separator.load(state) if go_on and state is not None else Separator()
    total, spent, frames = Score(), 0.0, 0
    if not go_on:
        print(
            "| minute | F-measure of that minute | frames a second | relearned | memory |\n|---|---|---|---|---|"
        )
    first, last = 60 * RATE * begin, 60 * RATE * end
    for number, (frame, truth) in enumerate(video.frames(first, last), start=first + 1):
        started = time.process_time()
        _, mask = separator.update(frame)
        spent, frames = spent + time.process_time() - started, frames + 1
        if number % 10 == 0:
            total += score_frame(mask, truth)
        if number % (60 * RATE) == 0:
            cells = f"{total.f_measure:.3f} | {frames / spent:.0f} | {separator.relearned}"
            print(f"| {number // (60 * RATE)} | {cells} | {resident_memory() / 1e6:.0f} MB |", flush=True)
            total, spent, frames = Score(), 0.0, 0
    if state is not None:
        separator.save(state)


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("what", nargs="*", default=list(VIDEOS), help=f"hour, or any of {', '.join(VIDEOS)}")
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--size", type=int, nargs=2, default=(240, 320), metavar=("HEIGHT", "WIDTH"))
    parser.add_argument("--part", type=int, nargs=2, metavar=("FROM", "TO"), help="only these minutes")
    parser.add_argument("--state", type=Path, help="where one part leaves the separator for the next")
    parser.add_argument("--gray", action="store_true")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="score every N-th frame")
    arguments = parser.parse_args()
    if "hour" in arguments.what:
        video, part = Hour(arguments.minutes, *arguments.size), arguments.part or (0, arguments.minutes)
        hour(video, part[0], part[1], arguments.state)
    else:
        videos(arguments.what, arguments.gray, arguments.every)


if __name__ == "__main__":
    main()
