"""The mask: each step against the textbook's version of it, and all of them on a scene with truth."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage
from hypothesis import given
from hypothesis import strategies as st

from rankwolf.lowrank import LowRank
from rankwolf.video.mask import MaskRule, drop_small, fill_holes, majority, moving
from rankwolf.video.picture import Picture
from rankwolf.video.residual import Residual

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


def test_a_disc_in_noise_is_found():
    rng = np.random.default_rng(1)
    y, x = np.mgrid[:60, :80]
    disc = (y - 30) ** 2 + (x - 40) ** 2 < 100
    rule = MaskRule()
    distance = np.abs(rng.normal(0.0, 2.0, disc.shape) + 25.0 * disc)
    mask = moving(distance, None, rule.level(2.0, 200.0), rule)
    assert np.count_nonzero(mask ^ disc) < 0.08 * np.count_nonzero(disc)
    half = rng.random(disc.shape) < 0.5
    mask = moving(np.where(half, distance, 0.0), half, rule.level(2.0, 200.0), rule)
    assert np.count_nonzero(mask ^ disc) < 0.16 * np.count_nonzero(disc)


def test_each_step_can_be_turned_off():
    distance = np.zeros((40, 40))
    distance[10:20, 10:20] = 50.0
    distance[14:16, 14:16] = 0.0
    distance[30, 30] = 50.0
    plain = MaskRule(threshold=10.0, vote=1, fill_holes=False, least_area=0.0)
    np.testing.assert_array_equal(moving(distance, None, 10.0, plain), distance > 10.0)
    filled = moving(distance, None, 10.0, MaskRule(threshold=10.0, vote=1, least_area=0.0))
    assert filled[14:16, 14:16].all()
    assert filled[30, 30]
    assert not moving(distance, None, 10.0, MaskRule(threshold=10.0, vote=1, least_area=0.002))[30, 30]


def test_the_threshold_is_above_the_noise_and_above_shadows():
    assert MaskRule(threshold=10.0).level(99.0, 200.0) == 10.0
    assert MaskRule().level(2.0, 240.0) == pytest.approx(20.0)
    assert MaskRule().level(15.0, 240.0) == pytest.approx(30.0)
    assert MaskRule(tolerance=0.0, sigmas=6.0).level(2.0, 240.0) == 12.0


def test_strong_noise_alone_is_no_object():
    """Two standard deviations are enough when neighbours vote."""
    rng = np.random.default_rng(3)
    rule = MaskRule(tolerance=0.0)
    for shape in ((90, 120), (240, 320)):
        noise = np.abs(rng.normal(0.0, 10.0, shape))
        assert not moving(noise, None, rule.level(10.0, 200.0), rule).any()


@pytest.mark.parametrize(("height", "side"), [(60, 3), (120, 3), (240, 5), (288, 7), (576, 7), (1080, 7)])
def test_larger_pictures_ask_more_neighbours(height, side):
    assert MaskRule().side(height, 2 * height) == MaskRule().side(2 * height, height) == side
    assert MaskRule(vote=1).side(height, height) == 1
