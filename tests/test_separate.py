"""``rankwolf separate`` from end to end: what it writes, and how close it is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("av", reason="the extra 'video' is not installed")

from PIL import Image
from video_files import names, pictures, run, scene, summary_of, write_images, write_video

import rankwolf as rw
from rankwolf.cli.main import main
from rankwolf.video.scoring import Score, Truth, score_folder, score_frame

FILES = {
    "background.mp4",
    "foreground.mp4",
    "mask.mp4",
    "background.png",
    "objects.csv",
    "mask.npz",
    "result.npz",
    "summary.json",
    "report.html",
}


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
    assert (summary["mask_by"], summary["threshold"], summary["samples"]) == ("model", None, 60)
    assert set(summary["seconds"]) == {"decode", "solve", "model", "write", "total"}
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
        "background", "foreground", "mask", "mask.npz", "background.png", "objects.csv", "result.npz", "summary.json",
        "report.html",
    }  # fmt: skip
    for name in ("background", "foreground", "mask"):
        assert names(tmp_path / "out" / name) == {f"cam{i}.png" for i in range(24)}
    mask = np.asarray(Image.open(tmp_path / "out" / "mask" / "cam7.png"))
    assert set(np.unique(mask)) <= {0, 255}


def test_bars_fit_a_narrow_terminal(video, tmp_path, monkeypatch, capsys):
    """Nothing is cut off with three dots."""
    # This variable is how a terminal says how wide it is.
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
    assert score.f_measure > 0.87


def test_colour_is_one_matrix(tmp_path):
    gray = scene().frames
    frames = np.stack([gray, 255 - gray, gray // 2 + 30], axis=-1)
    path = write_video(tmp_path / "a.mkv", frames, "ffv1")
    target = tmp_path / "out"
    assert run(path, "-o", target, "--quiet", "--format", "ffv1") == 0
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


def test_frames_on_disk_give_the_same_bytes(video, tmp_path):
    """With as many samples: little memory means fewer of them, which is another mask."""
    small, large = tmp_path / "small", tmp_path / "large"
    words = ("--format", "ffv1", "--quiet", "--no-report")
    assert run(video, "-o", small, "--max-memory", "100kB", *words) == 0
    assert (summary_of(small)["frames_on_disk"], summary_of(small)["samples"]) == (True, 12)
    assert run(video, "-o", large, "--samples", 12, *words) == 0
    assert summary_of(large)["frames_on_disk"] is False
    for name in ("mask", "background"):
        np.testing.assert_array_equal(pictures(small / f"{name}.mkv"), pictures(large / f"{name}.mkv"))
    assert names(tmp_path) == {"small", "large"}


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


def test_an_overlay_shows_masks_and_boxes(video, tmp_path):
    target = tmp_path / "out"
    assert run(video, "-o", target, "--quiet", "--overlay", "--format", "png", "--no-report") == 0
    lines = [
        list(map(int, line.split(","))) for line in (target / "objects.csv").read_text().splitlines()[1:]
    ]
    frame, _, left, top, width, *_ = max(lines, key=lambda line: line[-1])
    files = sorted((target / "overlay").iterdir())
    shown = np.asarray(Image.open(files[frame]))
    assert (shown[top, left : left + width] == (255, 220, 0)).all(axis=-1).mean() > 0.5
    mask = np.asarray(Image.open(sorted((target / "mask").iterdir())[frame])) > 0
    red = shown[..., 0].astype(int) - shown[..., 2] > 60
    assert red[mask].mean() > 0.9 and red[~mask].mean() < 0.1
