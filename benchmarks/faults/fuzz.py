"""Mutated files of every kind that is read: one line and exit code 2, or a result; never a crash, a traceback, a hang.

``make fuzz``, or ``python -m benchmarks fuzz [--minutes 10] [--kinds npy mat …] [--seed 0] [--keep FOLDER]``.

Each file goes to ``rankwolf decompose`` or ``separate`` (saved results to ``rankwolf.load``) in a child process that is
forked from one in which everything is imported; it reads them in a cell, as the installed command does. A child that
fails is one that ends by a signal, with another exit code than 0 or 2, with a traceback or more than one line on stderr
after code 2, after more than LONGEST seconds of its own, or with more than MOST_MEMORY above what an undisturbed one
takes. Files that made a library crash inside the cell are counted, too: they are refused with one line, and worth
reporting to that library. What failed is kept, with the seed that makes it again. The exit code is 1 where anything
failed.
"""

from __future__ import annotations

import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.faults.children import Ending, command, make_in_child, run_child, warm_up
from benchmarks.faults.fuzzing.mutate import mutated
from benchmarks.harness.options import options_of

LONGEST = 20.0
# An unchanged sample may be the first of its kind, and wait for kernels to be compiled.
LONGEST_FIRST = 120.0
MOST_MEMORY = 700e6
CRASHED = "the library that reads it crashed"


@dataclass
class Tally:
    """What happened to the files of one kind."""

    files: int = 0
    read: int = 0
    refused: int = 0
    crashed: int = 0
    failures: list[str] = field(default_factory=list)
    longest: float = 0.0
    memory: float = 0.0


class Fuzzer:
    """Samples of the chosen kinds, and a child for each changed copy."""

    def __init__(self, folder: Path, kinds: list[str], seed: int, keep: Path | None) -> None:
        from benchmarks.faults.fuzzing.samples import SAMPLES

        self.folder, self.seed, self.keep = folder, seed, keep
        self.tallies = {kind: Tally() for kind in kinds}
        self.samples: dict[str, list[Path]] = {}
        for kind in kinds:
            place = folder / "samples" / kind
            place.mkdir(parents=True)
            make_in_child(SAMPLES[kind], place)
            self.samples[kind] = sorted(path for path in place.iterdir() if path.name != "data")
        self.usual = {kind: self._usual(kind) for kind in kinds}

    def _usual(self, kind: str) -> float:
        """The most memory that an unchanged sample takes; each must be read."""
        most = 0.0
        for sample in self.samples[kind]:
            ending = self.run(kind, sample, sample, LONGEST_FIRST)
            if ending.status:
                raise RuntimeError(f"the sample {sample} was not read: {ending}")
            most = max(most, ending.memory)
        return most

    def one(self, kind: str, number: int) -> None:
        """The ``number``-th changed file of a kind."""
        rng = random.Random(f"{self.seed} {kind} {number}")
        sample = rng.choice(self.samples[kind])
        place = self.folder / "work"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        path = place / sample.name
        if sample.is_dir():
            shutil.copytree(sample, path)
            chosen = rng.choice(sorted(inner for inner in path.rglob("*") if inner.is_file()))
            chosen.write_bytes(mutated(chosen, rng))
        else:
            path.write_bytes(mutated(sample, rng))
        self._judge(kind, number, path, self.run(kind, path, sample))

    def _judge(self, kind: str, number: int, path: Path, ending: Ending) -> None:
        tally = self.tallies[kind]
        tally.files += 1
        code = ending.code
        extra = ending.memory - self.usual[kind]
        tally.longest, tally.memory = max(tally.longest, ending.seconds), max(tally.memory, extra)
        tally.read += code == 0
        tally.refused += code == 2
        tally.crashed += code == 2 and CRASHED in ending.words
        why = ""
        if ending.hung:
            why = f"hung for {ending.seconds:.0f} s"
        elif code not in (0, 2):
            why = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        elif "Traceback" in ending.words:
            why = "a traceback"
        elif code == 2 and (ending.words.count("\n") != 1 or not ending.words.startswith("rankwolf: ")):
            why = "not one line"
        elif extra > MOST_MEMORY:
            why = f"{extra / 1e6:.0f} MB"
        if why:
            last = ending.words.strip().splitlines()[-1:] or [""]
            tally.failures.append(f"{kind} {number}: {why}: {last[0][:200]}")
            print(f"FAILED {tally.failures[-1]}", flush=True)
            if self.keep is not None:
                self.keep.mkdir(parents=True, exist_ok=True)
                kept = self.keep / f"{kind}-{self.seed}-{number}"
                (shutil.copytree if path.is_dir() else shutil.copy)(path, kept.with_suffix(path.suffix))
                kept.with_suffix(".txt").write_text(ending.words)

    def run(self, kind: str, path: Path, sample: Path, longest: float = LONGEST) -> Ending:
        """A child for one file, ended after ``longest`` seconds."""
        output, words = self.folder / "out", self.folder / "words"
        shutil.rmtree(output, ignore_errors=True)
        return run_child(lambda: ACTIONS.get(kind, _decompose)(path, sample, output), words, longest)


def _decompose(path: Path, sample: Path, output: Path) -> int:
    return command("decompose", path, "-o", output, "--delta", 0.01, "--max-seconds", 1)


def _separate(path: Path, sample: Path, output: Path) -> int:
    return command("separate", path, "-o", output, "--max-seconds", 1, "--no-report", "--format", "png")


def _load(path: Path, sample: Path, output: Path) -> int:
    """The library's own door: any other error than ValueError or OSError is a failure."""
    import rankwolf as rw

    try:
        fit = rw.load(path)
        repr(fit)
        _ = fit.low_rank[:3], fit.as_dict()
    except (ValueError, OSError) as error:
        print(f"rankwolf: {error}", file=sys.stderr)
        return 2
    return 0


def _learn(path: Path, sample: Path, output: Path) -> int:
    """A model of RobustPCA that scores rows and learns from more."""
    import rankwolf as rw
    from benchmarks.faults.fuzzing.samples import matrix

    try:
        model = rw.RobustPCA.load(path)
        model.transform(matrix(20))
        model.partial_fit(matrix(20))
    except (ValueError, OSError) as error:
        print(f"rankwolf: {error}", file=sys.stderr)
        return 2
    return 0


def _resume(path: Path, sample: Path, output: Path) -> int:
    import json

    folder = sample.parent / "data"
    data = json.loads((folder / "methods.json").read_text())[sample.stem]
    copy = path.with_name("resumed.checkpoint")
    shutil.copy(path, copy)
    solving = ["--method", sample.stem, "--delta", 0.01, "--tol", 1e-6, "--max-seconds", 1]
    kept = ["--checkpoint", copy, "--checkpoint-every", 1, "--resume"]
    return command("decompose", folder / data, "-o", output, *solving, *kept)


def _model(path: Path, sample: Path, output: Path) -> int:
    """A folder of a model in which the file of the mask is the changed one."""
    data, model = sample.parent / "data", path.parent / "model"
    shutil.copytree(data / "model", model)
    shutil.copy(path, model / "mask.npz")
    return command("separate", data / "v.npy", "-o", output, "--model", model, "--no-report")


def _go_on(path: Path, sample: Path, output: Path) -> int:
    """A state of a live run that goes on for some frames."""
    from benchmarks.faults.fuzzing.samples import frames
    from rankwolf.video import LiveSettings, Separator

    try:
        separator = Separator.load(path, LiveSettings(warm_up=20))
        for frame in frames():
            separator.update(frame)
    except (ValueError, OSError) as error:
        print(f"rankwolf: {error}", file=sys.stderr)
        return 2
    return 0


def _recover(path: Path, sample: Path, output: Path) -> int:
    """k-space, beside the unchanged half of it where it has two files."""
    for other in sample.parent.glob(f"{sample.stem}.*"):
        if other.suffix != sample.suffix and path != sample:
            shutil.copy(other, path.with_suffix(other.suffix))
    return command("recover", path, "-o", output, "--max-seconds", 1, "--sigma", 1)


ACTIONS: dict[str, Callable[[Path, Path, Path], int]] = {
    "video": _separate, "image": _separate, "result": _load, "factors": _learn, "checkpoint": _resume, "mask": _model,
    "live": _go_on, "cfl": _recover, "ismrmrd": _recover,
}  # fmt: skip


def table(tallies: dict[str, Tally]) -> str:
    lines = [
        "| kind | files | read | refused in one line | by a library's crash | longest, s | memory, MB | failures |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind, t in tallies.items():
        lines.append(
            f"| {kind} | {t.files} | {t.read} | {t.refused} | {t.crashed} | {t.longest:.1f} | {t.memory / 1e6:.0f} | "
            f"{len(t.failures)} |"
        )
    total = sum(t.files for t in tallies.values())
    failed = sum(len(t.failures) for t in tallies.values())
    return "\n".join([*lines, "", f"{total} files, {failed} failures."])


def fuzz(
    kinds: list[str],
    seed: int,
    minutes: float | None = None,
    files: int | None = None,
    keep: Path | None = None,
) -> dict[str, Tally]:
    """Turn by turn through the kinds, until the time is over or each has had so many ``files``."""
    warm_up()
    with tempfile.TemporaryDirectory(prefix="rankwolf-fuzz-") as name:
        fuzzer = Fuzzer(Path(name), kinds, seed, keep)
        deadline = None if minutes is None else time.monotonic() + 60.0 * minutes
        number = 0
        while files is None or number < files:
            for kind in kinds:
                if deadline is not None and time.monotonic() > deadline:
                    return fuzzer.tallies
                fuzzer.one(kind, number)
            number += 1
        return fuzzer.tallies


def main() -> None:
    from benchmarks.faults.fuzzing.samples import SAMPLES

    parser = options_of(__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kinds", nargs="+", choices=list(SAMPLES), default=list(SAMPLES))
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other files")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="where files that failed go")
    options: Any = parser.parse_args()
    tallies = fuzz(options.kinds, options.seed, minutes=options.minutes, keep=options.keep)
    print(table(tallies))
    raise SystemExit(1 if any(t.failures for t in tallies.values()) else 0)


if __name__ == "__main__":
    main()
