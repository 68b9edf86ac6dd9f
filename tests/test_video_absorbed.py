"""Objects that stay are objects; a lamp, a gain and sunlight are light."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage

from rankwolf.video.absorbed import AbsorbedRule, Scenery
from rankwolf.video.light import LightTest
from rankwolf.video.mask import Look, MaskModel, MaskRule

HEIGHT, WIDTH, COUNT = 60, 80, 60


def surface(plain=False):
    rng = np.random.default_rng(0)
    grain = scipy.ndimage.gaussian_filter(rng.standard_normal((HEIGHT, WIDTH)), 1.0)
    picture = 110.0 + (0.0 if plain else 12.0) * grain / grain.std()
    return np.repeat(picture[..., None], 3, axis=-1)


def part(shape=(slice(15, 40), slice(30, 45))):
    mask = np.zeros((HEIGHT, WIDTH), np.bool_)
    mask[shape] = True
    return mask


def spot(sharp):
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    if sharp:
        return part().astype(float)
    return np.exp(-((y - 28) ** 2 + (x - 38) ** 2) / (2.0 * 9.0**2))


@pytest.mark.parametrize(("sharp", "plain"), [(False, False), (True, False), (False, True)])
def test_light_on_a_surface_is_light(sharp, plain):
    before = surface(plain)
    now = before * (1.0 + 0.6 * spot(sharp))[..., None]
    assert LightTest().is_light(np.abs(now - before).max(axis=-1) > 20.0, now, before)


@pytest.mark.parametrize("plain", [False, True])
def test_an_object_before_a_surface_is_none(plain):
    before = surface(plain)
    now = before.copy()
    now[part()] = 190.0
    assert not LightTest().is_light(part(), now, before)


def video(present, look):
    """``present(k)`` says whether ``look`` is in L of frame k; M is L with a little noise."""
    rng, still = np.random.default_rng(1), surface()

    def at(k):
        low_rank = (look if present(k) else still).astype(np.float32)
        return Look(rng.normal(0.0, 1.0, low_rank.shape).astype(np.float32), low_rank)

    return MaskModel.learn(MaskRule(), COUNT, at, 1.0), at


@pytest.mark.parametrize("share", [0.15, 0.45])
def test_an_object_that_L_has_absorbed_is_in_the_mask(share):
    look = surface()
    look[part()] = 200.0
    model, at = video(lambda k: 10 <= k < 10 + share * COUNT, look)
    mask = model.mask(at(12))
    assert mask[part()].mean() > 0.9
    assert mask[~part()].mean() < 0.05
    assert not model.mask(at(2)).any()


def test_what_is_there_for_most_of_the_time_is_the_scenery():
    """The limit: after half of the time it is the absence that is unusual."""
    look = surface()
    look[part()] = 200.0
    model, at = video(lambda k: k < 0.8 * COUNT, look)
    assert not model.mask(at(5)).any()
    assert model.mask(at(55))[part()].mean() > 0.9


@pytest.mark.parametrize("sharp", [False, True])
def test_a_lamp_that_lights_a_part_of_the_picture_is_not(sharp):
    look = surface() * (1.0 + 0.7 * spot(sharp))[..., None]
    model, at = video(lambda k: 20 <= k < 40, look)
    assert not model.mask(at(30)).any()
    assert not model.mask(at(5)).any()


def test_a_gain_of_the_camera_is_not():
    model, at = video(lambda k: 20 <= k < 40, 1.25 * surface())
    assert not model.mask(at(30)).any()


def test_a_saved_model_makes_the_same_masks(tmp_path):
    look = surface()
    look[part()] = 200.0
    model, at = video(lambda k: 10 <= k < 25, look)
    model.save(tmp_path / "mask.npz")
    again, frame = MaskModel.load(tmp_path / "mask.npz", MaskRule()), at(12)
    np.testing.assert_array_equal(model.mask(frame), again.mask(frame))


def test_what_stands_before_waves_is_not_scenery_for_being_quiet():
    rng, box = np.random.default_rng(0), (slice(20, 40), slice(25, 45))

    def look(n):
        residual = rng.normal(0.0, 15.0, (60, 80, 1)).astype(np.float32)
        low_rank = np.full((60, 80, 1), 120.0, np.float32)
        if 10 <= n < 30:  # a third of the time
            low_rank[box], residual[box] = 60.0, rng.normal(0.0, 1.0, (20, 20, 1))
        return residual, low_rank

    def scenery(rule):
        return Scenery.learn(rule, 60, look).picture[24:36, 29:41]

    np.testing.assert_allclose(scenery(AbsorbedRule()), 120.0, atol=1.0)
    np.testing.assert_allclose(scenery(AbsorbedRule(hides=0.0)), 60.0, atol=1.0)
