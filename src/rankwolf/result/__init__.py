"""What a run gives back: the two parts, how good they are, why the run ended.

Results can be plotted, refitted, saved and loaded, and their parts indexed. No convex problem is solved here.
"""

from rankwolf.result.decomposition import Decomposition, Record, Status
from rankwolf.result.saving import load
from rankwolf.result.sparse_part import SparsePart

__all__ = ["Decomposition", "Record", "SparsePart", "Status", "load"]
