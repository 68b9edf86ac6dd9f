"""SIGINT and SIGTERM at random moments: the signal's exit code, one line, and nothing half-written.

``python -m benchmarks signals [--tries 20]``; rows of ``make chaos``.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.faults.children import command, make_in_child, run_child, warm_up
from benchmarks.faults.full_disks import make_inputs

LONGEST = 120.0
NUMBERS = (signal.SIGINT, signal.SIGTERM)


def actions(folder: Path) -> dict[str, Callable[[], int]]:
    out = folder / "out"
    kept = ["--checkpoint", folder / "checkpoint", "--checkpoint-every", 1, "--resume"]
    return {
        "decompose": lambda: command(
            "decompose", folder / "x.npy", "-o", out, "--delta", 0.1, "--report", *kept
        ),
        "separate": lambda: command("separate", folder / "frames.npy", "-o", out, "--format", "png"),
    }


def survive(folder: Path, tries: int, seed: int) -> Iterator[tuple[str, int, int, str]]:
    """(row, tries, survivals, what went wrong first)."""
    make_in_child(make_inputs, folder)
    rng = random.Random(seed)
    for name, action in actions(folder).items():
        shutil.rmtree(folder / "out", ignore_errors=True)
        calm = run_child(action, folder / "words", LONGEST)
        if calm.code:
            raise RuntimeError(f"{name} failed undisturbed: {calm.words}")
        for number in NUMBERS:
            good, wrong = 0, ""
            for _ in range(tries):
                shutil.rmtree(folder / "out", ignore_errors=True)
                (folder / "checkpoint").unlink(missing_ok=True)
                ending = run_child(
                    action, folder / "words", LONGEST, (rng.uniform(0.0, calm.seconds), number)
                )
                left = sorted(set(os.listdir(folder)) - {"x.npy", "frames.npy", "words", "checkpoint"})
                stopped = ending.code == 128 + number and left == [] and ending.words.count("\n") == 1
                ended = ending.code == 0 and left == ["out"]  # it was quicker than the signal
                early = ending.code == -number and left == []  # before the command had begun to listen
                if stopped or ended or early:
                    good += 1
                elif not wrong:
                    wrong = f"code {ending.code}, left {left}, said {ending.words[-300:]!r}"
            yield f"{name}, {number.name}", tries, good, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warm_up()
    with tempfile.TemporaryDirectory() as name:
        rows = []
        for row in survive(Path(name), options.tries, options.seed):
            rows.append(row)
            print(f"{row[0]}: {row[2]} of {row[1]} {row[3]}", flush=True)
    raise SystemExit(0 if all(tries == good for _, tries, good, _ in rows) else 1)


if __name__ == "__main__":
    main()
