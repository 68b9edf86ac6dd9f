"""Some seconds of ``make fuzz``, with a fixed seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

for name in ("av", "h5py", "zarr", "pyarrow", "PIL"):
    pytest.importorskip(name)

ROOT = Path(__file__).parents[1]


@pytest.mark.timeout(600)
def test_changed_files_of_every_kind(tmp_path):
    """No signal, no traceback, no hang, exit code 0 or 2 with one line, little memory."""
    words = [
        sys.executable,
        "-m",
        "benchmarks",
        "fuzz",
        "--minutes",
        "0.3",
        "--seed",
        "18",
        "--keep",
        str(tmp_path),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split("|")[1:3] for line in done.stdout.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 18
    assert all(int(count) >= 1 for _, count in rows), done.stdout


def test_no_kind_of_file_that_is_read_is_missing():
    """What the door opens, and what has a schema, beside what the fuzzer makes."""
    from benchmarks.faults.fuzzing.samples import SAMPLES
    from rankwolf.files import KINDS
    from rankwolf.files.kspace import KSPACE_KINDS
    from rankwolf.files.schema import SCHEMAS

    same = {"hdf5": "h5", "mat73": "mat", "tsv": "csv", "csv.gz": "csv", "tsv.gz": "csv"}
    read = {same.get(kind.name, kind.name) for kind in KINDS} | set(SCHEMAS) | set(KSPACE_KINDS)
    read |= {"video", "image"}
    assert read == set(SAMPLES)


def test_a_failure_would_be_seen(tmp_path):
    """The judge itself: each way to fail, and the two ways to pass."""
    from benchmarks.faults.fuzz import MOST_MEMORY, Ending, Fuzzer

    line = "rankwolf: error: Cannot read it.\n"
    good = [(0, ""), (2 << 8, line), (2 << 8, "rankwolf: error: the library that reads it crashed\n")]
    bad = [
        (11, ""),
        (1 << 8, line),
        (2 << 8, ""),
        (2 << 8, line + line),
        (0, "Traceback (most recent call last)"),
    ]
    endings = [Ending(status, 0.1, 0.0, words, False) for status, words in good + bad]
    endings += [Ending(0, 30.0, 0.0, "", True), Ending(0, 0.1, 2.0 * MOST_MEMORY, "", False)]

    class Prepared(Fuzzer):
        """Runs nothing: the samples end well, and the changed files as it was said."""

        def run(self, kind, path, sample, longest=0.0):
            return Ending(0, 0.1, 0.0, "", False) if path == sample else endings[self.tallies[kind].files]

    fuzzer = Prepared(tmp_path, ["npy"], 0, None)
    for number in range(len(endings)):
        fuzzer.one("npy", number)
    tally = fuzzer.tallies["npy"]
    assert (tally.files, len(tally.failures), tally.crashed) == (len(endings), len(bad) + 2, 1)
