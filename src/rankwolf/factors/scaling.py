"""Columns of different units: a robust centre and spread for each, and the way back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwolf.data import Source
from rankwolf.data.centred import centred
from rankwolf.data.column_statistics import centre_and_scale
from rankwolf.data.memory_shares import MemoryShares
from rankwolf.data.open import check_source
from rankwolf.factors.model import DEFAULT, fit_factors
from rankwolf.files.part_wise import Part
from rankwolf.files.writing import RowSliceable
from rankwolf.ground.arrays import Array

# The most bytes that the columns whose medians are found together may take, with the copies that medians need.
BLOCK_BYTES = 2**29
# How many float64 copies of its sample the factor model takes.
COPIES = 6


@dataclass(frozen=True)
class Scaling:
    """``(x − centre) / scale`` for each column; both None: nothing is done.

    By the factor model, each column is measured in units of its own noise, so that one σ serves all of them.
    Otherwise they are the median and the median absolute deviation.
    """

    centre: Array | None
    scale: Array | None

    @classmethod
    def none(cls) -> Scaling:
        """A scaling that leaves everything as it is."""
        return cls(None, None)

    @classmethod
    def by_model(cls, source: Source, max_memory: int | None = None) -> Scaling:
        """The scaling by the centre and the noise of each column, as the factor model has them.

        Medians and spreads where a sample of a matrix on the disk would not fit into the memory.
        """
        m, n = source.user_shape
        numbers = n * min(m, max(DEFAULT.sample_rows[0], DEFAULT.sample_rows[1] * n))
        if not source.in_memory and COPIES * 8 * numbers > MemoryShares.of(max_memory, 0, 8, 1).reading:
            return cls.of(source, max_memory)
        check_source(source)
        factors = fit_factors(source, None, True, np.random.default_rng(0)).factors
        return cls(factors.centre, factors.scale * np.sqrt(factors.noise + factors.resolution**2))

    @classmethod
    def of(cls, source: Source, max_memory: int | None = None) -> Scaling:
        """The scaling by medians and robust spreads of the columns of ``source``; missing entries do not count.

        ``max_memory`` in bytes holds where the matrix is not in memory.
        """
        most_bytes = BLOCK_BYTES
        if not source.in_memory:
            most_bytes = min(MemoryShares.of(max_memory, 0, 8, 1).reading, BLOCK_BYTES)
        return cls(*centre_and_scale(source, most_bytes))

    def apply(self, source: Source) -> Source:
        """The source of the scaled matrix."""
        if self.centre is None or self.scale is None:
            return source
        return centred(source, self.centre, self.scale)

    def of_values(self, values: Array) -> Array:
        """Values of the data's columns in the units of the scaled matrix."""
        return values if self.centre is None or self.scale is None else (values - self.centre) / self.scale

    def restored(self, part: RowSliceable) -> RowSliceable:
        """The low-rank part in the units of the data: x·scale + centre, computed as rows are read."""
        return part if self.scale is None else _InOldUnits(part, self.scale, self.centre)

    def stretched(self, part: RowSliceable) -> RowSliceable:
        """The sparse part, a difference, in the units of the data: x·scale, computed as rows are read."""
        return part if self.scale is None else _InOldUnits(part, self.scale, None)

    def stretched_parts(self, parts: Iterable[Part]) -> Iterator[Part]:
        """Blocks of the sparse part in the units of the data: x·scale."""
        for rows, columns, block in parts:
            yield (
                rows,
                columns,
                block if self.scale is None else (block * self.scale[columns]).astype(block.dtype),
            )

    def as_dict(self) -> dict[str, Any]:
        """Centre and scale as lists, for JSON; empty where nothing is done."""
        if self.centre is None or self.scale is None:
            return {}
        return {"centre": self.centre.tolist(), "scale": self.scale.tolist()}


class _InOldUnits:
    """A part of the matrix whose rows, when read, are multiplied by the scale and moved by the centre, if any."""

    def __init__(self, part: RowSliceable, scale: Array, centre: Array | None) -> None:
        self._part, self._scale, self._centre = part, scale, centre
        self.shape, self.dtype = part.shape, part.dtype

    def __getitem__(self, key: slice, /) -> Array:
        rows = self._part[key] * self._scale
        restored: Array = rows if self._centre is None else rows + self._centre
        return restored.astype(self.dtype, copy=False)
