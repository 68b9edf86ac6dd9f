"""One algorithm per file, each with the contract of :class:`rankwolf.solvers.base.Solver`."""

from __future__ import annotations

from typing import Any

from rankwolf.solvers.alternating import Alternating
from rankwolf.solvers.base import Report, Solution, Solver
from rankwolf.solvers.frank_wolfe import FrankWolfe
from rankwolf.solvers.fw_p import FrankWolfeProjection
from rankwolf.solvers.fw_t import FrankWolfeThresholding
from rankwolf.solvers.hybrid import Hybrid
from rankwolf.solvers.proximal_gradient import Fista, Ista

SOLVERS: dict[str, type[Solver[Any, Any]]] = {
    solver.name: solver
    for solver in (Hybrid, FrankWolfeThresholding, FrankWolfeProjection, FrankWolfe, Ista, Fista, Alternating)
}

__all__ = [
    "SOLVERS",
    "Alternating",
    "Fista",
    "FrankWolfe",
    "FrankWolfeProjection",
    "FrankWolfeThresholding",
    "Hybrid",
    "Ista",
    "Report",
    "Solution",
    "Solver",
]
