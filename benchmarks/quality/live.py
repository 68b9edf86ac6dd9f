"""``--live`` beside the batch, and over an hour: ``python -m benchmarks live``.

On the four videos of :mod:`benchmarks.quality.cdnet`, the F-measure of :class:`rankwolf.video.Separator` over the
counted frames, each answered when it came. With ``hour``: rendered video of 640 × 480 in gray, 25 frames a second, in
which the light dims, the camera is bumped, and a car parks; every five minutes the F-measure of the last minute, frames
a second, and the memory of the process. ``--minutes`` makes it shorter.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.quality.cdnet import VIDEOS, Judge, frames_of
from rankwolf.ground.arrays import Array
from rankwolf.ground.machine import peak_memory
from rankwolf.video.live import Separator
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


def rendered(minutes: int) -> Iterator[tuple[Array, Array]]:
    """Frames and masks. The light falls by a third from a quarter to a half of the time, the camera is bumped at the
    half, and a car parks from six tenths to the end."""
    count = 60 * RATE * minutes
    scene = Scene(height=480, width=640, n_frames=count, noise=2.0, n_objects=4, n_lamps=1, seed=3)
    y, x = np.mgrid[0:60, 0:110]
    car = (205.0 + 12.0 * np.sin(0.3 * x + 0.2 * y)).astype(np.float32)
    for piece in scene.pieces(64):
        for i, frame in enumerate(piece.frames):
            time_ = (piece.start + i) / count
            picture, mask = frame.astype(np.float32), piece.masks[i].copy()
            picture *= 1.0 - np.clip((time_ - 0.25) / 0.25, 0.0, 1.0) / 3.0
            if time_ >= 0.6:
                picture[400:460, 80:190] = car
                mask[400:460, 80:190] = True
            if time_ >= 0.5:
                picture, mask = np.roll(picture, (9, -14), (0, 1)), np.roll(mask, (9, -14), (0, 1))
            yield np.clip(np.rint(picture), 0, 255).astype(np.uint8), mask


def hour(minutes: int) -> None:
    separator, total = Separator(), Score()
    spent, frames, last = 0.0, 0, 0.0
    report = max(1, minutes // 12)
    print(
        "| minute | F-measure of its minute | frames a second | relearned | peak memory |\n|---|---|---|---|---|"
    )
    for number, (frame, truth) in enumerate(rendered(minutes), start=1):
        started = time.perf_counter()
        _, mask = separator.update(frame)
        spent, frames = spent + time.perf_counter() - started, frames + 1
        minute = number / (60.0 * RATE)
        if minute % report > report - 1 and number % 10 == 0:
            total += score_frame(mask, truth)
        if number % (60 * RATE * report) == 0:
            speed = frames / (spent - last)
            cells = (
                f"{total.f_measure:.3f} | {speed:.1f} | {separator.relearned} | {peak_memory() / 1e6:.0f} MB"
            )
            print(f"| {minute:.0f} | {cells} |", flush=True)
            total, frames, last = Score(), 0, spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=list(VIDEOS), help=f"hour, or any of {', '.join(VIDEOS)}")
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--gray", action="store_true")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="score every N-th frame")
    arguments = parser.parse_args()
    if "hour" in arguments.what:
        hour(arguments.minutes)
    else:
        videos(arguments.what, arguments.gray, arguments.every)


if __name__ == "__main__":
    main()
