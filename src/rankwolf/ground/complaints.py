"""Checks of what a user hands in: one form for every message, before any work.

"The 'x' parameter of decompose must be … Got … instead.", and a remedy where there is one.
"""

from __future__ import annotations

import re
from math import inf, isfinite, nan
from numbers import Integral, Real
from typing import Any

import numpy as np

from rankwolf.platform import cores


class RankwolfWarning(UserWarning):
    """A result that is probably not what was wanted: what is odd about it, and the remedy.

    >>> import warnings, numpy as np, rankwolf as rw
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fit = rw.decompose(np.eye(30) + 1.0, lambdas=(1e3, 1.0), rng=0)
    >>> [warning.category.__name__ for warning in caught]
    ['RankwolfWarning']
    """


class BadParameterError(ValueError):
    """A parameter that cannot be used: its ``name``, the function ``where`` it was given, and ``words`` about it."""

    def __init__(self, name: str, where: str, words: str) -> None:
        super().__init__(f"The '{name}' parameter of {where} {words}")
        self.name, self.where, self.words = name, where, words

    def __reduce__(self) -> Any:
        return type(self), (self.name, self.where, self.words)


def bad(name: str, rule: str, got: object, where: str = "decompose", remedy: str = "") -> BadParameterError:
    """The error "The 'name' parameter of where must be rule. Got got instead. remedy", for the caller to raise."""
    return BadParameterError(
        name, where, f"must be {rule}. Got {got} instead.{' ' + remedy if remedy else ''}"
    )


def check_pair(
    name: str, pair: Any, where: str = "decompose", *, positive: bool = True
) -> tuple[float, float]:
    """``pair`` as two floats that :func:`check_number` accepts; an error where it is anything else."""
    try:
        first, second = pair
    except (TypeError, ValueError):
        raise bad(name, "a pair of numbers", repr(pair), where) from None
    first, second = (check_number(name, x, positive=positive, where=where) for x in (first, second))
    return first, second


def check_number(name: str, value: Any, *, positive: bool = True, where: str = "decompose") -> float:
    """``value`` as a finite float that is positive, or with ``positive=False`` at least 0; else an error."""
    try:
        number = nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:  # a whole number of more than 308 digits
        number = inf
    if not isfinite(number):
        raise bad(name, "a finite number", repr(value), where)
    if number < 0.0 or (positive and number == 0.0):
        raise bad(name, "positive" if positive else "at least 0", repr(value), where)
    return number


def check_scale_of(name: str, largest: float, scale: tuple[float, float], where: str, remedy: str) -> None:
    """Refuse data whose largest magnitude is outside ``scale``: its powers would overflow or vanish. 0 is fine."""
    low, high = scale
    if largest and not low <= largest <= high:
        rule = f"of a scale between {low:g} and {high:g}, so that powers neither overflow nor vanish"
        raise bad(name, rule, f"entries up to {largest:.3g}", where, remedy)


def check_count(name: str, value: Any, where: str = "decompose") -> int:
    """``value`` as an int of at least 1; else an error."""
    return check_whole(name, value, 1, where)


def check_size(name: str, value: Any, where: str = "decompose") -> int:
    """The bytes that ``value`` means, a whole number or words such as "2GB"; else an error."""
    if not isinstance(value, str):
        return check_count(name, value, where)
    try:
        return parse_size(value)
    except ValueError:
        raise bad(name, "a number of bytes or a size such as '2GB' or '512MiB'", repr(value), where) from None


def check_interval(name: str, value: Any, where: str = "decompose") -> tuple[int | None, float | None]:
    """(passes, None) for a whole number, (None, seconds) for words such as "90s" or "10min"; else an error."""
    if not isinstance(value, str):
        return check_count(name, value, where), None
    match = re.fullmatch(r"\s*([0-9.]+)\s*(s|min|h)\s*", value)
    try:
        return None, float(match[1]) * {"s": 1.0, "min": 60.0, "h": 3600.0}[match[2]]  # type: ignore[index]
    except (TypeError, ValueError):
        raise bad(name, "a number of passes or a time such as '90s' or '10min'", repr(value), where) from None


def check_choice(name: str, value: Any, choices: tuple[str, ...], where: str = "decompose") -> str:
    """``value``, if it is one of the words ``choices``; else an error."""
    if not isinstance(value, str) or value not in choices:
        raise bad(name, "one of " + ", ".join(repr(choice) for choice in choices), repr(value), where)
    return str(value)


def check_rng(rng: Any, where: str = "decompose") -> np.random.Generator:
    """The generator that NumPy makes of None, a seed or a generator; else an error."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise bad(
            "rng", "None, a whole number of at least 0 or a numpy Generator", repr(rng), where
        ) from None


def check_threads(n_threads: Any, where: str = "decompose") -> int:
    """``n_threads`` as an int of at least 1; for None, the number of cores that this process may use."""
    if n_threads is not None:
        return check_count("n_threads", n_threads, where)
    return cores()


def check_whole(name: str, value: Any, least: int, where: str) -> int:
    """``value`` as an int of at least ``least``; else an error."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise bad(name, f"a whole number of at least {least}", repr(value), where)
    return int(value)


def as_numbers(name: str, value: Any, where: str) -> np.ndarray[Any, Any]:
    """``value`` as an array; an error for lists of different lengths, of which NumPy makes none."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise bad(
            name, "a rectangular array of numbers", f"{type(value).__name__} ({error})", where
        ) from None


def check_shape(shape: Any, where: str) -> tuple[int, int]:
    """``shape`` as two ints of at least 1; else an error."""
    try:
        m, n = (int(side) for side in shape)
        whole = m == shape[0] and n == shape[1] and m >= 1 and n >= 1
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise bad("shape", "(m, n), two whole numbers of at least 1", repr(shape), where)
    return m, n


def parse_size(text: str) -> int:
    """The number of bytes that words such as ``1GB``, ``512 MiB`` or ``2e9`` mean; a ValueError for other words.

    >>> parse_size("1GB"), parse_size("512MiB")
    (1000000000, 536870912)
    """
    match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?)(i?)b?\s*", text.lower())
    number = float(match[1]) if match else 0.0
    if not match or not 0.0 < number < inf:
        raise ValueError(f"{text!r} is not a size")
    return int(number * (1024 if match[3] else 1000) ** " kmgt".index(match[2] or " "))
