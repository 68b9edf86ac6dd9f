"""Long use: 10,000 calls of decompose, 10,000 batches of partial_fit, a day of live frames, and nothing that grows.

``make long-use``, or ``python -m benchmarks long_use [--calls N] [--batches N] [--frames N] [--minutes 60]``. A day has
2,160,000 frames, at 25 a second; they are of 32 × 24 pixels, where a frame costs little more than its fixed costs: half
a millisecond, 18 minutes for the day. ``--only frames`` gives all of the time to one part.

Memory, threads, open files and temporary files are looked at every so often. Memory may rise while caches fill, in the
first fifth; from there to the end it may grow by at most GROWTH, and the others not at all. Where the time is over, the
counts that were reached are said. The exit code is 1 where something grew.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import rankwolf as rw
from benchmarks.harness.options import options_of
from rankwolf.video.live import LiveSettings, Separator

GROWTH = 8e6
LOOKS = 50
PARTS = ["calls", "disk", "batches", "frames"]


@dataclass(frozen=True)
class Look:
    """What the process holds."""

    memory: int
    threads: int
    files: int
    temporary: int


def look(folder: Path) -> Look:
    time.sleep(0.05)  # for threads that are on their way out
    status = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return Look(
        int(status[1]) * os.sysconf("SC_PAGE_SIZE"), threading.active_count(), len(os.listdir("/proc/self/fd")),
        len(os.listdir(folder)),
    )  # fmt: skip


def repeat(name: str, work: Callable[[int], object], count: int, seconds: float, folder: Path) -> bool:
    """Whether nothing grew."""
    looks, deadline, next_look, done = [look(folder)], time.monotonic() + seconds, 0.0, 0
    for number in range(count):
        work(number)
        done += 1
        if time.monotonic() > next_look or number == count - 1:
            looks.append(look(folder))
            next_look = time.monotonic() + seconds / LOOKS
            if time.monotonic() > deadline:
                break
    first, last = looks[len(looks) // 5], looks[-1]
    grown = last.memory - first.memory
    others = {
        kind: (getattr(first, kind), getattr(last, kind))
        for kind in ("threads", "files", "temporary")
        if getattr(last, kind) > getattr(first, kind)
    }
    good = grown <= GROWTH and not others
    print(
        f"| {name} | {done} | {first.memory / 1e6:.1f} | {last.memory / 1e6:.1f} | {last.threads} | {last.files} | "
        f"{last.temporary} | {'nothing grew' if good else f'GREW: {grown / 1e6:.1f} MB {others}'} |", flush=True,
    )  # fmt: skip
    return good


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--frames", type=int, default=2_160_000, help="of --live: 24 hours at 25 a second")
    parser.add_argument("--minutes", type=float, default=60.0, help="for all of it")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # few iterations reach nothing, and are told so
    rng = np.random.default_rng(0)
    data = [
        rng.standard_normal((60, 3)) @ rng.standard_normal((3, 20)) + 0.1 * rng.random((60, 20))
        for _ in range(8)
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tempfile.tempdir = name  # so that whatever is left behind is seen
        path, big = folder / "fit.npz", rng.standard_normal((3000, 40)).astype(np.float32)
        np.save(folder / "big.npy", big)
        model = rw.RobustPCA(random_state=0)

        def call(number: int) -> None:
            fit = rw.decompose(data[number % 8], rng=number, max_iter=5)
            if number % 10 == 0:
                fit.save(path)
                rw.load(path)

        def call_on_disk(number: int) -> None:
            X = np.load(folder / "big.npy", mmap_mode="r")
            rw.decompose(X, rng=number, max_iter=1, n_threads=4, max_memory=2_000_000_000)

        def batch(number: int) -> None:
            model.partial_fit(data[number % 8])

        scene = (60.0 + 20.0 * rng.random((24, 32))).astype(np.uint8)
        separator = Separator(settings=LiveSettings(warm_up=30, absorb_after=200))

        def frame(number: int) -> None:
            picture = scene + rng.integers(0, 4, scene.shape, np.uint8)
            column = number % 28
            picture[10:16, column : column + 4] = 220
            separator.update(picture)

        seconds = 60.0 * options.minutes / len(options.only)
        print(
            "| what | times | memory after a fifth, MB | at the end, MB | threads | open files | temporary files | |"
        )
        print("|---|---|---|---|---|---|---|---|", flush=True)
        parts = {
            "calls": ("decompose", call, options.calls),
            "disk": ("decompose, on disk", call_on_disk, max(1, options.calls // 20)),
            "batches": ("partial_fit", batch, options.batches),
            "frames": ("frames of --live", frame, options.frames),
        }
        good = [repeat(*parts[part], seconds, folder) for part in options.only]
    raise SystemExit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
