"""The mask by one threshold, and tidying: each step against the textbook's version of it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage
from hypothesis import given
from hypothesis import strategies as st

from rankwolf.ground.low_rank import LowRank
from rankwolf.video import MaskRule
from rankwolf.video.mask import Look, Threshold, in_light_of
from rankwolf.video.picture import Picture
from rankwolf.video.residual_noise import Residual
from rankwolf.video.tidy import drop_small, fill_holes, majority

masks = st.tuples(
    st.integers(0, 2**32 - 1), st.floats(0.05, 0.95), st.sampled_from([(9, 12), (17, 5), (30, 31)])
)


def draw(parameters):
    seed, share, shape = parameters
    return np.random.default_rng(seed).random(shape) < share


@given(masks, st.sampled_from([1, 3, 5, 7]))
def test_without_missing_pixels_the_vote_is_a_median_filter(parameters, size):
    mask = draw(parameters)
    expected = scipy.ndimage.median_filter(mask.astype(np.uint8), size, mode="nearest") > 0
    np.testing.assert_array_equal(majority(mask, None, size), expected)
    np.testing.assert_array_equal(majority(mask, np.ones_like(mask), size), expected)


@given(masks)
def test_only_observed_pixels_vote(parameters):
    (seed, share, _), shape = parameters, (9, 12)
    mask, observed = draw((seed, share, shape)), draw((seed + 1, 0.5, shape))
    voted = majority(mask & observed, observed, 3)
    for i, j in np.ndindex(shape):
        near = np.ix_(
            np.clip([i - 1, i, i + 1], 0, shape[0] - 1), np.clip([j - 1, j, j + 1], 0, shape[1] - 1)
        )
        yes, seen = np.count_nonzero(mask[near] & observed[near]), np.count_nonzero(observed[near])
        assert voted[i, j] == (2 * yes > seen)


@given(masks)
def test_holes(parameters):
    mask = draw(parameters)
    np.testing.assert_array_equal(fill_holes(mask), scipy.ndimage.binary_fill_holes(mask))


@given(masks, st.integers(1, 12))
def test_small_parts_go_and_large_ones_stay(parameters, least):
    mask = draw(parameters)
    kept = drop_small(mask, least)
    parts, count = scipy.ndimage.label(mask)
    for part in range(1, count + 1):
        inside = parts == part
        assert kept[inside].all() == (inside.sum() >= least)
        assert kept[inside].any() == (inside.sum() >= least)
    assert not kept[~mask].any()


def noise_of(residual):
    return Residual(residual, np.zeros(residual.shape, np.uint8)).noise


def test_noise_of_the_residual_survives_many_outliers():
    rng = np.random.default_rng(0)
    residual = rng.normal(0.0, 3.0, 100000).astype(np.float32)
    assert noise_of(residual) == pytest.approx(3.0, rel=0.02)
    residual[rng.random(residual.shape) < 0.2] += 100.0
    assert noise_of(residual) == pytest.approx(3.0, rel=0.35)
    assert noise_of(residual[:0]) > 0.0


def test_what_was_not_observed_counts_neither_as_noise_nor_as_contrast():
    rng = np.random.default_rng(2)
    frames = np.full((300, 600), 100, np.uint8)
    frames[:, :300] = 160
    low_rank = LowRank.from_factors(np.ones((300, 1)), frames[:1].T.astype(float))
    noisy = frames + rng.normal(0.0, 3.0, frames.shape).round().astype(np.int8)
    present = rng.random(frames.shape) < 0.5
    seen = np.where(present, noisy, 255).astype(np.uint8)
    residual = Residual.sample(seen, present.view(np.uint8), low_rank, Picture(20, 30, 1))
    assert residual.noise == pytest.approx(3.0, rel=0.05)
    assert residual.contrast == pytest.approx(70.0, abs=5.0)
    assert residual.counts().sum() == residual.values.size < 0.6 * 200 * 600


def test_the_sample_of_a_colour_video_has_all_its_channels():
    """Before, 320 × 240 in colour was sampled at every twelfth column, which is always red."""
    rng = np.random.default_rng(3)
    picture = Picture(240, 320, 3)
    noise = np.zeros((10, picture.pixels, 3))
    noise[..., 1:] = rng.normal(0.0, (3.0, 6.0), (10, picture.pixels, 2))
    frames = np.clip(np.rint(100.0 + noise), 0, 255).astype(np.uint8).reshape(10, -1)
    low_rank = LowRank.from_factors(np.ones((10, 1)), np.full((picture.columns, 1), 100.0))
    residual = Residual.sample(frames, None, low_rank, picture)
    assert residual.values.size <= 10 * 20_000
    channels = residual.values.reshape(10, -1, 3).std(axis=(0, 1))
    assert channels == pytest.approx([0.0, 3.0, 6.0], rel=0.05)


def looked(residual, seen=None):
    residual = np.asarray(residual, np.float32)[..., None]
    return Look(residual, np.zeros_like(residual), seen)


def test_a_disc_in_noise_is_found():
    rng = np.random.default_rng(1)
    y, x = np.mgrid[:60, :80]
    disc = (y - 30) ** 2 + (x - 40) ** 2 < 100
    masker = Threshold.choose(MaskRule(), 2.0, 200.0)
    residual = rng.normal(0.0, 2.0, disc.shape) + 25.0 * disc
    mask = masker.mask(looked(residual))
    assert np.count_nonzero(mask ^ disc) < 0.08 * np.count_nonzero(disc)
    half = rng.random(disc.shape) < 0.5
    mask = masker.mask(looked(np.where(half, residual, 0.0), half))
    assert np.count_nonzero(mask ^ disc) < 0.16 * np.count_nonzero(disc)


def test_holes_are_filled_and_specks_dropped():
    residual = np.zeros((240, 320))
    residual[10:40, 10:40] = 50.0
    residual[22:26, 22:26] = 0.0
    residual[100:108, 100:108] = -50.0

    def mask(**changes):
        return Threshold(MaskRule(**changes), 10.0).mask(looked(residual))

    assert mask()[12:38, 12:38].all()
    assert not mask()[100:108, 100:108].any()
    assert mask(least_area=20)[104, 104]


def test_the_threshold_is_above_the_noise_and_above_shadows():
    assert Threshold.choose(MaskRule(threshold=10.0), 99.0, 200.0).level == 10.0
    assert Threshold.choose(MaskRule(), 2.0, 240.0).level == pytest.approx(20.0)
    assert Threshold.choose(MaskRule(), 15.0, 240.0).level == pytest.approx(30.0)


def test_the_sizes_of_a_rule_follow_small_pictures_and_not_large_ones():
    sizes = [MaskRule().sized(h, h * 4 // 3) for h in (60, 240, 360, 1080)]
    assert [rule.side for rule in sizes] == [3, 7, 11, 11]
    assert [rule.least_area for rule in sizes] == [5, 77, 173, 173]


@pytest.mark.parametrize("changes", [{"samples": 1}, {"matches": 0}, {"radius": 0.0}, {"threshold": -1.0}])
def test_a_rule_that_makes_no_sense_is_refused(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        MaskRule(**changes)


def test_the_scene_takes_the_light_of_the_background_around_it():
    scene = np.random.default_rng(0).integers(60, 120, (40, 60, 3)).astype(np.uint8)
    background = 1.5 * scene.astype(np.float32)
    objects = np.zeros((40, 60), np.bool_)
    objects[10:20, 20:30] = True
    shown = background.copy()
    shown[objects] = 255.0  # what L has taken in
    found = in_light_of(shown, scene, objects)
    np.testing.assert_array_equal(found[~objects], background[~objects])
    assert np.abs(found - background)[objects].max() < 3.0
