"""Every sensing operator: dot-tests, structure against the dense answer, norms that are never too small, errors."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.fft
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import rankwolf as rw
from rankwolf import sensing
from rankwolf.sensing import checks, gaussian

with warnings.catch_warnings():  # PyLops looks for a CUDA device when it is imported
    warnings.simplefilter("ignore")
    import pylops


def some(rng, shape, share=0.5):
    mask = rng.random(shape) < share
    mask.flat[0] = True
    return mask


def complex_matrix(rng, shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def fourier(rng, m, n):
    """Frames of every parity that n allows."""
    return sensing.PartialFourier(some(rng, (m, *frame_of(n))), time="first")


def frame_of(n):
    height = max(h for h in range(1, n + 1) if n % h == 0 and h * h <= n)
    return height, n // height


def coil_maps(rng, n):
    return complex_matrix(rng, (3, *frame_of(n)))


def functions(rng, m, n):
    left, right = rng.standard_normal((3, m)), rng.standard_normal((n, 2))
    return sensing.as_sensing(
        (lambda X: left @ X @ right, lambda y: left.T @ y.reshape(3, 2) @ right.T), (m, n)
    )


OPERATORS = {
    "entries": lambda rng, m, n: sensing.Entries(some(rng, (m, n))),
    "gaussian": lambda rng, m, n: sensing.Gaussian(2 * m, (m, n), seed=int(rng.integers(1000))),
    "gaussian stored": lambda rng, m, n: sensing.Gaussian(3, (m, n), seed=1, deviation=1.0, stored=True),
    "cosines": lambda rng, m, n: sensing.PartialDCT(some(rng, (m, n))),
    "fourier": fourier,
    "dense": lambda rng, m, n: sensing.LinearSensing(rng.standard_normal((5, m * n)), (m, n)),
    "complex dense": lambda rng, m, n: sensing.LinearSensing(complex_matrix(rng, (5, m * n)), (m, n)),
    "sparse": lambda rng, m, n: sensing.LinearSensing(
        scipy.sparse.random_array((6, m * n), density=0.4, rng=rng, format="csr"), (m, n)
    ),
    "matrices": lambda rng, m, n: sensing.sensing_matrices(list(rng.standard_normal((4, m, n)))),
    "functions": functions,
    "pylops": lambda rng, m, n: sensing.LinearSensing(
        pylops.MatrixMult(rng.standard_normal((4, m * n))) * pylops.FirstDerivative(m * n), (m, n)
    ),
    "pylops fourier": lambda rng, m, n: sensing.LinearSensing(
        pylops.signalprocessing.FFT2D(dims=(m, n), dtype=np.complex128), (m, n)
    ),
    "stack": lambda rng, m, n: sensing.Stack([fourier(rng, m, n), sensing.PartialDCT(some(rng, (m, n)))]),
    "composition": lambda rng, m, n: sensing.LinearSensing(rng.standard_normal((3, m * n)), (m, n))
    @ sensing.PartialDCT(np.ones((m, n), bool)),
    "complex composition": lambda rng, m, n: fourier(rng, m, n)
    @ sensing.LinearSensing(np.diag(complex_matrix(rng, m * n)), (m, n)),
    "weighting": lambda rng, m, n: sensing.Weighting(complex_matrix(rng, n), (m, n)),
    "sense": lambda rng, m, n: sensing.Sense(fourier(rng, m, n).mask, coil_maps(rng, n), time="first"),
    "sense in time": lambda rng, m, n: sensing.Sense(fourier(rng, m, n).mask, coil_maps(rng, n), time="first")
    @ sensing.Temporal("fourier", (m, n)).inverse,
    "centred": lambda rng, m, n: sensing.PartialFourier(fourier(rng, m, n).mask, time="first", centred=True),
    "cosines in time": lambda rng, m, n: fourier(rng, m, n) @ sensing.Temporal("cosine", (m, n)).inverse,
    "coils as a stack": lambda rng, m, n: sensing.Stack(
        [fourier(rng, m, n) @ sensing.Weighting(coil.ravel(), (m, n)) for coil in coil_maps(rng, n)]
    ),
    "blocks": lambda rng, m, n: sensing.Blocks([fourier(rng, 2, n), sensing.Entries(some(rng, (m, n)))]),
    "coded aperture": lambda rng, m, n: sensing.CodedAperture(rng.random((m, *frame_of(n))) + 0.1, snapshots=2),
    "orthonormal": lambda rng, m, n: sensing.orthonormalize(sensing.Gaussian(4, (m, n), seed=3)),
}  # fmt: skip
operators = pytest.mark.parametrize("make", OPERATORS.values(), ids=OPERATORS.keys())
sizes = st.tuples(st.integers(1, 7), st.integers(1, 12), st.integers(0, 10**6))


def close(x, y, scale):
    return abs(x - y) <= 1e-11 * (scale + 1e-300)


def vector(rng, A):
    y = rng.standard_normal(A.size)
    return y + 1j * rng.standard_normal(A.size) if A.dtype.kind == "c" else y


def dense(A):
    """The p × mn matrix of an operator."""
    m, n = A.shape
    return np.stack([A.apply(unit.reshape(m, n)) for unit in np.eye(m * n)], axis=1)


def spectral_norm(A):
    """‖A‖ on real matrices."""
    matrix = dense(A)
    return np.linalg.norm(np.vstack([matrix.real, matrix.imag]), 2)


@operators
@settings(max_examples=15)
@given(sizes)
def test_dot_test(make, size):
    """⟨A[X], y⟩ = ⟨X, A*y⟩ for complex X, and Re⟨A[X], y⟩ = ⟨X, Re A*y⟩ for real X."""
    m, n, seed = size
    rng = np.random.default_rng(seed)
    A = make(rng, m, n)
    m, n = A.shape
    y, X = vector(rng, A), rng.standard_normal((m, n))
    back = A.adjoint(y)
    assert back.shape == (m, n)
    assert A.apply(X).shape == (A.size,)
    scale = np.linalg.norm(A.apply(X)) * np.linalg.norm(y) + np.linalg.norm(X) * np.linalg.norm(back)
    assert close(np.vdot(A.apply(X), y).real, np.vdot(X, A.real_adjoint(y)), scale)
    assert np.isrealobj(A.real_adjoint(y))
    Z = X + 1j * rng.standard_normal((m, n))
    scale = np.linalg.norm(A.apply(Z)) * np.linalg.norm(y) + np.linalg.norm(Z) * np.linalg.norm(back)
    assert close(np.vdot(A.apply(Z), y), np.vdot(Z, back), scale)


@operators
@settings(max_examples=10)
@given(sizes)
def test_structure_agrees_with_the_dense_matrix(make, size):
    m, n, seed = size
    rng = np.random.default_rng(seed)
    A = make(rng, m, n)
    m, n = A.shape
    left, right, y = rng.standard_normal((m, 2)), rng.standard_normal((n, 2)), vector(rng, A)
    np.testing.assert_allclose(A.apply_factors(left, right), A.apply(left @ right.T), atol=1e-11)
    G = A.real_adjoint(y)
    np.testing.assert_allclose(G, A.adjoint(y).real, atol=1e-11)
    products = A.adjoint_products(y)
    if products is not None:
        np.testing.assert_allclose(products.times(right), G @ right, atol=1e-10)
        np.testing.assert_allclose(products.transposed_times(left), G.T @ left, atol=1e-10)


def test_operators_that_have_structure_say_so():
    rng = np.random.default_rng(0)
    names = [name for name, make in OPERATORS.items()
             if (A := make(rng, 4, 6)).adjoint_products(vector(rng, A)) is not None]  # fmt: skip
    assert names == ["entries", "cosines", "fourier", "stack", "composition", "centred"]


@operators
@settings(max_examples=10)
@given(sizes)
def test_norms_are_never_too_small(make, size):
    """Known or estimated, the bound is at least ‖A‖; an estimate is at most 3 % above it."""
    m, n, seed = size
    A = make(np.random.default_rng(seed), m, n)
    truth = spectral_norm(A)
    if A.norm is not None:
        assert A.norm >= truth * (1.0 - 1e-12)
    estimate = checks.estimate_norm(A)
    assert truth * (1.0 - 1e-12) <= estimate <= 1.03 * truth + 1e-300


@operators
@settings(max_examples=10)
@given(sizes)
def test_what_operators_say_about_their_rows_and_columns(make, size):
    """AA* ≼ diag(d) for real and for complex matrices, A*A ≼ diag(e), and AA* = c·I where it is claimed."""
    m, n, seed = size
    A = make(np.random.default_rng(seed), m, n)
    full = dense(A)
    real = np.vstack([full.real, full.imag])

    def is_below(gram, bound):
        gap = np.diag(np.broadcast_to(np.ravel(bound), len(gram))) - gram
        return np.linalg.eigvalsh(gap)[0] >= -1e-10 * (1.0 + np.abs(gram).max())

    d, d_real, e = A.row_bound(real=False), A.row_bound(real=True), A.column_bound()
    assert d is None or is_below(full @ full.conj().T, d)
    assert d_real is None or is_below(real @ real.T, np.tile(np.broadcast_to(d_real, A.size), 2))
    assert e is None or is_below(full.conj().T @ full, np.broadcast_to(e, A.shape))
    if A.semi_orthogonal is not None:
        np.testing.assert_allclose(full @ full.conj().T, A.semi_orthogonal * np.eye(A.size), atol=1e-10)


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
        given = expected if coils > 1 else expected[:, 0]
        np.testing.assert_allclose(A.as_vector(given), A.apply(X), atol=1e-8)
        radians = sensing.NonCartesian(2.0 * np.pi * points, (6, 7), units="radians", maps=maps)
        np.testing.assert_allclose(radians.apply(X), A.apply(X), atol=1e-8)
        y = complex_matrix(rng, A.size)
        assert abs(np.vdot(A.apply(X), y) - np.vdot(X, A.adjoint(y))) <= 1e-7 * np.linalg.norm(y)

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
        A = sensing.CodedAperture(rng.random((4, 5, 6)) < 0.5, snapshots=3)
        X = rng.standard_normal((12, 30))
        np.testing.assert_allclose(A.as_vector(A.apply(X).reshape(3, 5, 6)), A.apply(X))

    def test_temporal_parts_come_back_as_series(self):
        T = sensing.Temporal("fourier", (5, 42))
        L = rw.LowRank.from_factors(
            *(complex_matrix(np.random.default_rng(0), (side, 2)) for side in (5, 42))
        )
        np.testing.assert_allclose(T.frames(L), np.fft.ifft(np.asarray(L), axis=0, norm="ortho"), atol=1e-12)


@given(st.integers(0, 10**6), st.sampled_from([1.0, 1.001, 1.1, 2.0]), st.integers(1, 400))
def test_norm_estimate_on_hard_spectra(seed, ratio, followers):
    """One large value just above many others is what a power method misses."""
    values = np.full(400, 1.0)
    values[:followers] = 1.0 / ratio
    values[np.random.default_rng(seed).integers(400)] = 1.0
    A = sensing.LinearSensing(scipy.sparse.diags_array(values), (20, 20))
    assert 1.0 <= checks.estimate_norm(A) <= 1.03


@pytest.mark.parametrize("size", [100, 500, 2000])
def test_gaussian_bound_is_10_to_20_percent_above_the_norm(size):
    A = sensing.Gaussian(size, (30, 40), seed=size, stored=True)
    assert 1.08 < A.norm / np.linalg.norm(A._stored, 2) < 1.22


def test_gaussian_needs_not_exist_at_once(monkeypatch):
    monkeypatch.setattr(gaussian, "BLOCK_NUMBERS", 20_000)
    rng, shape = np.random.default_rng(0), (20, 50)
    X, y = rng.standard_normal(shape), rng.standard_normal(700)
    generated = sensing.Gaussian(700, shape, seed=5)
    tracemalloc.start()
    forward, back = generated.apply(X), generated.adjoint(y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.15 * 8 * 700 * 1000
    stored = sensing.Gaussian(700, shape, seed=5, stored=True)
    np.testing.assert_allclose(stored.apply(X), forward, rtol=1e-12)
    np.testing.assert_allclose(stored.adjoint(y), back, rtol=1e-12, atol=1e-12)
    assert not np.allclose(sensing.Gaussian(700, shape, seed=6).apply(X), forward)


def test_gaussian_entries_are_standard_normal_times_deviation(monkeypatch):
    monkeypatch.setattr(gaussian, "BLOCK_NUMBERS", 3_000)  # ten blocks, which must not repeat
    matrix = dense(sensing.Gaussian(300, (5, 20), seed=0, deviation=2.0))
    assert abs(matrix.mean()) < 0.05
    assert abs(matrix.std() - 2.0) < 0.05
    correlation = matrix @ matrix.T / (4.0 * 100)
    np.fill_diagonal(correlation, 0.0)
    assert np.abs(correlation).max() < 0.6


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


class TestConversions:
    def test_list_of_matrices_is_the_papers_inner_products(self):
        rng = np.random.default_rng(0)
        matrices, X = rng.standard_normal((5, 3, 4)), rng.standard_normal((3, 4))
        expected = [np.trace(X.T @ A_k) for A_k in matrices]
        as_sparse = [scipy.sparse.csr_array(A_k) for A_k in matrices]
        mixed = [as_sparse[0], *matrices[1:]]
        for given_as in (list(matrices), matrices, as_sparse, mixed):
            np.testing.assert_allclose(sensing.as_sensing(given_as).apply(X), expected)

    def test_everything_that_scipy_takes(self):
        rng = np.random.default_rng(0)
        matrix, X = rng.standard_normal((5, 12)), rng.standard_normal((3, 4))
        for operator in (
            matrix,
            scipy.sparse.csr_array(matrix),
            aslinearoperator(matrix),
            pylops.MatrixMult(matrix),
        ):
            np.testing.assert_allclose(sensing.as_sensing(operator, (3, 4)).apply(X), matrix @ X.ravel())

    def test_operators_keep_their_shape(self):
        A = sensing.Gaussian(4, (2, 3), seed=0)
        assert sensing.as_sensing(A) is A
        with pytest.raises(
            ValueError, match=r"'shape' parameter of recover must be that .* \(2, 3\). Got \(3, 2\)"
        ):
            sensing.as_sensing(A, (3, 2))

    @pytest.mark.parametrize(
        ("given_as", "shape", "message"),
        [
            (np.ones((4, 7)), (2, 3), r"an operator on 6 numbers.*Got one of shape \(4, 7\)"),
            (np.ones((4, 6)), None, "'shape' parameter of recover must be given"),
            (np.ones((4, 6)), (2, 3.5), "'shape' parameter"),
            (np.ones((4, 6)), (0, 3), "'shape' parameter"),
            ([], (2, 3), "a list of at least one matrix"),
            ([np.ones((2, 3)), np.ones((3, 2))], None, "a list of matrices of one shape"),
            ([np.ones(3)], None, "a list of matrices of one shape"),
            ([np.array([["a"]])], None, "a list of matrices of numbers"),
            (np.sin, (2, 3), "'sensing' parameter of recover must be a rankwolf.sensing operator"),
            ("A", (2, 3), "'sensing' parameter of recover must be a rankwolf.sensing operator"),
            ((np.sin,), (2, 3), "Got a tuple of 1"),
            ((lambda X: X.sum(), lambda y: np.ones(5)), (2, 3), "whose second function gives a 2 × 3 matrix"),
            ((lambda X: None, lambda y: y), (2, 3), "whose first function gives numbers"),
            (np.ones((4, 6)), (np.inf, 3), "'shape' parameter"),
        ],
    )
    def test_errors(self, given_as, shape, message):
        with pytest.raises(ValueError, match=message):
            checks.check_linear(sensing.as_sensing(given_as, shape))


class TestChecks:
    def test_wrong_adjoint_shows_both_numbers(self):
        matrix = np.random.default_rng(0).standard_normal((5, 6))
        wrong = LinearOperator((5, 6), matvec=lambda x: matrix @ x, rmatvec=lambda y: 1.001 * matrix.T @ y)
        with pytest.raises(ValueError, match=r"passes the dot-test.* Got -?[\d.]+ and -?[\d.]+ instead"):
            checks.check_linear(sensing.LinearSensing(wrong, (2, 3)))

    def test_conjugate_forgotten(self):
        matrix = complex_matrix(np.random.default_rng(0), (5, 6))
        wrong = LinearOperator(
            (5, 6), lambda x: matrix @ x, rmatvec=lambda y: matrix.T @ y, dtype=np.complex128
        )
        with pytest.raises(ValueError, match="dot-test"):
            checks.check_linear(sensing.LinearSensing(wrong, (2, 3)))

    def test_no_adjoint(self):
        forward_only = LinearOperator((5, 6), matvec=lambda x: x[:5], dtype=np.float64)
        with pytest.raises(ValueError, match="an operator with an adjoint"):
            checks.check_linear(sensing.LinearSensing(forward_only, (2, 3)))

    @pytest.mark.parametrize("function", [np.abs, lambda x: x + 1.0, lambda x: x * x])
    def test_not_linear(self, function):
        A = sensing.as_sensing((lambda X: function(X), lambda y: y.reshape(2, 3)), (2, 3))
        with pytest.raises(ValueError, match="must be linear"):
            checks.check_linear(A)

    def test_not_finite(self):
        A = sensing.as_sensing((lambda X: X * np.nan, lambda y: y.reshape(2, 3)), (2, 3))
        with pytest.raises(ValueError, match="with finite values"):
            checks.check_linear(A)

    def test_single_precision_passes(self):
        matrix = np.random.default_rng(0).standard_normal((50, 60)).astype(np.float32)
        A = sensing.as_sensing(
            (lambda X: matrix @ X.astype(np.float32).ravel(), lambda y: matrix.T @ y), (6, 10)
        )
        checks.check_linear(A)

    def test_functions_may_overwrite_what_they_are_given_and_reuse_an_array(self):
        result = np.empty(6)

        def double(X):
            X *= 2.0
            result[:] = X.ravel()
            return result

        X = np.arange(6.0).reshape(2, 3)
        A = sensing.as_sensing((double, double), (2, 3))
        checks.check_linear(A)
        first = A.apply(X)
        A.apply(np.ones((2, 3)))
        np.testing.assert_array_equal(first, 2.0 * np.arange(6.0))
        np.testing.assert_array_equal(X.ravel(), np.arange(6.0))

    def test_given_norm_below_the_truth(self):
        A = sensing.LinearSensing(np.diag([3.0, 1.0, 1.0, 1.0]), (2, 2))
        with pytest.raises(
            ValueError, match=r"'norm' parameter of recover must be an upper bound.*at least 3\."
        ):
            checks.check_norm(A, 2.9)
        assert checks.check_norm(A, 3.1) == 3.1


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
