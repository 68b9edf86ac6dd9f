"""Rivals for dynamic MRI, written from their papers: L + S of Otazo, and of Lin and Fessler, and three without an S.

The first two have S sparse after a Fourier transform along time, and complex images. They are given A and A* as
functions, and report after each iteration. ``scale`` of a threshold is σ₁ or the largest coefficient of the
zero-filled series.
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
PUBLISHED_RANK = -1.0  # by its own rule
PUBLISHED = {
    "otazo": Thresholds(0.01, 0.01),
    "lin_fessler": Thresholds(0.01, 0.01),
    "kt_focuss": Thresholds(0.0, 0.01),
    "llr": Thresholds(0.01, 0.0),
    "altgdmin": Thresholds(PUBLISHED_RANK, 0.0),
}
PUBLISHED_ITERATIONS = {"otazo": 50, "lin_fessler": 10, "kt_focuss": 30, "llr": 50, "altgdmin": 70}


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


def kt_focuss(b: Array, sensing: Sensing, thresholds: Thresholds, iterations: int) -> Iterator[Array]:
    """k-t FOCUSS (Jung et al., 2009): temporal coefficients are reweighted by the root of their own size.

    Around the mean over time, x = x̄ + T*(W q), min ‖b − A x‖² + λ‖q‖² by 15 conjugate gradients, W = |T(x − x̄)|^½;
    two rounds as published. λ is ``thresholds.sparse`` times the largest weight squared.
    """
    image = sensing.adjoint(b)
    mean = np.broadcast_to(_mean_over_time(b, sensing), image.shape)
    rest = b - sensing.apply(mean)
    size = np.abs(along_time(sensing.adjoint(rest)))
    for _ in range(max(2, iterations // 15)):
        weights = np.sqrt(size)
        weights /= max(float(weights.max()), 1e-300)
        damping = thresholds.sparse

        def normal(q: Array, weights: Array = weights, damping: float = damping) -> Array:
            product = sensing.adjoint(sensing.apply(back_in_time(weights * q)))
            return np.asarray(weights * along_time(product) + damping * q)

        q = _conjugate_gradients(normal, weights * along_time(sensing.adjoint(rest)), 15)
        size = np.abs(weights * q)
        yield np.asarray(mean + back_in_time(weights * q))


def _conjugate_gradients(normal: Callable[[Array], Array], right: Array, steps: int) -> Array:
    solution, residual = np.zeros_like(right), right
    direction, size = right, float(np.vdot(right, right).real)
    for _ in range(steps):
        if size <= 1e-20:
            break
        image = normal(direction)
        alpha = size / float(np.vdot(direction, image).real)
        solution, residual = solution + alpha * direction, residual - alpha * image
        following = float(np.vdot(residual, residual).real)
        direction, size = residual + following / size * direction, following
    return solution


def _mean_over_time(b: Array, sensing: Sensing) -> Array:
    """The one frame that explains all measurements best, by 10 conjugate gradients."""
    frames = sensing.shape[0]

    def normal(frame: Array) -> Array:
        return np.asarray(sensing.adjoint(sensing.apply(np.repeat(frame, frames, 0))).sum(0, keepdims=True))

    return _conjugate_gradients(normal, sensing.adjoint(b).sum(axis=0, keepdims=True), 10)


def locally_low_rank(b: Array, sensing: Sensing, thresholds: Thresholds, iterations: int) -> Iterator[Array]:
    """LLR (Zhang, Pauly and Levesque, 2015): proximal gradients with momentum, singular values of 8 × 8 blocks shrunk.

    The blocks move by a random shift in each iteration. The threshold is relative to the largest singular value of a
    block of the zero-filled series.
    """
    x = sensing.adjoint(b)
    frames, side = x.shape[0], round(x.shape[1] ** 0.5)
    cut, rng = thresholds.low_rank * _longest_block(x, side), np.random.default_rng(0)
    before, t = x, 1.0
    for _ in range(iterations):
        following = 0.5 * (1.0 + (1.0 + 4.0 * t * t) ** 0.5)
        y = x + (t - 1.0) / following * (x - before)
        y = y + sensing.adjoint(b - sensing.apply(y))
        shift = rng.integers(8, size=2)
        moved = np.roll(y.reshape(frames, side, side), shift, (1, 2))
        blocks = _blocks(moved)
        values, vectors = np.linalg.eigh(blocks @ np.swapaxes(blocks.conj(), 1, 2))
        size = np.sqrt(np.maximum(values, 0.0))
        share = np.maximum(1.0 - cut / np.maximum(size, 1e-300), 0.0)
        blocks = ((vectors * share[:, None]) @ np.swapaxes(vectors.conj(), 1, 2)) @ blocks
        moved = _from_blocks(blocks, moved.shape)
        before, x, t = x, np.roll(moved, -shift, (1, 2)).reshape(x.shape), following
        yield x


def _blocks(x: Array) -> Array:
    """(blocks, frames, 64) of series whose sides are multiples of 8."""
    frames, high, wide = x.shape
    parts = x.reshape(frames, high // 8, 8, wide // 8, 8).transpose(1, 3, 0, 2, 4)
    return np.ascontiguousarray(parts).reshape(-1, frames, 64)


def _from_blocks(blocks: Array, shape: tuple[int, ...]) -> Array:
    frames, high, wide = shape
    parts = blocks.reshape(high // 8, wide // 8, frames, 8, 8).transpose(2, 0, 3, 1, 4)
    return np.ascontiguousarray(parts).reshape(shape)


def _longest_block(x: Array, side: int) -> float:
    return float(np.linalg.norm(_blocks(x.reshape(-1, side, side)), 2, axis=(1, 2)).max())


def altgdmin(b: Array, sensing: Sensing, thresholds: Thresholds, iterations: int) -> Iterator[Array]:
    """altGDmin-MRI (Babu, Lingala and Vaswani, 2023): mean, then L = B·U by a gradient step on U and least squares
    for each frame, then three conjugate gradients for what is left of each frame.

    The rank is the number of singular values above ``thresholds.low_rank`` of the first one after the mean (published:
    85 % of their energy, at most a tenth of the frames).
    """
    mean = np.broadcast_to(_mean_over_time(b, sensing), sensing.shape)
    rest = b - sensing.apply(mean)
    image = sensing.adjoint(rest)
    s, vt = np.linalg.svd(image, full_matrices=False)[1:]
    energy = np.cumsum(s**2) / np.sum(s**2)
    rank = int(np.searchsorted(energy, 0.85)) + 1 if thresholds.low_rank == PUBLISHED_RANK else 0
    rank = min(rank, max(1, len(s) // 10)) or max(1, int(np.count_nonzero(s > thresholds.low_rank * s[0])))
    basis = vt[:rank]
    step = 0.0
    for iteration in range(iterations):
        weights = _fit_frames(sensing, rest, basis)
        misfit = sensing.adjoint(sensing.apply(weights @ basis) - rest)
        gradient = weights.conj().T @ misfit
        step = step or 0.14 / max(float(np.linalg.norm(weights, 2)) ** 2, 1e-300) * 7.0
        basis = np.linalg.qr((basis - step * gradient).conj().T)[0].conj().T
        if iteration + 1 == iterations:
            total = mean + _fit_frames(sensing, rest, basis) @ basis
            left = sensing.adjoint(b - sensing.apply(total))
            total = total + _conjugate_gradients(lambda x: sensing.adjoint(sensing.apply(x)), left, 3)
            yield np.asarray(total)


def _fit_frames(sensing: Sensing, rest: Array, basis: Array) -> Array:
    """The weights of the basis for all frames at once, by 10 conjugate gradients."""

    def normal(weights: Array) -> Array:
        return np.asarray(sensing.adjoint(sensing.apply(weights @ basis)) @ basis.conj().T)

    return _conjugate_gradients(normal, sensing.adjoint(rest) @ basis.conj().T, 10)
