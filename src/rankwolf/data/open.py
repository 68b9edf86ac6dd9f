"""The one door: whatever a user hands in becomes a source here, and is checked before any work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rankwolf.data.in_memory import open_array
from rankwolf.data.labelled import labelled
from rankwolf.data.on_dask import open_dask
from rankwolf.data.on_disk import open_stored
from rankwolf.data.request import Request
from rankwolf.data.source import Source
from rankwolf.data.sparse import open_sparse
from rankwolf.data.workspace import Workspace
from rankwolf.ground.complaints import bad, check_scale_of
from rankwolf.platform import resident_memory

Opener = Callable[[Any, Request], Source | None]
# Who can open what. They are asked in this order, and the first that does not answer None has opened it; the last one
# takes whatever NumPy makes an array of. A new kind of data is one more line here.
STAYS_WHERE_IT_IS: tuple[Opener, ...] = (open_dask, open_stored)
COMES_INTO_MEMORY: tuple[Opener, ...] = (open_sparse, open_array)
# Between these the largest magnitude of the data must lie, so that its fourth power is within float64's range: the
# oracle squares products with GᵀG.
SCALE = (1e-60, 1e60)


def open_source(
    X: Any,
    observed: Any = None,
    n_threads: int = 1,
    implicit: str = "missing",
    max_memory: int | None = None,
    where: str = "decompose",
    columns: Any = "all",
) -> Source:
    """The source of ``X``, or ``X`` itself if it is a source. The arguments are those of ``decompose``.

    An array is not copied; a sparse matrix is where it must be turned, sorted or converted, and so is a table where its
    columns are not one array yet. Whether the entries are finite and in scale is left to :func:`check_source`. Raises a
    ValueError that names the function ``where``, if ``X`` is no matrix of real numbers.

    ``max_memory``: of a matrix in memory, row-aligned arrays may take half of what is left of it once the matrix is
    here. A source that reads from elsewhere shares it out itself, between reading and these arrays.
    """
    if isinstance(X, Source):
        return X
    request = Request(observed, n_threads, implicit, max_memory, where)
    table = labelled(X, columns, where)
    values = X if table is None else table.values
    openers = STAYS_WHERE_IT_IS + COMES_INTO_MEMORY
    source = next(source for opener in openers if (source := opener(values, request)) is not None)
    source.frame = None if table is None else table.frame
    if max_memory is not None and source.in_memory:
        held = resident_memory()
        if max_memory <= held:
            rule = "more than this process holds already, with X in memory"
            got = f"{max_memory:,} bytes, and {held:,} are held"
            raise bad("max_memory", rule, got, where, "Keep X on the disk (np.memmap, HDF5, Zarr).")
        source.workspace = Workspace((max_memory - held) // 2)
    return source


def stays_where_it_is(X: Any) -> bool:
    """Whether the source of ``X`` reads it from the disk or from workers, and not from the memory of this process."""
    return any(opener(X, Request()) is not None for opener in STAYS_WHERE_IT_IS)


def check_source(source: Source, where: str = "decompose") -> Source:
    """The same source, if its entries are finite, of a sensible scale, and not all missing; else a ValueError.

    One pass, unless the summary of the data is known already. Afterwards the source is prepared for passes, and the
    type of its tiles is settled.
    """
    source.prepare()
    summary = source.summary
    if summary.infinite:
        remedy = "NaN marks a missing entry."
        raise bad("X", "finite where it is observed", f"{summary.infinite} infinite entries", where, remedy)
    if summary.observed == 0:
        raise bad("X", "observed in at least one entry", "nothing but missing entries", where)
    check_scale_of("X", summary.largest, SCALE, where, "Divide by a constant first.")
    source.settle_type()
    return source
