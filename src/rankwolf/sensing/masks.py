"""Masks: boolean arrays that say which coefficients or entries were measured."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import as_numbers, bad, check_whole


def random_mask(size: int, shape: tuple[int, ...], seed: int) -> Array:
    """A boolean array with ``size`` True entries at random places, all choices equally likely."""
    total = int(np.prod(shape))
    size, seed = check_whole("size", size, 1, "random_mask"), check_whole("seed", seed, 0, "random_mask")
    if size > total:
        raise bad("size", f"between 1 and {total}, the number of coefficients", repr(size), "random_mask")
    mask = np.zeros(total, dtype=bool)
    mask[np.random.default_rng(seed).permutation(total)[:size]] = True
    return mask.reshape(shape)


def check_mask(name: str, mask: Any, ndim: int, where: str) -> Array:
    """``mask`` as a boolean array of ``ndim`` dimensions with at least one True; an error otherwise."""
    kept = as_numbers(name, mask, where)
    if kept.ndim != ndim or kept.dtype != np.bool_ or not kept.any():
        raise bad(
            name,
            f"a boolean array of {ndim} dimensions with at least one True",
            f"shape {kept.shape}, dtype {kept.dtype}",
            where,
        )
    return kept
