"""Scores by CDnet's rules, on pixels that can be counted by hand."""

from __future__ import annotations

import json
from math import isnan

import numpy as np
import pytest

pytest.importorskip("PIL", reason="the extra 'video' is not installed")

from PIL import Image

from rankwolf.cli.main import main
from rankwolf.video.scoring import Score, Truth, score_folder, score_frame

LABELS = np.array([[255, 255, 255, 0, 0, 0, 50, 50, 85, 170]], np.uint8)
MASK = np.array([[1, 1, 0, 1, 0, 0, 1, 0, 1, 1]], np.bool_)


def test_labels_are_counted_as_cdnet_does():
    score = score_frame(MASK, LABELS)
    assert score == Score(2, 2, 3, 1, 1, 1)
    assert score.precision == 2 / 4
    assert score.recall == 2 / 3
    assert score.f_measure == pytest.approx(2 * 0.5 * (2 / 3) / (0.5 + 2 / 3))
    assert score.false_positive_rate == 2 / 5
    assert score_frame(MASK, LABELS, LABELS != 50) == Score(2, 1, 2, 1, 0, 1)
    assert score_frame(MASK, LABELS == 255) == Score(2, 4, 3, 1, 0, 1)
    assert score + score == Score(4, 4, 6, 2, 2, 2)


def test_nothing_to_divide_by():
    score = score_frame(np.zeros((2, 2), np.bool_), np.zeros((2, 2), np.uint8))
    assert isnan(score.precision)
    assert isnan(score.f_measure)
    assert score.false_positive_rate == 0.0


@pytest.fixture
def highway(tmp_path):
    """A folder in CDnet's layout, and what ``separate --start 1 --every 2`` might have written."""
    truth = tmp_path / "truth"
    (truth / "groundtruth").mkdir(parents=True)
    for number in range(1, 13):
        labels = np.zeros((8, 10), np.uint8)
        labels[:, number % 10] = 255
        Image.fromarray(labels).save(truth / "groundtruth" / f"gt{number:06d}.png")
    region = np.full((8, 10), 255, np.uint8)
    region[0] = 0
    Image.fromarray(region).save(truth / "ROI.bmp")
    (truth / "temporalROI.txt").write_text("4 10\n")
    output = tmp_path / "out"
    (output / "mask").mkdir(parents=True)
    summary = {"first_frame": 1, "every": 2, "height": 8, "width": 10}
    (output / "summary.json").write_text(json.dumps(summary))
    for i in range(6):
        mask = np.zeros((8, 10), np.uint8)
        mask[:4, (2 * i + 2) % 10] = 255
        Image.fromarray(mask).save(output / "mask" / f"{i:06d}.png")
    return output, truth


def test_folders(highway):
    """Frames 4, 6, 8, 10 (from 1) are counted; of each column of 8 the first pixel is outside and 3 of 7 are found."""
    output, truth = highway
    score = score_folder(output, Truth(truth))
    assert score == Score(12, 0, 4 * 7 * 9, 16, 0, 4)


def test_a_smaller_mask_is_resized(highway):
    """At half the size: two rows and one column of it are four rows and two columns, of which one is right."""
    output, truth = highway
    for i in range(6):
        mask = np.zeros((4, 5), np.uint8)
        mask[:2, (i + 1) % 5] = 255
        Image.fromarray(mask).save(output / "mask" / f"{i:06d}.png")
    summary = {"first_frame": 1, "every": 2, "height": 4, "width": 5}
    (output / "summary.json").write_text(json.dumps(summary))
    assert score_folder(output, Truth(truth)) == Score(12, 12, 4 * 7 * 9 - 12, 16, 0, 4)


def test_the_command(highway, capsys):
    output, truth = highway
    assert main(["score", str(output), "--truth", str(truth)]) == 0
    assert "0.6000" in capsys.readouterr().out
    assert main(["score", str(output), "--truth", str(truth), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["precision"] == 1.0
    assert result["frames"] == 4


def test_what_cannot_be_scored(highway, tmp_path, capsys):
    output, truth = highway
    (tmp_path / "empty").mkdir()
    for arguments, says in [
        ([tmp_path / "empty", "--truth", truth], "is not a folder that 'rankwolf separate' wrote"),
        ([output, "--truth", tmp_path / "empty"], "has no masks"),
        ([output, "--truth", tmp_path / "nowhere"], "is not a folder of masks"),
    ]:
        assert main(["score", *map(str, arguments)]) == 2
        error = capsys.readouterr().err
        assert says in error
        assert error.count("\n") == 1
    (truth / "temporalROI.txt").write_text("11 11")
    assert main(["score", str(output), "--truth", str(truth)]) == 2
    assert "No frame" in capsys.readouterr().err
