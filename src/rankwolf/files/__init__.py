"""Matrices in files: reading files of strangers without harm, and writing L and S in the same kind of file.

An address is a file name, or ``file::member`` for a file that holds several arrays: ``data.npz::X``, ``data.mat::X``,
``data.h5::/sensors/raw``, ``data.zarr::/raw``.

=================  ==============================================================================
``.npy``           an array; stays on the disk
``.npz``           one or more arrays, or a matrix that ``scipy.sparse.save_npz`` wrote
``.mat``           Matlab, all versions, dense or sparse
``.csv``, ``.tsv``  a table with or without header and index, also ``.gz``; empty cells are missing
``.parquet``       the same; nulls are missing
``.feather``       the same, in Arrow's own format
``.xlsx``          the same, in the first or the named sheet
``.h5``, ``.hdf5``  a dataset
``.zarr``          an array in a Zarr folder, version 2 or 3
=================  ==============================================================================

One door (:mod:`rankwolf.files.door`) opens every file: a plain one, of a size within limits, with lists of what FFmpeg,
Pillow and Zarr may use. One cell (:mod:`rankwolf.files.cell`) is a child process in which the ordinary library of a
format parses it (:mod:`rankwolf.files.readers`). One schema (:mod:`rankwolf.files.schema`) for each of our own files
says what it holds. Nothing is unpickled. This package imports nothing of Rankwolf but the rooms below it.
"""

from rankwolf.files.address import Address
from rankwolf.files.kinds import (
    KINDS,
    Kind,
    LabelledMatrix,
    Labels,
    is_table,
    kind_named,
    open_dataset,
    read_matrix,
)
from rankwolf.files.tables import TableOptions
from rankwolf.files.writing import write_factors, write_rows, write_sparse

__all__ = [
    "KINDS",
    "Address",
    "Kind",
    "LabelledMatrix",
    "Labels",
    "TableOptions",
    "is_table",
    "kind_named",
    "open_dataset",
    "read_matrix",
    "write_factors",
    "write_rows",
    "write_sparse",
]
