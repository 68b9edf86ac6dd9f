"""One algorithm in each file, with the contract of :class:`Solver`; :data:`SOLVERS` is the registry of them all.

:mod:`~rankwolf.solvers.refit` and :mod:`~rankwolf.solvers.refit_measured` are not solvers of a form: they fit L again,
without shrinkage, to what a solver found, in a loop of a few rounds of their own.

A solver says which forms of the problem and which kinds of data it takes. It has no clock, no stopping rule, and
prints nothing: the loop is in :mod:`rankwolf.run`.
"""

from __future__ import annotations

from typing import Any

from rankwolf.solvers.alternating import Alternating
from rankwolf.solvers.auto import Auto
from rankwolf.solvers.base import Report, Solution, Solver
from rankwolf.solvers.fista import Fista
from rankwolf.solvers.fw import FrankWolfe
from rankwolf.solvers.fw_p import FrankWolfeProjection
from rankwolf.solvers.fw_t import FrankWolfeThresholding
from rankwolf.solvers.hybrid import Hybrid
from rankwolf.solvers.ista import Ista
from rankwolf.solvers.path import Path
from rankwolf.solvers.splitting import Splitting

# Solvers by name. method="auto" takes the first one here that solves the form of the problem on the kind of data.
SOLVERS: dict[str, type[Solver[Any, Any]]] = {
    solver.name: solver
    for solver in (
        Auto,
        Alternating,
        Splitting,
        Hybrid,
        Path,
        Fista,
        Ista,
        FrankWolfeThresholding,
        FrankWolfeProjection,
        FrankWolfe,
    )
}

__all__ = [
    "SOLVERS",
    "Alternating",
    "Auto",
    "Fista",
    "FrankWolfe",
    "FrankWolfeProjection",
    "FrankWolfeThresholding",
    "Hybrid",
    "Ista",
    "Path",
    "Report",
    "Solution",
    "Solver",
    "Splitting",
]
