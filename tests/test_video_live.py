"""A model that keeps learning: frame by frame, saved and resumed, through changes of the scene, from streams."""

from __future__ import annotations

import gc
import io
import json
import os
import zipfile

import numpy as np
import pytest

pytest.importorskip("av", reason="the extra 'video' is not installed")

from video_files import names, pictures, run, write_video

import rankwolf as rw
from rankwolf.video.live import LiveSettings, Separator
from rankwolf.video.scene import Scene
from rankwolf.video.scoring import Score, score_frame

QUICK = LiveSettings(warm_up=60, changed_after=10)


@pytest.fixture(scope="module")
def long():
    return Scene(height=72, width=96, n_frames=200, n_objects=3, n_lamps=1, seed=5).render()


def follow(separator, frames):
    return [separator.update(frame)[1] for frame in frames]


def test_close_to_the_truth_after_the_warm_up(long):
    separator = rw.video.Separator(QUICK)
    backgrounds, masks = zip(*map(separator.update, long.frames), strict=True)
    assert not any(mask.any() for mask in masks[:59])
    np.testing.assert_array_equal(backgrounds[10], long.frames[10])
    score = sum(map(score_frame, masks[60:], long.masks[60:]), start=Score())
    assert score.f_measure > 0.9
    error = np.stack(backgrounds[60:]).astype(float) - long.background[60:]
    assert np.sqrt(np.mean(error**2)) < 2.5


@pytest.mark.parametrize("at", [30, 110])
def test_a_saved_state_goes_on_as_if_nothing_had_happened(long, tmp_path, at):
    one = Separator(QUICK)
    follow(one, long.frames[:at])
    one.save(tmp_path / "state.npz")
    two = Separator.load(tmp_path / "state.npz", QUICK)
    assert (two.count, two.ready) == (at, at >= 60)
    for mask, again in zip(follow(one, long.frames[at:150]), follow(two, long.frames[at:150]), strict=True):
        np.testing.assert_array_equal(mask, again)


def test_light_that_fades_slowly_stays_background():
    rng = np.random.default_rng(0)
    still = 120.0 + 30.0 * np.sin(np.mgrid[0:48, 0:64][1] / 5.0)
    shade = np.linspace(0.0, 0.4, 400)[:, None, None] * (np.arange(64) < 32)  # the left half alone
    frames = [
        np.clip(still * (1 - s) + rng.normal(0, 1.5, still.shape), 0, 255).astype(np.uint8) for s in shade
    ]
    separator = Separator(LiveSettings(warm_up=60, refresh=2))
    masks = follow(separator, frames)
    assert separator.relearned == 0
    assert np.mean(masks[60:]) < 0.02


def test_a_lamp_that_is_switched_on_is_background_within_two_seconds():
    rng = np.random.default_rng(2)
    y, x = np.mgrid[0:60, 0:80]
    still = 90.0 + 25.0 * rng.random((60, 80))
    spot = 1.0 + 0.8 * np.exp(-((y - 30) ** 2 + (x - 40) ** 2) / 200.0)
    separator, shares = Separator(LiveSettings(warm_up=40)), []
    for k in range(150):
        frame = (still if k < 60 else still * spot) + rng.normal(0, 1.5, still.shape)
        shares.append(separator.update(np.clip(frame, 0, 255).astype(np.uint8))[1].mean())
    assert shares[61] > 0.05, "else there is nothing to learn here"
    assert max(shares[110:]) < 0.02 < max(shares)


def test_a_moved_camera_is_learned_again(long):
    separator = Separator(QUICK)
    follow(separator, long.frames[:100])
    moved = np.roll(long.frames, (11, 23), (1, 2))
    masks = follow(separator, np.concatenate([255 - moved[100:], 255 - moved[100:]]))
    assert separator.relearned == 1
    truth = np.roll(long.masks, (11, 23), (1, 2))[100:]
    score = sum(map(score_frame, masks[100:], truth), start=Score())
    assert score.f_measure > 0.8


def test_what_is_parked_becomes_background_after_the_time_that_was_asked_for():
    rng = np.random.default_rng(1)
    separator = Separator(LiveSettings(warm_up=40, absorb_after=60))
    still = 100.0 + 20.0 * rng.random((48, 64))
    moving = []
    for k in range(220):
        frame = still + rng.normal(0, 1.5, still.shape)
        if k >= 80:
            frame[20:34, 20:40] = 220.0
        moving.append(separator.update(frame.astype(np.uint8))[1][22:32, 22:38].mean())
    assert min(moving[85:135]) > 0.9
    assert max(moving[160:]) < 0.1


def test_somebody_who_sways_becomes_background_too():
    """One frame in ten is missed; beginning again from 0 each time, 60 in a row would never come."""
    rng = np.random.default_rng(1)
    separator = Separator(LiveSettings(warm_up=40, absorb_after=60))
    still = 100.0 + 20.0 * rng.random((48, 64))
    moving = []
    for k in range(280):
        frame = still + rng.normal(0, 1.5, still.shape)
        if k >= 80 and k % 10:
            frame[20:34, 20:40] = 220.0
        moving.append(separator.update(frame.astype(np.uint8))[1][22:32, 22:38].mean())
    assert np.mean(moving[85:135]) > 0.8
    assert max(moving[250:]) < 0.1


def test_more_than_65000_frames_can_be_asked_for(trained, tmp_path):
    """Before, the count of frames stopped at 65001, and what stayed for longer was never background."""
    trained.save(tmp_path / "state.npz")
    part = np.zeros((72, 96), bool)
    part[20:50, 30:70] = True
    changed(tmp_path / "state.npz", stayed=lambda stayed: np.where(part, 65_001, stayed).astype(stayed.dtype))
    settings = LiveSettings(warm_up=60, absorb_after=65_020)
    background = Separator.load(tmp_path / "state.npz", settings).update(np.zeros((72, 96), np.uint8))[0]
    frame = np.where(part, np.where(background > 127, 0, 255), background).astype(np.uint8)
    separator = Separator.load(tmp_path / "state.npz", settings)
    moving = [mask[24:46, 34:66].mean() for mask in follow(separator, [frame] * 40)]
    assert min(moving[:15]) > 0.9
    assert max(moving[30:]) < 0.1


def test_bad_frames_and_bad_files_are_refused(tmp_path):
    separator = Separator(QUICK)
    with pytest.raises(ValueError, match=r"The 'frame' parameter of Separator\.update must be a uint8 array"):
        separator.update(np.zeros((4, 4)))
    separator.update(np.zeros((8, 8), np.uint8))
    with pytest.raises(ValueError, match=r"must be of shape \(8, 8\), as the first was. Got \(8, 9\)"):
        separator.update(np.zeros((8, 9), np.uint8))
    (tmp_path / "no.npz").write_bytes(b"no")
    with pytest.raises(ValueError, match="not a state"):
        Separator.load(tmp_path / "no.npz")
    with pytest.raises(FileNotFoundError):
        Separator.load(tmp_path / "nowhere.npz")


def test_a_black_picture_is_all_background():
    masks = follow(Separator(LiveSettings(warm_up=20)), np.zeros((30, 16, 16), np.uint8))
    assert not np.any(masks)


class Stdin:
    def __init__(self, content):
        self.buffer = io.BytesIO(content)


@pytest.mark.parametrize("source", ["file", "encoded", "raw"])
def test_streams_from_the_command_line(long, tmp_path, monkeypatch, capsys, source):
    frames = long.frames[:100]
    path, target = write_video(tmp_path / "a.mkv", frames, "ffv1"), tmp_path / "out"
    words = {"file": [path], "encoded": ["-"], "raw": ["-", "--raw", "96x72"]}[source]
    content = frames.tobytes() + b"half a frame" if source == "raw" else path.read_bytes()
    # Standard input of this process, as a pipe would give it.
    monkeypatch.setattr("sys.stdin", Stdin(content))
    assert run(*words, "--live", "--warm-up", 60, "-o", target, "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["frames"], summary["ready"]) == (100, True)
    assert names(target) == {"background.mkv", "mask.mkv", "objects.csv", "state.npz", "summary.json"}
    mask = pictures(target / "mask.mkv") > 127
    score = sum(map(score_frame, mask[60:], long.masks[60:100]), start=Score())
    assert score.f_measure > 0.85
    lines = (target / "objects.csv").read_text().splitlines()
    assert lines[0] == "frame,id,left,top,width,height,area"
    areas = {}
    for line in lines[1:]:
        frame, *_, area = map(int, line.split(","))
        areas[frame] = areas.get(frame, 0) + area
    for number, area in areas.items():  # the video is encoded: its borders are not exact
        assert abs(area - mask[number].sum()) < 0.1 * area + 10


def test_going_on_keeps_what_was_written(video, tmp_path, capsys):
    target = tmp_path / "out"
    words = (video, "--live", "--warm-up", 40, "-o", target)
    assert run(*words, "--quiet") == 0
    assert run(*words, "--quiet") == 2
    assert "--force" in capsys.readouterr().err
    # A file that is replaced in one step is another file: a second name of the old one keeps its text.
    os.link(target / "summary.json", tmp_path / "first.json")
    assert run(*words, "--go-on", "--json") == 0
    assert json.loads(capsys.readouterr().out)["frames_before"] == 80
    assert json.loads((tmp_path / "first.json").read_text())["frames_before"] == 0
    assert {"mask.mkv", "mask-2.mkv", "objects.csv", "objects-2.csv"} <= names(target)
    numbers = [line.split(",")[0] for line in (target / "objects-2.csv").read_text().splitlines()[1:]]
    assert all(int(number) >= 80 for number in numbers)


def test_force_replaces_all_that_earlier_runs_left(video, tmp_path, capsys):
    """Before, the old videos stayed beside a state and a summary that were no longer about them."""
    target, live = tmp_path / "out", ("--live", "--warm-up", 40, "--quiet")
    assert run(video, "-o", target, "--quiet", "--format", "ffv1") == 0
    (target / "notes.txt").write_text("not ours")
    assert run(video, *live, "-o", target, "--force") == 0
    mine = {"background.mkv", "mask.mkv", "objects.csv", "state.npz", "summary.json", "notes.txt"}
    assert names(target) == mine
    assert run(video, *live, "-o", target, "--go-on") == 0
    assert names(target) == mine | {"background-2.mkv", "mask-2.mkv", "objects-2.csv"}
    assert run(tmp_path / "none.mp4", *live, "-o", target, "--force") == 2
    assert "mask-2.mkv" in names(target), "a stream that does not begin replaces nothing"
    assert run(video, *live, "-o", target, "--force", "--scale", 0.5) == 0
    assert names(target) == mine
    assert pictures(target / "mask.mkv").shape == (80, 48, 64)
    assert run(target / "mask.mkv", *live, "-o", target, "--force") == 2
    assert "lies in the output" in capsys.readouterr().err
    assert names(target) == mine
    assert run(video, "-o", target, "--quiet", "--force", "--no-report") == 0
    assert not names(target) & {"mask.mkv", "background.mkv", "state.npz"}


def test_a_video_that_cannot_be_finished_does_not_cost_the_state(video, tmp_path, monkeypatch, capsys):
    """Before, a full disk under the first video left the second one open and the state unsaved."""
    closed = []

    def close(sink):
        closed.append(sink)
        sink.abandon()
        raise OSError(28, "No space left on device")

    # A disk that is full for both videos and has room for the larger state afterwards: nothing but this makes one.
    monkeypatch.setattr("rankwolf.video.picture_writers.VideoSink.close", close)
    assert run(video, "--live", "--warm-up", 40, "-o", tmp_path / "out", "--quiet") == 2
    assert "No space left" in capsys.readouterr().err
    assert len(set(closed)) == 2
    assert Separator.load(tmp_path / "out" / "state.npz").count == 80


def test_a_raw_file_is_closed(long, tmp_path):
    """An open file that is forgotten is a ResourceWarning, and that an error."""
    (tmp_path / "a.raw").write_bytes(long.frames[:30].tobytes())
    words = ("--live", "--raw", "96x72", "--warm-up", 20, "-o", tmp_path / "out", "--quiet")
    assert run(tmp_path / "a.raw", *words) == 0
    gc.collect()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--live", "--delta", "0.1"], "--delta does not go with --live"),
        (["--live", "--warm-up", "3"], "--warm-up must be at least 20"),
        (["--live", "--raw", "big"], "--raw must be WIDTHxHEIGHT"),
        (["--live", "--raw", "0x0"], "--raw must be WIDTHxHEIGHT"),
        (["--live", "--raw", "8x8", "--scale", "0.5"], "--scale does not go with --raw"),
        (["--live", "--raw", "8x8xrgb", "--gray"], "--gray does not go with --raw"),
        (["--live", "--raw", "8x8", "--color"], "--color does not go with --raw"),
        (["--live", "--scale", "0"], "--scale must be above 0"),
        (["--live", "--scale", "-1"], "--scale must be above 0"),
        (["--live", "--go-on", "--force"], "--force does not go with --go-on"),
        (["--warm-up", "30"], "--warm-up goes with --live only"),
    ],
)
def test_options_that_would_be_ignored_are_refused(video, tmp_path, capsys, words, says):
    assert run(video, "-o", tmp_path / "out", *words) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert names(tmp_path) == set()


def test_a_stream_that_is_not_there(tmp_path, capsys):
    for source in ("rtsp://127.0.0.1:1/none", str(tmp_path / "none.mp4")):
        assert run(source, "--live", "-o", tmp_path / "out") == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_stream_without_a_whole_frame_and_one_that_is_too_short(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Stdin(b"a few bytes"))
    assert run("-", "--live", "--raw", "640x480", "-o", tmp_path / "none") == 2
    assert "ended before its first whole frame" in capsys.readouterr().err
    assert names(tmp_path) == set()
    monkeypatch.setattr("sys.stdin", Stdin(bytes(30 * 32 * 24)))
    assert run("-", "--live", "--raw", "32x24", "-o", tmp_path / "short", "--quiet") == 0
    assert "30 of 150 frames" in capsys.readouterr().err


def test_a_camera_that_changes_its_size_goes_on_at_the_first(long, tmp_path, capsys):
    """Two streams one after the other in a file, as a camera sends them when it is set to another size."""
    both = b""
    for name, frames in (("a", long.frames[:60]), ("b", long.frames[60:80, ::2, ::2])):
        both += write_video(tmp_path / f"{name}.h264", frames, "libx264").read_bytes()
    path = tmp_path / "both.h264"
    path.write_bytes(both)
    assert run(path, "--live", "--warm-up", 40, "-o", tmp_path / "out", "--json") == 0
    assert json.loads(capsys.readouterr().out)["frames"] == 80
    assert pictures(tmp_path / "out" / "mask.mkv").shape[:3] == (80, 72, 96)


def test_a_state_that_cannot_be_written_leaves_the_old_one(long, tmp_path, no_file_beyond):
    separator = Separator(QUICK)
    follow(separator, long.frames[:5])
    separator.save(tmp_path / "state.npz")
    separator.update(long.frames[5])
    with no_file_beyond(20_000), pytest.raises(OSError, match="File too large"):
        separator.save(tmp_path / "state.npz")
    assert names(tmp_path) == {"state.npz"}
    assert Separator.load(tmp_path / "state.npz", QUICK).count == 5


@pytest.fixture(scope="module")
def trained(long):
    separator = Separator(QUICK)
    follow(separator, long.frames[:65])
    return separator


def changed(path, **parts):
    """Arrays of a state are replaced; what is changed is a copy of ``kept``, in the file that was there."""
    with zipfile.ZipFile(path) as archive:
        kept = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in kept.items():
            change = parts.get(name.removesuffix(".npy"))
            if change is not None:
                made = io.BytesIO()
                np.save(made, change(np.load(io.BytesIO(content))))
                content = made.getvalue()
            archive.writestr(name, content)


@pytest.mark.parametrize("damage", ["cut", "text", "empty"])
def test_a_damaged_state_is_one_error(damage, trained, tmp_path):
    """Before, a state that was cut short was a traceback of zipfile."""
    path = tmp_path / "state.npz"
    trained.save(path)
    content = path.read_bytes()
    path.write_bytes({"cut": content[: len(content) // 2], "text": b"not a state", "empty": b""}[damage])
    with pytest.raises(ValueError, match="not a state"):
        Separator.load(path)


@pytest.mark.parametrize(
    "parts",
    [{"values": lambda a: a[:-1]}, {"values": lambda a: a.astype(float)}, {"square": lambda a: a[:0]},
     {"offsets": lambda a: a[:, :-1]}],
)  # fmt: skip
def test_a_state_that_does_not_fit_together_is_not_computed_with(parts, long, trained, tmp_path):
    """Before, kernels read beyond the ends of what was shorter."""
    path = tmp_path / "state.npz"
    trained.save(path)
    changed(path, **parts)
    with pytest.raises(ValueError, match=r"is not a state|different shapes"):
        Separator.load(path, QUICK).update(long.frames[70])
