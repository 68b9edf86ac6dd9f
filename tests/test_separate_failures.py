"""How ``rankwolf separate`` fails: bad options, bad input, a disk that is full. One line, exit code 2, nothing left."""

from __future__ import annotations

import subprocess
from functools import cache

import numpy as np
import pytest

pytest.importorskip("av", reason="the extra 'video' is not installed")

from video_files import cut, names, run, scene, summary_of, write_images, write_video

from rankwolf.cli.common import parse_size
from rankwolf.video.scene import Scene


@pytest.mark.parametrize(
    ("text", "size"),
    [("1GB", 10**9), ("1.5 GiB", 3 * 2**29), ("500m", 5 * 10**8), ("2e9", 2 * 10**9), ("64kb", 64000)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "0", "1.2.3GB", "1XB"])
def test_words_that_are_no_size(text):
    with pytest.raises(ValueError, match="--max-memory"):
        parse_size(text)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--every", "0"], "--every"),
        (["--scale", "0"], "--scale"),
        (["--sample", "1.5"], "--sample"),
        (["--threshold", "9", "--radius", "3"], "--radius"),
        (["--radius", "0"], "--radius must be positive. Got 0.0 instead."),
        (["--least-area", "-1"], "--least-area must be a whole number of at least 0. Got -1 instead."),
        (["--samples", "1"], "--samples"),
        (["--audio", "--every", "2"], "--audio"),
        (["--audio"], "has no sound"),
        (["--start", "soon"], "moment"),
        (["--start", "90"], "--start"),
        (["--start", "79"], "at least 2 frames"),
        (["--delta", "-1"], "delta"),
        (["--method", "magic"], "method"),
        (["--max-memory", "much"], "--max-memory"),
        (["--threads", "0"], "--threads must be a whole number"),
        (["--mask", "nowhere.png"], "nowhere.png"),
    ],
)
def test_bad_options(video, tmp_path, capsys, words, says):
    assert run(video, "-o", tmp_path / "out", *words) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert names(tmp_path) == set()


def bad_inputs(folder):
    """Every input of which nothing good can come, by what it is."""
    whole = write_video(folder / "whole.mp4", scene().frames)
    avi = write_video(folder / "whole.avi", scene().frames, "mpeg4")
    np.savez_compressed(folder / "whole.npz", frames=scene().frames)
    damaged = bytearray((folder / "whole.npz").read_bytes())
    damaged[len(damaged) // 2 : len(damaged) // 2 + 1000] = bytes(1000)
    (folder / "damaged.npz").write_bytes(damaged)
    text = folder / "text.mp4"
    text.write_text("not a video")
    (folder / "empty").mkdir()
    corrupt = write_images(folder / "corrupt", scene().frames[:8])
    (corrupt / "frame5.png").write_bytes((corrupt / "frame5.png").read_bytes()[:900])
    return {
        "mp4 cut by a third": (cut(whole, folder / "cut.mp4", 2 / 3), "cut.mp4"),
        "avi cut by a third": (cut(avi, folder / "cut.avi", 2 / 3), "of 80 declared"),
        "text": (text, "text.mp4"),
        "damaged npz": (folder / "damaged.npz", "is damaged at frame"),
        "empty folder": (folder / "empty", "has no images"),
        "corrupt image": (corrupt, "frame5.png"),
        "missing": (folder / "missing.mp4", "No such file"),
    }


@pytest.mark.parametrize(
    "kind",
    [
        "mp4 cut by a third",
        "avi cut by a third",
        "text",
        "damaged npz",
        "empty folder",
        "corrupt image",
        "missing",
    ],
)
def test_bad_input_is_one_line_and_nothing_written(tmp_path, capfd, kind):
    source = tmp_path / "in"
    source.mkdir()
    path, says = bad_inputs(source)[kind]
    (tmp_path / "place").mkdir()
    assert run(path, "-o", tmp_path / "place" / "out") == 2
    said = capfd.readouterr()
    assert says in said.err
    assert said.err.count("\n") == 1
    assert all("Decoding" in line for line in said.out.splitlines())
    assert names(tmp_path / "place") == set()


def test_a_small_loss_is_a_warning_and_strict_makes_it_an_error(tmp_path, capsys):
    avi = write_video(tmp_path / "whole.avi", scene().frames, "mpeg4")
    short = cut(avi, tmp_path / "short.avi", 0.95)
    assert run(short, "-o", tmp_path / "out", "--quiet") == 0
    assert "of 80 declared" in capsys.readouterr().err
    assert summary_of(tmp_path / "out")["warnings"]
    assert run(short, "-o", tmp_path / "strict", "--strict") == 2
    assert not (tmp_path / "strict").exists()


@cache
def noisy_frames():
    return Scene(n_frames=100, noise=12.0).render().frames


@pytest.fixture
def mounted(tmp_path):
    """Mounts a small tmpfs; unmounted afterwards."""
    places = []

    def mount(options):
        place = tmp_path / f"disk{len(places)}"
        place.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"mounting a tmpfs needs root ({done.stderr.strip()})")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize(
    "words", [["--format", "mp4"], ["--format", "ffv1"], ["--format", "png"], ["--max-memory", "1MB"]]
)
def test_a_full_disk(mounted, tmp_path, capfd, words):
    """100 frames of 160 × 120 are 1.9 MB; the disk has room for some of the results and not for all."""
    np.save(tmp_path / "long.npy", noisy_frames())
    place = mounted("size=100k")
    assert run(tmp_path / "long.npy", "-o", place / "out", "--quiet", "--max-seconds", 1, *words) == 2
    error = capfd.readouterr().err.strip().splitlines()
    assert "No space left" in error[-1]
    assert str(place / "out") in error[-1]
    assert ".part" not in error[-1]
    assert len(error) == 1
    assert names(place) == set()


def test_an_output_that_cannot_be_written(mounted, video, tmp_path, capsys):
    place = mounted("size=1m,ro")
    assert run(video, "-o", place / "out") == 2
    assert "Read-only" in capsys.readouterr().err
    (tmp_path / "file").write_text("a file")
    for target in (tmp_path / "file" / "out", tmp_path / "nowhere" / "out", tmp_path / "file"):
        assert run(video, "-o", target, "--force") == 2
        said = capsys.readouterr()
        assert said.err.count("\n") == 1
        assert said.out == ""
    assert (tmp_path / "file").read_text() == "a file"
