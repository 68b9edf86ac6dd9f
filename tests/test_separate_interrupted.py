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


def seconds_of(pid):
    """Of a processor, that a running process has had so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds_of_children():
    """The same, of those that have ended."""
    times = os.times()
    return times.children_user + times.children_system


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux how busy a process was")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("stage", ["Decoding", "Solving", "Writing"])
def test_interrupted(tmp_path, number, code, stage):
    """Under two seconds and a tile, and nothing is left."""
    rng = np.random.default_rng(0)
    # Enough that no machine is done with it before the signal, even when this test has to wait for its turn.
    frames = np.resize(rng.integers(0, 256, (250, 240, 320), np.uint8), (1000, 240, 320))
    np.save(tmp_path / "noise.npy", frames if stage == "Writing" else frames[:250])
    place = tmp_path / "place"
    place.mkdir()
    # Pure noise with tiny weights does not converge soon; with a huge one all of it is foreground at once.
    weights = ["1e9", "1"] if stage == "Writing" else ["30", "1"]
    words = ["separate", tmp_path / "noise.npy", "-o", place / "out", "--lambdas", *weights, "--tol", "1e-9"]
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
    assert process.returncode == code, rest
    # Two seconds and a tile; other work on this machine must not decide, so the process's own time counts as well.
    busy += seconds_of_children()
    assert min(time.monotonic() - started, busy) < 4.0
    assert "Traceback" not in rest
    assert names(place) == set()
