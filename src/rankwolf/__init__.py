"""Rankwolf splits a matrix into a low-rank and a sparse part, M ≈ L + S, at a cost linear in the data.

Public names are imported from their modules when they are first asked for, so that ``rankwolf --help`` does not wait
for the numerical libraries.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors; a test compares these with the table below
    from rankwolf import callbacks, sensing
    from rankwolf.api import decompose
    from rankwolf.estimator import RobustPCA
    from rankwolf.lowrank import LowRank
    from rankwolf.recovery import recover
    from rankwolf.result import Decomposition, Record, Status, load
    from rankwolf.selection import DeltaSearch, select_delta

__version__ = "0.1.0"

_HOMES = {
    "Decomposition": "rankwolf.result",
    "DeltaSearch": "rankwolf.selection",
    "LowRank": "rankwolf.lowrank",
    "Record": "rankwolf.result",
    "RobustPCA": "rankwolf.estimator",
    "Status": "rankwolf.result",
    "callbacks": "rankwolf",
    "decompose": "rankwolf.api",
    "load": "rankwolf.result",
    "recover": "rankwolf.recovery",
    "select_delta": "rankwolf.selection",
    "sensing": "rankwolf",
}

__all__ = [
    "Decomposition",
    "DeltaSearch",
    "LowRank",
    "Record",
    "RobustPCA",
    "Status",
    "__version__",
    "callbacks",
    "decompose",
    "load",
    "recover",
    "select_delta",
    "sensing",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = import_module(f"rankwolf.{name}") if home == __name__ else getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        raise ImportError(
            f"rankwolf.{name} needs scikit-learn. Install it with: pip install 'rankwolf[sklearn]'",
            name="sklearn",
        ) from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
