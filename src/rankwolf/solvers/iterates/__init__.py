"""The pair (L, S) of an iteration, and the verbs with which the paper's algorithms move it.

There is one file for each kind of data, so that an algorithm is written once: its ``step`` reads like the paper's
lines, and what a line does on entries or on measurements is decided here. No algorithm and no stopping rule lives here.
"""

from __future__ import annotations

from typing import Any

from rankwolf.ground.low_rank import LowRank
from rankwolf.ground.momentum import Momentum
from rankwolf.passes import ResidualSums
from rankwolf.solvers.iterates.atoms import Atoms, SparseAtoms
from rankwolf.solvers.iterates.base import AtomicPair, ShrinkingPair
from rankwolf.solvers.iterates.nuclear_oracle import NuclearOracle
from rankwolf.solvers.iterates.of_entries import AtomicEntries, ThresholdedEntries
from rankwolf.solvers.iterates.of_measurements import MeasuredIterate
from rankwolf.solvers.iterates.proximal import ProximalPair
from rankwolf.solvers.iterates.proximal_of_entries import ProximalEntries
from rankwolf.solvers.iterates.proximal_of_measurements import MeasuredPair, ProximalMeasured

# The classes of iterates by the kind of data. Another kind of data is one class and one line in each table.
ATOMIC: dict[str, type[AtomicPair[Any, Any]]] = {"entries": AtomicEntries, "measurements": MeasuredIterate}
SHRINKING: dict[str, type[ShrinkingPair[Any, Any]]] = {
    "entries": ThresholdedEntries,
    "measurements": MeasuredIterate,
}
PROXIMAL: dict[str, type[ProximalPair[Any]]] = {
    "entries": ProximalEntries,
    "measurements": ProximalMeasured,
}
# The classes that occur in their states, for checkpoints.
ATOMIC_STATES = (AtomicEntries, MeasuredIterate, NuclearOracle, Atoms, SparseAtoms, ResidualSums)
SHRINKING_STATES = (ThresholdedEntries, MeasuredIterate, NuclearOracle, Atoms, ResidualSums)
PROXIMAL_STATES = (ProximalEntries, ProximalMeasured, MeasuredPair, LowRank, NuclearOracle, Momentum)
