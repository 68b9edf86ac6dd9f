"""What our own files hold: one schema for each kind of ``.npz``, for its writer, its reader, the documents, the fuzzer.

A file has a description in JSON and arrays. A schema names the entries of both, with types, shapes and ranges. Sides of
shapes are letters, and a letter means the same number in all arrays of a file. Whatever does not fit is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import isfinite, isnan
from typing import Any, TypeVar

import numpy as np

from rankwolf.ground.arrays import Array

T = TypeVar("T")
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


def each(names: str, rule: T) -> dict[str, T]:
    """The same rule for each of these names."""
    return dict.fromkeys(names.split(), rule)


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


RESULT = Schema(
    "a file that Decomposition.save wrote",
    3,
    "settings",
    {
        # Not necessarily finite: a run may end because its objective is not, and the gap of a refit is infinite.
        **each("objective residual", is_number),
        **each("gap relative_gap seconds", is_not_negative),
        **each("iterations passes nonzeros", is_count),
        **each("gap_is_proved shrinks", a(bool)),
        **each("status method form sparse", is_word),
        **each("threshold noise_scale", optional(is_not_negative)),
        "pair": is_pair,
        "labels": optional(a(str)),
    },
    {
        "u": Entry("f c", ("m", "r")),
        "s": Entry("f", ("r",), least=0),
        "vt": Entry("f c", ("r", "n")),
        "sparse_data": Entry("f c", ("z",), optional=True),
        "sparse_indices": Entry("i", ("z",), least=0, optional=True),
        "sparse_indptr": Entry("i", ("p",), least=0, optional=True),
        **each(
            "history_iteration history_passes history_rank history_nonzeros history_bytes_read history_stage",
            Entry("i u", ("h",), least=0),
        ),
        **each("history_gap history_relative_gap history_seconds", Entry("f", ("h",), least=0, finite=False)),
        **each(
            "history_objective history_step_size history_sparse_step_size history_surrogate_gap",
            Entry("f", ("h",), finite=False),
        ),
    },
)
CHECKPOINT = Schema(
    "a whole checkpoint of this version of Rankwolf",
    3,
    "about",
    {
        **each("settings summary rng progress", a(dict)),
        **each("shape form", is_word),
        **each("passes bytes_read", is_count),
        "fingerprint": a(str),
        "problem": a(list),
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
        **each("count relearned changed", is_count),
        **each("shape numbers", optional(a(list))),
        "collecting": a(bool),
    },
    {
        "collected": Entry("u1", ("c", "row")),
        "right": Entry("f4", ("columns", "rank"), optional=True),
        "stayed": Entry("u4", ("height", "width"), optional=True),
        "reference": Entry("f4", ("height", "width"), optional=True),
        **{name: replace(entry, optional=True) for name, entry in MASK.arrays.items()},
    },
)
PARAMETERS = {"n_components", "center", "contamination", "whiten", "implicit", "forgetting"}
FACTORS = Schema(
    "a model that RobustPCA.save wrote",
    2,
    "about",
    {
        "parameters": lambda value: isinstance(value, dict) and set(value) == PARAMETERS,
        "dtype": lambda value: value in ("float32", "float64"),
        "features": lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
        **each("samples rounds", is_count),
        **each("seen rows", is_size),
        "offset": is_number,
        "strength": is_pair,
    },
    {
        **each("model_centre core_centre", Entry("f8", ("n",))),
        **each("model_scale core_scale model_noise core_noise", Entry("f8", ("n",), least=1e-150)),
        **each("model_resolution core_resolution model_size core_size", Entry("f8", ("n",), least=0)),
        **each("model_power core_power", Entry("f8", ("n",), least=0)),
        "model_loadings": Entry("f8", ("n", "r")),
        "core_loadings": Entry("f8", ("n", "q")),
        "scatter_matrix": Entry("f8", ("w", "n")),
        "scatter_diagonal": Entry("f8", ("n",)),
    },
)
SCHEMAS = {"result": RESULT, "factors": FACTORS, "checkpoint": CHECKPOINT, "mask": MASK, "live": LIVE}
