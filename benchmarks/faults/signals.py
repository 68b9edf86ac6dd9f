"""SIGINT and SIGTERM at random moments: the signal's exit code, one line, and nothing half-written.

``python -m benchmarks signals [--tries 20]``; rows of ``make chaos``. Most commands run in a fork of a process that has
imported everything; a signal waits until the guard of the command is there, so that every single one must be answered.
The rows named "first moments" start the true command, and send the signal while Python itself begins: before there is
anybody to answer, a process ends by the signal without a word, and that is right, too.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.faults.children import command, make_in_child, run_child
from benchmarks.faults.full_disks import make_inputs
from benchmarks.faults.survival import Row, tell_of_children

LONGEST = 120.0
NUMBERS = (signal.SIGINT, signal.SIGTERM)
FIRST_MOMENTS = 0.3
MADE_BEFORE = {"x.npy", "frames.npy", "words", "checkpoint"}


def actions(folder: Path) -> dict[str, Callable[[], int]]:
    out = folder / "out"
    kept = ["--checkpoint", folder / "checkpoint", "--checkpoint-every", 1, "--resume"]
    return {
        "decompose": lambda: command(
            "decompose", folder / "x.npy", "-o", out, "--delta", 0.1, "--report", *kept
        ),
        "separate": lambda: command("separate", folder / "frames.npy", "-o", out, "--format", "png"),
    }


def survive(folder: Path, tries: int, seed: int) -> Iterator[Row]:
    """(row, tries, survivals, what went wrong first)."""
    make_in_child(make_inputs, folder)
    rng = random.Random(seed)
    for name, action in actions(folder).items():
        _clear(folder)
        calm = run_child(action, folder / "words", LONGEST)
        if calm.code:
            raise RuntimeError(f"{name} failed undisturbed: {calm.words}")
        for number in NUMBERS:
            wrong = []
            for _ in range(tries):
                _clear(folder)
                signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
                try:
                    disturb = (rng.uniform(0.0, calm.seconds), number)
                    ending = run_child(action, folder / "words", LONGEST, disturb)
                finally:
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)
                if not _right(number, ending.code, ending.words, folder):
                    wrong.append(f"code {ending.code}, left {_left(folder)}, said {ending.words[-300:]!r}")
            yield f"{name}, {number.name}", tries, tries - len(wrong), "".join(wrong[:1])
    for number in NUMBERS:
        wrong = [words for words in (_first_moment(folder, number, rng) for _ in range(tries)) if words]
        yield f"first moments, {number.name}", tries, tries - len(wrong), "".join(wrong[:1])


def _first_moment(folder: Path, number: signal.Signals, rng: random.Random) -> str:
    """What was wrong about a command that met a signal as it began; nothing, if nothing was."""
    _clear(folder)
    words = [
        sys.executable,
        "-m",
        "rankwolf",
        "decompose",
        str(folder / "x.npy"),
        "-o",
        str(folder / "out"),
        "--quiet",
    ]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        after = rng.uniform(0.0, FIRST_MOMENTS)
        time.sleep(after)
        process.send_signal(number)
        _, said = process.communicate(timeout=LONGEST)
    code = process.returncode
    # Python answers SIGINT with a traceback of its own, and sometimes with code 1, until it comes to a line of ours.
    unheard = code in (-number, 1) and "rankwolf/" not in said and _left(folder) == []
    right = unheard or _right(number, code, said, folder)
    return "" if right else f"{1e3 * after:.0f} ms: code {code}, left {_left(folder)}, said {said[-300:]!r}"


def _right(number: signal.Signals, code: int, words: str, folder: Path) -> bool:
    """It stopped and left nothing, or it was quicker than the signal."""
    stopped = code == 128 + number and _left(folder) == [] and words.count("\n") == 1
    return stopped or (code == 0 and _left(folder) == ["out"])


def _left(folder: Path) -> list[str]:
    return sorted(set(os.listdir(folder)) - MADE_BEFORE)


def _clear(folder: Path) -> None:
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "checkpoint").unlink(missing_ok=True)


def main() -> None:
    tell_of_children(__doc__, survive)


if __name__ == "__main__":
    main()
