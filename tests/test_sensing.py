"""Every sensing operator: dot-tests, structure against the dense answer, norms that are never too small."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwolf import sensing
from rankwolf.data.measurements import Measurements
from rankwolf.sensing import as_sensing, checks

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


def test_the_bound_of_each_measurement_follows_where_samples_crowd():
    """Of two functions nothing is known; AA* ≼ diag(d) all the same, and d is small where few samples are."""
    rng = np.random.default_rng(0)
    places = np.sort(np.concatenate([rng.uniform(-0.05, 0.05, 60), rng.uniform(-0.5, 0.5, 30)]))
    E = np.exp(-2j * np.pi * places[:, None] * np.arange(-10, 10)) / 20**0.5
    pair = (lambda x: x @ E.T, lambda y: y.reshape(3, -1) @ E.conj())
    A = as_sensing(pair, (3, 20))
    data = Measurements(A.apply(rng.standard_normal((3, 20)) + 0j), A, dtype=complex)
    bounds = data.row_bound.reshape(3, -1)[0]
    scaled = E / np.sqrt(bounds)[:, None]
    assert np.linalg.norm(scaled, 2) <= 1.0 + 1e-9
    assert bounds.max() / bounds.min() > 3.0
    assert np.sum(np.abs(scaled) ** 2) > 1.5 * np.sum(np.abs(E) ** 2) / np.linalg.norm(E, 2) ** 2
