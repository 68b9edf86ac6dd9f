"""Under-sampled series: a run that ends with the path, its weights, and refitting from measurements."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import rankwolf as rw
from rankwolf.api.measured_weights import default_weights, series_weights
from rankwolf.data.measurements import Measurements
from rankwolf.sensing import PartialDCT, PartialFourier, Sense, Temporal

# What is said about toy problems is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:The (sparse|low-rank) part:rankwolf.RankwolfWarning")
FRAMES, SIDE = 16, 24


def beating(coils=1):
    """A disc that beats beside one that stands still; lines through the centre of k-space that turn in time."""
    y, x = np.mgrid[:SIDE, :SIDE]
    still = np.clip(7.0 - np.hypot(y - 11, x - 8), 0.0, 1.0)
    radii = 3.0 + np.cos(2.0 * np.pi * np.arange(FRAMES) / 4.0)
    beats = [np.clip(radius - np.hypot(y - 12, x - 18), 0.0, 1.0) for radius in radii]
    frames = np.array([still + beat for beat in beats]).reshape(FRAMES, -1)
    mask, along = np.zeros((FRAMES, SIDE, SIDE), bool), np.arange(-11, 12)
    for line, angle in enumerate(np.arange(3 * FRAMES) * np.pi * (5.0**0.5 - 1.0) / 2.0):
        row, column = np.round(along * np.sin(angle)).astype(int), np.round(along * np.cos(angle)).astype(int)
        mask[line // 3, row, column] = True
    if coils == 1:
        return frames, PartialFourier(mask)
    maps = np.exp(-((y - SIDE * np.arange(coils)[:, None, None]) ** 2) / SIDE**2) * np.exp(1j * x / SIDE)
    maps = maps / np.sqrt(np.sum(np.abs(maps) ** 2, axis=0))
    return frames * np.exp(1j * (y + x) / SIDE).ravel(), Sense(mask, maps)


def error(images, truth):
    return float(np.linalg.norm(images - truth) / np.linalg.norm(truth))


@pytest.mark.parametrize("coils", [1, 2])
def test_behind_a_transform_in_time_the_default_ends_with_the_path_and_is_the_better_picture(coils):
    truth, A = beating(coils)
    T, b = Temporal("fourier", A.shape), A.apply(truth)
    fit = rw.recover(b, A @ T.inverse, rng=0)
    assert fit.status is rw.Status.PATH_ENDED
    assert fit.status.converged
    assert np.isfinite(fit.gap)
    assert fit.iterations < 40
    optimum = rw.recover(b, A @ T.inverse, lambdas=fit.lambdas, tol=0.02, rng=0)
    assert optimum.status is rw.Status.GAP_REACHED
    assert fit.objective - fit.gap <= optimum.objective <= fit.objective
    images, converged = (T.frames(np.asarray(x.low_rank) + np.asarray(x.sparse)) for x in (fit, optimum))
    assert error(images, truth) < min(error(converged, truth), 0.5 * error(A.adjoint(b), truth))


def test_what_auto_means():
    truth, A = beating()
    T, b = Temporal("cosine", A.shape), A.apply(truth)

    def ending(operator, **settings):
        return rw.recover(b, operator, rng=0, max_iter=60, **settings).status

    with _silent():
        assert ending(A) is not rw.Status.PATH_ENDED
        assert ending(A @ T.inverse) is rw.Status.PATH_ENDED
        assert ending(A, stop="path") is rw.Status.PATH_ENDED
        for asked in ({"tol": 0.1}, {"stop": "gap"}, {"lambdas": (1.0, 0.1)}, {"method": "fista"}):
            assert ending(A @ T.inverse, **asked) is not rw.Status.PATH_ENDED


@pytest.mark.parametrize("asked", ["noise", "auto", "both"])
def test_the_noise_of_a_series_is_that_at_the_end_of_the_path(asked):
    """ε is met where the run ends, σ is found, and both pictures are better than at the weights for no noise."""
    truth, A = beating(2)
    T, rng = Temporal("fourier", A.shape), np.random.default_rng(0)
    noise = rng.standard_normal(A.size) + 1j * rng.standard_normal(A.size)
    b = A.apply(truth)
    noise *= 0.1 * np.linalg.norm(b) / np.linalg.norm(noise)
    epsilon = float(np.linalg.norm(noise))
    forms = {
        "noise": {"noise": epsilon},
        "auto": {"delta": "auto"},
        "both": {"delta": "auto", "noise": epsilon},
    }
    fit = rw.recover(b + noise, A @ T.inverse, rng=0, **forms[asked])
    assert fit.status is rw.Status.PATH_ENDED
    if asked == "noise":
        assert fit.residual == pytest.approx(epsilon, rel=0.011)
    else:
        assert fit.noise_scale == pytest.approx(epsilon / A.size**0.5, rel=0.2)
    plain = rw.recover(b + noise, A @ T.inverse, rng=0)
    images, before = (T.frames(np.asarray(x.low_rank) + np.asarray(x.sparse)) for x in (fit, plain))
    assert error(images, truth) < 0.9 * error(before, truth)


def _silent():
    return warnings.catch_warnings(action="ignore")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"stop": "path", "tol": 1e-3}, "excludes 'tol'"),
        ({"stop": "path", "start": (np.zeros((FRAMES, SIDE**2)), np.zeros((FRAMES, SIDE**2)))}, "'start'"),
        ({"stop": "path", "method": "fista"}, "'gap' or 'paper' for this method"),
        ({"stop": "path", "radii": (1.0, 1.0)}, "'gap' or 'paper' for this method"),
        ({"stop": "soon"}, "one of 'auto', 'gap', 'paper', 'path'"),
    ],
)
def test_a_path_that_cannot_be(settings, words):
    truth, A = beating()
    with pytest.raises(ValueError, match=words):
        rw.recover(A.apply(truth), A, **settings)


def test_the_weights_of_a_series():
    """Those of the paper where measurements are spread evenly; nearly δ‖b‖ where all low frequencies are there."""
    rng = np.random.default_rng(0)
    even = PartialDCT.random(600, (30, 40), seed=0)
    data = Measurements(even.apply(rng.standard_normal((30, 3)) @ rng.standard_normal((3, 40))), even)
    weights = series_weights(data, 1e-3, rng)
    assert weights[0] == pytest.approx(default_weights(data, 1e-3)[0])
    assert weights[0] / weights[1] == pytest.approx(40**0.5)
    truth, A = beating()
    data = Measurements(A.apply(truth), A)
    assert 0.6e-3 < series_weights(data, 1e-3, rng)[0] / np.linalg.norm(data.b) < 1e-3
    scaled = Measurements(7.0 * A.apply(truth), A)
    assert series_weights(scaled, 1e-3, rng)[0] == pytest.approx(
        7.0 * series_weights(data, 1e-3, rng)[0], rel=1e-2
    )
    nothing = Measurements(0.0 * A.apply(truth), A)
    assert min(series_weights(nothing, 1e-3, rng)) > 0.0


def test_a_run_to_the_end_of_the_path_is_taken_up_again(tmp_path):
    truth, A = beating()
    T, b = Temporal("fourier", A.shape), A.apply(truth)
    whole = rw.recover(b, A @ T.inverse, rng=0)
    place = tmp_path / "run.checkpoint"
    with _silent():
        rw.recover(b, A @ T.inverse, rng=0, max_iter=9, checkpoint=place, checkpoint_every=1)
    rest = rw.recover(b, A @ T.inverse, rng=0, checkpoint=place, resume=True)
    assert (rest.status, rest.iterations) == (whole.status, whole.iterations)
    assert np.allclose(np.asarray(rest.low_rank), np.asarray(whole.low_rank), atol=1e-8)
    with pytest.raises(ValueError, match="run with other settings"):
        rw.recover(b, A @ T.inverse, rng=0, checkpoint=place, resume=True, stop="gap")


def planted(complex_valued, noise, seed=0, share=0.6):
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 60))
    S = np.where(rng.random(L.shape) < 0.04, rng.choice([-8.0, 8.0], L.shape), 0.0)
    A = PartialDCT.random(int(share * L.size), L.shape, seed=seed)
    b, e = A.apply(L + S), rng.standard_normal(A.size)
    if complex_valued:
        L, S = L * (1.0 + 0.5j), S * 1j
        b, e = A.apply(L + S), (e + 1j * rng.standard_normal(A.size)) * 0.5**0.5
    return L, S, A, b + noise * e


def oracle(L, S, A, b):
    """Least squares by somebody who knows the column space of L, its row space to first order, and S's support."""
    u, _, vt = np.linalg.svd(L, full_matrices=False)
    u, vt, columns = u[:, :2], vt[:2], []
    basis = [np.outer(u[:, k], row) for k in range(2) for row in np.eye(L.shape[1])]
    basis += [np.outer(row, vt[k]) for k in range(2) for row in np.eye(L.shape[0])]
    places = np.argwhere(S != 0)
    for place in places:
        single = np.zeros(L.shape)
        single[tuple(place)] = 1.0
        basis.append(single)
    columns = np.stack([A.apply(part) for part in basis], axis=1)
    best = np.linalg.lstsq(columns, b, rcond=1e-10)[0]
    count = len(basis) - len(places)
    return sum(weight * part for weight, part in zip(best[:count], basis[:count], strict=True))


def test_without_noise_a_refit_is_exact():
    L, S, A, b = planted(False, 0.0)
    fit = rw.recover(b, A, rng=0)
    refitted = fit.refit()
    assert error(np.asarray(fit.low_rank), L) > 1e-3
    assert error(np.asarray(refitted.low_rank), L) < 1e-8
    assert error(np.asarray(refitted.sparse), S) < 1e-8
    assert refitted.status is rw.Status.REFITTED
    assert refitted.passes > fit.passes


@pytest.mark.parametrize("complex_valued", [False, True])
def test_with_noise_a_refit_is_nearly_what_an_oracle_gets(complex_valued):
    L, S, A, b = planted(complex_valued, 0.1)
    fit = rw.recover(b, A, delta="auto", rng=0)
    refitted = fit.refit()
    best = error(oracle(L, S, A, b), L)
    assert error(np.asarray(refitted.low_rank), L) < min(1.4 * best, 0.5 * error(np.asarray(fit.low_rank), L))
    assert refitted.noise_scale == pytest.approx(0.1, rel=0.1)
    pair = np.asarray(refitted.low_rank) + np.asarray(refitted.sparse)
    assert refitted.objective == pytest.approx(0.5 * np.linalg.norm(b - A.apply(pair)) ** 2)


def test_with_too_few_measurements_a_refit_stays_near_the_fit_and_says_no_sigma():
    truth, A = beating()
    T, b = Temporal("fourier", A.shape), A.apply(truth)
    fit = rw.recover(b, A @ T.inverse, rng=0)
    refitted = fit.refit()
    before, after = (T.frames(np.asarray(x.low_rank) + np.asarray(x.sparse)) for x in (fit, refitted))
    assert refitted.objective < 0.5 * np.linalg.norm(b - A.apply(before)) ** 2
    assert error(after, truth) < 1.02 * error(before, truth)


def test_a_pickled_result_cannot_be_refitted_and_an_operator_of_functions_is_no_hindrance():
    L, _, A, b = planted(False, 0.0)
    fit = rw.recover(b, (A.apply, lambda y: A.adjoint(y)), L.shape, norm=1.0, rng=0)
    again = pickle.loads(pickle.dumps(fit))
    assert np.array_equal(np.asarray(again.low_rank), np.asarray(fit.low_rank))
    with pytest.raises(ValueError, match="cannot be refitted"):
        again.refit()
