"""Complex L and S: an independent optimum by CVXPY, bounds that are never above it, warnings, files."""

from __future__ import annotations

import warnings

import cvxpy
import numpy as np
import pytest

import rankwolf as rw
from rankwolf import sensing
from rankwolf.api.measured_weights import default_weights
from rankwolf.data.measurements import Measurements
from rankwolf.oracles import l1, nuclear

SHAPE = (4, 6)
pytestmark = pytest.mark.filterwarnings(
    "ignore:The (sparse|low-rank) part|The iteration limit:rankwolf.RankwolfWarning"
)
SLACK = 1e-5  # CVXPY's own accuracy, relative to the objective


def normal(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def coils(rng):
    return sensing.Sense(rng.random((4, 2, 3)) < 0.6, normal(rng, 3, 2, 3))


OPERATORS = {
    "sense": coils,
    "fourier": lambda rng: sensing.PartialFourier(rng.random((4, 2, 3)) < 0.8),
    "temporal": lambda rng: coils(rng) @ sensing.Temporal("fourier", SHAPE).inverse,
    "cosines": lambda rng: sensing.PartialDCT(rng.random(SHAPE) < 0.8),
    "matrix": lambda rng: sensing.LinearSensing(normal(rng, 15, 24), SHAPE),
}


def instance(kind, seed, delta=0.08):
    rng = np.random.default_rng(seed)
    A = OPERATORS[kind](rng)
    M = normal(rng, 4, 1) @ normal(rng, 1, 6) + np.where(
        rng.random(SHAPE) < 0.1, 5.0 * normal(rng, *SHAPE), 0.0
    )
    b = A.apply(M) + 0.05 * normal(rng, A.size)
    return b, A, default_weights(Measurements(b, A, dtype=complex), delta)


def matrix_of(A):
    return np.stack([A.apply(unit.reshape(A.shape)) for unit in np.eye(24) + 0j], axis=1)


def optimum(b, A, lambdas):
    L, S = cvxpy.Variable(SHAPE, complex=True), cvxpy.Variable(SHAPE, complex=True)
    residual = matrix_of(A) @ cvxpy.vec(L + S, order="C") - b
    penalty = lambdas[0] * cvxpy.normNuc(L) + lambdas[1] * cvxpy.sum(cvxpy.abs(S))
    problem = cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.sum_squares(residual) + penalty))
    with warnings.catch_warnings():  # of being inaccurate, which the tolerance below allows for
        warnings.simplefilter("ignore")
        problem.solve(solver=cvxpy.CLARABEL)
    # The objective of the point that it found: never below the optimum, whatever the solver says about itself.
    misfit = b - A.apply(L.value + S.value)
    norms = np.linalg.svd(L.value, compute_uv=False).sum(), np.abs(S.value).sum()
    return 0.5 * np.vdot(misfit, misfit).real + lambdas[0] * norms[0] + lambdas[1] * norms[1]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", OPERATORS)
def test_the_optimum_of_cvxpy(kind, seed):
    """Twenty problems. Ours is never worse by more than a millionth."""
    b, A, lambdas = instance(kind, seed)
    truth = optimum(b, A, lambdas)
    fit = rw.recover(b, A, lambdas=lambdas, dtype=complex, tol=1e-6, max_iter=20_000, rng=0)
    assert fit.status is rw.Status.GAP_REACHED and fit.gap_is_proved
    assert fit.low_rank.dtype == fit.sparse.dtype == np.complex128
    assert -SLACK <= fit.objective / truth - 1.0 <= 1.1e-6
    assert fit.objective - fit.gap <= truth * (1.0 + 1e-9)


@pytest.mark.parametrize(("method", "most"), [("fista", 1e-4), ("fw-t", 0.05), ("ista", 0.01)])
def test_other_methods_go_to_the_same_optimum(method, most):
    b, A, lambdas = instance("sense", 0)
    truth = optimum(b, A, lambdas)
    fit = rw.recover(b, A, lambdas=lambdas, method=method, tol=most, max_iter=2000, rng=0)
    assert truth * (1.0 - SLACK) <= fit.objective <= truth * (1.0 + most + SLACK)
    assert fit.objective - fit.gap <= truth * (1.0 + SLACK)


def test_radii_of_complex_parts():
    b, A, _ = instance("matrix", 1)
    fit = rw.recover(b, A, radii=(3.0, 4.0), dtype=complex, tol=1e-3, rng=0)
    assert fit.low_rank.nuclear_norm <= 3.0 * (1.0 + 1e-9)
    assert np.abs(np.asarray(fit.sparse)).sum() <= 4.0 * (1.0 + 1e-9)


def plain_optimum(b, A, lambdas, real, steps=300):
    """An objective near the optimum, by a FISTA that shares no code with the package."""
    K = matrix_of(A)
    lipschitz = 2.0 * np.linalg.norm(K, 2) ** 2
    x = y = np.zeros((2, *SHAPE), float if real else complex)
    t, best = 1.0, np.inf
    for _ in range(steps):
        gradient = (K.conj().T @ (b - K @ (y[0] + y[1]).ravel())).reshape(SHAPE) / lipschitz
        gradient = gradient.real if real else gradient
        u, s, vt = np.linalg.svd(y[0] + gradient, full_matrices=False)
        s = np.maximum(s - lambdas[0] / lipschitz, 0.0)
        target = y[1] + gradient
        size = np.abs(target)
        sparse = target * np.maximum(1.0 - lambdas[1] / lipschitz / np.maximum(size, 1e-300), 0.0)
        new = np.stack([(u * s) @ vt, sparse])
        following = (1.0 + (1.0 + 4.0 * t * t) ** 0.5) / 2.0
        y = new + (t - 1.0) / following * (new - x)
        x, t = new, following
        misfit = b - K @ (x[0] + x[1]).ravel()
        value = 0.5 * np.vdot(misfit, misfit).real + lambdas[0] * s.sum() + lambdas[1] * np.abs(sparse).sum()
        best = min(best, float(value))
    return best


@pytest.mark.parametrize("real", [True, False], ids=["real", "complex"])
@pytest.mark.parametrize("kind", ["fourier", "cosines", "sense", "matrix"])
def test_gaps_are_never_smaller_than_the_truth(kind, real):
    """25 problems each, 200 in all, stopped after a random number of iterations: no bound is above the optimum."""
    told = 0
    for seed in range(25):
        rng = np.random.default_rng([seed, 7])
        b, A, lambdas = instance(kind, seed, float(rng.choice([0.01, 0.05, 0.2])))
        b = b.real if real and kind == "cosines" else b
        fit = rw.recover(
            b, A, lambdas=lambdas, dtype=float if real else complex, tol=1e-4, max_iter=int(rng.integers(1, 60)),
            rng=seed, method=str(rng.choice(["auto", "auto", "fista"])),
        )  # fmt: skip
        best = plain_optimum(b, A, lambdas, real)
        assert fit.objective - fit.gap <= best * (1.0 + 1e-9)
        assert fit.objective >= best * (1.0 - 1e-2)  # and the reference is no straw man
        told += fit.relative_gap < 0.1
    assert told >= 5  # some of the bounds say something


class TestOracles:
    def test_shrinking_a_modulus_keeps_the_phase(self):
        x = normal(np.random.default_rng(0), 50)
        shrunk = l1.soft_threshold(x, 0.7)
        np.testing.assert_allclose(np.abs(shrunk), np.maximum(np.abs(x) - 0.7, 0.0), atol=1e-14)
        kept = shrunk != 0
        np.testing.assert_allclose(np.angle(shrunk[kept]), np.angle(x[kept]), atol=1e-12)

    def test_projection_is_the_nearest_point(self):
        """Moreau: x − P(x) makes its largest angle with P(x) among all points of the ball."""
        x = normal(np.random.default_rng(1), 30)
        near = l1.project(x, 4.0)
        assert np.abs(near).sum() == pytest.approx(4.0)
        assert np.vdot(x - near, near).real == pytest.approx(4.0 * np.abs(x - near).max())

    @pytest.mark.parametrize("shape", [(7, 9), (9, 7)])
    def test_singular_values_are_shrunk(self, shape):
        X = normal(np.random.default_rng(2), *shape)
        u, s, vt = np.linalg.svd(X, full_matrices=False)
        found, _ = nuclear.singular_value_threshold(X, 2.0)
        np.testing.assert_allclose(np.asarray(found), (u * np.maximum(s - 2.0, 0.0)) @ vt, atol=1e-12)

    @pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.float32, np.complex64])
    @pytest.mark.parametrize("shape", [(40, 200), (200, 40)])
    def test_a_warm_threshold_is_the_exact_one(self, shape, dtype):
        """Of matrices that change a little from call to call, and once a lot."""
        from rankwolf.oracles.subspace import WarmThreshold

        rng = np.random.default_rng(3)
        shrink, tolerance = WarmThreshold(shape, rng), 1e-2
        X = (normal(rng, shape[0], 4) @ normal(rng, 4, shape[1])).astype(complex)
        for change in (0.0, 0.1, 0.1, 3.0, 0.1):
            X = X + change * normal(rng, *shape) / 20.0
            given = (X if np.dtype(dtype).kind == "c" else X.real).astype(dtype)
            found = shrink(given, 6.0)
            exact, _ = nuclear.singular_value_threshold(given.astype(np.result_type(dtype, np.float64)), 6.0)
            assert found.rank == exact.rank and found.dtype == dtype
            assert np.abs(np.asarray(found) - np.asarray(exact)).max() <= tolerance * 6.0
            gram = found.vt @ found.vt.conj().T
            assert np.abs(gram - np.eye(found.rank)).max() <= 1e-4


class TestRealOrComplex:
    def fourier(self, phase):
        rng = np.random.default_rng(0)
        A = sensing.PartialFourier(rng.random((20, 6, 7)) < 0.4)
        M = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 42))
        return A, A.apply(M * np.exp(1j * phase * np.arange(42)))

    def test_real_parts_are_told_of_complex_measurements(self):
        A, b = self.fourier(0.3)
        with pytest.warns(rw.RankwolfWarning, match=r"imaginary part of A\*b holds \d+% .* dtype=complex"):
            rw.recover(b, A, tol=0.1, rng=0)

    def test_real_matrices_behind_a_mask_without_symmetry_are_no_reason_to_warn(self):
        A, b = self.fourier(0.0)
        assert np.linalg.norm(A.adjoint(b).imag) > 0.3 * np.linalg.norm(A.adjoint(b))
        fit = rw.recover(b, A, rng=0)  # warnings are errors here
        assert fit.low_rank.dtype == np.float64

    def test_who_says_so_is_not_told(self):
        A, b = self.fourier(0.3)
        assert rw.recover(b, A, dtype=complex, tol=0.1, rng=0).low_rank.dtype == np.complex128
        assert rw.recover(b, A, dtype=float, delta=0.01, tol=0.3, rng=0).low_rank.dtype == np.float64

    def test_complex_numbers_from_a_real_operator_call_for_complex_parts(self):
        A = sensing.PartialDCT.random(60, (8, 9), seed=0)
        M = np.outer(np.exp(1j * np.arange(8)), np.ones(9))
        fit = rw.recover(A.apply(M), A, delta=1e-3, rng=0)
        assert np.linalg.norm(np.asarray(fit.low_rank) + np.asarray(fit.sparse) - M) <= 0.05 * np.linalg.norm(
            M
        )
        with pytest.raises(ValueError, match="'b' parameter of recover must be real where"):
            rw.recover(A.apply(M), A, dtype=float)

    def test_dtype_is_checked(self):
        A, b = self.fourier(0.0)
        with pytest.raises(ValueError, match="'dtype' parameter of recover must be None, float"):
            rw.recover(b, A, dtype="int8")

    def test_saved_and_loaded(self, tmp_path):
        b, A, lambdas = instance("sense", 1)
        fit = rw.recover(b, A, lambdas=lambdas, rng=0)
        fit.save(tmp_path / "fit.npz")
        again = rw.load(tmp_path / "fit.npz")
        np.testing.assert_array_equal(np.asarray(again.low_rank), np.asarray(fit.low_rank))
        np.testing.assert_array_equal(np.asarray(again.sparse), np.asarray(fit.sparse))
        assert np.iscomplexobj(np.asarray(again.sparse))
