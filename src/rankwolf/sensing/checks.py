"""Is it linear, is the adjoint its adjoint, and how large is it? A few products each."""

from __future__ import annotations

from math import log

import numpy as np
import scipy.linalg

from rankwolf.sensing.base import SCALE, Array, Sensing, bad

# A relative error of inner products that rounding does not reach, but an adjoint of something else does.
TOLERANCE = {"single": 1e-5, "double": 1e-6}
# The norm's estimate is below the truth with at most this probability; the cost grows with its logarithm.
NORM_FAILURE = 1e-10
NORM_MARGIN = 0.05
GIVEN_NORM_STEPS = 10


def inner(x: Array, y: Array) -> float:
    """Re⟨x, y⟩."""
    return float(np.vdot(x, y).real)


def check_linear(sensing: Sensing, where: str = "recover") -> None:
    """A[X + 2Z] = A[X] + 2A[Z], and Re⟨A[X], y⟩ = ⟨X, Re A*y⟩, for random X, Z, y: three products and one."""
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((2, *sensing.shape))
    y = rng.standard_normal(sensing.size).astype(sensing.dtype)
    if sensing.dtype.kind == "c":
        y = y + 1j * rng.standard_normal(sensing.size)
    image, other, both = sensing.apply(x), sensing.apply(z), sensing.apply(x + 2.0 * z)
    single = image.dtype in (np.dtype(np.float32), np.dtype(np.complex64))
    tolerance = TOLERANCE["single" if single else "double"]
    if not np.all(np.isfinite(image)):
        raise bad("sensing", "an operator with finite values", "NaN or infinity for a random matrix", where)
    if not np.any(image):
        raise bad("sensing", "an operator that measures something", "zeros for a random matrix", where)
    largest = float(np.max(np.abs(image)))
    if not SCALE[0] <= largest <= SCALE[1]:
        raise bad("sensing", f"an operator of a scale between {SCALE[0]:g} and {SCALE[1]:g}",
                  f"{largest:.3g} from a matrix with entries of about 1", where,
                  "Multiply A and b by a constant first.")  # fmt: skip
    distance = float(np.linalg.norm(both - image - 2.0 * other))
    size = float(np.linalg.norm(image) + 2.0 * np.linalg.norm(other))
    if distance > tolerance * size:
        got = f"A(X + 2Z) that differs from A(X) + 2A(Z) by {distance / size:.2g} of their norm"
        raise bad("sensing", "linear", got, where, "Subtract A(0) from b if the function is affine.")
    back = sensing.real_adjoint(y)
    forward_product, back_product = inner(image, y), inner(x, back)
    scale = max(
        float(np.linalg.norm(image) * np.linalg.norm(y)), float(np.linalg.norm(x) * np.linalg.norm(back))
    )
    # Written so that NaN fails.
    if not abs(forward_product - back_product) <= tolerance * scale:
        raise bad("sensing", "an operator whose adjoint passes the dot-test, Re⟨A[X], y⟩ = ⟨X, A*y⟩",
                  f"{forward_product:.10g} and {back_product:.10g}", where,
                  "rmatvec (or the second function) is not the adjoint of the first.")  # fmt: skip


def largest_ritz_value(sensing: Sensing, steps: int) -> tuple[float, bool]:
    """The largest Ritz value of A*A after ``steps`` Lanczos steps from a random matrix, and whether the space is full.

    Never above ‖A‖² but for rounding. Three vectors are kept: without orthogonalisation, extreme values only repeat.
    """
    rng = np.random.default_rng(0)
    vector = rng.standard_normal(sensing.shape)
    vector /= np.linalg.norm(vector)
    previous, beta = np.zeros_like(vector), 0.0
    alphas, betas = list[float](), list[float]()
    for _ in range(min(steps, vector.size)):
        product = sensing.real_adjoint(sensing.apply(vector))
        alpha = inner(vector, product)
        product = product - alpha * vector - beta * previous
        alphas.append(alpha)
        beta = float(np.linalg.norm(product))
        if beta <= 1e-13 * max(alphas):
            break
        betas.append(beta)
        previous, vector = vector, product / beta
    value = scipy.linalg.eigvalsh_tridiagonal(np.array(alphas), np.array(betas[: len(alphas) - 1]))[-1]
    return max(float(value), 0.0), len(betas) < len(alphas)


def estimate_norm(sensing: Sensing) -> float:
    """An upper bound on ‖A‖, about 2.5 % above the truth, that holds with probability 1 − 1e-10 over the random start.

    Lanczos values are below ‖A‖². How far they can be is known (Kuczyński and Woźniakowski, 1992): after k steps on a
    matrix of order d the relative error exceeds ε with probability at most 1.648·√d·exp(−√ε(2k − 1)), whatever the
    spectrum. About 65 products with A and with A*; memory three matrices.
    """
    order = sensing.shape[0] * sensing.shape[1]
    exponent = log(1.648 * order**0.5 / NORM_FAILURE)
    steps = int(0.5 * (exponent / NORM_MARGIN**0.5 + 1.0)) + 1
    value, complete = largest_ritz_value(sensing, steps)
    # A space that nothing leaves holds the largest value itself; what is left is rounding, maybe in single precision.
    margin = 1e-4 if complete or steps >= order else NORM_MARGIN
    return float((value / (1.0 - margin)) ** 0.5)


def check_norm(sensing: Sensing, norm: float) -> float:
    """A norm that was given must not be below what ten Lanczos steps find."""
    least = largest_ritz_value(sensing, GIVEN_NORM_STEPS)[0] ** 0.5
    if norm < least * (1.0 - 1e-9):
        rule = f"an upper bound on the operator's norm, which is at least {least:.6g}"
        raise bad("norm", rule, repr(norm), "recover", "Leave it out to have it estimated.")
    return norm
