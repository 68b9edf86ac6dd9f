"""``rankwolf separate`` interrupted: it stops within a moment, wherever it is, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("av", reason="the extra 'video' is not installed")

from video_files import names

LINUX = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux how busy a process was")


def seconds_of(pid):
    """Of a processor, that a running process and its children have had so far: a command works in a child."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(map(seconds_of, children))


def seconds_of_children():
    """The same, of those that have ended."""
    times = os.times()
    return times.children_user + times.children_system


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """Frames of pure noise, in which a solver with tiny weights does not converge soon."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("noise") / "noise.npy"
    np.save(path, rng.integers(0, 256, (250, 240, 320), np.uint8))
    return path


def interrupt(words, place, stage, number):
    """Start ``rankwolf separate``, send a signal soon after ``stage`` has begun; code, seconds and what it said.

    Other work on this machine must not decide, so a process that had to wait is judged by its own time.
    """
    place.mkdir()
    words = ["separate", *words, "-o", place / "out"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rankwolf", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env={**os.environ, "FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "120"},
    )  # fmt: skip
    assert process.stdout is not None
    seen = ""
    while stage not in seen and (character := process.stdout.read(1)):
        seen += character
    assert stage in seen
    assert any(place.iterdir())
    time.sleep(0.3)
    busy = -seconds_of_children() - seconds_of(process.pid)
    process.send_signal(number)
    started = time.monotonic()
    rest, _ = process.communicate(timeout=150)
    seconds = time.monotonic() - started
    return process.returncode, min(seconds, busy + seconds_of_children()), rest


def check(place, code, outcome):
    """Under two seconds and a tile, and nothing is left. Measured: 0.1 to 0.5 s."""
    returned, seconds, rest = outcome
    assert returned == code, rest
    assert seconds < 2.2
    assert "Traceback" not in rest
    assert names(place) == set()


SLOW = ["--lambdas", "30", "1", "--tol", "1e-9"]


@LINUX
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("stage", ["Decoding", "Solving"])
def test_interrupted(noise, tmp_path, number, code, stage):
    place = tmp_path / "place"
    check(place, code, interrupt([noise, *SLOW], place, stage, number))


@LINUX
def test_interrupted_with_frames_on_the_disk(noise, tmp_path):
    """The signal comes while the second file is made, or in the first passes."""
    place = tmp_path / "place"
    check(place, 130, interrupt([noise, *SLOW, "--max-memory", "2MB"], place, "Solving", signal.SIGINT))


@LINUX
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_while_writing(noise, tmp_path, number, code):
    """With a huge weight all of it is foreground at once; a thousand frames, so that no machine is done too soon."""
    np.save(tmp_path / "long.npy", np.resize(np.load(noise), (1000, 240, 320)))
    place, words = tmp_path / "place", [tmp_path / "long.npy", "--lambdas", "1e9", "1"]
    check(place, code, interrupt(words, place, "Writing", number))


@LINUX
def test_interrupted_with_a_model(noise, separated, tmp_path):
    np.save(tmp_path / "long.npy", np.resize(np.load(noise), (4000, 96, 128)))
    place, words = tmp_path / "place", [tmp_path / "long.npy", "--model", separated]
    check(place, 130, interrupt(words, place, "Writing", signal.SIGINT))
