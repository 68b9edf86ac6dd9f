"""Series, masks, coil maps and k-space as people have them: in every order of axes, off the grid, through apertures."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from test_sensing import complex_matrix

import rankwolf as rw
from rankwolf import sensing


class TestShapesThatPeopleHave:
    """The same series, mask, maps and k-space in every order that is allowed."""

    def data(self):
        rng = np.random.default_rng(0)
        return rng.random((5, 6, 7)) < 0.5, complex_matrix(rng, (3, 6, 7)), complex_matrix(rng, (5, 42))

    @pytest.mark.parametrize("centred", [False, True])
    @pytest.mark.parametrize("time", ["first", "last"])
    def test_one_coil(self, time, centred):
        mask, _, X = self.data()
        axes = {"axes": (1, 2)}
        frames = X.reshape(5, 6, 7)
        k_space = np.fft.fft2(np.fft.ifftshift(frames, **axes) if centred else frames, norm="ortho")
        k_space = np.fft.fftshift(k_space, **axes) if centred else k_space
        if time == "last":
            mask, k_space = np.moveaxis(mask, 0, 2), np.moveaxis(k_space, 0, 2)
        A = sensing.PartialFourier(mask, time=time, centred=centred)
        np.testing.assert_allclose(A.as_vector(k_space), A.apply(X), atol=1e-12)

    @pytest.mark.parametrize("centred", [False, True])
    @pytest.mark.parametrize("time", ["first", "last"])
    def test_coils(self, time, centred):
        mask, maps, X = self.data()
        images = X.reshape(5, 1, 6, 7) * maps
        axes = {"axes": (2, 3)}
        k_space = np.fft.fft2(np.fft.ifftshift(images, **axes) if centred else images, norm="ortho")
        k_space = np.fft.fftshift(k_space, **axes) if centred else k_space
        if time == "last":
            mask, maps = np.moveaxis(mask, 0, 2), np.moveaxis(maps, 0, 2)
            k_space = np.moveaxis(k_space, (2, 3), (0, 1))
        A = sensing.Sense(mask, maps, time=time, centred=centred)
        np.testing.assert_allclose(A.as_vector(k_space), A.apply(X), atol=1e-12)

    def test_one_mask_for_all_frames(self):
        mask, _, X = self.data()
        A = sensing.PartialFourier(mask[0], frames=5)
        np.testing.assert_allclose(
            A.apply(X).reshape(5, -1)[3], sensing.PartialFourier(mask[:1]).apply(X[3:4])
        )

    def test_k_space_in_the_other_order_is_refused(self):
        mask, _, X = self.data()
        A = sensing.PartialFourier(mask)
        k_space = np.moveaxis(np.fft.fft2(X.reshape(5, 6, 7), norm="ortho"), 0, 2)
        with pytest.raises(
            ValueError, match=r"k-space of shape \(5, 6, 7\) \(time='first'\).* Got shape \(6, 7, 5\)"
        ):
            rw.recover(k_space, A)

    @pytest.mark.parametrize("coils", [1, 3])
    def test_non_cartesian_is_the_sum_that_it_says(self, coils):
        pytest.importorskip("finufft")
        _, maps, X = self.data()
        maps = maps[:coils]
        rng = np.random.default_rng(1)
        points = rng.uniform(-0.5, 0.5, (5, 2, 4, 2))
        A = sensing.NonCartesian(points, (6, 7), units="cycles", maps=maps)
        rows, columns = np.meshgrid(np.arange(6) - 3, np.arange(7) - 3, indexing="ij")
        waves = (
            np.exp(-2j * np.pi * (points[..., :1, None] * rows + points[..., 1:, None] * columns)) / 42**0.5
        )
        expected = np.einsum("tsjrc,tkrc->tksj", waves, X.reshape(5, 1, 6, 7) * maps)
        np.testing.assert_allclose(A.as_vector(expected), A.apply(X), atol=1e-8)
        radians = sensing.NonCartesian(2.0 * np.pi * points, (6, 7), units="radians", maps=maps)
        np.testing.assert_allclose(radians.apply(X), A.apply(X), atol=1e-8)
        y = complex_matrix(rng, A.size)
        assert abs(np.vdot(A.apply(X), y) - np.vdot(X, A.adjoint(y))) <= 1e-7 * np.linalg.norm(y)

    def test_positions_outside_of_the_middle_period_are_folded(self):
        pytest.importorskip("finufft")
        X = self.data()[2]
        points = np.random.default_rng(1).uniform(-0.5, 0.5, (5, 8, 2))
        middle, first = (sensing.NonCartesian(at, (6, 7), units="cycles") for at in (points, points % 1.0))
        np.testing.assert_allclose(first.apply(X), middle.apply(X), atol=1e-8)
        edge = np.full((5, 1, 2), 2.0 * np.pi, np.float32)  # a little above 2π
        assert sensing.NonCartesian(edge, (6, 7), units="radians").size == 5

    @pytest.mark.parametrize(("units", "one"), [("cycles", 1.0), ("radians", 2.0 * np.pi)])
    def test_positions_in_other_units_are_refused_with_the_limit(self, units, one):
        pytest.importorskip("finufft")
        with pytest.raises(
            ValueError, match=rf"within one period of the origin, from -{one:.3g} to {one:.3g}"
        ):
            sensing.NonCartesian(np.full((2, 5, 2), 1.2 * one), (4, 4), units=units)

    def test_without_finufft_the_remedy_is_named(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "finufft", None)
        words = r"This needs the package 'finufft'\. Install it with: pip install 'rankwolf\[mri\]'"
        with pytest.raises(ModuleNotFoundError, match=words):
            sensing.NonCartesian(np.zeros((2, 5, 2)), (4, 4), units="cycles")

    @pytest.mark.filterwarnings("ignore:The sparse part is zero")
    def test_a_radial_series_is_recovered(self):
        pytest.importorskip("finufft")
        angles = np.arange(12 * 9).reshape(12, 9, 1) * 0.618 * np.pi
        radius = np.linspace(-0.5, 0.5, 20, endpoint=False)
        points = np.stack([radius * np.sin(angles), radius * np.cos(angles)], axis=-1)
        A = sensing.NonCartesian(points, (12, 12), units="cycles")
        rows, columns = np.mgrid[-1:1:12j, -1:1:12j]
        truth = np.outer(np.linspace(1.0, 2.0, 12), np.exp(-3.0 * (rows**2 + 2.0 * columns**2)).ravel())
        fit = rw.recover(A.apply(truth).reshape(12, 9, 20), A, rng=0, tol=0.02, dtype=float)
        total = np.asarray(fit.low_rank) + np.asarray(fit.sparse)
        assert np.linalg.norm(total - truth) <= 0.05 * np.linalg.norm(truth)

    def test_pictures_through_a_coded_aperture(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((12, 30))
        masks = rng.random((4, 5, 6)) < 0.5
        A = sensing.CodedAperture(masks, snapshots=3)
        pictures = np.einsum(
            "shyx,hyx->syx", X.reshape(3, 4, 5, 6), masks
        )  # four frames through each picture
        np.testing.assert_allclose(A.as_vector(pictures), A.apply(X))

    def test_temporal_parts_come_back_as_series(self):
        T = sensing.Temporal("fourier", (5, 42))
        L = rw.LowRank.from_factors(
            *(complex_matrix(np.random.default_rng(0), (side, 2)) for side in (5, 42))
        )
        np.testing.assert_allclose(T.frames(L), np.fft.ifft(np.asarray(L), axis=0, norm="ortho"), atol=1e-12)
