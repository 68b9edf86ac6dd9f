"""A matrix that is a dask.array: in the threads of this process, or on the workers of a cluster.

Partitions and the orders that change their rows are here, and how they survive the loss of a worker. Dask itself is
imported inside the functions that need it.
"""

from rankwolf.data.on_dask.source import OnDask, open_dask

__all__ = ["OnDask", "open_dask"]
