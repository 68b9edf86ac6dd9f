"""Results in files: an ``.npz`` without pickle, checked when it is read as if a stranger had written it."""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.files.address import Address
from rankwolf.files.npz import Archive, opened_archive, write_schema
from rankwolf.files.schema import RESULT
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import check_size
from rankwolf.ground.low_rank import LowRank
from rankwolf.ground.whole import Name, whole
from rankwolf.problem import FORMS, SPARSE_BY
from rankwolf.result.decomposition import Decomposition, Record, Status
from rankwolf.result.labels import pack, unpack
from rankwolf.result.sparse_part import SparsePart, StoredSparse, UnsavedSparse

FACTORS, SPARSE = ("u", "s", "vt"), ("sparse_data", "sparse_indices", "sparse_indptr")
HISTORY = "history_"
# What has the same name in the result and in its description.
SAME = (
    "objective gap relative_gap gap_is_proved iterations passes seconds method noise_scale residual".split()
)


def save(fit: Decomposition, path: Name, with_sparse: bool) -> None:
    """Write ``fit`` to one file, which appears when it is whole."""
    unsaved = fit.sparse.unsaved()
    settings: dict[str, Any] = {
        **{name: getattr(fit, name) for name in SAME},
        "status": fit.status.name,
        "form": fit.problem.parameter,
        "pair": fit.problem.pair,
        "sparse": fit.problem.sparse,
        "nonzeros": unsaved.nonzeros,
        "threshold": unsaved.threshold,
        "shrinks": unsaved.shrinks,
        "labels": pack(fit.low_rank.frame),
    }
    rows = [asdict(record) for record in fit.history]
    low_rank = fit.low_rank.on_host()
    arrays: dict[str, Array] = {name: getattr(low_rank, name) for name in FACTORS}
    for f in fields(Record):
        kind = np.int64 if f.type == "int" else np.float64
        arrays[f"{HISTORY}{f.name}"] = np.array([row[f.name] for row in rows], kind)
    if with_sparse:
        sparse = fit.sparse.to_scipy()
        arrays |= dict(zip(SPARSE, (sparse.data, sparse.indices, sparse.indptr), strict=True))
    with whole(path) as temporary:
        write_schema(temporary, RESULT, settings, arrays)


def load(path: str | os.PathLike[str], *, max_memory: int | str | None = None) -> Decomposition:
    """Read what :meth:`Decomposition.save` wrote; a ValueError of one line for any other file.

    Only the arrays of a result are read, after the sizes that the file claims have been compared with ``max_memory``
    (bytes, or words such as "2GB"; default: three quarters of the free memory, and no more than a hundred times the
    file's own bytes). Then the contents are checked: factors are finite, real or complex, and of shapes that fit
    together, singular values and the gap are not negative, indices of S lie inside it, names are words, numbers or
    dates, one for each row and column. What is *not* checked is whether the result is a good one.

    >>> import tempfile, numpy as np, rankwolf as rw
    >>> fit = rw.decompose(np.eye(30) + 1.0, delta=0.05, rng=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit.save(f"{folder}/fit.npz")
    ...     again = rw.load(f"{folder}/fit.npz")
    >>> again.objective == fit.objective, again.low_rank.rank == fit.low_rank.rank
    (True, True)
    """
    most = None if max_memory is None else check_size("max_memory", max_memory, "load")
    with opened_archive(Address(Path(path)), RESULT, most) as archive:
        return _decomposition(archive)


def _decomposition(archive: Archive) -> Decomposition:
    about, arrays = archive.about, archive.arrays()
    if (
        about["status"] not in Status.__members__
        or about["form"] not in FORMS
        or about["sparse"] not in SPARSE_BY
    ):
        raise ValueError("its status or its form is not known")
    u, s, vt = (arrays[name] for name in FACTORS)
    if u.dtype.kind != vt.dtype.kind or 0 in (u.shape[0], vt.shape[1]):
        raise ValueError("the factors of L do not fit together")
    low_rank = LowRank(u, s.astype(np.float64), vt)
    low_rank = low_rank.labelled(unpack(about["labels"] or "", low_rank.shape))
    names = [f.name for f in fields(Record)]
    rows = zip(*(arrays[f"{HISTORY}{name}"].tolist() for name in names), strict=True)
    return Decomposition(
        low_rank=low_rank,
        sparse=_sparse(arrays, low_rank, about),
        status=Status[about["status"]],
        problem=FORMS[about["form"]](*about["pair"], sparse=about["sparse"]),
        history=tuple(Record(**dict(zip(names, row, strict=True))) for row in rows),
        **{name: about[name] for name in SAME},
    )


def _sparse(arrays: dict[str, Array], low_rank: LowRank, about: dict[str, Any]) -> SparsePart:
    m, n = low_rank.shape
    if 0 < len(set(SPARSE) & set(arrays)) < len(SPARSE):
        raise ValueError("a part of S is missing")
    if SPARSE[0] not in arrays:
        if about["nonzeros"] > m * n:
            raise ValueError("S has more entries than there is room for")
        rest = (about["nonzeros"], low_rank.frame, about["threshold"], about["shrinks"])
        return UnsavedSparse((m, n), low_rank.dtype, *rest)
    if arrays[SPARSE[0]].dtype.kind != low_rank.dtype.kind:
        raise ValueError("one of L and S is complex and the other is not")
    matrix = scipy.sparse.csr_array(tuple(arrays[name] for name in SPARSE), shape=(m, n))
    matrix.check_format(full_check=True)  # a bad index would segfault a product
    return StoredSparse(matrix, low_rank.frame)
