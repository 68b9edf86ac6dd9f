"""What stands still: a background that is mostly hidden, an object that L has taken in, light, and states."""

from __future__ import annotations

import numpy as np
import pytest

from rankwolf.video import LiveSettings, MaskRule, Separator
from rankwolf.video.mask import Look, MaskModel
from rankwolf.video.picture import Picture
from rankwolf.video.still import Still

COUNT, SHAPE = 200, (48, 64, 3)


def rendered(seed, hidden=0.0, noise=2.0):
    """(frames, masks, scene): something busy covers the middle for a share of the time; the scene behind is fixed."""
    rng = np.random.default_rng(seed)
    scene = np.kron(rng.uniform(40, 200, (12, 16, 3)), np.ones((4, 4, 1)))
    frames = scene + rng.normal(0.0, noise, (COUNT, *SHAPE))
    masks = np.zeros((COUNT, *SHAPE[:2]), np.bool_)
    if hidden:
        for k in range(COUNT):
            if (k // 10) % 10 < 10 * hidden:
                masks[k, 12:36, 16:48] = True
                frames[k, 12:36, 16:48] = rng.uniform(0, 255, 3) + rng.normal(0, 20, (24, 32, 3))
    return np.clip(np.rint(frames), 0, 255).astype(np.uint8), masks, scene


def learn(frames, n_threads=2):
    rule = MaskRule().sized(*SHAPE[:2])
    return Still.learn(rule, len(frames), 40, lambda k: (frames[k].astype(np.float32), None), n_threads)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("hidden", [0.3, 0.7])
def test_a_background_that_is_mostly_hidden_is_found(seed, hidden):
    frames, masks, scene = rendered(seed, hidden)
    still = learn(frames)
    assert still.stands[14:34, 18:46].all()
    assert np.abs(still.scene - scene).mean() < 3.0
    for k in (5, 95):
        unusual = still.unusual(frames[k].astype(np.float32))
        assert (unusual[14:34, 18:46] == masks[k, 14:34, 18:46]).mean() > 0.9


def test_fog_hides_no_object():
    """A scene and objects of a tenth of the contrast. Before, the kernel had 15 gray levels in any video."""
    frames, masks, _ = rendered(0, 0.3)
    fog = np.clip(np.rint(150.0 + 0.1 * frames), 0, 255).astype(np.uint8)
    still, hidden = learn(fog), np.ix_(range(14, 34), range(18, 46))
    assert masks[5][hidden].all() and still.unusual(fog[5].astype(np.float32))[hidden].mean() > 0.6
    assert still.unusual(fog[95].astype(np.float32))[hidden].mean() < 0.05


def test_threads_change_nothing():
    frames, _, _ = rendered(0, 0.3)
    one, two = learn(frames, 1), learn(frames)
    assert all(
        np.array_equal(getattr(one, name), getattr(two, name)) for name in ("weights", "mode", "scene")
    )


@pytest.mark.parametrize(("factor", "found"), [(1.25, False), (None, True)])
def test_a_large_piece_is_an_object_and_light_is_not(factor, found):
    frames, _, scene = rendered(4)
    still = learn(frames)
    now = scene.copy()
    rng = np.random.default_rng(0)
    inside = scene[12:36, 16:48]
    now[12:36, 16:48] = rng.uniform(0, 255, inside.shape) if factor is None else factor * inside
    unusual = still.unusual(now.astype(np.float32))
    assert unusual[14:34, 18:46].mean() > 0.9
    objects = still.objects(unusual, now.astype(np.float32))
    assert (objects[14:34, 18:46].mean() > 0.9) == found


def test_a_shadow_is_the_scene_times_a_factor_and_a_dark_object_is_not():
    frames, _, scene = rendered(4)
    still = learn(frames)
    now = scene.astype(np.float32)
    now[12:36, 16:32] *= 0.5
    now[12:36, 32:48] = (10.0, 20.0, 90.0)
    unusual = still.unusual(now)
    assert unusual[14:34, 18:30].mean() < 0.05
    assert unusual[14:34, 34:46].mean() > 0.8
    gray = learn(frames[..., :1])
    assert gray.unusual(now[..., :1])[14:34, 18:30].mean() > 0.8, (
        "in gray any surface is another one in a shadow"
    )


def test_the_background_shows_no_object_of_the_mask(tmp_path):
    frames, _, scene = rendered(5)
    picture = Picture(*SHAPE)
    rows = frames.reshape(COUNT, -1)

    def look(k, taken_in=False):
        low_rank = scene.copy()
        if taken_in:
            low_rank[12:36, 16:48] = 255.0 - scene[12:36, 16:48]
        row = np.clip(np.rint(low_rank), 0, 255).astype(np.uint8).reshape(-1) if taken_in else rows[k]
        return Look.at(picture, row, None, low_rank.reshape(-1).astype(np.float32))

    model = MaskModel.learn(MaskRule(), COUNT, look, 2.0)
    seen = look(0, taken_in=True)
    mask, background = model.separate(seen)
    assert mask[14:34, 18:46].mean() > 0.9
    assert not mask[:8].any()
    assert np.abs(background - scene)[14:34, 18:46].mean() < 4.0
    model.save(tmp_path / "mask.npz")
    again = MaskModel.load(tmp_path / "mask.npz", MaskRule())
    for found, expected in zip(again.separate(seen), (mask, background), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_live_state_has_the_model_in_it(tmp_path):
    frames, _, _ = rendered(6)
    separator = Separator(LiveSettings(warm_up=130))
    for frame in frames[:160]:
        separator.update(frame)
    separator.save(tmp_path / "state.npz")
    again = Separator.load(tmp_path / "state.npz", LiveSettings(warm_up=130))
    for frame in frames[160:]:
        for one, two in zip(separator.update(frame), again.update(frame), strict=True):
            np.testing.assert_array_equal(one, two)
