"""The sparse part S of a result: stored, or computed from the data and L when it is asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.data import Source
from rankwolf.data.tiles import is_sparse
from rankwolf.files.part_wise import Part, write_hdf5, write_npy, write_zarr
from rankwolf.ground.arrays import Array, namespace, to_numpy
from rankwolf.ground.low_rank import LowRank
from rankwolf.ground.matrix import ColumnKey, Matrix, RowKey, split_key
from rankwolf.ground.plural import number_of
from rankwolf.ground.table_frame import Frame
from rankwolf.ground.whole import Name
from rankwolf.result.residual import sparse_part, thresholded


class SparsePart(Matrix):
    """S, which need not be in memory: slices of rows, ``nonzeros``, ``to_scipy()``, ``to_frame()``, ``np.asarray``.

    For entries S = T_λS(P_Ω(M − L)) is computed when it is asked for: ``S[i:j]`` costs 2(j − i)·n·r operations and
    reads these rows of the data once more. ``to_npy``, ``to_hdf5`` and ``to_zarr`` write it part by part.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.ones((40, 30))
    >>> X[2, 7] = 50.0
    >>> S = rw.decompose(X, delta=0.01, rng=0).sparse
    >>> S.shape, S[2:4].shape, bool(S[2, 7] > 40.0)
    ((40, 30), (2, 30), True)
    >>> type(S.to_scipy()).__name__
    'csr_array'
    """

    def __init__(
        self, shape: tuple[int, int], dtype: np.dtype[Any], nonzeros: int, frame: Frame | None = None
    ) -> None:
        self._shape, self._dtype, self.nonzeros, self.frame = shape, dtype, nonzeros, frame

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type of the dense form."""
        return self._dtype

    @abstractmethod
    def rows(self, start: int, stop: int) -> Array:
        """Rows ``start`` to ``stop`` as a dense array."""

    def unsaved(self) -> UnsavedSparse:
        """An S without entries, for a file that does not keep them."""
        return UnsavedSparse(self.shape, self.dtype, self.nonzeros, self.frame)

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
        # Not part[..., columns], which makes an array even of a single entry.
        result: Array = part[columns] if part.ndim == 1 else part[:, columns]
        return result

    def blocks(self, rows_at_once: int | None = None) -> Iterator[tuple[int, Array]]:
        """(first row, rows) from top to bottom, a few rows at a time."""
        step = rows_at_once or max(1, 2**20 // max(1, self.shape[1]))
        for start in range(0, self.shape[0], step):
            yield start, self.rows(start, min(start + step, self.shape[0]))

    def parts(self) -> Iterator[Part]:
        """(rows, columns, entries) of parts that cover S: whole rows, or whole columns where the data is stored so."""
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
        """S as a CSR array in memory; its parts are computed one by one."""
        narrow, parts = False, []
        for _, columns, entries in self.parts():
            narrow |= columns.stop - columns.start < self.shape[1]
            parts.append(scipy.sparse.csr_array(entries))
        stack = scipy.sparse.hstack if narrow else scipy.sparse.vstack
        return scipy.sparse.csr_array(stack(parts, format="csr", dtype=self.dtype))

    def toarray(self) -> Array:
        """All of S as a dense array: the same as ``np.asarray``."""
        return self.rows(0, self.shape[0])

    def __repr__(self) -> str:
        m, n = self.shape
        share = self.nonzeros / max(1, m * n)
        return f"{type(self).__name__}({m} × {n}, {number_of(self.nonzeros, 'nonzero')}, {share:.2%})"


class ThresholdedResidual(SparsePart):
    """S = T_θ(P_Ω(M − L)): computed from the data and L when asked for, never stored.

    ``nonzeros`` was counted by a pass: an entry within rounding of θ may be zero in one computation and not in another.
    ``shrinks``: whether T takes θ off entries beyond θ (the convex problem), or leaves them as they are (a refit).
    """

    def __init__(
        self, source: Source, low_rank: LowRank, threshold: float, nonzeros: int, shrinks: bool = True
    ) -> None:
        super().__init__(low_rank.shape, source.dtype, nonzeros, source.frame)
        self._source, self._low_rank, self.threshold, self.shrinks = source, low_rank, threshold, shrinks

    def unsaved(self) -> UnsavedSparse:
        """An S without entries that remembers θ and ``shrinks``, for a file that does not keep the entries."""
        return UnsavedSparse(self.shape, self.dtype, self.nonzeros, self.frame, self.threshold, self.shrinks)

    def rows(self, start: int, stop: int) -> Array:
        """Rows ``start`` to ``stop``, dense: the data is read again, L subtracted. 2r operations an observed entry."""
        rows, columns = slice(start, stop), slice(0, self.shape[1])
        sparse = self._thresholded(rows, columns, self._source.read_user(rows))
        return np.asarray(sparse.toarray() if is_sparse(sparse) else sparse)

    def parts(self) -> Iterator[Part]:
        """(rows, columns, entries) of parts that cover S, such that the source is cheap to read."""
        for rows, columns, tile in self._source.user_parts():
            sparse = self._thresholded(rows, columns, tile)
            yield rows, columns, sparse.toarray() if is_sparse(sparse) else sparse

    def to_scipy(self) -> scipy.sparse.csr_array:
        """S as a CSR array in memory, by one pass over the data."""
        return sparse_part(self._source, self._low_rank, self.threshold, self.shrinks)

    def _thresholded(self, rows: slice, columns: slice, tile: Any) -> Any:
        # Of a result on a cluster, u may be a dask.array.
        part = LowRank(np.asarray(self._low_rank.u[rows]), self._low_rank.s, self._low_rank.vt[:, columns])
        return thresholded(tile, *part.factors(), self.threshold, self.shrinks)


class DistributedResidual(ThresholdedResidual):
    """The same for a dask.array: slices of rows are fetched to the client, ``to_dask()`` leaves S on the workers."""

    def __reduce__(self) -> Any:
        return StoredSparse, (self.to_scipy(), self.frame)  # entries are fetched: a pickle has no cluster

    def to_dask(self) -> Any:
        """S as a lazy dask.array with the partitions of the data; its ``.to_zarr(url)`` writes it from the workers."""
        seen = self._source.as_solver_sees(self._low_rank)
        make = partial(
            _thresholded_partition,
            s=seen.s,
            vt=np.asarray(seen.vt),
            threshold=self.threshold,
            shrinks=self.shrinks,
        )
        return self._source.map_lazily(make, seen.u)

    def to_scipy(self) -> scipy.sparse.csr_array:
        """S as a CSR array in memory; the workers make its partitions sparse before they are fetched."""
        import dask

        blocks = self.to_dask().to_delayed()
        made = dask.compute(
            [[dask.delayed(scipy.sparse.csr_array)(block) for block in row] for row in blocks]
        )[0]
        return scipy.sparse.csr_array(scipy.sparse.block_array(made, format="csr", dtype=self.dtype))


def _thresholded_partition(
    tile: Array, u: Array | None = None, *, s: Array, vt: Array, threshold: float, shrinks: bool
) -> Array:
    """S of one partition, computed on a worker; ``u`` is None where L is zero."""
    part = LowRank(np.zeros((tile.shape[0], 0), tile.dtype) if u is None else u, s, vt)
    sparse: Array = thresholded(tile, *part.factors(), threshold, shrinks)
    return sparse


def sparse_part_of(
    source: Source, low_rank: LowRank, threshold: float, nonzeros: int, shrinks: bool = True
) -> SparsePart:
    """S = T_θ(P_Ω(M − L)) for a source and an L that lies as the user's matrix does. Nothing is computed yet."""
    kind = DistributedResidual if source.maps_lazily else ThresholdedResidual
    return kind(source, low_rank, threshold, nonzeros, shrinks)


class StoredSparse(SparsePart):
    """S that is kept in memory as a CSR array."""

    def __init__(self, matrix: scipy.sparse.csr_array, frame: Frame | None = None) -> None:
        super().__init__((int(matrix.shape[0]), int(matrix.shape[1])), matrix.dtype, int(matrix.nnz), frame)
        self._matrix = matrix

    def rows(self, start: int, stop: int) -> Array:
        """Rows ``start`` to ``stop``, made dense."""
        dense: Array = self._matrix[start:stop].toarray()
        return dense

    def to_scipy(self) -> scipy.sparse.csr_array:
        """A copy of what is stored."""
        return self._matrix.copy()


class OnDevice(SparsePart):
    """S as a dense array of the user's library: ``fit.sparse.array``; rows are copied to the host."""

    def __init__(self, array: Any) -> None:
        xp = namespace(array)
        super().__init__(tuple(array.shape), np.dtype(np.float64), int(xp.count_nonzero(array)))
        self.array = array

    def rows(self, start: int, stop: int) -> Array:
        """Rows ``start`` to ``stop`` in the memory of the host."""
        return to_numpy(self.array[start:stop])


class UnsavedSparse(SparsePart):
    """S of a result that was saved without it: its size is known, its entries are not.

    ``threshold`` and ``shrinks`` are those of a :class:`ThresholdedResidual`; for any other S, None and True.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        nonzeros: int,
        frame: Frame | None = None,
        threshold: float | None = None,
        shrinks: bool = True,
    ) -> None:
        super().__init__(shape, dtype, nonzeros, frame)
        self.threshold, self.shrinks = threshold, shrinks

    def unsaved(self) -> UnsavedSparse:
        """This object, which has no entries already."""
        return self

    def rows(self, start: int, stop: int) -> Array:
        """Raise a ValueError, because the entries were not saved; it says how to compute them where that is known."""
        remedy = "Save it with with_sparse=True."
        if self.threshold is not None:
            rule = "soft-thresholded by" if self.shrinks else "kept where it is beyond"
            remedy = f"S is the data less L, {rule} {self.threshold:.10g}."
        raise ValueError(f"This result was saved without its sparse part. {remedy}")
