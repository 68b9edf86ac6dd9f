"""Sample consensus: kernels against plain loops, and what the cleaning must keep and drop."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage

from rankwolf.kernels.pictures import NO_SAMPLE, count_visits, quantiles
from rankwolf.video import MaskRule, consensus
from rankwolf.video.consensus import Samples

HEIGHT, WIDTH, COUNT = 24, 32, 40


def learn(samples, noise=1.0, **changes):
    """Samples from residuals (n, height, width)."""
    series = np.rint(samples).astype(np.int16)[..., None]
    rule = MaskRule(**{"side": 3, "least_area": 1, "radius": 10.0, **changes})
    return Samples.learn(rule, len(series), series.__getitem__, noise)


def strange(samples, residual):
    return samples.strangers(np.rint(residual).astype(np.int16)[..., None])


def counted_by_a_plain_loop(samples, residual, square):
    values, offsets, (height, width) = samples.values, samples.offsets, residual.shape[:2]
    strange = np.empty((height, width), np.bool_)
    for y, x in np.ndindex(height, width):
        candidates = list(values[:, :, y, x])
        for j, k in np.ndindex(offsets.shape[:2]):
            row, column = np.clip([y, x] + offsets[j, k], 0, [height - 1, width - 1])
            candidates.append(values[k, :, row, column])
        near = sum(np.sum((c.astype(int) - residual[y, x]) ** 2) <= square for c in candidates)
        strange[y, x] = near < samples.rule.matches
    return strange


def test_matches_are_counted_as_a_plain_loop_counts_them():
    rng = np.random.default_rng(0)
    values = rng.integers(-30, 30, (9, 3, 6, 7)).astype(np.int16)
    values += np.int16(NO_SAMPLE) * (rng.random((9, 1, 6, 7)) < 0.2)
    values[values[:, 0, 0, 0] <= 4096, :, 0, 0] += NO_SAMPLE  # nothing of its own
    samples = Samples(MaskRule(matches=3), values, rng.integers(-2, 3, (2, 9, 2)), 400)
    for reach in (30, 60):  # some lie beyond all samples
        residual = rng.integers(-reach, reach, (6, 7, 3)).astype(np.int16)
        expected = counted_by_a_plain_loop(samples, residual, 400)
        np.testing.assert_array_equal(samples.strangers(residual), expected)
        where = rng.random((6, 7)) < 0.5
        np.testing.assert_array_equal(samples.strangers(residual, where), expected & where)
        assert 0 < np.count_nonzero(expected) < expected.size


def test_what_is_learned_later_is_known_at_once():
    rng = np.random.default_rng(2)
    values = rng.integers(-5, 5, (9, 1, 12, 14)).astype(np.int16)
    samples = Samples(MaskRule(), values, rng.integers(-2, 3, (2, 9, 2)), 108)
    residual = np.full((12, 14, 1), 100, np.int16)
    assert samples.strangers(residual).all()
    where = np.zeros((12, 14), np.bool_)
    where[3:6, 4:9] = True
    samples.replace(np.array([1, 4, 7, 8]), where, residual)
    found = samples.strangers(residual)
    assert not found[where].any()
    np.testing.assert_array_equal(found, counted_by_a_plain_loop(samples, residual, 108))


def test_quantiles_are_those_of_numpy():
    rng = np.random.default_rng(3)
    values = np.rint(rng.normal(0.0, 3.0, (13, 700))).astype(np.float16)  # with ties
    values[:, ::3] *= np.float16(0.37)
    for count, share in ((13, 0.5), (12, 0.5), (13, 0.25), (2, 0.25), (1, 0.5), (13, 0.0), (13, 1.0)):
        expected = np.quantile(values[:count].astype(np.float64), share, axis=0)
        np.testing.assert_allclose(quantiles(values[:count], share), expected, rtol=1e-6)


def test_an_object_that_stays_comes_in_one_visit_and_a_wave_in_many():
    def visits(series, own):
        found = np.zeros((1, 1), np.int32)
        count_visits(
            series.reshape(-1, 1, 1, 1), own, np.zeros(2, np.int64), 100, np.ones((1, 1), np.bool_), found
        )
        return int(found[0, 0])

    stays = np.zeros(20, np.int16)
    stays[5:15] = 50
    assert visits(stays, 9) == 0, "the visit of a sample does not vouch for it"
    wave = np.zeros(20, np.int16)
    wave[::4] = 50
    assert visits(wave, 8) == 4
    stays[9] = 0
    assert visits(stays, 6) == 0, "one sample that differs does not end a visit"
    stays[10] = 0
    assert visits(stays, 6) == 1
    stays[10] = NO_SAMPLE
    assert visits(stays, 6) == 0, "what does not count neither ends a visit nor begins one"


def test_visits_are_those_to_the_neighbour_at_the_offset():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, (12, 2, 5, 6)).astype(np.int16)
    found, expected = np.zeros((2, 5, 6), np.int32)
    where = rng.random((5, 6)) < 0.8
    count_visits(values, 4, np.array([1, -2]), 0, where, found)
    for y, x in np.argwhere(where):
        row, column = min(y + 1, 4), max(x - 2, 0)
        near = (values[:, :, row, column] == values[4, :, y, x]).all(axis=1)
        for later in (near[5:], near[3::-1]):
            away = 0
            for alike in later:
                expected[y, x] += alike and away > 1
                away = 0 if alike else away + 1
    np.testing.assert_array_equal(found, expected)
    assert expected.any()


def test_what_returns_often_is_background_and_an_object_there_is_not():
    """Water that is 40 gray levels brighter or darker, every frame anew."""
    rng = np.random.default_rng(2)
    water = 40.0 * np.sign(rng.standard_normal((COUNT, HEIGHT, WIDTH)))
    water = scipy.ndimage.uniform_filter(water, (0, 3, 3)) * 2.0
    samples = learn(water)
    assert strange(samples, water[3]).mean() < 0.04
    boat = water[3].copy()
    boat[8:16, 10:22] = 150.0
    assert strange(samples, boat)[8:16, 10:22].all()


@pytest.mark.parametrize("stay", [4, 14])
def test_an_object_does_not_vouch_for_itself(stay, monkeypatch):
    """It stands in one place for a tenth or a third of the time."""
    rng = np.random.default_rng(3)
    residual = rng.normal(0.0, 1.0, (COUNT, HEIGHT, WIDTH))
    residual[10 : 10 + stay, 8:18, 12:20] = 60.0
    samples = learn(residual)
    found = strange(samples, residual[11])
    assert found[8:18, 12:20].all()
    assert not found[:4].any()
    monkeypatch.setattr(consensus, "ROUNDS", 0)
    without = learn(residual)
    assert not strange(without, residual[11])[8:18, 12:20].any(), "else the cleaning does nothing here"


def test_the_radius_follows_the_noise():
    """What stands 20 gray levels out is found in little noise, as in fog, and is background in ten times as much."""
    rng = np.random.default_rng(5)
    for noise, found in ((1.0, True), (10.0, False)):
        samples = learn(rng.normal(0.0, noise, (COUNT, HEIGHT, WIDTH)), noise, radius=3.0)
        share = strange(samples, rng.normal(0.0, noise, (HEIGHT, WIDTH)) + 20.0).mean()
        assert (share > 0.95) == found
        assert strange(samples, rng.normal(0.0, noise, (HEIGHT, WIDTH))).mean() < 0.05


def test_what_was_not_observed_is_neither_sample_nor_stranger():
    residual = np.zeros((COUNT, HEIGHT, WIDTH))
    residual[:, 3, 4] = NO_SAMPLE
    samples = learn(residual)
    frame = np.zeros((HEIGHT, WIDTH))
    frame[3, 4] = NO_SAMPLE
    assert not strange(samples, frame).any()
