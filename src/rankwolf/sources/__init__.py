"""Where the matrix lives: one contract, one file per place."""

from rankwolf.sources.base import Array, Source, Sums, Task
from rankwolf.sources.in_memory import InMemory

__all__ = ["Array", "InMemory", "Source", "Sums", "Task"]
