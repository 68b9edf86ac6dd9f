"""What users give as an operator: how it is converted, and the checks of its adjoint, linearity and norm."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from test_sensing import complex_matrix, pylops  # PyLops as it is imported there, without its warning

from rankwolf import sensing
from rankwolf.sensing import checks


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
            (np.ones((4, 6)), (2, "x"), "'shape' parameter"),
            (np.ones((4, 6)), (0, 3), "'shape' parameter"),
            ([], (2, 3), "a list of at least one matrix"),
            ([np.ones((2, 3)), np.ones((3, 2))], None, "a list of matrices of one shape"),
            ([np.ones(3)], None, "a list of matrices of one shape"),
            ([np.array([["a"]])], None, "a list of matrices of numbers"),
            (np.sin, (2, 3), "'sensing' parameter of recover must be an operator of rankwolf.sensing, SigPy"),
            ("A", (2, 3), "'sensing' parameter of recover must be an operator of rankwolf.sensing, SigPy"),
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

    def test_single_precision_passes_and_a_wrong_adjoint_in_it_does_not(self):
        matrix = np.random.default_rng(0).standard_normal((50, 60)).astype(np.float32)
        A = sensing.as_sensing(
            (lambda X: matrix @ X.astype(np.float32).ravel(), lambda y: matrix.T @ y), (6, 10)
        )
        checks.check_linear(A)
        wrong = sensing.as_sensing(
            (lambda X: matrix @ X.astype(np.float32).ravel(), lambda y: 1.01 * matrix.T @ y), (6, 10)
        )
        with pytest.raises(ValueError, match="dot-test"):
            checks.check_linear(wrong)

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


@given(st.integers(0, 10**6), st.sampled_from([1.0, 1.001, 1.1, 2.0]), st.integers(1, 400))
def test_norm_estimate_on_hard_spectra(seed, ratio, followers):
    """One large value just above many others is what a power method misses."""
    values = np.full(400, 1.0)
    values[:followers] = 1.0 / ratio
    values[np.random.default_rng(seed).integers(400)] = 1.0
    A = sensing.LinearSensing(scipy.sparse.diags_array(values), (20, 20))
    assert 1.0 <= checks.estimate_norm(A) <= 1.03
