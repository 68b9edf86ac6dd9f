"""Rivals for dynamic MRI, written from their papers: L + S of Otazo, and of Lin and Fessler.

Both have S sparse after a Fourier transform along time, and complex images. They are given A and A* as functions, and
report after each iteration. ``scale`` of a threshold is σ₁ or the largest coefficient of the zero-filled series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.fft

from benchmarks.data import Array
from rankwolf.sensing import Sensing


@dataclass(frozen=True)
class Thresholds:
    """Relative to the zero-filled series: of singular values, and of temporal coefficients."""

    low_rank: float
    sparse: float


# Otazo, Candès and Sodickson (2015): 0.01 of both. Lin and Fessler (2019) use the same for their comparison.
PUBLISHED = {"otazo": Thresholds(0.01, 0.01), "lin_fessler": Thresholds(0.01, 0.01)}
PUBLISHED_ITERATIONS = {"otazo": 50, "lin_fessler": 10}


def along_time(series: Array) -> Array:
    """The unitary Fourier transform of every pixel's curve."""
    return np.asarray(scipy.fft.fft(series, axis=0, norm="ortho"))


def back_in_time(coefficients: Array) -> Array:
    """The inverse."""
    return np.asarray(scipy.fft.ifft(coefficients, axis=0, norm="ortho"))


def shrink_values(x: Array, threshold: float) -> Array:
    """Singular values less the threshold, by the Gram matrix of the frames: the fastest exact way here."""
    values, vectors = np.linalg.eigh(x @ x.conj().T)
    size = np.sqrt(np.maximum(values, 0.0))
    share = np.maximum(1.0 - threshold / np.maximum(size, 1e-300), 0.0)
    return np.asarray(((vectors * share) @ vectors.conj().T) @ x)


def shrink_moduli(x: Array, threshold: float) -> Array:
    """Soft thresholding of complex numbers."""
    return np.asarray(x * np.maximum(1.0 - threshold / np.maximum(np.abs(x), 1e-300), 0.0))


def zero_filled(b: Array, sensing: Sensing) -> Array:
    """A*b."""
    return sensing.adjoint(b)


def otazo(b: Array, sensing: Sensing, thresholds: Thresholds, iterations: int) -> Iterator[Array]:
    """Algorithm 1 of Otazo, Candès and Sodickson: iterative soft thresholding with data consistency, step 1.

    M₀ = A*b; L = SVT(M − S), S = T*(shrink(T(M − L₋))), M = L + S − A*(A(L + S) − b). One A and one A* an iteration.
    """
    image = sensing.adjoint(b)
    cut_L = thresholds.low_rank * float(np.linalg.norm(image, 2))
    cut_S = thresholds.sparse * float(np.max(np.abs(along_time(image))))
    low_rank, sparse = image, np.zeros_like(image)
    for _ in range(iterations):
        before = low_rank
        low_rank = shrink_values(image - sparse, cut_L)
        sparse = back_in_time(shrink_moduli(along_time(image - before), cut_S))
        total = low_rank + sparse
        yield total
        image = total - sensing.adjoint(sensing.apply(total) - b)


def lin_fessler(b: Array, sensing: Sensing, thresholds: Thresholds, iterations: int) -> Iterator[Array]:
    """POGM for ½‖A(L + S) − b‖² + λ_L‖L‖_* + λ_S‖TS‖₁, with step ½ for ‖A‖ = 1 (their Section III)."""
    step = 0.5
    back = sensing.adjoint(b)
    weights = (
        thresholds.low_rank * float(np.linalg.norm(back, 2)),
        thresholds.sparse * float(np.max(np.abs(along_time(back)))),
    )
    proximal: tuple[Callable[[Array, float], Array], ...] = (
        shrink_values,
        lambda x, t: back_in_time(shrink_moduli(along_time(x), t)),
    )
    x = [back, np.zeros_like(back)]  # their start: L is the zero-filled series
    w, z, theta, last = list(x), list(x), 1.0, step
    for iteration in range(1, iterations + 1):
        gradient = step * sensing.adjoint(b - sensing.apply(x[0] + x[1]))
        grown = 8.0 if iteration == iterations else 4.0
        following = 0.5 * (1.0 + (1.0 + grown * theta**2) ** 0.5)
        length = step * (2.0 * theta + following - 1.0) / following
        for k in range(2):
            moved = x[k] + gradient
            z[k] = (
                moved
                + (theta - 1.0) / following * (moved - w[k])
                + theta / following * (moved - x[k])
                + step * (theta - 1.0) / (last * following) * (z[k] - x[k])
            )
            w[k], x[k] = moved, proximal[k](z[k], length * weights[k])
        theta, last = following, length
        yield x[0] + x[1]
