"""Checks of what a user hands in: one form for every message, before any work.

"The 'x' parameter of decompose must be … Got … instead.", and a remedy where there is one.
"""

from __future__ import annotations

import os
import re
from math import inf, isfinite, nan
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.problem import Penalized, Problem
from rankwolf.sources import (
    Array,
    InMemory,
    MappedArray,
    OnDask,
    OnDisk,
    Source,
    SparseObserved,
    SparseZeros,
    Stored,
    as_stored,
    is_dask_array,
)
from rankwolf.sources.base import Summary
from rankwolf.sources.memory import parse_size, resident_memory
from rankwolf.sources.scratch import Workspace

# Largest entries whose fourth powers float64 can hold: the oracle squares products with GᵀG.
SCALE = (1e-60, 1e60)
# How far weights and radii may be from the norm of the data, in either direction.
REACH = 1e12


def bad(name: str, rule: str, got: object, where: str = "decompose", remedy: str = "") -> ValueError:
    """The one form of a complaint."""
    return ValueError(
        f"The '{name}' parameter of {where} must be {rule}. Got {got} instead.{' ' + remedy if remedy else ''}"
    )


def check_source(
    X: Any, observed: Any, n_threads: int, implicit: str = "missing", max_memory: int | None = None,
    summary: Summary | None = None,
) -> Source:  # fmt: skip
    """Whatever X is, as a source; nothing is copied but a sparse matrix that is not in sorted rows.

    ``summary``: what is known about this very data from an earlier run, so that a file need not be read for it.
    """
    if scipy.sparse.issparse(X):
        return _checked(_sparse_source(X, observed, n_threads, implicit))
    if is_dask_array(X):
        return _checked(OnDask(X, observed, n_threads, max_memory, summary))
    stored, stored_mask = as_stored(X), as_stored(observed)
    if stored is not None or stored_mask is not None:
        return _checked(_stored_source(X, stored, observed, stored_mask, n_threads, max_memory, summary))
    source = _array_source(X, observed, n_threads)
    if max_memory is not None:
        source.workspace = Workspace(max(max_memory - resident_memory(), 0) // 2)
    return _checked(source)


def _array_source(X: Any, observed: Any, n_threads: int) -> InMemory:
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
    return InMemory(data, observed, n_threads)


def _stored_source(
    X: Any, data: Stored | None, observed: Any, mask: Stored | None, n_threads: int, max_memory: int | None,
    summary: Summary | None,
) -> OnDisk:  # fmt: skip
    """At least one of the matrix and its mask is on disk; the other may be in memory."""
    data = data or MappedArray(_as_array(X))
    if mask is None and observed is not None:
        mask = MappedArray(np.asarray(_as_mask(observed)))
    check_stored(data)
    if mask is not None and mask.dtype != np.bool_:
        raise bad(
            "observed", "a boolean array", f"dtype {mask.dtype}", remedy="True marks an observed entry."
        )
    if mask is not None and mask.shape != data.shape:
        raise bad("observed", f"of the shape of X, {data.shape}", f"shape {mask.shape}")
    return OnDisk(data, mask, n_threads, max_memory, summary)


def check_stored(data: Stored) -> None:
    """A matrix of real numbers."""
    if data.dtype.kind not in "biuf":
        raise bad("X", "an array of real numbers", f"dtype {data.dtype}")
    if len(data.shape) != 2 or 0 in data.shape:
        raise bad("X", "two-dimensional, with at least one row and one column", f"shape {data.shape}")


def _checked(source: Source) -> Source:
    """Finite, of a sensible scale, and not empty."""
    if source.summary.infinite:
        raise bad("X", "finite where it is observed", f"{source.summary.infinite} infinite entries",
                  remedy="NaN marks a missing entry.")  # fmt: skip
    if source.summary.observed == 0:
        raise bad("X", "observed in at least one entry", "nothing but missing entries")
    largest = source.summary.largest
    if largest and not SCALE[0] <= largest <= SCALE[1]:
        raise bad("X", f"of a scale between {SCALE[0]:g} and {SCALE[1]:g}, so that powers neither overflow nor vanish",
                  f"entries up to {largest:.3g}", remedy="Divide by a constant first.")  # fmt: skip
    return source


def _sparse_source(X: Any, observed: Any, n_threads: int, implicit: str) -> Source:
    if observed is not None:
        remedy = "Its stored entries are the observed ones."
        raise bad("observed", "None for a sparse matrix", type(observed).__name__, remedy=remedy)
    if X.ndim != 2 or 0 in X.shape:
        raise bad("X", "two-dimensional, with at least one row and one column", f"shape {X.shape}")
    if X.dtype.kind not in "biuf":
        raise bad("X", "an array of real numbers", f"dtype {X.dtype}")
    try:
        return (SparseObserved if implicit == "missing" else SparseZeros)(X, n_threads)
    except (ValueError, IndexError) as error:
        raise bad(
            "X", "a sparse matrix whose indices are in order", f"one that is damaged ({error})"
        ) from error


def check_scale(problem: Problem, norm: float, where: str = "decompose") -> None:
    """Weights and radii that have something to do with data of this norm: beyond, floating point decides the answer."""
    if isinstance(problem, Penalized):
        name, pair, remedy = (
            "lambdas",
            (problem.lambda_L, problem.lambda_S),
            "Look at delta and at the scale of X.",
        )
    else:
        name, pair, remedy = (
            "radii",
            (problem.tau_L, problem.tau_S),
            "From √(mn)·‖X‖_F on, a radius binds nothing.",
        )
    norm = norm or 1.0
    if not all(norm / REACH <= x <= norm * REACH for x in pair):
        raise bad(name, f"within a factor {REACH:g} of ‖X‖_F = {norm:.3g}", str(pair), where, remedy)


def _as_array(X: Any) -> Array:
    if isinstance(X, str | bytes | os.PathLike):
        raise bad("X", "an array", repr(X), remedy="[path] is a list of one file.")
    try:
        data = _values_of_frame(X) if _is_frame(X) else np.asarray(X)
    except (TypeError, ValueError) as error:
        raise bad("X", "a rectangular array of numbers", f"{type(X).__name__} ({error})") from error
    if data.dtype.kind not in "biuf":
        raise bad("X", "an array of real numbers", f"dtype {data.dtype}")
    return data


def _is_frame(X: Any) -> bool:
    """A pandas or polars frame, told by its module: neither library is imported for it."""
    return type(X).__name__ == "DataFrame" and type(X).__module__.partition(".")[0] in ("pandas", "polars")


def _values_of_frame(X: Any) -> Array:
    """The numbers of a frame; None, NA and null become NaN."""
    values: Array = X.to_numpy()
    if values.dtype == np.object_ and type(X).__module__.startswith("pandas"):
        values = X.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


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
        first, second = pair
    except (TypeError, ValueError):
        raise bad(name, "a pair of numbers", repr(pair), where) from None
    return check_number(name, first, where=where), check_number(name, second, where=where)


def check_number(name: str, value: Any, *, positive: bool = True, where: str = "decompose") -> float:
    """A real number, above zero (or not below it)."""
    try:
        number = nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:  # a whole number of more than 308 digits
        number = inf
    if not isfinite(number):
        raise bad(name, "a finite number", repr(value), where)
    if number < 0.0 or (positive and number == 0.0):
        raise bad(name, "positive" if positive else "at least 0", repr(value), where)
    return number


def check_count(name: str, value: Any, where: str = "decompose") -> int:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise bad(name, "a whole number of at least 1", repr(value), where)
    return int(value)


def check_size(name: str, value: Any, where: str = "decompose") -> int:
    """Bytes: a whole number, or words such as "2GB"."""
    if not isinstance(value, str):
        return check_count(name, value, where)
    try:
        return parse_size(value)
    except ValueError:
        raise bad(name, "a number of bytes or a size such as '2GB' or '512MiB'", repr(value), where) from None


def check_interval(name: str, value: Any, where: str = "decompose") -> tuple[int | None, float | None]:
    """(passes, None) for a whole number, (None, seconds) for words such as "90s" or "10min"."""
    if not isinstance(value, str):
        return check_count(name, value, where), None
    match = re.fullmatch(r"\s*([0-9.]+)\s*(s|min|h)\s*", value)
    try:
        return None, float(match[1]) * {"s": 1.0, "min": 60.0, "h": 3600.0}[match[2]]  # type: ignore[index]
    except (TypeError, ValueError):
        raise bad(name, "a number of passes or a time such as '90s' or '10min'", repr(value), where) from None


def check_choice(name: str, value: Any, choices: tuple[str, ...], where: str = "decompose") -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise bad(name, "one of " + ", ".join(repr(choice) for choice in choices), repr(value), where)
    return str(value)


def check_rng(rng: Any, where: str = "decompose") -> np.random.Generator:
    """None, a seed or a generator, as NumPy takes them."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise bad(
            "rng", "None, a whole number of at least 0 or a numpy Generator", repr(rng), where
        ) from None


def check_threads(n_threads: Any, where: str = "decompose") -> int:
    """None means every core that this process may use."""
    if n_threads is not None:
        return check_count("n_threads", n_threads, where)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
