"""Sample consensus: kernels against plain loops, and what the cleaning must keep and drop."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage

from rankwolf.kernels.pictures import NO_SAMPLE, count_visits, quantiles
from rankwolf.video.consensus import ConsensusRule, Samples

HEIGHT, WIDTH, COUNT = 24, 32, 40


def learn(samples, noise=1.0, **changes):
    """Samples from residuals (n, height, width)."""
    series = np.rint(samples).astype(np.int16)[..., None]
    rule = ConsensusRule(**changes)
    return Samples.learn(rule, len(series), series.__getitem__, noise, 3, 0.001)


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
        strange[y, x] = near < samples.least[y, x]
    return strange


def test_matches_are_counted_as_a_plain_loop_counts_them():
    rng = np.random.default_rng(0)
    values = rng.integers(-30, 30, (9, 3, 6, 7)).astype(np.int16)
    values += np.int16(NO_SAMPLE) * (rng.random((9, 1, 6, 7)) < 0.2)
    values[values[:, 0, 0, 0] <= 4096, :, 0, 0] += NO_SAMPLE  # nothing of its own
    offsets, least = rng.integers(-2, 3, (2, 9, 2)), rng.integers(1, 6, (6, 7)).astype(np.int32)
    samples = Samples(ConsensusRule(radius=20.0), values, offsets, least)
    for reach in (30, 60):  # some lie beyond all samples
        residual = rng.integers(-reach, reach, (6, 7, 3)).astype(np.int16)
        expected = counted_by_a_plain_loop(samples, residual, 400)
        np.testing.assert_array_equal(samples.strangers(residual), expected)
        assert 0 < np.count_nonzero(expected) < expected.size


def test_what_is_learned_later_is_known_at_once():
    rng = np.random.default_rng(2)
    values = rng.integers(-5, 5, (9, 1, 12, 14)).astype(np.int16)
    samples = Samples(ConsensusRule(), values, rng.integers(-2, 3, (2, 9, 2)), np.full((12, 14), 3, np.int32))
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
    def visits(series, own, least, patience):
        return count_visits(series.reshape(1, 1, -1, 1), 0, 0, own, 0, 0, 100, least, patience)

    stays = np.zeros(20, np.int16)
    stays[5:15] = 50
    assert visits(stays, 9, 99, 1) == 0, "the visit of a sample does not vouch for it"
    wave = np.zeros(20, np.int16)
    wave[::4] = 50
    assert visits(wave, 8, 99, 1) == 4
    assert visits(wave, 8, 2, 1) == 2, "it stops at the number that is needed"
    interrupted = stays.copy()
    interrupted[9] = 0
    assert visits(interrupted, 6, 99, 1) == 0, "one sample that differs does not end a visit"
    assert visits(interrupted, 6, 99, 0) == 1


def test_what_returns_often_is_background_and_an_object_there_is_not():
    """Water that is 40 gray levels brighter or darker, every frame anew."""
    rng = np.random.default_rng(2)
    water = 40.0 * np.sign(rng.standard_normal((COUNT, HEIGHT, WIDTH)))
    water = scipy.ndimage.uniform_filter(water, (0, 3, 3)) * 2.0
    samples = learn(water)
    assert strange(samples, water[3]).mean() < 0.02
    boat = water[3].copy()
    boat[8:16, 10:22] = 150.0
    assert strange(samples, boat)[8:16, 10:22].all()


@pytest.mark.parametrize("stay", [4, 14])
def test_an_object_does_not_vouch_for_itself(stay):
    """It stands in one place for a tenth or a third of the time."""
    rng = np.random.default_rng(3)
    residual = rng.normal(0.0, 1.0, (COUNT, HEIGHT, WIDTH))
    residual[10 : 10 + stay, 8:18, 12:20] = 60.0
    samples = learn(residual)
    found = strange(samples, residual[11])
    assert found[8:18, 12:20].all()
    assert not found[:4].any()
    without = learn(residual, cleaning=0)
    assert not strange(without, residual[11])[8:18, 12:20].any(), "else the cleaning does nothing here"


def test_a_pixel_that_lost_all_samples_falls_back_on_the_background():
    """Twenty colours pass over one place and leave it bare for two frames only."""
    rng = np.random.default_rng(4)
    residual = rng.normal(0.0, 1.0, (COUNT, HEIGHT, WIDTH))
    for n in range(COUNT - 2):
        residual[n, 6:18, 8:24] = 40.0 + 5.0 * n
    samples = learn(residual)
    counted = np.count_nonzero(samples.values[:, 0] < 4096, axis=0)
    assert counted.min() >= ConsensusRule.least_samples
    assert not strange(samples, np.zeros((HEIGHT, WIDTH))).any()


def test_strong_noise_asks_for_more_matches_and_hides_less():
    rng = np.random.default_rng(5)
    residual = rng.normal(0.0, 9.0, (COUNT, HEIGHT, WIDTH))
    faint = rng.normal(0.0, 9.0, (HEIGHT, WIDTH)) + 27.0
    aware, unaware = learn(residual, noise=9.0), learn(residual, noise=1.0)
    assert np.all(unaware.least == 3) and np.all(aware.least > 5)
    assert strange(aware, faint).mean() > strange(unaware, faint).mean() + 0.2
    # The vote decides: by chance, hardly any square of noise has a majority of strangers.
    noise = strange(aware, rng.normal(0.0, 9.0, (HEIGHT, WIDTH)))
    assert noise.mean() < 0.2


def test_what_was_not_observed_is_neither_sample_nor_stranger():
    residual = np.zeros((COUNT, HEIGHT, WIDTH))
    residual[:, 3, 4] = NO_SAMPLE
    samples = learn(residual)
    frame = np.zeros((HEIGHT, WIDTH))
    frame[3, 4] = NO_SAMPLE
    assert not strange(samples, frame).any()
