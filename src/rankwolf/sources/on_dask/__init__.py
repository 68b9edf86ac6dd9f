"""A matrix that is a dask.array: in the threads of this process, or on the workers of a cluster."""

from rankwolf.sources.on_dask.chunks import is_dask_array
from rankwolf.sources.on_dask.source import OnDask

__all__ = ["OnDask", "is_dask_array"]
