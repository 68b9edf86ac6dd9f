"""The kinds of files, and the one function that reads a matrix from any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rankwolf.files.address import Address
from rankwolf.files.cell import ask
from rankwolf.files.door import LIMITS, most_memory, open_foreign, stored_bytes
from rankwolf.files.npz import read_header
from rankwolf.files.readers import check_matrix, open_in_place
from rankwolf.files.tables import Dialect, TableOptions


class Kind(NamedTuple):
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
# A matrix of up to this share of the memory that it may take is read once and kept; a larger one stays on the disk.
KEPT_SHARE = 0.25


@dataclass(frozen=True)
class Labels:
    """Names of columns and rows, where the file had any; ``index_name`` is that of the index column."""

    columns: Sequence[str] | None = None
    index: Sequence[Any] | None = None
    index_name: str | None = None

    def column(self, number: int) -> str:
        """The name of a column; "column 3" where columns have none."""
        return f"column {number}" if self.columns is None else str(self.columns[number])

    def row(self, number: int) -> str:
        """The name of a row; "row 3" where rows have none."""
        return f"row {number}" if self.index is None else str(self.index[number])


NO_LABELS = Labels()


@dataclass(frozen=True)
class LabelledMatrix:
    """The matrix in a file: ``values`` is an array with NaN for missing entries, a dataset, or a CSR array.

    ``kind`` and ``member`` say where it came from, so that L and S can be written in the same way. ``warnings`` are
    sentences about damage in spite of which it was read, ``notes`` about what was assumed: an encoding, a decimal mark.
    ``keys`` are names of columns that look like keys of the rows but are part of the matrix. ``dialect`` says how a
    text was written. ``limits``: (low, high) of cells that are only known to be above or below a value, NaN elsewhere.
    """

    values: Any
    kind: str
    labels: Labels = NO_LABELS
    member: str | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    dialect: Dialect | None = None
    limits: tuple[Any, Any] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return int(self.values.shape[0]), int(self.values.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether ``values`` is a sparse matrix."""
        return hasattr(self.values, "tocsr")


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
    address, options = Address.parse(address), options or TableOptions()
    kind = _kind_of(address)
    if address.member is not None and not kind.members:
        raise address.bad(f"a {kind.endings[0]} file holds one matrix. Leave out '::{address.member}'.")
    if kind.name not in TABLES and options.for_tables:
        words = " and ".join(options.for_tables)
        raise address.bad(f"{words} is for tables with names, and {kind.words} has none.")
    if kind.name != "npy":
        return _from_cell(address, kind, options, max_memory, KEPT_SHARE if may_stay else None)
    # Its header is the one thing that is parsed here and not in the cell: a line of Python's own syntax.
    with address.reading(kind.words), open_foreign(address) as file:
        header = read_header(address, file, stored_bytes(address))
        check_matrix(address, header.shape, header.dtype)
        return LabelledMatrix(header.mapped(file), "npy")


def open_dataset(address: Any) -> Any:
    """The two-dimensional ``h5py.Dataset`` or ``zarr.Array`` at ``file.h5::/path``, to be read in place."""
    address = Address.parse(address)
    kind = _kind_of(address)
    if kind.name not in ("hdf5", "zarr"):
        raise address.bad("only .npy, HDF5 and Zarr stay on the disk.")
    return _from_cell(address, kind, TableOptions(), None, 0.0).values


def _from_cell(
    address: Address, kind: Kind, options: TableOptions, max_memory: int | None, kept: float | None
) -> LabelledMatrix:
    """``kept``: stores that take more than this share of the memory stay on the disk; None: nothing does.

    The default limit on growth holds for them too. With 0 they are opened without being read once, for callers from
    Python, who know what they have.
    """
    stored = stored_bytes(address)
    most = most_memory(stored, max_memory)
    request = {
        "kind": kind.name,
        "words": kind.words,
        "options": asdict(options),
        "most": most,
        "stays": None if kept is None else kept * most,
        "plausible": max(LIMITS.harmless, LIMITS.growth * stored) if max_memory is None and kept else None,
        "look": bool(kept),
    }
    words, arrays = ask("rankwolf.files.readers:matrix", request, address, stored, most)
    member = words.get("member")
    if "stays" in words:
        values: Any = open_in_place(address.path, member)
    elif "sparse" in words:
        from scipy.sparse import csr_array

        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        values = csr_array(parts, shape=tuple(words["sparse"]))
    else:
        values = arrays["values"]
    index = arrays["index"].tolist() if "index" in arrays else words.get("index")
    columns = words.get("columns")
    return LabelledMatrix(
        values,
        words.get("kind", kind.name),
        Labels(columns and tuple(columns), index, words.get("index_name")),
        member,
        tuple(words.get("warnings", ())),
        tuple(words.get("notes", ())),
        tuple(words.get("keys", ())),
        Dialect(*words["dialect"]) if "dialect" in words else None,
        (arrays["low"], arrays["high"]) if "low" in arrays else None,
    )


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
