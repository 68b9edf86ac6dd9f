"""A small random submatrix, in memory, of a matrix wherever that lives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rankwolf.data import Source, Sums, Task
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad

# The least share of stored entries in the fullest submatrix of a sparse matrix: with fewer, noise cannot be measured.
LEAST_SHARE = 0.1


@dataclass
class SampledRows(Sums):
    """The sampled parts of rows, in the order of the rows."""

    parts: list[Array] = field(default_factory=list)


class SampleRows(Task[SampledRows]):
    """Copy ``columns`` of some rows. Rows: one column of marks, not zero where a row is wanted."""

    def __init__(self, columns: Array) -> None:
        self.columns = columns

    def start(self) -> SampledRows:
        """No rows yet."""
        return SampledRows()

    def visit(self, sums: SampledRows, tile: Array, *rows: Array) -> None:
        """Copy the wanted columns of the wanted rows of this tile, as float64."""
        wanted = np.flatnonzero(rows[0][:, 0])
        if wanted.size:
            sums.parts.append(tile[np.ix_(wanted, self.columns)].astype(np.float64))


def sample(source: Source, rng: np.random.Generator, side: int) -> Array:
    """At most ``side`` random rows and columns, in float64, with NaN where nothing was observed. One pass.

    A sparse matrix gives its rows and columns with the most entries; ValueError where even these are nearly empty.
    """
    fullest = source.densest(side)
    if fullest is not None:
        dense = fullest.astype(np.float64)
        share = float(np.mean(~np.isnan(dense)))
        if share < LEAST_SHARE:
            remedy = f"Its fullest rows and columns hold {share:.1%} of their entries, too few to measure the noise."
            raise bad("delta", "a number for this matrix", "'auto'", remedy=remedy)
        return dense
    m, n = source.shape
    columns = np.sort(rng.choice(n, min(n, side), replace=False))
    marks = np.zeros((m, 1), bool)
    marks[rng.choice(m, min(m, side), replace=False)] = True
    return np.vstack(source.run(SampleRows(columns), marks).parts)
