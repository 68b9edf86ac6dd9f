"""The mask: each step against the textbook's version of it, and all of them on a scene with truth."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage
from hypothesis import given
from hypothesis import strategies as st

from rankwolf.video.mask import MaskRule, drop_small, fill_holes, majority, moving, residual_noise

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


def test_noise_of_the_residual_survives_many_outliers():
    rng = np.random.default_rng(0)
    residual = rng.normal(0.0, 3.0, (200, 500)).astype(np.float32)
    assert residual_noise(residual) == pytest.approx(3.0, rel=0.02)
    residual[rng.random(residual.shape) < 0.2] += 100.0
    assert residual_noise(residual) == pytest.approx(3.0, rel=0.35)
    residual[rng.random(residual.shape) < 0.5] = np.nan
    assert residual_noise(residual) == pytest.approx(3.0, rel=0.35)
    assert residual_noise(np.full((3, 3), np.nan)) > 0.0


def test_a_disc_in_noise_is_found():
    rng = np.random.default_rng(1)
    y, x = np.mgrid[:60, :80]
    disc = (y - 30) ** 2 + (x - 40) ** 2 < 100
    rule = MaskRule()
    distance = np.abs(rng.normal(0.0, 2.0, disc.shape) + 20.0 * disc)
    mask = moving(distance, None, rule.level(2.0), rule)
    assert np.count_nonzero(mask ^ disc) < 0.08 * np.count_nonzero(disc)
    half = rng.random(disc.shape) < 0.5
    mask = moving(np.where(half, distance, 0.0), half, rule.level(2.0), rule)
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
    assert plain.level(99.0) == 10.0
    assert MaskRule().level(2.0) == 12.0


@pytest.mark.parametrize(("height", "side"), [(60, 3), (120, 3), (240, 5), (288, 7), (576, 7), (1080, 7)])
def test_larger_pictures_ask_more_neighbours(height, side):
    assert MaskRule().side(height, 2 * height) == MaskRule().side(2 * height, height) == side
    assert MaskRule(vote=1).side(height, height) == 1
