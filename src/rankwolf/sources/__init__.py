"""Where the matrix lives: one contract, one file per place."""

from rankwolf.sources.base import Array, Source, Sums, Task
from rankwolf.sources.in_memory import InMemory
from rankwolf.sources.on_dask import OnDask, is_dask_array
from rankwolf.sources.on_disk import OnDisk
from rankwolf.sources.opening import as_stored
from rankwolf.sources.sparse import SparseObserved, SparseZeros
from rankwolf.sources.stored import MappedArray, Stored

__all__ = [
    "Array", "InMemory", "MappedArray", "OnDask", "OnDisk", "Source", "SparseObserved", "SparseZeros", "Stored", "Sums",
    "Task", "as_stored", "is_dask_array",
]  # fmt: skip
