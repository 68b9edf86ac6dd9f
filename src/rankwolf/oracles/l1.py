"""The ℓ1 norm: linear minimisation, proximal map, projection (Section 2.2 of the paper).

For complex numbers it is the sum of moduli, and a sign below means the phase x/|x|.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwolf import kernels
from rankwolf.ground.arrays import Array, is_complex, namespace
from rankwolf.ground.complaints import bad


def norm(x: Array) -> float:
    """‖x‖₁, added up in float64. Linear time."""
    return float(np.sum(np.abs(x), dtype=np.float64))


def minimize_linear(y: Array, radius: float = 1.0) -> tuple[tuple[int, int], Any]:
    """The minimiser of Re⟨Y, X⟩ over ‖X‖₁ ≤ radius: one entry, as its place and its value.

    X* = −radius·sgn(Y_ij)·e_i e_jᵀ at an entry of largest magnitude. Linear time, no copy of Y.

    >>> minimize_linear(np.array([[1.0, -3.0], [2.0, 0.5]]), radius=2.0)
    ((0, 1), 2.0)
    """
    row, column = kernels.largest_entry(y)
    sign = np.sign(y[row, column])
    return (int(row), int(column)), -radius * (complex(sign) if np.iscomplexobj(y) else float(sign))


def soft_threshold(x: Array, weight: float) -> Array:
    """T_λ(x) = sgn(x)·max(|x| − λ, 0), the proximal map of λ‖·‖₁. Linear time.

    >>> soft_threshold(np.array([3.0, -0.5, -2.0]), 1.0)
    array([ 2.,  0., -1.])
    >>> soft_threshold(np.array([3.0 + 4.0j, 0.5j]), 1.0)
    array([2.4+3.2j, 0. +0.j ])
    """
    weight, xp = float(weight), namespace(x)
    if is_complex(x):
        modulus = xp.abs(x)
        shrink = xp.clip(modulus - weight, 0.0, None) / xp.clip(modulus, xp.finfo(modulus.dtype).tiny, None)
        return x * shrink  # type: ignore[no-any-return]
    return x - xp.clip(x, -weight, weight)  # type: ignore[no-any-return]


def magnitudes(x: Array, axis: int | None) -> Array:
    """|x| of each entry, or with an ``axis`` the norms of the lines along it, as an array that x can be divided by."""
    xp = namespace(x)
    if axis is None:
        return xp.abs(x)  # type: ignore[no-any-return]
    return xp.linalg.vector_norm(x, axis=axis, keepdims=True)  # type: ignore[no-any-return]


def shrunk_by(x: Array, threshold: float, axis: int | None) -> Array:
    """Entries, or lines along ``axis``, shortened by ``threshold``: the proximal map of their norms' sum."""
    if axis is None:
        return soft_threshold(x, threshold)
    size, xp = magnitudes(x, axis), namespace(x)
    return x * (xp.clip(size - threshold, 0.0, None) / xp.clip(size, 1e-300, None))  # type: ignore[no-any-return]


def beyond(x: Array, threshold: float, shrinks: bool = True) -> Array:
    """The entries with |x| > threshold, 0 elsewhere: shrunk by the threshold if it ``shrinks``, else unchanged."""
    if shrinks:
        return soft_threshold(x, threshold)
    return np.where(np.abs(x) > threshold, x, x.dtype.type(0))


def project(x: Array, radius: float) -> Array:
    """The nearest point to x (any shape) with ‖·‖₁ ≤ radius.

    It is T_θ(x) for the threshold θ of :func:`projection_threshold`.

    >>> project(np.array([3.0, 1.0]), 2.0)
    array([2., 0.])
    """
    theta = projection_threshold(x, radius)
    return soft_threshold(x, theta) if theta > 0.0 else x.copy()


def projection_threshold(x: Any, radius: float) -> float:
    """θ ≥ 0 with Σ max(|x| − θ, 0) = radius, or 0 where x is inside the ball already.

    Duchi et al.'s random-pivot search, linear time in expectation, on one copy of |x|; for arrays of other libraries by
    sorting.
    """
    if radius < 0.0:
        raise bad("radius", "at least 0", repr(radius), "project")
    if not isinstance(x, np.ndarray):
        return _threshold_on_device(x, radius)
    magnitudes = np.abs(x).astype(np.float64, copy=False).ravel()
    if float(np.sum(magnitudes)) <= radius:
        return 0.0
    if radius == 0.0:
        return float(magnitudes.max())
    return _threshold_by_pivots(magnitudes, radius)


def _threshold_on_device(x: Any, radius: float) -> float:
    """The same for an array of another library, by sorting; only the answer leaves the device."""
    xp = namespace(x)
    descending = xp.sort(xp.reshape(xp.abs(x), (-1,)), descending=True)
    sums = xp.cumulative_sum(descending)
    if float(sums[-1]) <= radius:
        return 0.0
    counts = xp.arange(1, descending.shape[0] + 1, dtype=descending.dtype, device=descending.device)
    thresholds = (sums - radius) / counts
    support = max(1, int(xp.count_nonzero(descending > thresholds)))
    return float(thresholds[support - 1])


def _threshold_by_pivots(magnitudes: Array, radius: float) -> float:
    """θ by random pivots: of two parts, keep the one that θ lies in. Entries known to be above θ are in ``total``."""
    rng = np.random.default_rng(0)
    candidates, total, count = magnitudes, 0.0, 0
    while candidates.size:
        pivot = candidates[rng.integers(candidates.size)]
        above = candidates[candidates >= pivot]
        # Σ(above − pivot), not Σ above − count·pivot: the largest entry must come out as exactly 0.
        if (total - count * pivot) + float(np.sum(above - pivot)) < radius:
            total, count = total + float(np.sum(above)), count + above.size
            candidates = candidates[candidates < pivot]
        else:
            candidates = above[above > pivot]
    return (total - radius) / count


def clip_level(sizes: Array, radius: float) -> float:
    """θ with Σ min(|x|, θ)² = radius², or the largest size where the whole is smaller.

    Sizes in ascending order: where θ lies between two of them, those below count whole and the others as θ².
    """
    xp = namespace(sizes)
    ordered = xp.sort(xp.reshape(xp.abs(sizes), (-1,)))
    count = ordered.shape[0]
    largest = float(ordered[-1]) if count else 0.0
    if largest == 0.0 or float(xp.linalg.vector_norm(ordered)) <= radius:
        return largest
    ordered, radius = ordered / largest, radius / largest
    squares = ordered * ordered
    below = xp.cumulative_sum(squares) - squares
    rest = xp.flip(xp.arange(1, count + 1, dtype=ordered.dtype, device=ordered.device))
    place = min(int(xp.count_nonzero(below + squares * rest < radius * radius)), count - 1)
    return float(largest * (max(radius * radius - float(below[place]), 0.0) / (count - place)) ** 0.5)
