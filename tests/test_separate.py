"""``rankwolf separate`` from end to end: what it writes, how close it is, and how it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("av", reason="the extra 'video' is not installed")

from PIL import Image
from video_files import cut, scene, write_images, write_video

import rankwolf as rw
from rankwolf.cli.main import main
from rankwolf.cli.separate import parse_size
from rankwolf.rows import fit_rows
from rankwolf.scene import Scene
from rankwolf.video.model import SHRINKAGE, Model
from rankwolf.video.reading import Selection, open_frames
from rankwolf.video.scoring import Score, Truth, score_folder, score_frame

FILES = {
    "background.mp4",
    "foreground.mp4",
    "mask.mp4",
    "background.png",
    "result.npz",
    "summary.json",
    "report.html",
}


def run(*words):
    return main(["separate", *map(str, words)])


def pictures(path, color=False):
    return np.stack(list(open_frames(path, Selection(color=color))))


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text())


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    """80 frames of 128 × 96 with truth, without loss."""
    return write_video(tmp_path_factory.mktemp("video") / "scene.mkv", scene().frames, "ffv1")


@pytest.fixture(scope="module")
def separated(video, tmp_path_factory):
    target = tmp_path_factory.mktemp("out") / "scene"
    assert run(video, "-o", target, "--format", "ffv1", "--json") == 0
    return target


def test_what_is_written(video, tmp_path, capsys):
    target = tmp_path / "out"
    assert run(video, "-o", target) == 0
    assert names(target) == FILES
    assert names(tmp_path) == {"out"}
    said = capsys.readouterr().out
    assert "certified gap" in said
    assert "report.html" in said
    for name in ("background", "foreground", "mask"):
        assert pictures(target / f"{name}.mp4").shape == (80, 96, 128)


def test_close_to_the_truth(separated):
    truth = scene()
    background = pictures(separated / "background.mkv").astype(float)
    assert np.sqrt(np.mean((background - truth.background) ** 2)) < 1.5
    score = sum(map(score_frame, pictures(separated / "mask.mkv") > 127, truth.masks), start=Score())
    assert score.f_measure > 0.93


def test_foreground_is_the_sparse_part(separated):
    fit = rw.load(separated / "result.npz")
    residual = scene().matrix - fit.low_rank[:]
    sparse = np.sign(residual) * np.maximum(np.abs(residual) - fit.lambdas[1], 0.0)
    expected = np.clip(np.rint(128.0 + sparse), 0, 255)
    assert np.abs(pictures(separated / "foreground.mkv").reshape(80, -1) - expected).max() <= 1.0


def test_the_result_is_the_certified_optimum(separated):
    fit, summary = rw.load(separated / "result.npz"), summary_of(separated)
    assert fit.relative_gap <= 1e-3
    again = rw.decompose(scene().matrix, lambdas=fit.lambdas, tol=1e-4, rng=1)
    assert fit.objective <= again.objective * (1.0 + 2e-3)
    assert (summary["rank"], summary["status"]) == (fit.low_rank.rank, "GAP_REACHED")
    assert summary["lambda_S"] == pytest.approx(3.0 * summary["frame_noise"])
    assert summary["threshold"] == pytest.approx(6.0 * summary["residual_noise"])
    assert set(summary["seconds"]) == {"decode", "solve", "write", "total"}
    still = np.asarray(Image.open(separated / "background.png"))
    assert np.abs(still - np.median(fit.low_rank[:], axis=0).reshape(96, 128)).max() <= 1.0


def test_json_is_one_object(video, tmp_path, capsys):
    assert run(video, "-o", tmp_path / "out", "--json", "--end", 20) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out)
    assert summary["frames"] == 20
    assert captured.err == ""


def test_quiet_prints_nothing(video, tmp_path, capsys):
    assert run(video, "-o", tmp_path / "out", "--quiet", "--end", 20, "--no-report") == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    assert names(tmp_path / "out") == FILES - {"report.html"}


def test_an_existing_output_is_kept(video, tmp_path, capsys):
    target = tmp_path / "out"
    target.mkdir()
    (target / "mask.mp4").write_text("mine")
    assert run(video, "-o", target) == 2
    assert "--force" in capsys.readouterr().err
    assert (target / "mask.mp4").read_text() == "mine"
    assert run(video, "-o", target, "--force", "--quiet", "--end", 20) == 0
    assert names(target) == FILES
    (target / "notes.txt").write_text("mine")
    assert run(video, "-o", target, "--force", "--quiet", "--end", 20, "--format", "png") == 0
    stems = {Path(name).stem if name.endswith(".mp4") else name for name in FILES}
    assert names(target) == stems | {"notes.txt"}, "no mask of the run before beside the new one"
    assert run(video, "-o", target, "--force", "--quiet", "--end", 20, "--no-report") == 0
    assert names(target) == FILES - {"report.html"} | {"notes.txt"}


def test_image_folder_keeps_its_names(tmp_path):
    folder = write_images(tmp_path / "in", scene().frames[:24], "cam{}.bmp")
    assert run(folder, "-o", tmp_path / "out", "--quiet") == 0
    assert names(tmp_path / "out") == {
        "background", "foreground", "mask", "background.png", "result.npz", "summary.json", "report.html"
    }  # fmt: skip
    for name in ("background", "foreground", "mask"):
        assert names(tmp_path / "out" / name) == {f"cam{i}.png" for i in range(24)}
    mask = np.asarray(Image.open(tmp_path / "out" / "mask" / "cam7.png"))
    assert set(np.unique(mask)) <= {0, 255}


def test_bars_fit_a_narrow_terminal(video, tmp_path, monkeypatch, capsys):
    """Nothing is cut off with three dots."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run(video, "-o", tmp_path / "out", "--no-report") == 0
    said = capsys.readouterr().out
    assert "…" not in said
    for words in ("Decoding", "frame 80 of 80", "pass ", "objective", "rank", "Writing"):
        assert words in said


def test_score_of_what_was_written(separated, tmp_path, capsys):
    labels = scene().masks.astype(np.uint8) * 255
    write_images(tmp_path / "truth", labels)
    assert main(["score", str(separated), "--truth", str(tmp_path / "truth"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["f_measure"] > 0.93


def test_region_of_interest(video, tmp_path):
    region = np.zeros((96, 128), np.uint8)
    region[30:90, 10:100] = 255
    Image.fromarray(region).save(tmp_path / "roi.png")
    target = tmp_path / "out"
    assert run(video, "-o", target, "--mask", tmp_path / "roi.png", "--quiet", "--format", "ffv1") == 0
    assert rw.load(target / "result.npz").low_rank.shape == (80, 60 * 90)
    mask = pictures(target / "mask.mkv") > 127
    assert not mask[:, region == 0].any()
    score = sum(
        (score_frame(m, t, region > 0) for m, t in zip(mask, scene().masks, strict=True)), start=Score()
    )
    assert score.f_measure > 0.9


def test_a_sample_of_the_pixels_is_enough(video, tmp_path):
    target = tmp_path / "out"
    assert run(video, "-o", target, "--sample", 0.6, "--quiet", "--format", "ffv1") == 0
    background = pictures(target / "background.mkv").astype(float)
    assert np.sqrt(np.mean((background - scene().background) ** 2)) < 2.0
    score = sum(map(score_frame, pictures(target / "mask.mkv") > 127, scene().masks), start=Score())
    assert score.f_measure > 0.88


def test_colour_is_one_matrix(tmp_path):
    gray = scene().frames
    frames = np.stack([gray, 255 - gray, gray // 2 + 30], axis=-1)
    path = write_video(tmp_path / "a.mkv", frames, "ffv1")
    target = tmp_path / "out"
    assert run(path, "-o", target, "--color", "--quiet", "--format", "ffv1") == 0
    assert rw.load(target / "result.npz").low_rank.shape == (80, 3 * 96 * 128)
    background = pictures(target / "background.mkv", color=True).astype(float)
    true = scene().background
    expected = np.stack([true, 255 - true, true // 2 + 30], axis=-1)
    assert np.sqrt(np.mean((background - expected) ** 2)) < 2.5


@pytest.mark.parametrize("style", ["absolute", "cutout"])
def test_styles_of_the_foreground(video, separated, tmp_path, style):
    target = tmp_path / "out"
    assert run(video, "-o", target, "--foreground", style, "--format", "ffv1", "--quiet") == 0
    foreground = pictures(target / "foreground.mkv").astype(int)
    if style == "cutout":
        mask = pictures(target / "mask.mkv") > 127
        np.testing.assert_array_equal(foreground, np.where(mask, scene().frames, 0))
    else:
        signed = pictures(separated / "foreground.mkv").astype(int) - 128
        inside = np.abs(signed) < 127
        assert np.abs(foreground - np.abs(signed))[inside].max() <= 1


def test_odd_sizes_fit_into_mp4(tmp_path):
    np.save(tmp_path / "odd.npy", scene().frames[:30, :95, :127])
    assert run(tmp_path / "odd.npy", "-o", tmp_path / "out", "--quiet") == 0
    assert pictures(tmp_path / "out" / "mask.mp4").shape == (30, 96, 128)
    write_images(tmp_path / "truth", scene().masks[:30, :95, :127].astype(np.uint8) * 255)
    assert score_folder(tmp_path / "out", Truth(tmp_path / "truth")).f_measure > 0.9


def test_frames_on_disk_give_the_same_bytes(video, separated, tmp_path):
    target = tmp_path / "out"
    assert run(video, "-o", target, "--format", "ffv1", "--max-memory", "100kB", "--quiet") == 0
    assert summary_of(target)["frames_on_disk"] is True
    assert summary_of(separated)["frames_on_disk"] is False
    for name in ("mask", "background"):
        np.testing.assert_array_equal(pictures(target / f"{name}.mkv"), pictures(separated / f"{name}.mkv"))
    assert names(tmp_path) == {"out"}


def test_a_model_separates_frames_it_has_not_seen(tmp_path):
    video = Scene(height=96, width=128, n_frames=240, n_objects=3, n_lamps=2, seed=5).render()
    np.save(tmp_path / "old.npy", video.frames[:160])
    np.save(tmp_path / "new.npy", video.frames[160:])
    assert run(tmp_path / "old.npy", "-o", tmp_path / "old", "--quiet") == 0
    target, model = tmp_path / "new", tmp_path / "old" / "result"
    assert run(tmp_path / "new.npy", "-o", target, "--model", model, "--quiet", "--format", "ffv1") == 0
    background = pictures(target / "background.mkv").astype(float)
    assert np.sqrt(np.mean((background - video.background[160:]) ** 2)) < 1.5
    score = sum(map(score_frame, pictures(target / "mask.mkv") > 127, video.masks[160:]), start=Score())
    assert score.f_measure > 0.9
    assert names(target) == {"background.mkv", "foreground.mkv", "mask.mkv", "summary.json", "report.html"}


def test_a_model_gives_old_frames_their_old_background(video, separated, tmp_path):
    """At the optimum of the whole, each row is the optimum of its own little problem, but for the shrinkage."""
    target = tmp_path / "again"
    assert run(video, "-o", target, "--model", separated, "--format", "ffv1", "--quiet") == 0
    before, after = (pictures(folder / "background.mkv").astype(int) for folder in (separated, target))
    assert np.abs(before - after).mean() < 1.0
    assert np.mean(pictures(separated / "mask.mkv") != pictures(target / "mask.mkv")) < 0.005


@pytest.mark.parametrize("sampled", [32768, 12])
def test_the_fit_of_new_frames_is_the_row_local_optimum(separated, monkeypatch, sampled):
    """A Newton step on some pixels and a cheap one on all come as close as a picture can show.

    Also where the sample says little: 12 pixels for the start.
    """
    monkeypatch.setattr("rankwolf.video.model.SAMPLED_COLUMNS", sampled)
    model, frames = Model.load(separated), scene().matrix[40:]
    exact = fit_rows(frames, model.right, SHRINKAGE * model.lambda_L, model.lambda_S)
    difference = model.low_rank(model.fit(frames)) - model.low_rank(exact)
    assert np.abs(difference).max() < 0.25
    assert np.sqrt(np.mean(difference**2)) < 0.05


def test_what_a_model_refuses(separated, tmp_path, capsys):
    np.save(tmp_path / "other.npy", scene().frames[:10, :, :70])
    for words, says in [
        ((tmp_path / "other.npy", "--model", separated), "128 × 96 gray frames. Got 70 × 96 gray"),
        ((tmp_path / "other.npy", "--model", tmp_path / "nowhere"), "nowhere"),
        ((tmp_path / "other.npy", "--model", separated, "--sample", "0.5"), "--model brings its own"),
        ((tmp_path / "other.npy", "--model", separated, "--tol", "0.1"), "--model solves nothing"),
    ]:
        assert run(*words, "-o", tmp_path / "out") == 2
        error = capsys.readouterr().err
        assert says in error
        assert error.count("\n") == 1
        assert names(tmp_path) == {"other.npy"}


@pytest.mark.parametrize("model", ["", "result", "result.npz"])
def test_a_model_is_not_overwritten(video, separated, capsys, model):
    before = (separated / "result.npz").read_bytes()
    assert run(video, "-o", separated, "--model", separated / model, "--force") == 2
    assert "has the model in it" in capsys.readouterr().err
    assert (separated / "result.npz").read_bytes() == before


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
        (["--vote", "4"], "--vote"),
        (["--start", "soon"], "moment"),
        (["--start", "90"], "--start"),
        (["--start", "79"], "at least 2 frames"),
        (["--delta", "-1"], "delta"),
        (["--method", "magic"], "method"),
        (["--max-memory", "much"], "--max-memory"),
        (["--threads", "0"], "n_threads"),
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
    assert run(path, "-o", tmp_path / "place" / "out", "--quiet") == 2
    error = capfd.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert names(tmp_path / "place") == set()


def test_a_small_loss_is_a_warning_and_strict_makes_it_an_error(tmp_path, capsys):
    avi = write_video(tmp_path / "whole.avi", scene().frames, "mpeg4")
    short = cut(avi, tmp_path / "short.avi", 0.95)
    assert run(short, "-o", tmp_path / "out", "--quiet") == 0
    assert "of 80 declared" in capsys.readouterr().err
    assert summary_of(tmp_path / "out")["warnings"]
    assert run(short, "-o", tmp_path / "strict", "--strict") == 2
    assert not (tmp_path / "strict").exists()


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
    """300 frames of 160 × 120 are 5.8 MB; the disk has room for some of the results and not for all."""
    np.save(tmp_path / "long.npy", Scene(n_frames=300, noise=12.0).render().frames)
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


@pytest.mark.realdata
def test_faces(data_folder, tmp_path):
    """Skin that lies in deep shadow is lit in the low-rank part, and the shadow is in the sparse one."""
    target, faces = tmp_path / "out", Path(data_folder) / "faces" / "yaleB01"
    assert run(faces, "-o", target, "--delta", 0.01, "--quiet") == 0
    page = (target / "report.html").read_text()
    assert "How much differs" in page
    assert " moves" not in page
    assert run(faces, "-o", tmp_path / "default", "--quiet", "--no-report") == 0
    by_default = summary_of(tmp_path / "default")
    assert by_default["weights_from"] == "photographs"
    assert by_default["lambda_L"] == pytest.approx(summary_of(target)["lambda_L"])
    seen, relit, shadows = (
        pictures(path).astype(float) for path in (faces, target / "background", target / "foreground")
    )
    assert seen.shape == relit.shape == shadows.shape
    in_shadow = (seen < 20) & (np.median(seen, axis=0) > 70)
    assert np.count_nonzero(in_shadow) > 10000
    assert relit[in_shadow].mean() > seen[in_shadow].mean() + 3.0
    deep = shadows < 128.0 - 20.0
    assert np.count_nonzero(deep) > 10000
    assert relit[deep].mean() > seen[deep].mean() + 25.0


@pytest.mark.realdata
def test_highway_at_default_settings(data_folder, tmp_path):
    """Every sixth frame: the whole takes too long for a test, and says the same."""
    highway, target = Path(data_folder) / "highway", tmp_path / "out"
    assert run(highway / "input", "-o", target, "--quiet", "--every", 6, "--no-report") == 0
    assert score_folder(target, Truth(highway)).f_measure > 0.93
