"""Disks that are full: every kind of output, on a file system that has room for a part of it.

``python -m benchmarks full_disks [--tries 20]``; a row of ``make chaos`` for each kind. Mounting needs root.
"""

from __future__ import annotations

import os
import random
import subprocess
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.faults.children import command, make_in_child, run_child
from benchmarks.faults.survival import Row, tell_of_children

TABLES = ("npy", "npz", "mat", "mat73", "csv", "tsv", "parquet", "hdf5", "zarr")
PICTURES = ("mp4", "ffv1", "png")
METHODS = ("to_npy", "to_zarr", "to_hdf5", "save")
LONGEST = 120.0
# Bytes that the tables, and the pictures, take at least: the disk has a random part of them.
TABLE_BYTES, PICTURE_BYTES = 400_000, 120_000


def make_inputs(folder: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(folder / "x.npy", rng.standard_normal((1500, 40)))
    pictures = (60.0 + 40.0 * rng.random((60, 48, 64)) + 90.0 * rng.random((1, 48, 64))).astype(np.uint8)
    np.save(folder / "frames.npy", pictures)


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    place = folder / "disk"
    place.mkdir(exist_ok=True)
    options = ["mount", "-t", "tmpfs", "-o", f"size={-(-size // 4096) * 4096}", "tmpfs", str(place)]
    subprocess.run(options, check=True, capture_output=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def actions(folder: Path, disk: Path) -> dict[str, Callable[[], int]]:
    """What writes to the disk, by the name of its row."""
    x, frames, out = folder / "x.npy", folder / "frames.npy", disk / "out"
    weights = ["--lambdas", 1e3, 1e-3, "--max-seconds", 2, "--no-refit"]  # S is all of it
    made: dict[str, Callable[[], int]] = {
        f"decompose --format {kind}": lambda kind=kind: command(  # type: ignore[misc]
            "decompose", x, "-o", out, "--format", kind, *weights
        )
        for kind in TABLES
    }
    made |= {
        f"separate --format {kind}": lambda kind=kind: command(  # type: ignore[misc]
            "separate", frames, "-o", out, "--format", kind, "--max-seconds", 2
        )
        for kind in PICTURES
    }
    made |= {f"fit: {name}": lambda name=name: _write(x, out, name) for name in METHODS}  # type: ignore[misc]
    made["checkpoint"] = lambda: command(
        "decompose", x, "-o", folder / "free", "--force", "--method", "fw-t", "--delta", 0.01, "--tol", 0,
        "--checkpoint", disk / "checkpoint", "--checkpoint-every", 1, "--max-seconds", 2,
    )  # fmt: skip
    return made


def _write(x: Path, out: Path, method: str) -> int:
    """The library's own methods: an OSError that names the file is what a full disk should be."""
    import sys

    import rankwolf as rw

    warnings.simplefilter("ignore")  # S is all of it, and that is said

    fit: Any = rw.decompose(np.load(x), lambdas=(1e3, 1e-3), rng=0, max_iter=1, n_threads=1)
    try:
        (fit.save if method == "save" else getattr(fit.sparse, method))(out)
    except OSError as error:
        print(f"rankwolf: {error}", file=sys.stderr)
        return 2
    return 0


def survive(folder: Path, tries: int, seed: int) -> Iterator[Row]:
    """(row, tries, survivals, what went wrong first). Survived: one line that names the disk's place, nothing left."""
    make_in_child(make_inputs, folder)
    rng = random.Random(seed)
    for name in actions(folder, folder / "disk"):
        good, wrong = 0, ""
        for _ in range(tries):
            most = PICTURE_BYTES if name.startswith("separate") else TABLE_BYTES
            with small_disk(folder, int(rng.uniform(0.02, 0.9) * most)) as disk:
                ending = run_child(actions(folder, disk)[name], folder / "words", LONGEST)
                left = os.listdir(disk)
                full = ending.code == 2 and "No space left" in ending.words and str(disk) in ending.words
                whole = name == "checkpoint" and left in (
                    [],
                    ["checkpoint"],
                )  # an earlier, whole one may be there
                if full and ending.words.count("\n") == 1 and (left == [] or whole):
                    good += 1
                elif not wrong:
                    wrong = f"code {ending.code}, left {left}, said {ending.words[-300:]!r}"
        yield name, tries, good, wrong


def main() -> None:
    tell_of_children(__doc__, survive)


if __name__ == "__main__":
    main()
