"""The rendered scene: its truth is true, and it does not depend on how it is cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankwolf.video.scene import Scene

SMALL = Scene(height=45, width=60, n_frames=230, seed=3)


def test_pieces_are_the_same_bytes_as_the_whole():
    whole = SMALL.render()
    for size in (1, 37, 1000):
        pieces = list(SMALL.pieces(size))
        for name in ("frames", "background", "masks"):
            joined = np.concatenate([getattr(piece, name) for piece in pieces])
            assert np.array_equal(joined, getattr(whole, name))
    assert np.array_equal(np.stack(list(SMALL)), whole.frames)
    assert SMALL.render(200, 210).start == 200 and len(SMALL) == 230


def test_types_and_shapes():
    video = SMALL.render(0, 10)
    assert (video.frames.dtype, video.background.dtype, video.masks.dtype) == (np.uint8, np.float32, np.bool_)
    assert video.frames.shape == video.background.shape == video.masks.shape == (10, 45, 60)
    assert video.matrix.shape == (10, 2700) and np.shares_memory(video.matrix, video.frames)


@pytest.mark.parametrize("n_lamps", [1, 2, 4])
def test_background_has_the_rank_of_the_lamps(n_lamps):
    background = replace(SMALL, n_lamps=n_lamps).render().background.reshape(230, -1).astype(np.float64)
    singular = np.linalg.svd(background, compute_uv=False)
    assert singular[n_lamps - 1] > 1e-4 * singular[0] > 100 * singular[n_lamps]


def test_frames_are_background_objects_and_noise():
    video = replace(SMALL, noise=3.0).render()
    error = video.frames - video.background
    still = error[~video.masks]
    # Noise of 3 gray levels and rounding to whole ones; nothing was cut off at 0 or 255.
    assert abs(float(np.mean(still))) < 0.02
    assert float(np.std(still)) == pytest.approx(np.sqrt(9.0 + 1.0 / 12.0), rel=0.01)
    moving = np.abs(error[video.masks])
    assert float(np.median(moving)) > 25.0
    assert 0.01 < float(np.mean(video.masks)) < 0.25


def test_without_noise_and_objects_only_rounding_is_left():
    video = replace(SMALL, noise=0.0, n_objects=0).render()
    assert not video.masks.any()
    assert float(np.abs(video.frames - video.background).max()) <= 0.5 + 1e-4


def test_a_lamp_is_switched_and_objects_move():
    strengths = SMALL.lamp_strengths(range(230))
    switched = strengths[:, 1]
    assert switched.min() < 0.01 and switched.max() > 0.99
    assert float(np.mean((switched > 0.05) & (switched < 0.95))) < 0.1  # it is on or off, seldom between
    masks = SMALL.render().masks
    assert all(not np.array_equal(masks[k], masks[k + 40]) for k in range(0, 160, 40))


def test_seed_makes_another_scene():
    same, other = replace(SMALL).render(0, 3), replace(SMALL, seed=4).render(0, 3)
    assert np.array_equal(same.frames, SMALL.render(0, 3).frames)
    assert not np.array_equal(same.background, other.background)


def test_water_moves_and_a_person_stands():
    wet = replace(SMALL, water=20.0, person=True, n_objects=0)
    video, dry = wet.render(), replace(wet, water=0.0).render()
    np.testing.assert_array_equal(video.masks, dry.masks)
    np.testing.assert_array_equal(video.background, dry.background)
    change = np.abs(video.frames.astype(float) - dry.frames)
    assert np.median(change[:, 33:, 25:][~video.masks[:, 33:, 25:]]) > 8.0
    assert not change[:, :30].any()
    assert np.array_equal(wet.render(100, 120).frames, video.frames[100:120])
    standing = video.masks[90:140]
    assert (standing.all(axis=0).sum() > 0.6 * standing.any(axis=0).sum()) and standing.any()
    assert not video.masks[0].any() or video.masks[0].sum() < standing[0].sum()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("height", 2),
        ("n_frames", 0),
        ("noise", -1.0),
        ("n_lamps", 0),
        ("noise", float("nan")),
        ("water", -1.0),
    ],
)
def test_bad_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of Scene must be"):
        replace(SMALL, **{name: value})
