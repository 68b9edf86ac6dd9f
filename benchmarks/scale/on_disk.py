"""A video that does not fit in memory, from a Zarr store: ``python -m benchmarks on_disk --gigabytes 32``.

Renders an HD scene (a background of rank 3, moving blocks, noise) into an uncompressed Zarr array of float32, frames by
pixels, in chunks of all frames of half a line of pixels; separates it to a certified gap of 1e-2 with
``max_memory="2GB"`` in a process of its own; and holds the speed of its passes against two bounds that are measured in
the same run, before and after: the disk's sequential speed, from reads of the store's files, plain or past the system's
cache, whichever is faster, and the processors' speed, from the same passes over a part of the matrix in memory. The
page cache is dropped before each reading, where that is allowed. The store is removed at the end.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rankwolf as rw
from benchmarks.harness.machine import PeakMemory
from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results
from rankwolf.data import InMemory, OnDisk, Source

Array = np.ndarray[Any, np.dtype[Any]]
WIDTH, FRAMES, OBJECTS, SIGMA, TOL = 1920, 960, 8, 2.0, 1e-2
CHUNK = WIDTH // 2


@dataclass(frozen=True)
class Hall:
    """A camera of 1920 pixels a line and as many lines as the size asks for, for 960 frames."""

    height: int

    @property
    def shape(self) -> tuple[int, int]:
        return FRAMES, self.height * WIDTH

    def paths(self) -> tuple[Array, Array]:
        """Where each object's corner is in each frame: (line, pixel)."""
        rng, t = np.random.default_rng(1), np.arange(FRAMES)
        speed, start = rng.uniform(2.0, 6.0, OBJECTS), rng.uniform(0, WIDTH, OBJECTS)
        lines = self.height * rng.random(OBJECTS)[:, None] + 0.1 * self.height * np.sin(
            t / 200.0 + start[:, None]
        )
        return lines.astype(int), (start[:, None] + speed[:, None] * t).astype(int) % WIDTH

    def render(self, array: Any) -> None:
        """Line by line: all frames of it at a time."""
        rng, t = np.random.default_rng(0), np.arange(FRAMES)
        light = np.stack([np.ones(FRAMES), np.sin(t / 500.0), (t > FRAMES // 3) * 1.0], axis=1).astype(
            np.float32
        )
        table = SIGMA * rng.standard_normal(2**22 + WIDTH * 4096, np.float32)
        lines, pixels = self.paths()
        high, wide = max(1, self.height // 24), WIDTH // 32
        for y in range(self.height):
            texture = rng.uniform(40.0, 120.0, (3, WIDTH)).astype(np.float32) * np.array(
                [[1.0], [0.1], [0.2]], np.float32
            )
            line = light @ texture
            start = int(rng.integers(2**22))
            line += table[start : start + line.size].reshape(line.shape)
            for k in range(OBJECTS):
                for frame in np.flatnonzero((lines[k] <= y) & (y < lines[k] + high)):
                    line[frame, pixels[k, frame] : pixels[k, frame] + wide] = 150.0 + 10.0 * k
            array[:, y * WIDTH : (y + 1) * WIDTH] = line


def drop_caches() -> bool:
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def sequential_speed(store: Path, most_bytes: float) -> float:
    """Bytes a second of reads of the store's files, one after the other: the faster of plain and past the cache."""
    return max(_sequential_speed(store, most_bytes, flags) for flags in (0, getattr(os, "O_DIRECT", 0)))


def _sequential_speed(store: Path, most_bytes: float, flags: int) -> float:
    drop_caches()
    files = sorted(path for path in store.rglob("*") if path.is_file() and path.stat().st_size > 10**6)
    # A map, because O_DIRECT wants its memory to start with a page.
    buffer, done, started = mmap.mmap(-1, 8 * 2**20), 0, time.perf_counter()
    for path in files:
        file = os.open(path, os.O_RDONLY | flags)
        while count := os.readv(file, [buffer]):
            done += count
        os.close(file)
        if done > most_bytes:
            break
    return done / (time.perf_counter() - started)


class Passes:
    """The kind, the seconds and the bytes of each pass over sources of one class, while it is in force."""

    def __init__(self, kind: type[Source]) -> None:
        self._kind, self._run = kind, Source.run
        self.rows: list[tuple[str, float, int]] = []

    def __enter__(self) -> Passes:
        def timed(source: Source, task: Any, *rows: Array) -> Any:
            before, started = source.bytes_read, time.perf_counter()
            sums = self._run(source, task, *rows)
            if isinstance(source, self._kind):
                # The hybrid's first pass fits the rows several times, the others once.
                name = type(task).__name__ + (", first" if vars(task).get("first") else "")
                self.rows.append((name, time.perf_counter() - started, source.bytes_read - before))
            return sums

        Source.run = timed  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *error: object) -> None:
        Source.run = self._run  # type: ignore[method-assign]


def processor_speeds(array: Any, columns: int) -> dict[str, float]:
    """Bytes a second of each kind of pass over a part of the matrix that is in memory."""
    part = np.asarray(array[:, : min(60_000, columns)])
    rw.decompose(part[:, :2000], max_iter=2)  # compiled by now
    with Passes(InMemory) as passes:
        rw.decompose(part, stop="paper", tol=1e-12, max_iter=4, rng=0)
    large = max(seconds for _, seconds, _ in passes.rows) / 50.0  # not those over the sample
    kinds = {name for name, _, _ in passes.rows}
    return {
        kind: part.nbytes
        / min(seconds for name, seconds, _ in passes.rows if name == kind and seconds > large)
        for kind in kinds
    }


def separate(store: str, max_memory: str) -> dict[str, Any]:
    """The run itself, in a fresh process."""
    import zarr

    array = zarr.open_array(store, mode="r")
    with PeakMemory() as memory, Passes(OnDisk) as passes:
        started = time.perf_counter()
        fit = rw.decompose(array, tol=TOL, max_memory=max_memory, rng=0)
        seconds = time.perf_counter() - started
    from_disk = next(
        int(line.split()[1])
        for line in Path("/proc/self/io").read_text().splitlines()
        if line.startswith("read_bytes")
    )
    return {
        "objective": fit.objective, "relative_gap": fit.relative_gap, "proved": fit.gap_is_proved,
        "rank": fit.low_rank.rank, "status": fit.status.name, "passes": fit.passes, "seconds": seconds,
        "peak_bytes": memory.total, "from_disk_bytes": from_disk, "each": passes.rows,
    }  # fmt: skip


def report(answer: dict[str, Any], size: float, disk: float, processors: dict[str, float]) -> None:
    print(
        f"gap {answer['relative_gap']:.2e} ({'proved' if answer['proved'] else 'not proved'}), rank {answer['rank']}, "
        f"{answer['passes']} passes in {answer['seconds']:.0f} s over {size / 1e9:.1f} GB; peak "
        f"{answer['peak_bytes'] / 1e9:.2f} GB; {answer['from_disk_bytes'] / 1e9:.0f} GB came from the disk, which "
        f"alone reads {disk / 1e6:.0f} MB/s"
    )
    for kind, seconds, count in answer["each"]:
        bound, name = min((disk, "the disk"), (processors.get(kind, float("inf")), "the processors"))
        print(
            f"  {kind:<17} {seconds:7.1f} s {count / seconds / 1e6:7.0f} MB/s, {count / seconds / bound:4.0%} of "
            f"{bound / 1e6:.0f} MB/s, {name}"
        )


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--gigabytes", type=float, default=32.0)
    parser.add_argument("--max-memory", default="2GB")
    parser.add_argument("--place", type=Path, help="where the store goes; default: TMPDIR")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(separate(**json.loads(arguments.child))))
        return
    import zarr

    hall = Hall(max(16, round(arguments.gigabytes * 1e9 / (4 * FRAMES * WIDTH))))
    size = 4.0 * hall.shape[0] * hall.shape[1]
    with tempfile.TemporaryDirectory(dir=arguments.place, prefix="rankwolf-on-disk-") as folder:
        if shutil.disk_usage(folder).free < 1.15 * size:
            raise SystemExit(
                f"{size / 1e9:.0f} GB do not fit on the disk of {folder}: give fewer --gigabytes."
            )
        store, started = Path(folder) / "scene.zarr", time.perf_counter()
        array = zarr.create_array(
            str(store), shape=hall.shape, dtype=np.float32, chunks=(FRAMES, CHUNK), compressors=None
        )
        hall.render(array)
        print(
            f"rendered {size / 1e9:.1f} GB, {hall.shape}, in {time.perf_counter() - started:.0f} s",
            flush=True,
        )
        disk = sequential_speed(store, min(size, 6e9))
        before = processor_speeds(array, hall.shape[1])
        dropped = drop_caches()
        request = json.dumps({"store": str(store), "max_memory": arguments.max_memory})
        child = [sys.executable, "-m", "benchmarks.scale.on_disk", "--child", request]
        answer = json.loads(subprocess.run(child, stdout=subprocess.PIPE, text=True, check=True).stdout)
        disk = (disk + sequential_speed(store, min(size, 6e9))) / 2.0
        after = processor_speeds(array, hall.shape[1])
        processors = {kind: (before[kind] + after[kind]) / 2.0 for kind in before.keys() & after.keys()}
        Results("on_disk", {"gigabytes": arguments.gigabytes, "max_memory": arguments.max_memory}).add(
            {**answer, "bytes": size, "disk": disk, "processors": processors, "caches_dropped": dropped}
        )
        report(answer, size, disk, processors)


if __name__ == "__main__":
    main()
