"""Rankwolf splits a matrix into a low-rank and a sparse part, M ≈ L + S, at a cost linear in the data.

Public names are imported from their modules when they are first asked for, so that ``rankwolf --help`` does not wait
for the numerical libraries.
"""

from __future__ import annotations

from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors; a test compares these with the table below
    from rankwolf import callbacks, problem, sensing, solvers, video
    from rankwolf.api.decompose import decompose
    from rankwolf.api.path import Path, PathPoint, path
    from rankwolf.api.recover import recover
    from rankwolf.api.select import DeltaSearch, select_delta
    from rankwolf.factors.robust_pca import RobustPCA
    from rankwolf.ground.complaints import RankwolfWarning
    from rankwolf.ground.low_rank import LowRank
    from rankwolf.result import Decomposition, Record, SparsePart, Status, load
    from rankwolf.video.live import Separator
    from rankwolf.video.separated import separate

__version__ = "1.0.0rc1"

_HOMES = {
    "Decomposition": "rankwolf.result",
    "DeltaSearch": "rankwolf.api.select",
    "LowRank": "rankwolf.ground.low_rank",
    "RankwolfWarning": "rankwolf.ground.complaints",
    "Path": "rankwolf.api.path",
    "PathPoint": "rankwolf.api.path",
    "Record": "rankwolf.result",
    "RobustPCA": "rankwolf.factors.robust_pca",
    "Separator": "rankwolf.video.live",
    "SparsePart": "rankwolf.result",
    "Status": "rankwolf.result",
    "callbacks": "rankwolf",
    "decompose": "rankwolf.api.decompose",
    "load": "rankwolf.result",
    "problem": "rankwolf",
    "path": "rankwolf.api.path",
    "recover": "rankwolf.api.recover",
    "select_delta": "rankwolf.api.select",
    "separate": "rankwolf.video.separated",
    "sensing": "rankwolf",
    "solvers": "rankwolf",
    "video": "rankwolf",
}
# Names that are modules themselves, not names inside their home.
_MODULES = {"callbacks", "problem", "sensing", "solvers", "video"}
# Two threads that ask for their first names at the same moment would enter Numba through different modules, which
# import each other: Python finds a deadlock of imports, and one of the threads fails. So one thread imports at a time.
_ONE_AT_A_TIME = RLock()

__all__ = [
    "Decomposition",
    "DeltaSearch",
    "LowRank",
    "Path",
    "PathPoint",
    "RankwolfWarning",
    "Record",
    "RobustPCA",
    "Separator",
    "SparsePart",
    "Status",
    "__version__",
    "callbacks",
    "decompose",
    "load",
    "path",
    "problem",
    "recover",
    "select_delta",
    "sensing",
    "separate",
    "solvers",
    "video",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        with _ONE_AT_A_TIME:
            found = (
                import_module(f"{home}.{name}") if name in _MODULES else getattr(import_module(home), name)
            )
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
    return sorted(__all__)
