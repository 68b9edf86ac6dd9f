"""Where the matrix lives: one contract (:class:`Source`), one file for each place, one door (``open.py``).

A source turns masks, NaN, integers, files and workers into tiles and runs passes over them. What only some sources can
do is a question of the contract, so that nothing above this folder asks which one it has, but for the one solver that
takes sparse matrices alone. Nothing here knows of problems, weights or solvers.
"""

from rankwolf.data.in_memory import InMemory
from rankwolf.data.on_dask import OnDask
from rankwolf.data.on_disk import OnDisk
from rankwolf.data.source import Source
from rankwolf.data.sparse import SparseObserved, SparseZeros
from rankwolf.data.storage_kinds import as_stored
from rankwolf.data.stored import MappedArray, Stored
from rankwolf.data.summary import Data, Summary
from rankwolf.data.tasks import Sums, Task

__all__ = [
    "Data",
    "InMemory",
    "MappedArray",
    "OnDask",
    "OnDisk",
    "Source",
    "SparseObserved",
    "SparseZeros",
    "Stored",
    "Summary",
    "Sums",
    "Task",
    "as_stored",
]
