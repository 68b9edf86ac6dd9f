"""Results in files: an ``.npz`` without pickle, checked when it is read as if a stranger had written it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, fields
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from rankwolf.files.address import Address
from rankwolf.files.archive import Archive, opened_archive, write_npz
from rankwolf.files.claims import Budget
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import check_size
from rankwolf.ground.low_rank import LowRank
from rankwolf.ground.whole import Name, whole
from rankwolf.problem import FORMS
from rankwolf.result.decomposition import Decomposition, Record, Status
from rankwolf.result.labels import pack, unpack
from rankwolf.result.sparse_part import SparsePart, StoredSparse, UnsavedSparse

FORMAT = 2
FACTORS, SPARSE = ("u", "s", "vt"), ("sparse_data", "sparse_indices", "sparse_indptr")
HISTORY = "history_"
COUNTS, NOT_NEGATIVE = (
    ("iteration", "passes", "rank", "nonzeros", "bytes_read"),
    ("gap", "relative_gap", "seconds"),
)


def save(fit: Decomposition, path: Name, with_sparse: bool) -> None:
    """Write ``fit`` to one file, which appears when it is whole."""
    unsaved = fit.sparse.unsaved()
    settings = {
        "format": FORMAT,
        "objective": fit.objective,
        "gap": fit.gap,
        "relative_gap": fit.relative_gap,
        "gap_is_proved": fit.gap_is_proved,
        "status": fit.status.name,
        "iterations": fit.iterations,
        "passes": fit.passes,
        "seconds": fit.seconds,
        "method": fit.method,
        "form": fit.problem.parameter,
        "pair": fit.problem.pair,
        "nonzeros": unsaved.nonzeros,
        "threshold": unsaved.threshold,
        "shrinks": unsaved.shrinks,
        "noise_scale": fit.noise_scale,
        "residual": fit.residual,
    }
    rows = [asdict(record) for record in fit.history]
    arrays: dict[str, Any] = {
        f"{HISTORY}{f.name}": np.array([row[f.name] for row in rows]) for f in fields(Record)
    }
    if with_sparse:
        sparse = fit.sparse.to_scipy()
        arrays |= dict(zip(SPARSE, (sparse.data, sparse.indices, sparse.indptr), strict=True))
    arrays |= {name: getattr(fit.low_rank, name) for name in FACTORS}
    with whole(path) as temporary:
        write_npz(temporary, {**arrays, "labels": pack(fit.low_rank.frame), "settings": json.dumps(settings)})


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
    address = Address(Path(path))
    budget = Budget(None if max_memory is None else check_size("max_memory", max_memory, "load"))
    with address.reading("a file that Decomposition.save wrote"), opened_archive(address, budget) as archive:
        return _decomposition(archive)


def _decomposition(archive: Archive) -> Decomposition:
    names = [f.name for f in fields(Record) if f"{HISTORY}{f.name}" in archive.names]
    archive.check_sizes([*FACTORS, *SPARSE, "settings", "labels", *(HISTORY + name for name in names)])
    settings = _Settings(json.loads(archive.word("settings")))
    settings.get("format", lambda found: found == FORMAT)
    low_rank = _low_rank(archive)
    if "labels" in archive.names:  # older files have none
        low_rank = low_rank.labelled(unpack(archive.word("labels"), low_rank.shape))
    return Decomposition(
        low_rank=low_rank,
        sparse=_sparse(archive, low_rank, settings),
        # Not necessarily finite: a run may end because its objective is not, and the gap of a refit is infinite.
        objective=settings.get("objective", _is_number),
        gap=settings.get("gap", _is_not_negative),
        relative_gap=settings.get("relative_gap", _is_not_negative),
        gap_is_proved=settings.get("gap_is_proved", lambda found: isinstance(found, bool)),
        status=Status[settings.get("status", lambda found: found in Status.__members__)],
        iterations=settings.get("iterations", _is_count),
        passes=settings.get("passes", _is_count),
        seconds=settings.get("seconds", _is_not_negative),
        method=settings.get("method", lambda found: isinstance(found, str) and len(found) < 100),
        problem=FORMS[settings.get("form", FORMS.__contains__)](*settings.get("pair", _is_pair)),
        history=_history(archive, names),
        noise_scale=settings.get("noise_scale", lambda found: found is None or _is_not_negative(found)),
        residual=settings.get("residual", _is_number),
    )


def _low_rank(archive: Archive) -> LowRank:
    u, s, vt = archive.array("u", 2, "fc"), archive.array("s", 1, "f"), archive.array("vt", 2, "fc")
    if u.shape[1] != s.size or vt.shape[0] != s.size or 0 in (u.shape[0], vt.shape[1]):
        raise ValueError("the factors of L do not fit together")
    if u.dtype.kind != vt.dtype.kind:
        raise ValueError("one factor of L is complex and the other is not")
    if not all(np.isfinite(factor).all() for factor in (u, s, vt)):
        raise ValueError("the factors of L are not finite")
    if s.size and s.min() < 0.0:
        raise ValueError("a singular value of L is negative")
    return LowRank(u, s.astype(np.float64), vt)


def _sparse(archive: Archive, low_rank: LowRank, settings: _Settings) -> SparsePart:
    m, n = low_rank.shape
    threshold = settings.get("threshold", lambda found: found is None or _is_not_negative(found), None)
    shrinks = settings.get("shrinks", lambda found: isinstance(found, bool), True)
    if SPARSE[0] not in archive.names:
        nonzeros = settings.get("nonzeros", lambda found: _is_count(found) and found <= m * n)
        return UnsavedSparse((m, n), low_rank.dtype, nonzeros, low_rank.frame, threshold, shrinks)
    data, indices, pointers = (
        archive.array(name, 1, kinds) for name, kinds in zip(SPARSE, ("fc", "i", "i"), strict=True)
    )
    if data.dtype.kind != low_rank.dtype.kind:
        raise ValueError("one of L and S is complex and the other is not")
    if not np.isfinite(data).all():
        raise ValueError("S is not finite")
    matrix = scipy.sparse.csr_array((data, indices, pointers), shape=(m, n))
    matrix.check_format(full_check=True)  # a bad index would segfault a product
    return StoredSparse(matrix, low_rank.frame)


def _history(archive: Archive, names: list[str]) -> tuple[Record, ...]:
    columns: list[Array] = [archive.array(f"{HISTORY}{name}", 1) for name in names]
    for name, column in zip(names, columns, strict=True):
        if name in COUNTS and column.size and column.dtype.kind not in "iu":
            raise ValueError(f"{HISTORY}{name} has other numbers than counts")
        if name in (*COUNTS, *NOT_NEGATIVE) and (column < 0).any():
            raise ValueError(f"{HISTORY}{name} is negative")
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(Record(**dict(zip(names, row, strict=True))) for row in rows)


class _Settings:
    """The words and numbers of the file; each is checked when it is asked for."""

    def __init__(self, found: Any) -> None:
        if not isinstance(found, dict):
            raise TypeError("its settings are none")
        self._found = found

    def get(self, name: str, fits: Callable[[Any], bool], *older: Any) -> Any:
        """The setting ``name``, if it ``fits``; else a ValueError. ``older``: its value for files that lack it."""
        value = self._found.get(name, *older) if older else self._found[name]
        if not fits(value):
            remedy = f", and this version reads {FORMAT}" if name == "format" else ""
            raise ValueError(f"its {name} is {str(value)[:40]!r}{remedy}")
        return value


def _is_number(value: Any) -> bool:
    """Whether ``value`` is a float, or a whole number below 2⁶³."""
    return isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    )


def _is_not_negative(value: Any) -> bool:
    return _is_number(value) and (isnan(value) or value >= 0)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value) and value >= 0


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(_is_number(item) and isfinite(item) and item >= 0 for item in value)
    )
