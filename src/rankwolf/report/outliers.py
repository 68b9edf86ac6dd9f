"""Where the outliers of a table are: its most outlying rows, columns and cells, and a map of them all."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from rankwolf.report import figures

if TYPE_CHECKING:
    from markupsafe import Markup

    from rankwolf.files import Labels

Array = np.ndarray[Any, np.dtype[Any]]

# Cells of the map; a larger table has several of its entries in each.
MOST_ROWS, MOST_COLUMNS = 160, 240
LISTED = 12
# Columns up to this number have their names under the map.
NAMED_COLUMNS = 40
BELOW, ABOVE = np.array([33.0, 102.0, 172.0]), np.array([178.0, 44.0, 30.0])
NOTHING = np.array([244.0, 244.0, 242.0])


@dataclass(frozen=True)
class Line:
    """One row or column: the share of its observed entries in S, Σ|S|, and its largest entry and where that is."""

    name: str
    share: float
    total: float
    largest: float
    where: str


@dataclass(frozen=True)
class Cell:
    """One entry: what was observed, what L says."""

    row: str
    column: str
    observed: float
    expected: float


@dataclass(frozen=True)
class Outliers:
    """S as compressed rows, with the names and the number of observed entries of each row and column."""

    matrix: scipy.sparse.csr_array
    labels: Labels
    observed_in_rows: Array
    observed_in_columns: Array

    def rows(self) -> list[Line]:
        """The rows with the largest Σ|S|."""
        return _lines(self.matrix, self.observed_in_rows, self.labels.row, self.labels.column)

    def columns(self) -> list[Line]:
        """The columns with the largest Σ|S|."""
        turned = self.matrix.T.tocsr()
        return _lines(turned, self.observed_in_columns, self.labels.column, self.labels.row)

    def places(self) -> list[tuple[int, int]]:
        """(row, column) of the largest entries."""
        count = min(LISTED, self.matrix.nnz)
        order = np.argsort(-np.abs(self.matrix.data), kind="stable")[:count]
        rows = np.searchsorted(self.matrix.indptr, order, side="right") - 1
        return [(int(i), int(self.matrix.indices[k])) for i, k in zip(rows, order, strict=True)]

    def map(self) -> Array:
        """S in at most 160 × 240 cells: of the entries in a cell, the one of largest magnitude."""
        m, n = self.matrix.shape
        height, width = min(m, MOST_ROWS), min(n, MOST_COLUMNS)
        rows = np.repeat(np.arange(m), np.diff(self.matrix.indptr)) * height // m
        cells = rows * width + self.matrix.indices.astype(np.int64) * width // n
        high, low = np.zeros(height * width), np.zeros(height * width)
        np.maximum.at(high, cells, self.matrix.data)
        np.minimum.at(low, cells, self.matrix.data)
        return np.where(high >= -low, high, low).reshape(height, width)


def _lines(matrix: scipy.sparse.csr_array, observed: Array, name: Any, other: Any) -> list[Line]:
    magnitudes = abs(matrix)
    totals = np.asarray(magnitudes.sum(axis=1), np.float64).ravel()
    counts = np.diff(matrix.indptr)
    lines = []
    for i in np.argsort(-totals, kind="stable")[:LISTED]:
        entries = slice(int(matrix.indptr[i]), int(matrix.indptr[i + 1]))
        if not counts[i]:
            break
        top = entries.start + int(np.argmax(np.abs(matrix.data[entries])))
        share = float(counts[i] / max(1, observed[i]))
        place = other(int(matrix.indices[top]))
        lines.append(Line(name(int(i)), share, float(totals[i]), float(matrix.data[top]), place))
    return lines


def coloured(values: Array, limit: float) -> Array:
    """Blue below, red above, pale at zero; full colour from ``limit`` on. Roots, so that small ones can be seen."""
    strength = np.sqrt(np.minimum(np.abs(values) / max(limit, 1e-300), 1.0))[..., None]
    colour = np.where(values[..., None] < 0.0, BELOW, ABOVE)
    return np.asarray(np.rint(NOTHING + strength * (colour - NOTHING)), np.uint8)


def heat_map(outliers: Outliers) -> Markup:
    """The map as a chart with the names or numbers of rows and columns."""
    from markupsafe import Markup

    (m, n), values = outliers.matrix.shape, outliers.map()
    found = np.abs(values[values != 0.0])
    limit = float(np.quantile(found, 0.99)) if found.size else 1.0
    named = n <= NAMED_COLUMNS
    left, top, width, height = 140, 8, 1000, max(120, min(420, 14 * values.shape[0]))
    bottom = 96 if named else 40
    parts = [
        f'<svg class="chart" viewBox="0 0 {left + width + 16} {top + height + bottom}" role="img" '
        'aria-label="map of the outliers">',
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
        turned = f'transform="rotate(-45 {x:.1f} {y})" text-anchor="end"' if named else 'text-anchor="middle"'
        parts.append(f'<text class="tick" x="{x:.1f}" y="{y}" {turned}>{name}</text>')
    return Markup("".join([*parts, "</svg>"]))


def _spread(count: int, most: int) -> list[int]:
    """Some of the numbers below ``count``, evenly."""
    return sorted({round(x) for x in np.linspace(0, count - 1, max(1, min(most, count)))})


def _short(text: str, most: int) -> str:
    return escape(text if len(text) <= most else text[: most - 1] + "…")
