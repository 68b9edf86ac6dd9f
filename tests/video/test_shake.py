"""A camera that trembles: shifts that are known, cameras that stand still, and masks in the camera's own pixels."""

from __future__ import annotations

import numpy as np
import pytest

import rankwolf as rw
from rankwolf.video import LiveSettings, Separator
from rankwolf.video.scene import Scene
from rankwolf.video.scoring import score_frames
from rankwolf.video.shake import Steady, moved

MARGIN = 6


def trembling(seed=0, count=160):
    """(frames, masks, shifts): a scene, seen through a window that jumps by up to 4 pixels from frame to frame."""
    film = Scene(height=108, width=148, n_frames=count, n_lamps=1, n_objects=3, seed=seed).render()
    shifts = np.random.default_rng(seed).integers(-4, 5, (count, 2))
    shifts[0] = 0

    def window(pictures):
        return np.stack(
            [
                picture[MARGIN + down : down - MARGIN, MARGIN + right : right - MARGIN]
                for picture, (down, right) in zip(pictures, shifts, strict=True)
            ]
        )

    return window(film.frames), window(film.masks), shifts


def test_the_shifts_are_found_to_the_pixel():
    frames, _, shifts = trembling()
    steady = Steady.if_it_helps(list(frames[:30]))
    assert steady is not None
    assert [steady.shift_of(frame) for frame in frames] == [tuple(shift) for shift in shifts]


@pytest.mark.parametrize("seed", range(4))
def test_a_camera_that_stands_still_is_left_alone(seed):
    film = Scene(height=96, width=128, n_frames=30, noise=6.0, seed=seed, water=20.0).render()
    assert Steady.if_it_helps(list(film.frames)) is None


def test_a_mask_that_is_moved_says_nothing_about_what_comes_in():
    mask = np.ones((5, 6), np.bool_)
    back = moved(mask, (2, -1))
    assert not back[:2].any() and not back[:, 5].any() and back[2:, :5].all()
    picture = np.arange(30).reshape(5, 6)
    np.testing.assert_array_equal(moved(moved(picture, (1, 2)), (-1, -2))[:4, :4], picture[:4, :4])


def test_masks_of_a_trembling_camera_are_in_its_own_pixels(monkeypatch):
    frames, masks, _ = trembling(1)
    found = score_frames(rw.separate(frames).masks, masks).f_measure
    monkeypatch.setattr("rankwolf.video.shake.Steady.if_it_helps", lambda frames: None)
    assert found > 0.85
    assert found > score_frames(rw.separate(frames).masks, masks).f_measure + 0.1


def test_a_live_camera_may_tremble_too(tmp_path):
    frames, masks, _ = trembling(2)
    separator = Separator(LiveSettings(warm_up=60))
    for frame in frames[:100]:
        separator.update(frame)
    separator.save(tmp_path / "state.npz")
    again = Separator.load(tmp_path / "state.npz", LiveSettings(warm_up=60))
    results = [(separator.apply(frame) > 0, again.apply(frame) > 0) for frame in frames[100:]]
    assert all(np.array_equal(one, two) for one, two in results)
    assert score_frames([one for one, _ in results], masks[100:]).f_measure > 0.8
