"""The kinds of files, and the one function that reads a matrix from any of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwolf.files import feather, matlab, numpy_files, parquet, spreadsheet, stores, text
from rankwolf.files.address import Address
from rankwolf.files.claims import Budget
from rankwolf.files.named_matrix import LabelledMatrix
from rankwolf.files.table_columns import TableOptions


@dataclass(frozen=True)
class Kind:
    """A kind of file: what people call it, its endings, and whether it can hold a sparse matrix, or several arrays."""

    name: str
    words: str
    endings: tuple[str, ...]
    sparse: bool = False
    members: bool = False


KINDS = (
    Kind("npy", "a NumPy array", (".npy",)),
    Kind("npz", "an archive of NumPy arrays", (".npz",), sparse=True, members=True),
    Kind("mat", "a Matlab file", (".mat",), sparse=True, members=True),
    Kind("mat73", "a Matlab file", (".mat",), sparse=True, members=True),
    Kind("csv", "a table", (".csv", ".txt", ".dat")),
    Kind("tsv", "a table", (".tsv", ".tab")),
    Kind("csv.gz", "a compressed table", (".csv.gz", ".txt.gz", ".dat.gz")),
    Kind("tsv.gz", "a compressed table", (".tsv.gz", ".tab.gz")),
    Kind("parquet", "a Parquet file", (".parquet", ".pq")),
    Kind("feather", "a Feather file", (".feather", ".arrow")),
    Kind("xlsx", "a spreadsheet", (".xlsx", ".xlsm"), members=True),
    Kind("hdf5", "an HDF5 file", (".h5", ".hdf5", ".hdf"), members=True),
    Kind("zarr", "a Zarr array", (".zarr",), members=True),
)


TEXTS = ("csv", "tsv", "csv.gz", "tsv.gz")
TABLES = (*TEXTS, "parquet", "feather", "xlsx")


def kind_named(name: str) -> Kind:
    """The :class:`Kind` whose ``name`` is this."""
    return next(kind for kind in KINDS if kind.name == name)


def is_table(path: Path) -> bool:
    """Whether a file is a table, by the ending of its name. Tables are read into memory as a whole."""
    return any(path.name.lower().endswith(kind_named(name).endings) for name in TABLES)


def read_matrix(
    address: Any,
    *,
    max_memory: int | None = None,
    options: TableOptions | None = None,
    may_stay: bool = False,
) -> LabelledMatrix:
    """The matrix at ``address``: a file name, or ``file::member``. A ValueError of one line if it cannot be read.

    ``max_memory``: how many bytes it may take; default: what the machine has free, and no implausible growth. An
    ``.npy`` stays on the disk. With ``may_stay``, HDF5 or Zarr that takes more than a quarter of the memory stays there
    too, and ``values`` is the open dataset.
    """
    address, budget, options = Address.parse(address), Budget(max_memory), options or TableOptions()
    kind = _kind_of(address)
    if address.member is not None and not kind.members:
        raise address.bad(f"a {kind.endings[0]} file holds one matrix. Leave out '::{address.member}'.")
    if kind.name not in TABLES and options.for_tables:
        words = " and ".join(options.for_tables)
        raise address.bad(f"{words} is for tables with names, and {kind.words} has none.")
    with address.reading(kind.words):
        if kind.name == "npy":
            return numpy_files.read_npy(address, budget)
        if kind.name == "npz":
            return numpy_files.read_npz(address, budget)
        if kind.name == "mat":
            return matlab.read_mat(address, budget)
        if kind.name in TEXTS:
            return text.read_text(address, budget, options, kind.name)
        if kind.name == "parquet":
            return parquet.read_parquet(address, budget, options)
        if kind.name == "feather":
            return feather.read_feather(address, budget, options)
        if kind.name == "xlsx":
            return spreadsheet.read_xlsx(address, budget, options)
        return stores.read_store(address, budget, may_stay)


def _kind_of(address: Address) -> Kind:
    """The kind of a file, by the ending of its name; a folder is a Zarr store."""
    path = address.path
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    if path.is_dir():
        if path.suffix == ".zarr" or any(
            (path / name).exists() for name in (".zarray", ".zgroup", "zarr.json")
        ):
            return kind_named("zarr")
        raise address.bad("it is a folder and not a Zarr store. For images there is 'rankwolf separate'.")
    if not path.is_file():  # a pipe or a device would wait for ever
        raise address.bad("it is not a plain file.")
    for kind in KINDS:
        if path.name.lower().endswith(kind.endings) and kind.name != "zarr":
            return kind
    endings = ", ".join(ending for kind in KINDS for ending in kind.endings[:1] if kind.name != "mat73")
    raise address.bad(f"its ending {path.suffix!r} is not known. Known are {endings}.")
