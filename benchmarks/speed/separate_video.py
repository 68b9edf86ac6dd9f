"""``rankwolf separate`` on whole videos, seconds, frames a second and memory: ``python -m benchmarks separate_video``.

``vtest``: OpenCV's pedestrian street, 795 frames of 768 × 576, in gray and in colour, to a certified gap of 1e-3 with
everything written; how the time splits into decoding, solving and writing. ``model``: its second half by a model of the
first. ``long``: ten minutes of 640 × 480, rendered here, with ``--max-memory 1GB``; memory is the process's own peak,
pages of files included. It has 5 frames a second, which is 0.9 GB of pixels; ``--rate 25`` is 4.6 GB and takes long.
``before``: vtest in gray by the code of another commit (``--commit``; by default the last whose mask was a threshold)
and by this one, in turn, twice each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.data import folder
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results
from rankwolf.video.picture_writers import Shape, VideoSink
from rankwolf.video.scene import Scene

LONG_SECONDS = 600


def run(source: Path, target: Path, *options: str, code: Path | None = None) -> dict[str, Any]:
    """A fresh process, so that its peak memory is its own; ``code`` is another copy of the package's ``src``."""
    words = ["separate", str(source), "-o", str(target), "--json", *options]
    environment = dict(os.environ) if code is None else {**os.environ, "PYTHONPATH": str(code)}
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "rankwolf", *words],
        stdout=subprocess.PIPE, check=True, text=True, env=environment,
    )  # fmt: skip
    return {**json.loads(done.stdout), "process_seconds": time.perf_counter() - started}


def show(results: Results, name: str, summary: dict[str, Any]) -> None:
    seconds = summary["seconds"]
    row = {
        "name": name, "frames": summary["frames"], "seconds": seconds,
        "process_seconds": summary["process_seconds"], "rank": summary.get("rank"),
        "relative_gap": summary.get("relative_gap"), "proved": summary.get("gap_is_proved"),
        "passes": summary.get("passes"), "frames_per_second": summary["frames_per_second"],
        "peak_memory_bytes": summary["peak_memory_bytes"], "on_disk": summary["frames_on_disk"],
    }  # fmt: skip
    results.add(row)
    split = ", ".join(f"{stage} {value:.1f}" for stage, value in seconds.items())
    share = f", solve {seconds['solve'] / seconds['total']:.0%} of it" if "solve" in seconds else ""
    gap = (
        f", gap {row['relative_gap']:.1e} after {row['passes']} passes, rank {row['rank']}"
        if row["passes"]
        else ""
    )
    print(
        f"{name}: {summary['frames']} frames, seconds: {split}{share}{gap}, {row['frames_per_second']:.1f} frames/s, "
        f"{summary['process_seconds']:.1f} s from start to end of the process, "
        f"peak {row['peak_memory_bytes'] / 1e6:.0f} MB, frames on {'disk' if row['on_disk'] else 'memory'}",
        flush=True,
    )


def vtest(results: Results, place: Path) -> None:
    source = folder() / "vtest.avi"
    show(results, "vtest, gray", run(source, place / "gray", "--gray"))
    show(results, "vtest, colour", run(source, place / "color"))


def model(results: Results, place: Path) -> None:
    source = folder() / "vtest.avi"
    show(results, "vtest, first half", run(source, place / "first", "--end", "400"))
    options = ("--start", "400", "--model", str(place / "first" / "result"))
    show(results, "vtest, second half by the model", run(source, place / "second", *options))


def write_video(path: Path, scene: Scene, rate: int) -> None:
    sink = VideoSink(path, "libx264", Shape(scene.height, scene.width, Fraction(rate)))
    for frame in scene:
        sink.write(frame)
    sink.close()


def long(results: Results, place: Path, rate: int = 5) -> None:
    source = place / "long.mp4"
    scene = Scene(height=480, width=640, n_frames=LONG_SECONDS * rate, n_objects=8, n_lamps=3, seed=5)
    write_video(source, scene, rate)
    print(f"rendered {source.stat().st_size / 1e6:.0f} MB", flush=True)
    show(results, "ten minutes of 640 x 480, 1 GB", run(source, place / "long", "--max-memory", "1GB"))


def before(results: Results, place: Path, commit: str = "601e968") -> None:
    """Gray was the default then, so the old code gets no option."""
    del results  # two codes in one table would be one too many
    here, old = Path(__file__).parents[2], place / "old"
    subprocess.run(
        ["git", "-C", str(here), "worktree", "add", "--detach", "-f", str(old), commit], check=True
    )
    try:
        source = folder() / "vtest.avi"
        codes = {f"at {commit}": (old / "src", ()), "now": (here / "src", ("--gray",))}
        for name, (code, options) in codes.items():  # compiled, and the file is in the system's cache
            run(source, place / f"{name} first", "--end", "40", *options, code=code)
        for turn in (1, 2):
            for name, (code, options) in codes.items():
                summary = run(source, place / f"{name} {turn}", *options, code=code)
                split = ", ".join(f"{stage} {value:.1f}" for stage, value in summary["seconds"].items())
                print(f"{name}: {summary['process_seconds']:.1f} s in all; {split}", flush=True)
    finally:
        subprocess.run(["git", "-C", str(here), "worktree", "remove", "--force", str(old)], check=True)


Experiment = Callable[[Results, Path], None]
EXPERIMENTS: dict[str, Experiment] = {"vtest": vtest, "model": model, "long": long, "before": before}


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument(
        "what", nargs="*", metavar="vtest, model, long or before", default=["vtest", "model", "long"]
    )
    parser.add_argument("--rate", type=int, default=5, help="frames a second of the long video (default: 5)")
    parser.add_argument("--commit", default="601e968", help="the code to compare with (default: 601e968)")
    parser.add_argument(
        "--place", type=Path, help="where videos and results go; the default is removed afterwards"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.what) - set(EXPERIMENTS):
        parser.error(f"{unknown} must be among {', '.join(EXPERIMENTS)}")
    experiments: dict[str, Experiment] = {
        **EXPERIMENTS, "long": partial(long, rate=arguments.rate), "before": partial(before, commit=arguments.commit),
    }  # fmt: skip
    results = Results("separate_video", {"what": arguments.what, "rate": arguments.rate})
    with tempfile.TemporaryDirectory() as temporary:
        for name in arguments.what:
            experiments[name](results, arguments.place or Path(temporary))


if __name__ == "__main__":
    main()
