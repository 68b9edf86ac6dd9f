"""``rw.separate`` and ``rw.Separator``: pictures when they are asked for, objects, copies of a separator."""

from __future__ import annotations

import csv
import pickle

import numpy as np
import pytest
from PIL import Image

import rankwolf as rw
from rankwolf.cli.main import main
from rankwolf.video import LiveSettings
from rankwolf.video.scene import Scene
from rankwolf.video.scoring import score_frames
from rankwolf.video.tracks import MOST_GAP, Tracker

SCENE = Scene(height=48, width=64, n_frames=140, n_objects=3, n_lamps=1, seed=4)


def test_an_array_is_separated_and_its_pictures_are_made_when_asked_for():
    truth = Scene(height=120, width=160, n_frames=300, n_objects=2, seed=1).render(0, 140)
    found = rw.separate(truth.frames)
    assert len(found.masks) == 140
    assert found.masks.shape == truth.frames.shape
    assert score_frames(found.masks, truth.masks).f_measure > 0.85
    np.testing.assert_array_equal(found.masks[-3:], np.stack([found.masks[k] for k in (137, 138, 139)]))
    np.testing.assert_array_equal(np.asarray(found.foregrounds)[5], truth.frames[5] * found.masks[5])
    assert np.abs(found.background - np.median(truth.background, axis=0)).mean() < 5.0
    assert len(next(found.objects())) == len(Tracker().follow(0, found.masks[0]))
    with pytest.raises(IndexError, match="140 frames"):
        found.masks[140]


@pytest.mark.parametrize(
    ("video", "said"),
    [(np.zeros((4, 5, 6)), "float64"), (np.zeros((1, 5, 6), np.uint8), "at least 2 frames"), (7, "int")],
)
def test_what_is_no_video_is_refused(video, said):
    with pytest.raises(ValueError, match=said):
        rw.separate(video)


def test_a_separator_goes_on_from_its_pickle_and_has_a_background():
    frames = SCENE.render().frames
    separator = rw.Separator(LiveSettings(warm_up=100))
    assert separator.background_image is None
    for frame in frames[:120]:
        mask = separator.apply(frame)
    assert mask.dtype == np.uint8
    assert set(np.unique(mask)) <= {0, 255}
    again = pickle.loads(pickle.dumps(separator))
    for frame in frames[120:]:
        np.testing.assert_array_equal(separator.apply(frame), again.apply(frame))
    assert separator.background_image.shape == frames[0].shape
    separator.background_image[:] = 0
    assert separator.background_image.any(), "it is a copy"


def test_objects_keep_their_numbers_through_a_gap_and_when_they_cross_empty_frames():
    tracker, numbers = Tracker(), []
    for k in range(12):
        mask = np.zeros((40, 60), np.bool_)
        if k not in (4, 5):
            mask[5:10, 3 + k : 13 + k] = True
        mask[25:33, 50 - 2 * k : 58 - 2 * k] = True
        numbers.append([box.id for box in tracker.follow(k, mask)])
    assert numbers[0] == [1, 2]
    assert numbers[4] == [1]
    assert all(found == [1, 2] for k, found in enumerate(numbers) if k not in (4, 5))
    late = tracker.follow(12 + MOST_GAP + 1, mask)
    assert [box.id for box in late] == [3, 4], "what was gone for longer is something new"


def test_a_folder_of_cdnet_is_its_input_and_objects_are_a_table(tmp_path):
    truth = SCENE.render(0, 40)
    for name, pictures in (("input", truth.frames), ("groundtruth", truth.masks.astype(np.uint8) * 255)):
        (tmp_path / "video" / name).mkdir(parents=True)
        for k, picture in enumerate(pictures, 1):
            Image.fromarray(picture).save(tmp_path / "video" / name / f"{name[:2]}{k:06d}.png")
    out = tmp_path / "out"
    assert main(["separate", str(tmp_path / "video"), "-o", str(out), "--quiet", "--no-report"]) == 0
    with (out / "objects.csv").open(encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["frame", "id", "left", "top", "width", "height", "area"]
    for k in (10, 30):
        mask = np.asarray(Image.open(out / "mask" / f"in{k + 1:06d}.png")) > 127
        mine = [row for row in rows if int(row["frame"]) == k]
        assert sum(int(row["area"]) for row in mine) == np.count_nonzero(mask) > 0
