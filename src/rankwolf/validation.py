"""Checks of what a user hands in: one form for every message, before any work.

"The 'x' parameter of decompose must be … Got … instead.", and a remedy where there is one.
"""

from __future__ import annotations

import os
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np

from rankwolf.sources import Array, InMemory, Source


def bad(name: str, rule: str, got: object, where: str = "decompose", remedy: str = "") -> ValueError:
    """The one form of a complaint."""
    return ValueError(
        f"The '{name}' parameter of {where} must be {rule}. Got {got} instead.{' ' + remedy if remedy else ''}"
    )


def check_source(X: Any, observed: Any, n_threads: int) -> Source:
    """Whatever X is, as a source; nothing is copied."""
    data, observed = _as_array(X), _as_mask(observed)
    if isinstance(X, np.ma.MaskedArray):
        present = ~np.ma.getmaskarray(X)
        observed = present if observed is None else _same_shape(observed, data) & present
    if data.ndim != 2:
        raise bad("X", "two-dimensional", f"an array of shape {data.shape}", remedy="Reshape frames to rows.")
    if 0 in data.shape:
        raise bad("X", "of at least one row and one column", f"shape {data.shape}")
    if observed is not None:
        observed = _same_shape(observed, data)
    source = InMemory(data, observed, n_threads)
    if source.summary.infinite:
        raise bad("X", "finite where it is observed", f"{source.summary.infinite} infinite entries",
                  remedy="NaN marks a missing entry.")  # fmt: skip
    if source.summary.observed == 0:
        raise bad("X", "observed in at least one entry", "nothing but missing entries")
    if not isfinite(source.summary.norm):
        raise bad("X", "of a norm that float64 can hold", f"entries up to {source.summary.largest:.3g}",
                  remedy="Divide by a constant first.")  # fmt: skip
    return source


def _as_array(X: Any) -> Array:
    if isinstance(X, str | bytes | os.PathLike):
        raise bad("X", "an array", repr(X), remedy="np.load reads a file.")
    try:
        data = np.asarray(X)
    except ValueError as error:
        raise bad("X", "a rectangular array of numbers", f"{type(X).__name__} ({error})") from error
    if data.dtype.kind not in "biuf":
        raise bad("X", "an array of real numbers", f"dtype {data.dtype}")
    return data


def _as_mask(observed: Any) -> Array | None:
    if observed is None:
        return None
    mask = np.asarray(observed)
    if mask.dtype != np.bool_:
        raise bad(
            "observed", "a boolean array", f"dtype {mask.dtype}", remedy="True marks an observed entry."
        )
    return mask


def _same_shape(observed: Array, data: Array) -> Array:
    if observed.shape != data.shape:
        raise bad("observed", f"of the shape of X, {data.shape}", f"shape {observed.shape}")
    return observed


def check_pair(name: str, pair: Any, where: str = "decompose") -> tuple[float, float]:
    """Two positive numbers."""
    try:
        first, second = (float(x) for x in pair)
    except (TypeError, ValueError):
        raise bad(name, "a pair of numbers", repr(pair), where) from None
    if not (first > 0.0 and second > 0.0 and isfinite(first) and isfinite(second)):
        raise bad(name, "two positive finite numbers", repr(tuple(pair)), where)
    return first, second


def check_number(name: str, value: Any, *, positive: bool = True, where: str = "decompose") -> float:
    """A real number, above zero (or not below it)."""
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value):
        raise bad(name, "a finite number", repr(value), where)
    if value < 0 or (positive and value == 0):
        raise bad(name, "positive" if positive else "at least 0", repr(value), where)
    return float(value)


def check_count(name: str, value: Any, where: str = "decompose") -> int:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise bad(name, "a whole number of at least 1", repr(value), where)
    return int(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...], where: str = "decompose") -> str:
    """One of a few words."""
    if value not in choices:
        raise bad(name, "one of " + ", ".join(repr(choice) for choice in choices), repr(value), where)
    return str(value)


def check_threads(n_threads: Any, where: str = "decompose") -> int:
    """None means every core that this process may use."""
    if n_threads is not None:
        return check_count("n_threads", n_threads, where)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
