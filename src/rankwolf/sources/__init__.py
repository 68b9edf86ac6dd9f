"""Where the matrix lives: one contract, one file per place."""

from rankwolf.sources.base import Array, Source, Sums, Task
from rankwolf.sources.in_memory import InMemory
from rankwolf.sources.sparse import SparseObserved, SparseZeros

__all__ = ["Array", "InMemory", "Source", "SparseObserved", "SparseZeros", "Sums", "Task"]
