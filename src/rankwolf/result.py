"""What a run gives back: the two parts, how good they are, why it ended, and what happened on the way."""

from __future__ import annotations

import json
import os
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf import kernels
from rankwolf.lowrank import ColumnKey, LowRank, RowKey, split_key
from rankwolf.oracles import l1
from rankwolf.sources import Array, OnDask, Source, SparseObserved
from rankwolf.storing import Name, Part, archive, whole, write_hdf5, write_npy, write_zarr


class Status(Enum):
    """Why a run ended: a sentence for people, a name for programs."""

    GAP_REACHED = "The certified relative gap is at or below tol."
    PAPER_RULE = "The objective changed by at most tol, relatively, in five iterations in a row."
    ITERATION_LIMIT = "The iteration limit was reached."
    TIME_LIMIT = "The time limit was reached."
    CALLBACK = "The callback asked to stop."
    NO_PROGRESS = (
        "Neither the objective nor the certificate improves any more at this floating-point precision."
    )
    NOT_FINITE = "The objective is not finite any more; data of another scale may help."

    @property
    def converged(self) -> bool:
        """Whether the run ended because it reached what was asked for."""
        return self in (Status.GAP_REACHED, Status.PAPER_RULE)

    @property
    def is_limit(self) -> bool:
        """Whether the run ended because it had taken long enough."""
        return self in (Status.ITERATION_LIMIT, Status.TIME_LIMIT, Status.NO_PROGRESS)


@dataclass(frozen=True)
class Record:
    """One iteration. ``gap`` is the objective less the best lower bound so far.

    That bound rests on Ritz values and can be too high where a solver's vectors missed a direction; the gap of the
    :class:`Decomposition` does not.
    """

    iteration: int
    passes: int
    objective: float
    gap: float
    relative_gap: float
    rank: int
    nonzeros: int
    step_size: float
    sparse_step_size: float
    surrogate_gap: float
    seconds: float
    bytes_read: int = 0
    """From the disk, so far; 0 for data in memory."""


class SparsePart(ABC):
    """S: slices of rows, ``nnz``, ``to_scipy()``, ``np.asarray``; it need not exist anywhere as a whole."""

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any], nnz: int) -> None:
        self.shape, self.dtype, self.nnz = shape, dtype, nnz

    @abstractmethod
    def rows(self, start: int, stop: int) -> Array:
        """Rows ``start`` to ``stop`` as a dense array."""

    def __getitem__(self, key: RowKey | tuple[RowKey, ColumnKey]) -> Array:
        rows, columns = split_key(key)
        numbers: Any = np.arange(self.shape[0])[rows]
        if np.ndim(numbers) == 0:
            part = self.rows(int(numbers), int(numbers) + 1)[0]
        elif isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(self.shape[0])
            part = self.rows(start, max(start, stop))
        else:
            part = np.empty((numbers.size, self.shape[1]), self.dtype)
            for place, number in enumerate(numbers):
                part[place] = self.rows(number, number + 1)[0]
        result: Array = part[..., columns]
        return result

    def blocks(self, rows_at_once: int | None = None) -> Iterator[tuple[int, Array]]:
        """(first row, rows) from top to bottom, a few rows at a time."""
        step = rows_at_once or max(1, 2**20 // max(1, self.shape[1]))
        for start in range(0, self.shape[0], step):
            yield start, self.rows(start, min(start + step, self.shape[0]))

    def parts(self) -> Iterator[Part]:
        """(rows, columns, entries) that make up S, whole rows or whole columns, as the data is stored."""
        columns = slice(0, self.shape[1])
        return ((slice(start, start + len(block)), columns, block) for start, block in self.blocks())

    def to_npy(self, path: Name, *, overwrite: bool = False) -> None:
        """Write S as a dense ``.npy``, part by part; the file appears when it is whole."""
        write_npy(path, self.shape, self.dtype, self.parts(), overwrite)

    def to_zarr(self, path: Name, *, overwrite: bool = False, zarr_format: int = 3) -> None:
        """Write S as a Zarr array (a folder, format 2 or 3), part by part; it appears when it is whole."""
        write_zarr(path, self.shape, self.dtype, self.parts(), overwrite, zarr_format)

    def to_hdf5(self, path: Name, name: str = "sparse", *, overwrite: bool = False) -> None:
        """Write S as the dataset ``name`` of a new HDF5 file, part by part; it appears when it is whole."""
        write_hdf5(path, name, self.shape, self.dtype, self.parts(), overwrite)

    def to_scipy(self) -> scipy.sparse.csr_array:
        """As a CSR array."""
        narrow, parts = False, []
        for _, columns, entries in self.parts():
            narrow |= columns.stop - columns.start < self.shape[1]
            parts.append(scipy.sparse.csr_array(entries))
        stack = scipy.sparse.hstack if narrow else scipy.sparse.vstack
        return scipy.sparse.csr_array(stack(parts, format="csr", dtype=self.dtype))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("The sparse part has no dense form to share: np.asarray(S) makes one.")
        dense = self.rows(0, self.shape[0])
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def __repr__(self) -> str:
        share = self.nnz / max(1, self.shape[0] * self.shape[1])
        return (
            f"{type(self).__name__}({self.shape[0]} × {self.shape[1]}, {self.nnz:,} non-zeros, {share:.2%})"
        )


class ThresholdedResidual(SparsePart):
    """S = T_θ(P_Ω(M − L)): computed from the data and L when asked for, never stored.

    ``nnz`` was counted by a pass: an entry within rounding of θ may be zero in one computation and not in another.
    """

    def __init__(self, source: Source, low_rank: LowRank, threshold: float, nnz: int) -> None:
        super().__init__(low_rank.shape, source.dtype, nnz)
        self.source, self._low_rank, self.threshold = source, low_rank, threshold

    def rows(self, start: int, stop: int) -> Array:
        """Read the data again, subtract L, threshold."""
        low_rank = np.asarray(self._low_rank[start:stop])  # of a result on a cluster these are not here yet
        return self._thresholded(self.source.read_user_rows(start, stop), low_rank)

    def beside(self, low_rank: LowRank) -> ThresholdedResidual:
        """The same of another L; ``nnz`` is not counted anew."""
        return type(self)(self.source, low_rank, self.threshold, self.nnz)

    def parts(self) -> Iterator[Part]:
        """As the source likes to be read."""
        for rows, columns, data in self.source.user_parts():
            yield rows, columns, self._thresholded(data, np.asarray(self._low_rank[rows, columns]))

    def _thresholded(self, data: Array, low_rank: Array) -> Array:
        residual = data - low_rank.astype(data.dtype, copy=False)
        return np.nan_to_num(l1.soft_threshold(residual, self.threshold), copy=False, nan=0.0)


class DistributedResidual(ThresholdedResidual):
    """The same for a dask.array: slices of rows come to the client, ``to_dask()`` stays on the workers."""

    source: OnDask

    def to_dask(self) -> Any:
        """S as a lazy dask.array, in the partitions of the data: ``.to_zarr(url)`` writes it from the workers."""
        return self.source.thresholded(self._low_rank, self.threshold)

    def to_scipy(self) -> scipy.sparse.csr_array:
        """As a CSR array, of which every partition is made by a worker."""
        import dask

        blocks = self.to_dask().to_delayed()
        made = dask.compute(
            [[dask.delayed(scipy.sparse.csr_array)(block) for block in row] for row in blocks]
        )[0]
        return scipy.sparse.csr_array(scipy.sparse.block_array(made, format="csr", dtype=self.dtype))


class ThresholdedEntries(SparsePart):
    """The same where the data is a sparse matrix of observed entries: nothing else can be in S."""

    def __init__(self, source: SparseObserved, low_rank: LowRank, threshold: float, nnz: int) -> None:
        super().__init__(low_rank.shape, source.dtype, nnz)
        self._source, self._low_rank, self.threshold = source, low_rank, threshold

    def rows(self, start: int, stop: int) -> Array:
        """A few rows made dense."""
        dense: Array = self._thresholded(start, stop).toarray()
        return dense

    def to_scipy(self) -> scipy.sparse.csr_array:
        """As a CSR array, at the cost of what is stored."""
        return self._thresholded(0, self.shape[0])

    def _thresholded(self, start: int, stop: int) -> scipy.sparse.csr_array:
        rows = self._source.user_rows(start, stop)
        left, right = (np.ascontiguousarray(factor, self.dtype) for factor in self._low_rank.factors())
        residual = np.empty_like(rows.data)
        kernels.subtract_sampled(rows.data, rows.indices, rows.indptr, left[start:stop], right, residual)
        parts = (l1.soft_threshold(residual, self.threshold), rows.indices, rows.indptr)
        sparse = scipy.sparse.csr_array(parts, shape=rows.shape, copy=True)
        sparse.eliminate_zeros()
        return sparse


class StoredSparse(SparsePart):
    """S in compressed rows."""

    def __init__(self, matrix: scipy.sparse.csr_array) -> None:
        super().__init__((int(matrix.shape[0]), int(matrix.shape[1])), matrix.dtype, int(matrix.nnz))
        self._matrix = matrix

    def rows(self, start: int, stop: int) -> Array:
        """Make a few rows dense."""
        dense: Array = self._matrix[start:stop].toarray()
        return dense

    def to_scipy(self) -> scipy.sparse.csr_array:
        """A copy of what is stored."""
        return self._matrix.copy()


class UnsavedSparse(SparsePart):
    """S of a result that was saved without it: its size is known, its entries are not."""

    def rows(self, start: int, stop: int) -> Array:
        """There are none to give."""
        raise ValueError(
            "This result was saved without its sparse part. S is the data less L, soft-thresholded by lambdas[1]."
        )


@dataclass(frozen=True)
class Decomposition:
    """M ≈ L + S, with a bound on how far the pair is from the optimum.

    ``objective`` is evaluated once more for the pair that is returned; ``gap`` is its distance to a certified lower
    bound, so the optimum lies in [objective − gap, objective]. ``gap_is_proved`` is False where ‖G‖₂ was too large a
    matrix's norm to be bounded by a factorisation and rests on a converged Lanczos process, see
    :mod:`rankwolf.certificate`.
    """

    low_rank: LowRank
    sparse: SparsePart
    objective: float
    gap: float
    relative_gap: float
    gap_is_proved: bool
    status: Status
    n_iter: int
    passes: int
    seconds: float
    method: str
    lambdas: tuple[float, float] | None
    radii: tuple[float, float] | None
    history: tuple[Record, ...]

    def __repr__(self) -> str:
        weights = (
            "λ_L = {:.4g}, λ_S = {:.4g}".format(*self.lambdas) if self.lambdas
            else "τ_L = {:.4g}, τ_S = {:.4g}".format(*(self.radii or (0.0, 0.0)))
        )  # fmt: skip
        m, n = self.low_rank.shape
        share = self.sparse.nnz / max(1, m * n)
        return (
            f"Decomposition of {m} × {n} by {self.method} ({weights})\n"
            f"  L of rank {self.low_rank.rank}, S with {self.sparse.nnz:,} non-zeros ({share:.1%})\n"
            f"  objective {self.objective:.6g}, relative gap {self.relative_gap:.2g}\n"
            f"  {self.n_iter} iteration{'' if self.n_iter == 1 else 's'}, {self.passes} passes, {self.seconds:.2f} s\n"
            f"  {self.status.value}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Numbers and words that JSON knows, without the matrices and the history."""
        names = ("lambda_L", "lambda_S") if self.lambdas else ("tau_L", "tau_S")
        return {
            **dict(zip(names, self.lambdas or self.radii or (), strict=False)),
            "method": self.method, "rank": self.low_rank.rank, "nonzeros": self.sparse.nnz, "objective": self.objective,
            "gap": self.gap, "relative_gap": self.relative_gap, "gap_is_proved": self.gap_is_proved,
            "status": self.status.name, "status_says": self.status.value, "iterations": self.n_iter,
            "passes": self.passes,
        }  # fmt: skip

    def save(self, path: str | os.PathLike[str], *, with_sparse: bool = True) -> None:
        """Write everything, S as compressed rows, to one ``.npz`` file (no pickle); moved into place when whole.

        Without S the file has (m + n)·r numbers: enough for data that is kept elsewhere, such as a video, from which
        S = T_λS(P_Ω(M − L)) can be computed again.
        """
        settings = {
            "format": 1, "objective": self.objective, "gap": self.gap, "relative_gap": self.relative_gap,
            "gap_is_proved": self.gap_is_proved,
            "status": self.status.name, "n_iter": self.n_iter, "passes": self.passes, "seconds": self.seconds,
            "method": self.method, "lambdas": self.lambdas, "radii": self.radii, "nonzeros": self.sparse.nnz,
        }  # fmt: skip
        rows = [asdict(record) for record in self.history]
        arrays: dict[str, Any] = {
            f"history_{f.name}": np.array([row[f.name] for row in rows]) for f in fields(Record)
        }
        if with_sparse:
            sparse = self.sparse.to_scipy()
            arrays |= {f"sparse_{name}": getattr(sparse, name) for name in ("data", "indices", "indptr")}
        arrays |= {
            "u": self.low_rank.u,
            "s": self.low_rank.s,
            "vt": self.low_rank.vt,
            "settings": json.dumps(settings),
        }
        with whole(path) as temporary, archive(temporary, zipfile.ZIP_DEFLATED) as file:
            for name, array in arrays.items():
                with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def load(path: str | os.PathLike[str]) -> Decomposition:
    """Read what :meth:`Decomposition.save` wrote; a ValueError for any other file."""
    with open(path, "rb") as handle:
        try:
            with np.load(handle, allow_pickle=False) as file:
                return _from_arrays({name: file[name] for name in file.files})
        except Exception as error:  # a damaged archive fails in a dozen ways, and all of them mean the same
            raise ValueError(
                f"{os.fspath(path)!r} is not a file that Decomposition.save wrote: {error or type(error).__name__}"
            ) from error


def _sparse_from(arrays: dict[str, Array], shape: tuple[int, int], settings: dict[str, Any]) -> SparsePart:
    if "sparse_data" not in arrays:
        return UnsavedSparse(shape, arrays["u"].dtype, int(settings["nonzeros"]))
    matrix = scipy.sparse.csr_array(
        (arrays["sparse_data"], arrays["sparse_indices"], arrays["sparse_indptr"]), shape=shape
    )
    matrix.check_format(full_check=True)  # a bad index would segfault a product
    return StoredSparse(matrix)


def _from_arrays(arrays: dict[str, Array]) -> Decomposition:
    settings = json.loads(str(arrays["settings"]))
    if settings["format"] != 1:
        raise ValueError(f"its format is {settings['format']!r}, and this version reads 1")
    low_rank = LowRank(arrays["u"], arrays["s"], arrays["vt"])
    (m, r), (r_of_vt, n) = low_rank.u.shape, low_rank.vt.shape
    if low_rank.s.shape != (r,) or r_of_vt != r:
        raise ValueError("the factors of L do not fit together")
    names = [f.name for f in fields(Record) if f"history_{f.name}" in arrays]
    columns = [arrays[f"history_{name}"].tolist() for name in names]
    pair = {key: tuple(settings[key]) if settings[key] else None for key in ("lambdas", "radii")}
    return Decomposition(
        low_rank=low_rank, sparse=_sparse_from(arrays, (m, n), settings),
        objective=settings["objective"], gap=settings["gap"],
        relative_gap=settings["relative_gap"], gap_is_proved=settings["gap_is_proved"],
        status=Status[settings["status"]], n_iter=settings["n_iter"],
        passes=settings["passes"], seconds=settings["seconds"], method=settings["method"],
        lambdas=pair["lambdas"], radii=pair["radii"],
        history=tuple(Record(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)),
    )  # fmt: skip
