"""``rankwolf separate --model``: frames that the saved result has not seen."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("av", reason="the extra 'video' is not installed")

from video_files import names, pictures, run, scene

from rankwolf.passes.coefficients import fit_rows
from rankwolf.video.model import SHRINKAGE, Model
from rankwolf.video.scene import Scene
from rankwolf.video.scoring import Score, score_frame


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
    assert names(target) == {
        "background.mkv",
        "foreground.mkv",
        "mask.mkv",
        "objects.csv",
        "summary.json",
        "report.html",
    }


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
    # Pictures with more pixels than that take long.
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
