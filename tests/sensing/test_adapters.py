"""Operators of other libraries, run for real: the same b, the same L and S, in every form that people have."""

from __future__ import annotations

import numpy as np
import pytest

import rankwolf as rw
from rankwolf import sensing
from rankwolf.sensing.checks import check_linear, largest_ritz_value

pytestmark = pytest.mark.doubts
FRAMES, IMAGE = 12, (6, 5)
RNG = np.random.default_rng(0)
MASK = RNG.random((FRAMES, *IMAGE)) < 0.6
SERIES = np.einsum("t,yx->tyx", RNG.standard_normal(FRAMES) + 2.0, RNG.standard_normal(IMAGE)) + 0j
SERIES[3, 2, 2] += 5.0


def k_space():
    return np.fft.fft2(SERIES, norm="ortho") * MASK


def sigpy():
    sp = pytest.importorskip("sigpy", reason="sigpy is not installed")
    shape = (FRAMES, *IMAGE)
    return sp.linop.Multiply(shape, MASK) * sp.linop.FFT(shape, axes=(-2, -1), center=False), None


def sigpy_by_frames():
    sp = pytest.importorskip("sigpy", reason="sigpy is not installed")
    transform = sp.linop.FFT(IMAGE, center=False)
    return [sp.linop.Multiply(IMAGE, mask) * transform for mask in MASK], None


def pylops():
    module = pytest.importorskip("pylops", reason="pylops is not installed")
    shape = (FRAMES, *IMAGE)
    transform = module.signalprocessing.FFT2D(shape, axes=(1, 2), norm="ortho", dtype=np.complex128)
    return module.Diagonal(MASK.ravel().astype(complex)) @ transform, None


def functions():
    def forward(x):
        return np.fft.fft2(x, norm="ortho") * MASK

    return (forward, lambda y: np.fft.ifft2(y * MASK, norm="ortho")), (FRAMES, *IMAGE)


@pytest.mark.parametrize("make", [sigpy, sigpy_by_frames, pylops, functions])
def test_the_same_parts_from_every_library(make):
    operator, shape = make()
    known = rw.recover(k_space(), sensing.GridFourier(MASK), delta=0.02, dtype=complex, tol=1e-7, rng=0)
    b = list(k_space()) if isinstance(operator, list) else k_space()
    b = b.ravel() if make is pylops else b
    fit = rw.recover(
        b, operator, shape, delta=0.02, norm=1.0, lambdas=known.lambdas, dtype=complex, tol=1e-7, rng=0
    )
    assert fit.objective == pytest.approx(known.objective, rel=1e-6)
    np.testing.assert_allclose(np.asarray(fit.low_rank), np.asarray(known.low_rank), atol=1e-2)


@pytest.mark.parametrize("coils", [1, 3])
def test_spokes_of_mri_nufft_ragged_and_not(coils):
    nufft = pytest.importorskip("mrinufft", reason="mri-nufft is not installed")
    pytest.importorskip("finufft", reason="finufft is not installed")
    make = nufft.get_operator("finufft")
    maps = None if coils == 1 else (RNG.standard_normal((coils, *IMAGE)) + 1j).astype(np.complex64)

    def operator(samples):
        points = RNG.uniform(-np.pi, np.pi, (samples, 2)).astype(np.float32)
        return make(points, shape=IMAGE, n_coils=coils, smaps=maps, squeeze_dims=True, nthreads=1)

    series = SERIES[:4]
    one = sensing.as_sensing(operator(40), (4, *IMAGE))
    check_linear(one, real=False)
    ragged = [operator(30 + t) for t in range(4)]
    many = sensing.as_sensing(ragged)
    check_linear(many, real=False)
    b = [np.asarray(part.op(frame.astype(np.complex64))) for part, frame in zip(ragged, series, strict=True)]
    np.testing.assert_allclose(many.from_list(b), many.apply(series.reshape(4, -1)), atol=1e-4)
    norm = 1.1 * largest_ritz_value(many, 10, real=False)[0] ** 0.5
    fit = rw.recover(b, ragged, delta=1e-2, tol=0.05, rng=0, norm=norm, max_iter=40)
    total = np.asarray(fit.low_rank) + np.asarray(fit.sparse)
    assert np.linalg.norm(total - series.reshape(4, -1)) < 0.4 * np.linalg.norm(series)


def test_grids_of_three_dimensions_maps_in_time_and_in_sets():
    image, rng = (3, 4, 5), np.random.default_rng(1)
    mask = rng.random((6, *image)) < 0.5
    for lead, sets in (((4,), 1), ((6, 4), 1), ((2, 4), 2), ((6, 2, 4), 2)):
        maps = rng.standard_normal((*lead, *image)) + 1j * rng.standard_normal((*lead, *image))
        A = sensing.GridFourier(mask, maps, sets=sets)
        check_linear(A, real=False)
        x = rng.standard_normal((6, sets, 1, *image))
        full = maps if lead[0] == 6 else maps[None]
        full = full.reshape(full.shape[0], sets, 4, *image)
        expected = np.fft.fftn((x * full).sum(axis=1), axes=(-3, -2, -1), norm="ortho")
        found = A.apply(x.reshape(6, -1))
        np.testing.assert_allclose(found, A.as_vector(expected), atol=1e-12)
        assert A.norm**2 >= np.linalg.norm(A.adjoint(A.apply(x.reshape(6, -1)))) / np.linalg.norm(x) * (
            1 - 1e-12
        )


def test_grid_is_partial_fourier_on_planes():
    A, B = sensing.GridFourier(MASK), sensing.PartialFourier(MASK, time="first")
    np.testing.assert_allclose(A.apply(SERIES.reshape(FRAMES, -1)), B.apply(SERIES.reshape(FRAMES, -1)))


def test_masks_of_a_coded_aperture_that_change():
    masks = np.random.default_rng(0).random((3, 4, 2, 5))
    A = sensing.CodedAperture(masks)
    check_linear(A)
    x = np.random.default_rng(1).random((12, 10))
    np.testing.assert_allclose(A.apply(x), np.sum(x.reshape(3, 4, 2, 5) * masks, axis=1).ravel())


@pytest.mark.parametrize(
    ("operator", "shape", "message"),
    [
        ((np.abs, np.abs), None, r"'shape' .* must be given, as \(frames, …image\)"),
        ((np.abs, np.abs), (3,), r"'shape' .* must be \(frames, …image\), two or more whole numbers"),
    ],
)
def test_errors_name_the_remedy(operator, shape, message):
    with pytest.raises(ValueError, match=message):
        rw.recover(np.ones(6), operator, shape)
    with pytest.raises(
        ValueError, match=r"'b' parameter of recover must be of shape \(12, 6, 5\), or a vector"
    ):
        rw.recover(np.ones((6, 12, 5)), *functions())


def test_an_operator_of_one_image_serves_every_frame_of_b():
    class Nufft:  # as mri-nufft's operators look
        shape = IMAGE

        def op(self, image):
            return np.fft.fft2(image, norm="ortho").ravel()

        def adj_op(self, values):
            return np.fft.ifft2(values.reshape(IMAGE), norm="ortho")

    operator = Nufft()
    b = np.stack([operator.op(frame) for frame in SERIES[:4]])
    A = sensing.as_sensing(operator, None, b)
    assert A.shape == (4, IMAGE[0] * IMAGE[1])
    np.testing.assert_allclose(A.apply(SERIES[:4].reshape(4, -1) + 0j), b.ravel(), atol=1e-5)
