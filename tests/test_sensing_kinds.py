"""Each kind of sensing operator by itself: what it measures, what it costs, what its constructor refuses."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.fft
from test_sensing import dense, some

from rankwolf import sensing


@pytest.mark.parametrize("size", [100, 500, 2000])
def test_gaussian_bound_is_10_to_20_percent_above_the_norm(size):
    A = sensing.Gaussian(size, (30, 40), seed=size, stored=True)
    assert 1.08 < A.norm / np.linalg.norm(dense(A), 2) < 1.22


def test_gaussian_needs_not_exist_at_once():
    rng, shape, size = np.random.default_rng(0), (20, 50), 12_000
    X, y = rng.standard_normal(shape), rng.standard_normal(size)
    generated = sensing.Gaussian(size, shape, seed=5)
    tracemalloc.start()
    forward, back = generated.apply(X), generated.adjoint(y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.75 * 8 * size * 1000
    stored = sensing.Gaussian(size, shape, seed=5, stored=True)
    np.testing.assert_allclose(stored.apply(X), forward, rtol=1e-12)
    np.testing.assert_allclose(stored.adjoint(y), back, rtol=1e-12, atol=1e-12)
    assert not np.allclose(sensing.Gaussian(10, shape, seed=6).apply(X), forward[:10])


def test_gaussian_entries_are_standard_normal_times_deviation():
    matrix = dense(sensing.Gaussian(300, (5, 20), seed=0, deviation=2.0))
    assert abs(matrix.mean()) < 0.05
    assert abs(matrix.std() - 2.0) < 0.05
    correlation = matrix @ matrix.T / (4.0 * 100)
    np.fill_diagonal(correlation, 0.0)
    assert np.abs(correlation).max() < 0.6


def test_gaussian_blocks_do_not_repeat():
    """One column of ten million numbers, which are not generated all at once."""
    column = sensing.Gaussian(100_000, (5, 20), seed=0).apply(np.eye(5, 20)[:1] * np.eye(5, 1))
    assert np.unique(column).size == column.size


@pytest.mark.parametrize("frame", [(4, 6), (5, 7), (4, 7), (5, 6), (1, 8), (8, 1)])
def test_fourier_is_numpys_transform_of_every_frame(frame):
    rng = np.random.default_rng(1)
    kept = some(rng, (3, *frame))
    X = rng.standard_normal((3, frame[0] * frame[1]))
    expected = np.fft.fft2(X.reshape(3, *frame), norm="ortho")[kept]
    A = sensing.PartialFourier(kept, time="first")
    np.testing.assert_allclose(A.apply(X), expected, atol=1e-12)
    np.testing.assert_allclose(A.apply(X + 0j), expected, atol=1e-12)


def test_cosines_are_orthonormal():
    A = sensing.PartialDCT.random(20, (6, 7), seed=0)
    np.testing.assert_allclose(dense(A) @ dense(A).T, np.eye(20), atol=1e-12)
    X = np.random.default_rng(0).standard_normal((6, 7))
    full = sensing.PartialDCT(np.ones((6, 7), bool))
    np.testing.assert_allclose(full.apply(X).reshape(6, 7), scipy.fft.dctn(X, norm="ortho"), atol=1e-12)


class TestOrthonormalize:
    @pytest.mark.parametrize("size", [3, 12, 30])
    def test_coordinates_of_the_projection(self, size):
        """From fewer measurements than entries to more of them, which depend on each other."""
        A = sensing.Gaussian(size, (3, 4), seed=size, deviation=1.0)
        Q = sensing.orthonormalize(A)
        rank = min(size, 12)
        assert Q.size == rank
        basis, rows = dense(Q), dense(A)
        np.testing.assert_allclose(basis @ basis.T, np.eye(rank), atol=1e-12)
        np.testing.assert_allclose(rows @ basis.T @ basis, rows, atol=1e-12)  # the same span
        X = np.random.default_rng(0).standard_normal((3, 4))
        np.testing.assert_allclose(Q.transform(A.apply(X)), Q.apply(X), atol=1e-11)

    def test_complex_measurements_become_real_ones(self):
        A = sensing.PartialFourier.random(9, 2, (3, 4), seed=0)
        Q = sensing.orthonormalize(A)
        assert Q.dtype == np.float64
        X = np.random.default_rng(0).standard_normal(A.shape)
        np.testing.assert_allclose(Q.transform(A.apply(X)), Q.apply(X), atol=1e-11)
        real = np.vstack([dense(A).real, dense(A).imag])
        assert Q.size == np.linalg.matrix_rank(real)

    def test_nearly_dependent_rows_stay_orthonormal(self):
        """Where classical Gram-Schmidt loses orthogonality."""
        rows = np.vander(np.linspace(0.9, 1.0, 8), 24)
        basis = dense(sensing.orthonormalize(sensing.LinearSensing(rows, (4, 6))))
        np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-12)

    def test_errors(self):
        with pytest.raises(
            ValueError, match="'sensing' parameter of orthonormalize must be an operator that"
        ):
            sensing.orthonormalize(sensing.LinearSensing(np.zeros((2, 6)), (2, 3)))
        Q = sensing.orthonormalize(sensing.Gaussian(4, (2, 3), seed=0))
        with pytest.raises(ValueError, match=r"'b' parameter of transform must be of shape \(4,\)"):
            Q.transform(np.zeros(5))
        with pytest.raises(ValueError, match="'b' parameter of transform must be finite"):
            Q.transform([0.0, 0.0, 0.0, np.nan])
        with pytest.raises(ValueError, match=r"'sensing' parameter of orthonormalize .* passes the dot-test"):
            sensing.orthonormalize((lambda X: X, lambda y: 2.0 * y), (2, 3))

    def test_takes_what_recover_takes(self):
        matrices, X = np.random.default_rng(0).standard_normal((5, 3, 4)), np.arange(12.0).reshape(3, 4)
        one, two = (
            sensing.orthonormalize(list(matrices)),
            sensing.orthonormalize(matrices.reshape(5, 12), (3, 4)),
        )
        np.testing.assert_allclose(one.apply(X), two.apply(X))

    def test_real_numbers_from_a_complex_operator(self):
        """Sums of frames are real: the imaginary half of b is there all the same."""
        A = sensing.PartialFourier(np.eye(1, 12, dtype=bool).reshape(1, 3, 4).repeat(2, axis=0))
        X = np.random.default_rng(0).standard_normal(A.shape)
        Q = sensing.orthonormalize(A)
        np.testing.assert_allclose(Q.transform(A.apply(X).real), Q.apply(X), atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sensing.Entries(np.ones((2, 3))), "'observed' parameter of Entries"),
        (lambda: sensing.Entries(np.zeros((2, 3), bool)), "at least one True"),
        (lambda: sensing.Gaussian(0, (2, 3), seed=0), "'size' parameter of Gaussian"),
        (lambda: sensing.Gaussian(3, (2, 3), seed=-1), "'seed' parameter of Gaussian"),
        (lambda: sensing.Gaussian(3, (2, 3), seed=0, deviation=0.0), "'deviation' parameter of Gaussian"),
        (lambda: sensing.Gaussian(3, (2, 3), seed=0, deviation="1"), "'deviation' parameter of Gaussian"),
        (lambda: sensing.PartialDCT.random(3.5, (2, 3), seed=0), "'size' parameter of random_mask"),
        (lambda: sensing.PartialDCT.random(3, (2, 3), seed="a"), "'seed' parameter of random_mask"),
        (lambda: sensing.PartialFourier.random(3, 0, (2, 3), seed=0), "'frames' parameter of PartialFourier"),
        (lambda: sensing.Stack([np.eye(6)]), r"at least one sensing operator. Got \['ndarray'\]"),
        (lambda: sensing.Gaussian(1, (2, 3), seed=0) @ np.ones((2, 3)), "'inner' parameter of Composition"),
        (lambda: sensing.PartialDCT(np.ones((2, 3, 4), bool)), "'kept' parameter of PartialDCT"),
        (lambda: sensing.PartialDCT.random(7, (2, 3), seed=0), "between 1 and 6"),
        (lambda: sensing.PartialFourier(np.ones((2, 3), bool)), "'frames' parameter of PartialFourier"),
        (lambda: sensing.PartialFourier(np.ones((2, 3, 4))), "'kept' parameter of PartialFourier .* made boolean by"),
        (lambda: sensing.PartialFourier(np.ones((2, 3, 4), bool), frames=4), "time='first' or time='last' says"),
        (lambda: sensing.PartialFourier(np.ones((2, 3, 4), bool), time="middle"), "'time' parameter"),
        (lambda: sensing.PartialFourier(np.ones((4, 4, 3), bool)), "which may be either"),
        (lambda: sensing.PartialFourier(np.ones((6, 5, 4), bool)), "which may be either"),
        (lambda: sensing.Sense(np.ones((4, 4, 4), bool), np.ones((2, 4, 4))), "which may be either"),
        (lambda: sensing.PartialFourier(np.ones((2, 3, 4), bool), centred=1), "'centred' parameter"),
        (lambda: sensing.Sense(np.ones((2, 3, 4), bool), np.ones((3, 4, 5))), "'maps' parameter of Sense"),
        (lambda: sensing.NonCartesian(np.ones((2, 5, 3)), (4, 4), units="cycles"), "'points' parameter"),
        (lambda: sensing.NonCartesian(np.full((2, 5, 2), 9.0), (4, 4), units="cycles"), "within one period"),
        (lambda: sensing.NonCartesian(np.zeros((2, 5, 2)), (4, 4), units="metres"), "'units' parameter"),
        (lambda: sensing.Temporal("wavelet", (3, 4)), "'kind' parameter of Temporal"),
        (lambda: sensing.CodedAperture(np.ones((2, 3))), "'masks' parameter of CodedAperture"),
        (lambda: sensing.CodedAperture(np.zeros((2, 3, 4))), "open somewhere"),
        (lambda: sensing.Weighting(np.ones(4), (2, 3)), "'weights' parameter of Weighting"),
        (lambda: sensing.Blocks([sensing.Entries(np.ones((2, 3), bool)), sensing.Entries(np.ones((2, 4), bool))]),
         "the same number of columns"),
        (lambda: sensing.Stack([]), "'parts' parameter of Stack"),
        (lambda: sensing.Stack([sensing.Gaussian(1, (2, 3), seed=0), sensing.Gaussian(1, (3, 2), seed=0)]),
         "matrices of one shape"),
        (lambda: sensing.Gaussian(1, (2, 3), seed=0) @ sensing.Gaussian(5, (2, 3), seed=0),
         "as many numbers as inner measures, 5"),
    ],
)  # fmt: skip
def test_constructor_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_stack_of_coils_has_the_norm_of_the_operator_for_coils():
    """The sum of the coils' own norms would be far above it, and make every step too short."""
    rng = np.random.default_rng(0)
    maps = rng.standard_normal((4, 6, 5)) + 1j * rng.standard_normal((4, 6, 5))
    kept = rng.random((7, 6, 5)) < 0.5
    one_coil = sensing.PartialFourier(kept, time="first")
    stack = sensing.Stack([one_coil @ sensing.Weighting(coil.ravel(), (7, 30)) for coil in maps])
    assert stack.norm == pytest.approx(sensing.Sense(kept, maps, time="first").norm)
    assert stack.norm < 0.7 * sum(np.abs(coil).max() for coil in maps)
