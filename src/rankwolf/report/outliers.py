"""Where the outliers of a table are: its most outlying rows, columns and cells, and a map of them all."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse

from rankwolf.ground.arrays import Array
from rankwolf.report import figures

if TYPE_CHECKING:
    from markupsafe import Markup

    from rankwolf.files import Labels


# The most cells that the map has; of a larger table, a cell stands for several entries.
MOST_ROWS, MOST_COLUMNS = 160, 240
LISTED = 12
# A table of up to this many columns has all their names under the map.
NAMED_COLUMNS = 40
# Up to this many columns fit into the window of a telephone; a map of more is scrolled there.
NARROW_COLUMNS = 8
BELOW, ABOVE = np.array([33.0, 102.0, 172.0]), np.array([178.0, 44.0, 30.0])
NOTHING = np.array([244.0, 244.0, 242.0])


class Line(NamedTuple):
    """One row or column of S: the share of its observed entries in S, Σ|S|, its largest entry and where that is."""

    name: str
    share: float
    total: float
    largest: float
    where: str


class Cell(NamedTuple):
    """One outlier: the names of its row and column, the observed value, and the value that L has there."""

    row: str
    column: str
    observed: float
    expected: float


@dataclass
class LineTotals:
    """For each row of S, or for each column: Σ|S|, how many entries, the largest and where that is."""

    total: Array
    count: Array
    largest: Array
    where: Array

    @classmethod
    def of(cls, lines: int) -> LineTotals:
        """Totals for ``lines`` rows or columns, all zero."""
        types = (np.float64, np.int64, np.float64, np.int64)
        return cls(*(np.zeros(lines, dtype) for dtype in types))

    def add(self, lines: Array, across: Array, values: Array) -> None:
        """Add entries of S: the line of each, its place in that line, and its value."""
        sizes = np.abs(values)
        self.total += np.bincount(lines, sizes, self.total.size)
        self.count += np.bincount(lines, minlength=self.count.size)
        # Of several entries for one line, the assignment keeps the last: the largest, and of equals the first.
        order = np.lexsort((-np.arange(sizes.size), sizes))
        order = order[sizes[order] > np.abs(self.largest[lines[order]])]
        self.largest[lines[order]], self.where[lines[order]] = values[order], across[order]

    def lines(self, observed: Array, name: Any, other: Any) -> list[Line]:
        """The 12 lines with the largest Σ|S|; ``name(i)`` names line i, ``other(j)`` the place j in it."""
        order = np.argsort(-self.total, kind="stable")[:LISTED]
        return [
            Line(
                name(i),
                float(self.count[i] / max(1, observed[i])),
                float(self.total[i]),
                float(self.largest[i]),
                other(int(self.where[i])),
            )
            for i in order.tolist()
            if self.total[i] > 0.0
        ]


class Outliers:
    """Totals, largest entries and a map of S, collected part by part, so that S is never held as a whole.

    ``observed_in_rows`` and ``observed_in_columns`` count the observed entries of each row and column.
    """

    def __init__(
        self, shape: tuple[int, int], labels: Labels, observed_in_rows: Array, observed_in_columns: Array
    ) -> None:
        self.shape, self.labels = shape, labels
        self._observed = (observed_in_rows, observed_in_columns)
        self._totals = (LineTotals.of(shape[0]), LineTotals.of(shape[1]))
        self._cells: list[tuple[float, int, int]] = []
        self._grid = (min(shape[0], MOST_ROWS), min(shape[1], MOST_COLUMNS))
        self._high, self._low = np.zeros(self._grid), np.zeros(self._grid)

    def add(self, rows: slice, columns: slice, entries: Any) -> None:
        """Add one part of S, dense or sparse; ``rows`` and ``columns`` are its place."""
        found = scipy.sparse.coo_array(entries)
        values, kept = np.asarray(found.data, np.float64), found.data != 0.0
        i, j = (
            axis[kept].astype(np.int64) + part.start
            for axis, part in zip(found.coords, (rows, columns), strict=True)
        )
        values = values[kept]
        self._totals[0].add(i, j, values)
        self._totals[1].add(j, i, values)
        (height, width), (m, n) = self._grid, self.shape
        cells = (i * height // m, j * width // n)
        np.maximum.at(self._high, cells, values)
        np.minimum.at(self._low, cells, values)
        largest = np.argsort(-np.abs(values), kind="stable")[:LISTED]
        these = [(-abs(float(values[k])), int(i[k]), int(j[k])) for k in largest]
        self._cells = sorted(self._cells + these)[:LISTED]

    def rows(self) -> list[Line]:
        """The rows with the largest Σ|S|."""
        return self._totals[0].lines(self._observed[0], self.labels.row, self.labels.column)

    def columns(self) -> list[Line]:
        """The columns with the largest Σ|S|."""
        return self._totals[1].lines(self._observed[1], self.labels.column, self.labels.row)

    def places(self) -> list[tuple[int, int]]:
        """(row, column) of the 12 largest entries."""
        return [(i, j) for _, i, j in self._cells]

    def map(self) -> Array:
        """S reduced to at most 160 × 240 cells: each has the entry of largest magnitude among those it stands for."""
        return np.where(self._high >= -self._low, self._high, self._low)


def coloured(values: Array, limit: float) -> Array:
    """Values as colours, uint8 RGB: blue below zero, red above, pale at zero, strongest from ``limit`` on.

    The strength is √(|value|/limit), so that small values can be seen.
    """
    strength = np.sqrt(np.minimum(np.abs(values) / max(limit, 1e-300), 1.0))[..., None]
    colour = np.where(values[..., None] < 0.0, BELOW, ABOVE)
    return np.asarray(np.rint(NOTHING + strength * (colour - NOTHING)), np.uint8)


def heat_map(outliers: Outliers) -> Markup:
    """The map of S as an SVG, with names of rows and columns; of a large table, with some of them."""
    from markupsafe import Markup

    (m, n), values = outliers.shape, outliers.map()
    found = np.abs(values[values != 0.0])
    limit = float(np.quantile(found, 0.99)) if found.size else 1.0
    named = n <= NAMED_COLUMNS
    narrow = n <= NARROW_COLUMNS
    left, top, width, height = 140, 8, 60 * n if narrow else 1000, max(120, min(420, 14 * values.shape[0]))
    bottom = 96 if named else 40
    whole = left + width + 16
    kind = f'class="chart narrow" style="max-width: {whole}px"' if narrow else 'class="chart"'
    parts = [
        f'<svg {kind} viewBox="0 0 {whole} {top + height + bottom}" role="img" aria-label="map of the outliers">',
        f'<image x="{left}" y="{top}" width="{width}" height="{height}" preserveAspectRatio="none" '
        f'style="image-rendering: pixelated" href="{figures.picture(coloured(values, limit), lossless=True)}"/>',
        f'<rect class="frame" x="{left}" y="{top}" width="{width}" height="{height}"/>',
    ]
    for i in _spread(m, m if m <= 24 else 9):
        y = top + (i + 0.5) * height / m
        parts.append(
            f'<text class="tick y" x="{left - 7}" y="{y + 4:.1f}">{_short(outliers.labels.row(i), 17)}</text>'
        )
    for j in _spread(n, n if named else 9):
        x, y = left + (j + 0.5) * width / n, top + height + 14
        name = _short(outliers.labels.column(j), 17)
        middle = 'text-anchor="end"' if j == n - 1 > 0 else 'text-anchor="middle"'
        turned = f'transform="rotate(-45 {x:.1f} {y})" text-anchor="end"' if named else middle
        parts.append(f'<text class="tick" x="{x:.1f}" y="{y}" {turned}>{name}</text>')
    return Markup("".join([*parts, "</svg>"]))


def _spread(count: int, most: int) -> list[int]:
    """At most ``most`` of the numbers 0 to count − 1, evenly spaced, the first and the last among them."""
    return sorted({round(x) for x in np.linspace(0, count - 1, max(1, min(most, count)))})


def _short(text: str, most: int) -> str:
    return escape(text if len(text) <= most else text[: most - 1] + "…")
