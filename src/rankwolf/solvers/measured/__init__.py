"""The paper's algorithms for b = A[M]: the same steps, with A and A* where the entry-wise ones have P_Ω.

S is stored here as an array: it is no longer a function of L. L stays factored.
"""

from __future__ import annotations

from typing import Any

from rankwolf.solvers.base import Solver
from rankwolf.solvers.measured.base import MeasuredSolution
from rankwolf.solvers.measured.frank_wolfe import MeasuredFrankWolfe
from rankwolf.solvers.measured.fw_p import MeasuredFrankWolfeProjection
from rankwolf.solvers.measured.fw_t import MeasuredFrankWolfeThresholding
from rankwolf.solvers.measured.proximal_gradient import MeasuredFista, MeasuredIsta

# The first that fits a problem is what "auto" means for it.
MEASURED_SOLVERS: dict[str, type[Solver[Any, Any]]] = {
    solver.name: solver
    for solver in (
        MeasuredFista,
        MeasuredIsta,
        MeasuredFrankWolfeThresholding,
        MeasuredFrankWolfeProjection,
        MeasuredFrankWolfe,
    )
}

__all__ = [
    "MEASURED_SOLVERS",
    "MeasuredFista",
    "MeasuredFrankWolfe",
    "MeasuredFrankWolfeProjection",
    "MeasuredFrankWolfeThresholding",
    "MeasuredIsta",
    "MeasuredSolution",
]
