"""Rankwolf splits a matrix into a low-rank and a sparse part, M ≈ L + S, at a cost linear in the data."""

from rankwolf.api import decompose
from rankwolf.lowrank import LowRank
from rankwolf.result import Decomposition, Record, Status, load

__version__ = "0.1.0"

__all__ = ["Decomposition", "LowRank", "Record", "Status", "__version__", "decompose", "load"]
