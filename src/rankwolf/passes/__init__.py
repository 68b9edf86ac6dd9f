"""The tasks that entry-wise solvers run over the tiles of a matrix, and the sums that they return.

A task does one thing with each tile. How tiles are read and sums are added is decided in :mod:`rankwolf.data`; what the
sums mean for an algorithm, in :mod:`rankwolf.solvers`.

Notation: D = P_Ω(M − L) is the residual, G = clip(D, ±limit), S = D − G. The gradient of the smooth
part with respect to L is −G. With ``limit`` = ∞ nothing is clipped and G = D.
"""

from rankwolf.passes.dual import Deflation, GramOfDual, GramTask, MultiplyDual, mirror
from rankwolf.passes.factors import EvaluateFactors, evaluate, misfit_of_pair, threshold_for_radius
from rankwolf.passes.sums import CLIPPED_VALUES, ClippedSums, DualSums
from rankwolf.passes.tile_steps import clip_tile, observed_share, sampled_residual, with_entries

__all__ = [
    "CLIPPED_VALUES",
    "ClippedSums",
    "Deflation",
    "DualSums",
    "EvaluateFactors",
    "GramOfDual",
    "GramTask",
    "MultiplyDual",
    "clip_tile",
    "evaluate",
    "mirror",
    "misfit_of_pair",
    "observed_share",
    "sampled_residual",
    "threshold_for_radius",
    "with_entries",
]
