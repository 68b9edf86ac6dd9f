"""What our own files hold: one schema for each kind of ``.npz``, for its writer, its reader, the documents, the fuzzer.

A file has a description in JSON and arrays. A schema names the entries of both, with types, shapes and ranges. Sides of
shapes are letters, and a letter means the same number in all arrays of a file. Whatever does not fit is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite, isnan
from typing import Any

import numpy as np

from rankwolf.ground.arrays import Array

# Types that no kernel and no solver takes: half and extended precision, and other byte orders than the usual one.
FOREIGN = ("f2", "f12", "f16", "c24", "c32")


@dataclass(frozen=True)
class Entry:
    """An array of a schema. ``kinds``: NumPy's letters ("f c"), or exact types ("i2"). ``shape``: its sides.

    ``least`` and ``most`` bound the entries of a real one. It may be absent if it is ``optional``.
    """

    kinds: str
    shape: tuple[str | int, ...]
    least: float | None = None
    most: float | None = None
    finite: bool = True
    optional: bool = False

    def check_type(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], sides: dict[str, int]
    ) -> None:
        """Raise a ValueError unless type and shape fit; ``sides`` learns what the letters are in this file."""
        code = dtype.str[1:]
        fitting = any(kind in (code, dtype.kind) for kind in self.kinds.split())
        if not fitting or code in FOREIGN or dtype.str[0] == ">":
            raise ValueError(f"its part {name!r} has the type {dtype}")
        fits = len(shape) == len(self.shape)
        for side, known in zip(shape, self.shape, strict=False):
            fits &= side == (sides.setdefault(known, side) if isinstance(known, str) else known)
        if not fits:
            raise ValueError(f"its part {name!r} of shape {shape} does not fit together with the others")

    def check(self, name: str, array: Array) -> None:
        """Raise a ValueError unless all entries are in the range."""
        if self.finite and array.dtype.kind in "f c" and not np.isfinite(array).all():
            raise ValueError(f"its part {name!r} is not finite")
        if array.size and array.dtype.kind != "c":
            low, high = array.min(), array.max()
            if (self.least is not None and low < self.least) or (self.most is not None and high > self.most):
                raise ValueError(f"its part {name!r} has entries out of range ({low:g} to {high:g})")


def is_number(value: Any) -> bool:
    """Whether ``value`` is a float, or a whole number below 2⁶³."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return isinstance(value, float) or whole


def is_not_negative(value: Any) -> bool:
    """Whether ``value`` is a number of at least 0, or NaN."""
    return is_number(value) and (isnan(value) or value >= 0)


def is_count(value: Any) -> bool:
    """Whether ``value`` is a whole number of at least 0."""
    return isinstance(value, int) and is_number(value) and value >= 0


def is_size(value: Any) -> bool:
    """Whether ``value`` is at least 0, and its square still finite."""
    return is_not_negative(value) and value <= 1e150


def is_pair(value: Any) -> bool:
    """Whether ``value`` is a list of two finite numbers, none of them negative."""
    return (
        isinstance(value, list) and len(value) == 2 and all(is_not_negative(x) and isfinite(x) for x in value)
    )


def is_word(value: Any) -> bool:
    """Whether ``value`` is a short text."""
    return isinstance(value, str) and len(value) < 100


def optional(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """As ``fits``, or None."""
    return lambda value: value is None or fits(value)


def a(kind: type) -> Callable[[Any], bool]:
    """Whether a value is of this type."""
    return lambda value: isinstance(value, kind)


@dataclass(frozen=True)
class Schema:
    """A kind of file. ``words``: what it is; ``about``: the name of its description; ``settings``: what that holds.

    ``others``: the beginnings of the names of further arrays, which the description refers to.
    """

    words: str
    format: int
    about: str
    settings: dict[str, Callable[[Any], bool]]
    arrays: dict[str, Entry] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    def check_settings(self, found: Any) -> dict[str, Any]:
        """The description, if it has all entries, and each of its kind; else a ValueError."""
        if not isinstance(found, dict):
            raise ValueError("its description is none")
        if found.get("format") != self.format:
            raise ValueError(
                f"its format is {str(found.get('format'))[:40]!r}, and this version reads {self.format}"
            )
        for name, fits in self.settings.items():
            if name not in found:
                raise ValueError(f"it does not say {name}")
            if not fits(found[name]):
                raise ValueError(f"its {name} is {str(found[name])[:40]!r}")
        return found


HISTORY = {
    **dict.fromkeys(
        ("iteration", "passes", "rank", "nonzeros", "bytes_read", "stage"), Entry("i u", ("h",), least=0)
    ),
    **dict.fromkeys(("gap", "relative_gap", "seconds"), Entry("f", ("h",), least=0, finite=False)),
    **dict.fromkeys(
        ("objective", "step_size", "sparse_step_size", "surrogate_gap"), Entry("f", ("h",), finite=False)
    ),
}
RESULT = Schema(
    "a file that Decomposition.save wrote",
    3,
    "settings",
    {
        # Not necessarily finite: a run may end because its objective is not, and the gap of a refit is infinite.
        "objective": is_number,
        "gap": is_not_negative,
        "relative_gap": is_not_negative,
        "gap_is_proved": a(bool),
        "status": is_word,
        "iterations": is_count,
        "passes": is_count,
        "seconds": is_not_negative,
        "method": is_word,
        "form": is_word,
        "pair": is_pair,
        "sparse": is_word,
        "nonzeros": is_count,
        "threshold": optional(is_not_negative),
        "shrinks": a(bool),
        "noise_scale": optional(is_not_negative),
        "residual": is_number,
        "labels": optional(a(str)),
    },
    {
        "u": Entry("f c", ("m", "r")),
        "s": Entry("f", ("r",), least=0),
        "vt": Entry("f c", ("r", "n")),
        "sparse_data": Entry("f c", ("z",), optional=True),
        "sparse_indices": Entry("i", ("z",), least=0, optional=True),
        "sparse_indptr": Entry("i", ("p",), least=0, optional=True),
        **{f"history_{name}": entry for name, entry in HISTORY.items()},
    },
)
CHECKPOINT = Schema(
    "a whole checkpoint of this version of Rankwolf",
    3,
    "about",
    {
        "settings": a(dict),
        "shape": is_word,
        "fingerprint": a(str),
        "form": is_word,
        "problem": a(list),
        "summary": a(dict),
        "passes": is_count,
        "bytes_read": is_count,
        "rng": a(dict),
        "progress": a(dict),
        "state": a(object),
    },
    others=("array", "rows"),
)
MASK = Schema(
    "a model of the mask",
    2,
    "about",
    {},
    {
        "values": Entry("i2", ("samples", "channels", "height", "width")),
        "offsets": Entry("i8", ("o", "samples", 2)),
        "square": Entry("i8", (1,), least=0),
        "colors": Entry("u1", ("k", "channels", "height", "width"), optional=True),
        "weights": Entry("u1", ("k", "height", "width"), optional=True),
        "mode": Entry("f4", ("height", "width"), least=0.001, optional=True),
        "stands": Entry("b1", ("height", "width"), optional=True),
        "scene": Entry("u1", ("height", "width", "channels"), optional=True),
        "width": Entry("f8", (1,), least=0.001, optional=True),
    },
)
LIVE = Schema(
    "a state that Separator.save wrote",
    3,
    "about",
    {
        "count": is_count,
        "relearned": is_count,
        "changed": is_count,
        "shape": optional(a(list)),
        "collecting": a(bool),
        "numbers": optional(a(list)),
    },
    {
        "collected": Entry("u1", ("c", "row")),
        "right": Entry("f4", ("columns", "rank"), optional=True),
        "stayed": Entry("u4", ("height", "width"), optional=True),
        "reference": Entry("f4", ("height", "width"), optional=True),
        **{name: Entry(e.kinds, e.shape, e.least, e.most, e.finite, True) for name, e in MASK.arrays.items()},
    },
)
SCHEMAS = {"result": RESULT, "checkpoint": CHECKPOINT, "mask": MASK, "live": LIVE}
