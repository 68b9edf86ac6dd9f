"""The weights of recover: the noise that they find, and where a series ends."""

from __future__ import annotations

import numpy as np
import pytest

import rankwolf as rw
from rankwolf import sensing

pytestmark = pytest.mark.doubts


def operator(kind, rng, shape):
    if kind == "gaussian":
        return sensing.Gaussian(int(0.7 * 36 * 30), shape, seed=int(rng.integers(1000)), stored=True)
    mask = rng.random((36, 5, 6)) < (0.7 if kind == "fourier" else 0.4)
    if kind == "fourier":
        return sensing.PartialFourier(mask, time="first")
    maps = rng.standard_normal((4, 5, 6)) + 1j * rng.standard_normal((4, 5, 6))
    return sensing.Sense(mask, maps / np.sqrt(np.sum(np.abs(maps) ** 2, axis=0)), time="first")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", ["gaussian", "fourier", "coils"])
def test_the_noise_is_found_within_a_tenth(kind, seed):
    rng, shape = np.random.default_rng(seed), (36, 30)
    truth = rng.standard_normal((36, 2)) @ rng.standard_normal((2, 30))
    truth += np.where(rng.random(shape) < 0.03, 5.0 * rng.standard_normal(shape), 0.0)
    A = operator(kind, rng, shape)
    b = A.apply(truth + 0j if kind == "coils" else truth)
    sigma = 0.03 * np.linalg.norm(b) / b.size**0.5
    noise = rng.standard_normal(b.shape)
    if np.iscomplexobj(b):
        noise = (noise + 1j * rng.standard_normal(b.shape)) / 2.0**0.5
    fit = rw.recover(b + sigma * noise, A, rng=0)
    assert fit.status is rw.Status.GAP_REACHED
    assert fit.noise_scale == pytest.approx(sigma, rel=0.1)
    known = rw.recover(b + sigma * noise, A, sigma=sigma, rng=0)
    assert known.passes < fit.passes
    for each in (fit, known):
        error = np.linalg.norm(np.asarray(each.low_rank) + np.asarray(each.sparse) - truth)
        assert error < 0.05 * np.linalg.norm(truth)


def test_a_noise_bound_is_met():
    rng = np.random.default_rng(3)
    A = operator("fourier", rng, (36, 30))
    b = A.apply(np.outer(rng.standard_normal(36), rng.standard_normal(30)))
    b = b + 0.02 * (rng.standard_normal(b.shape) + 1j * rng.standard_normal(b.shape))
    epsilon = 0.02 * (2.0 * b.size) ** 0.5
    fit = rw.recover(b, A, noise=epsilon, rng=0)
    rest = b - A.apply(np.asarray(fit.low_rank) + np.asarray(fit.sparse))
    assert np.linalg.norm(rest) <= epsilon * (1.0 + 1e-6)


def test_a_series_in_time_ends_where_it_predicts_best():
    rng = np.random.default_rng(0)
    time = np.arange(36)[:, None]
    truth = rng.standard_normal((1, 30)) + np.sin(2.0 * np.pi * time / 9.0) * (rng.random((1, 30)) < 0.2)
    A = sensing.PartialFourier(rng.random((36, 5, 6)) < 0.4, time="first")
    T = sensing.Temporal("fourier", A.shape)
    fit = rw.recover(A.apply(truth), A @ T.inverse, rng=0)
    assert fit.status is rw.Status.PREDICTED and fit.status.converged
    assert 0.0 < fit.relative_gap < 1.0
    error = np.linalg.norm(T.frames(fit.low_rank) + T.frames(fit.sparse) - truth)
    assert error < 0.1 * np.linalg.norm(truth)
    assert rw.recover(A.apply(truth), A @ T.inverse, rng=0, tol=1e-2).status is rw.Status.GAP_REACHED
