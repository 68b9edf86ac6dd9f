"""Checks of an operator and of b: by a few products, whether A is linear, A* its adjoint, its norm, b complex."""

from __future__ import annotations

import warnings
from math import log
from typing import Any

import numpy as np
import scipy.linalg

from rankwolf.ground.arrays import Array, inner, to_numpy
from rankwolf.ground.complaints import RankwolfWarning, bad, check_scale_of
from rankwolf.sensing.base import SCALE, Sensing

# The relative error that tests of linearity and of the adjoint allow: above rounding, far below a wrong adjoint's.
TOLERANCE = {"single": 1e-5, "double": 1e-6}
# The probability that the estimated norm is below the true one, and the relative error of the square that is allowed
# for. The number of products grows with the logarithm of one over the first.
NORM_FAILURE = 1e-10
NORM_MARGIN = 0.05
GIVEN_NORM_STEPS = 10
# If real matrices leave more than this share of the energy of b unexplained, users of real L and S are warned.
UNEXPLAINED = 0.05
REAL_STEPS = 4


def random_matrix(rng: np.random.Generator, shape: tuple[int, ...], real: bool) -> Array:
    """Independent standard normal entries; complex unless ``real``."""
    entries = rng.standard_normal(shape)
    return entries if real else entries + 1j * rng.standard_normal(shape)


def check_linear(sensing: Sensing, where: str = "recover", real: bool = True) -> None:
    """Raise unless A[X + cZ] = A[X] + cA[Z] and Re⟨A[X], y⟩ = Re⟨X, A*y⟩ for random X, Z and y.

    c is 2 where X and Z are ``real``, and 2 + i otherwise. Cost: three products with A and one with A*.
    """
    rng = np.random.default_rng(0)
    x, z = random_matrix(rng, (2, *sensing.shape), real)
    factor: complex = 2.0 if real else 2.0 + 1.0j
    y = rng.standard_normal(sensing.size).astype(sensing.dtype)
    if sensing.dtype.kind == "c" or not real:
        y = y + 1j * rng.standard_normal(sensing.size)
    image, other, both = sensing.apply(x), sensing.apply(z), sensing.apply(x + factor * z)
    if np.shape(image) != (sensing.size,):
        got = f"shape {np.shape(image)}"
        raise bad("sensing", f"an operator whose apply gives a vector of size={sensing.size}", got, where)
    single = image.dtype in (np.dtype(np.float32), np.dtype(np.complex64))
    tolerance = TOLERANCE["single" if single else "double"]
    if not np.all(np.isfinite(image)):
        raise bad("sensing", "an operator with finite values", "NaN or infinity for a random matrix", where)
    if not np.any(image):
        raise bad("sensing", "an operator that measures something", "zeros for a random matrix", where)
    largest = float(np.max(np.abs(image)))
    if not SCALE[0] <= largest <= SCALE[1]:
        raise bad(
            "sensing",
            f"an operator of a scale between {SCALE[0]:g} and {SCALE[1]:g}",
            f"{largest:.3g} from a matrix with entries of about 1",
            where,
            "Multiply A and b by a constant first.",
        )
    distance = float(np.linalg.norm(both - image - factor * other))
    size = float(np.linalg.norm(image) + abs(factor) * np.linalg.norm(other))
    if distance > tolerance * size:
        c = "2" if real else "(2 + i)"
        got = f"A(X + {c}Z) that differs from A(X) + {c}A(Z) by {distance / size:.2g} of their norm"
        raise bad("sensing", "linear", got, where, "Subtract A(0) from b if the function is affine.")
    returned = sensing.adjoint_on(y, real)
    if np.shape(returned) != sensing.shape:
        got = f"shape {np.shape(returned)}"
        raise bad("sensing", f"an operator whose adjoint gives a matrix of shape {sensing.shape}", got, where)
    forward_product, back_product = inner(image, y), inner(x, returned)
    scale = max(
        float(np.linalg.norm(image) * np.linalg.norm(y)), float(np.linalg.norm(x) * np.linalg.norm(returned))
    )
    # Written so that NaN fails.
    if not abs(forward_product - back_product) <= tolerance * scale:
        raise bad(
            "sensing",
            "an operator whose adjoint passes the dot-test, Re⟨A[X], y⟩ = ⟨X, A*y⟩",
            f"{forward_product:.10g} and {back_product:.10g}",
            where,
            "rmatvec (or the second function) is not the adjoint of the first.",
        )


def largest_ritz_value(sensing: Sensing, steps: int, real: bool = True) -> tuple[float, bool]:
    """The largest Ritz value of A*A after ``steps`` Lanczos steps from a random matrix, and whether it is exact.

    Apart from rounding it is never above ‖A‖², and it is exact where the process ended early. Memory: three matrices.
    The vectors are not orthogonalised again; that makes large Ritz values appear twice, but does not change them.
    """
    rng = np.random.default_rng(0)
    vector = random_matrix(rng, sensing.shape, real)
    vector /= np.linalg.norm(vector)
    previous, beta = np.zeros_like(vector), 0.0
    alphas, betas = list[float](), list[float]()
    for _ in range(min(steps, vector.size)):
        product = sensing.adjoint_on(sensing.apply(vector), real)
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


def estimate_norm(sensing: Sensing, real: bool = True) -> float:
    """An upper bound on ‖A‖, about 2.5 % above the truth, that holds with probability 1 − 1e-10 over the random start.

    Ritz values are below ‖A‖². How far below is known (Kuczyński and Woźniakowski, 1992): after k Lanczos steps on a
    matrix of order d the relative error exceeds ε with probability at most 1.648·√d·exp(−√ε(2k − 1)), whatever the
    spectrum. Cost: about 65 products with A and 65 with A*; memory for three matrices.
    """
    order = sensing.shape[0] * sensing.shape[1]
    exponent = log(1.648 * order**0.5 / NORM_FAILURE)
    steps = int(0.5 * (exponent / NORM_MARGIN**0.5 + 1.0)) + 1
    value, complete = largest_ritz_value(sensing, steps, real)
    # Where the Lanczos space is complete, the value is exact but for rounding, maybe in single precision.
    margin = 1e-4 if complete or steps >= order else NORM_MARGIN
    return float((value / (1.0 - margin)) ** 0.5)


def check_norm(sensing: Sensing, norm: float, real: bool = True) -> float:
    """The given ``norm``, if ten Lanczos steps find no larger one; an error otherwise."""
    least = largest_ritz_value(sensing, GIVEN_NORM_STEPS, real)[0] ** 0.5
    if norm < least * (1.0 - 1e-9):
        rule = f"an upper bound on the operator's norm, which is at least {least:.6g}"
        raise bad("norm", rule, repr(norm), "recover", "Leave it out to have it estimated.")
    return norm


def unexplained_by_real(sensing: Sensing, b: Array) -> float:
    """min ‖b − A[X]‖²/‖b‖² over real X, from above: what four steps of conjugate gradients reach.

    Exact for partial Fourier transforms, because A*A on real matrices has three different eigenvalues: 0, ½ and 1.
    """
    residual, total = b.astype(np.result_type(b.dtype, sensing.dtype)), inner(b, b)
    gradient = sensing.real_adjoint(residual)
    direction, squared = gradient.copy(), inner(gradient, gradient)
    for _ in range(REAL_STEPS):
        if squared <= 1e-24 * total:
            break
        image = sensing.apply(direction)
        residual -= (squared / inner(image, image)) * image
        gradient = sensing.real_adjoint(residual)
        before, squared = squared, inner(gradient, gradient)
        direction = gradient + (squared / before) * direction
    return inner(residual, residual) / total


def warn_if_complex(sensing: Sensing, b: Array) -> None:
    """Warn where L and S will be real and real matrices leave more than ``UNEXPLAINED`` of ‖b‖² unexplained."""
    if sensing.dtype.kind != "c" or not np.any(b):
        return
    full = sensing.adjoint(b)
    imaginary = float(np.linalg.norm(full.imag) ** 2 / max(float(np.linalg.norm(full)) ** 2, 1e-300))
    del full
    # That A*b has an imaginary part is not enough: it does for a real M, too, where a Fourier coefficient was measured
    # without its mirror image.
    if imaginary < UNEXPLAINED:
        return
    share = unexplained_by_real(sensing, b)
    if share > UNEXPLAINED:
        warnings.warn(
            f"L and S are real, but the imaginary part of A*b holds {imaginary:.0%} of its energy, and real matrices "
            f"explain no more than {1.0 - share:.0%} of b. Pass dtype=complex to recover for complex L and S, or "
            "dtype=float if they are real all the same.",
            RankwolfWarning,
            stacklevel=4,
        )


def check_measurements(b: Any, sensing: Sensing, where: str = "recover") -> Array:
    """b as a vector of p finite numbers, from any shape that the operator knows; an error otherwise."""
    if np.ma.is_masked(b):
        raise bad(
            "b",
            "an array without masked entries",
            f"{np.ma.getmaskarray(b).sum()} of them",
            where,
            "Leave a missing measurement out of b and out of the operator.",
        )
    if isinstance(b, list | tuple) and len(b) and all(hasattr(part, "shape") for part in b):
        b = sensing.from_list([to_numpy(part) for part in b])
    try:
        values = to_numpy(b)
    except ValueError as error:
        raise bad("b", "an array of numbers", f"{type(b).__name__} ({error})", where) from error
    if values.dtype.kind not in "biufc":
        raise bad("b", "an array of numbers", f"dtype {values.dtype}", where)
    if values.ndim > 1:
        values = sensing.as_vector(values)
    if values.shape != (sensing.size,):
        rule = f"of shape ({sensing.size},), one number for each measurement of the operator"
        raise bad("b", rule, f"shape {values.shape}", where)
    wrong = values.size - int(np.count_nonzero(np.isfinite(values)))
    if wrong:
        raise bad(
            "b",
            "finite",
            f"{wrong} of {values.size} measurements NaN or infinite",
            where,
            "Leave a missing measurement out of b and out of the operator.",
        )
    largest = float(np.max(np.abs(values), initial=0.0))
    check_scale_of("b", largest, SCALE, where, "Multiply A and b by a constant first.")
    return np.ascontiguousarray(values)
