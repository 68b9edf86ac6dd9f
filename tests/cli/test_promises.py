"""Promises of the command line that did not hold: each of these failed once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from rankwolf.cli import main
from rankwolf.video import Separator


def run(*words):
    return main(list(map(str, words)))


def table(path, name="a"):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 8)) + 0.1 * rng.standard_normal((60, 8))
    X[3, 4] += 50.0
    rows = [f"{name}{k}," + ",".join(f"{x:.6f}" for x in row) for k, row in enumerate(X)]
    path.write_text("\n".join(["name," + ",".join("abcdefgh"), *rows]), encoding="utf-8")
    return path


def test_a_finished_job_that_is_resumed_is_done(tmp_path, capsys):
    """Before: "The output exists already", exit code 2."""
    words = ["decompose", table(tmp_path / "a.csv"), "-o", tmp_path / "out", "--checkpoint", tmp_path / "c"]
    assert run(*words) == 0
    before = (tmp_path / "out" / "result.npz").stat().st_mtime_ns
    capsys.readouterr()
    assert run(*words, "--resume") == 0
    assert "is done" in capsys.readouterr().out
    assert run(*words, "--resume", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 60
    assert (tmp_path / "out" / "result.npz").stat().st_mtime_ns == before
    assert run(*words, "--tol", "1e-2", "--resume") == 2  # another job


def test_names_cannot_steer_a_page(tmp_path):
    """Before: ESC and U+202E stood in report.html as they came."""
    path = table(tmp_path / "a.csv", "x\u202ey\x1b[31m")
    assert run("decompose", path, "-o", tmp_path / "out", "--report", "--quiet") == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "\u202e" not in page and "\x1b" not in page and "\\u202e" in page


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_images_of_more_than_8_bits_keep_their_contrast(tmp_path, bits):
    """Before: 12 of 16 bits became the levels 0 to 15, and the mask was empty without a word."""
    from PIL import Image

    from rankwolf.video.reading import Selection, open_frames

    ramp = np.linspace(0, 2**bits - 1, 24 * 32).reshape(24, 32).astype(np.uint16)
    for number in range(3):
        Image.fromarray(ramp).save(tmp_path / f"{number}.png")
    picture = next(iter(open_frames(tmp_path, Selection())))
    assert picture.min() == 0 and picture.max() == 255
    assert np.abs(picture.astype(int) - 255.0 * ramp / (2**bits - 1)).max() <= 1.0


LIVE = """
import sys
from rankwolf.cli import live, main
live.SAVE_FIRST = 0.0
sys.exit(main(["separate", "-", "--live", "--raw", "32x24", "--warm-up", "20", "-o", "out", "-q"]))
"""


def test_a_live_run_saves_its_first_state_early(tmp_path):
    """Before: after 600 s; a kill in the first ten minutes lost all."""
    from rankwolf.cli import live
    from rankwolf.video import Separator

    assert live.SAVE_FIRST <= 10.0
    process = subprocess.Popen([sys.executable, "-c", LIVE], cwd=tmp_path, stdin=subprocess.PIPE)
    frames = np.random.default_rng(0).integers(90, 110, (25, 24, 32), np.uint8)
    try:
        process.stdin.write(frames.tobytes())
        process.stdin.flush()
        deadline = time.monotonic() + 120.0
        state = tmp_path / "out" / "state.npz"
        while not (state.exists() and Separator.load(state).count) and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
    assert Separator.load(state).count > 0


def test_a_live_run_ends_where_it_is_told_and_refuses_to_end_before_it_began(tmp_path, capsys):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).integers(90, 110, (30, 24, 32), np.uint8))
    words = ("separate", tmp_path / "a.npy", "--live", "--warm-up", "20", "-o", tmp_path / "out", "-q")
    assert run(*words, "--end", "0") == 2
    assert "--end must be after the first frame" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert run(*words, "--end", "22") == 0
    assert Separator.load(tmp_path / "out" / "state.npz").count == 22


def test_a_live_run_on_a_full_disk_leaves_no_empty_files(tmp_path, no_file_beyond, capsys):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).integers(90, 110, (30, 24, 32), np.uint8))
    with no_file_beyond(0):  # as on a disk that is full from the first byte on
        code = run("separate", tmp_path / "a.npy", "--live", "--warm-up", "20", "-o", tmp_path / "out", "-q")
    assert code == 2 and "File too large" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir() if path.stat().st_size == 0] == []


def test_repeated_signals_are_one_line(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((20_000, 200)))
    words = [sys.executable, "-m", "rankwolf", "decompose", "x.npy", "-o", "out", "--tol", "0", "-q"]
    process = subprocess.Popen([*words, "--checkpoint", "c", "--checkpoint-every", "1"], cwd=tmp_path,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    deadline = time.monotonic() + 60.0
    while not (tmp_path / "c").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    for _ in range(5):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    said = process.communicate(timeout=60)[1]
    assert (process.returncode, said) == (130, "rankwolf: interrupted\n")
