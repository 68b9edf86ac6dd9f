"""Charts as inline SVG and pictures as ``data:`` addresses, so that a page needs no file beside it.

Colours come from the style sheet of the page (``.series-0`` to ``.series-3``), so that charts follow its dark mode.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite, log10
from typing import TYPE_CHECKING

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed

if TYPE_CHECKING:
    from markupsafe import Markup


WIDTH, HEIGHT = 560, 310
LEFT, RIGHT, TOP, BOTTOM = 66, 16, 28, 46
# The most points of a curve that are drawn: a screen shows no more.
MOST_POINTS = 600


@dataclass(frozen=True)
class Series:
    """One curve. Points that are not finite, or not positive on a logarithmic axis, are left out."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dots: bool = False


@dataclass(frozen=True)
class Axis:
    """The map from data to the chart: ``low`` to ``high`` go to ``start`` to ``end``, linearly or by logarithms."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def fit(cls, values: Array, start: float, end: float, log: bool = False) -> Axis:
        """An axis around the data, with room; from zero, where that leaves at most a third of the axis empty.

        A logarithmic axis has whole decades, at least one.
        """
        low, high = (float(values.min()), float(values.max())) if values.size else (0.1 if log else 0.0, 1.0)
        if log:
            # A flat curve still needs a scale: at least one decade.
            low, high = 10.0 ** floor(log10(low) + 1e-9), 10.0 ** ceil(log10(high) - 1e-9)
            return cls(low, high if high > low else 10.0 * low, start, end, True)
        from_zero = 0.0 <= 3.0 * low <= high
        low = 0.0 if from_zero else low
        room = 0.04 * (high - low) or max(abs(high), 1.0) * 0.5
        return cls(low if from_zero else low - room, high + room, start, end)

    def place(self, value: float) -> float:
        """Where ``value`` is drawn, in units of the chart."""
        if self.log:
            share = (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers inside the axis, about ``most`` or fewer: powers of ten on a logarithmic one."""
        if self.log:
            low, high = round(log10(self.low)), round(log10(self.high))
            step = max(1, ceil((high - low) / most))
            return [10.0**k for k in range(low, high + 1, step)]
        raw = (self.high - self.low) / most
        power = 10.0 ** floor(log10(raw))
        unit = next(power * k for k in (1, 2, 5, 10) if power * k >= raw)
        return [k * unit for k in range(ceil(self.low / unit), floor(self.high / unit + 1e-9) + 1)]


def line_chart(
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    marks: Sequence[tuple[float, str]] = (),
) -> Markup:
    """An SVG of curves in a frame, with ticks at round numbers, and with a legend if there are several curves.

    ``marks`` (x, name) are vertical lines with their names.
    """
    from markupsafe import Markup

    curves = [_drawable(curve, log_x, log_y) for curve in series]
    x = Axis.fit(_all(curves, 0), LEFT, WIDTH - RIGHT, log_x)
    y = Axis.fit(_all(curves, 1), HEIGHT - BOTTOM, TOP, log_y)
    label = f"{y_label} against {x_label}"
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">',
        *_grid(x, y),
        f'<text class="label" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}">{escape(x_label)}</text>',
        f'<text class="label" transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)">{escape(y_label)}'
        "</text>",
    ]
    for index, (curve, points) in enumerate(zip(series, curves, strict=True)):
        parts += _curve(index, curve, points, x, y)
    for at, name in marks:
        place, side = x.place(at), "end" if x.place(at) > 0.7 * WIDTH else "start"
        shift = -5 if side == "end" else 5
        parts.append(f'<line class="mark" x1="{place:.1f}" x2="{place:.1f}" y1="{y.start}" y2="{y.end}"/>')
        parts.append(
            f'<text class="legend" text-anchor="{side}" x="{place + shift:.1f}" y="{y.end + 14}">{escape(name)}</text>'
        )
    if len(series) > 1:
        parts += _legend(series)
    return Markup("".join([*parts, "</svg>"]))


def x_places(values: Array, marks: Sequence[float]) -> list[float]:
    """Where ``marks`` lie on the x axis of a :func:`line_chart` of one curve over ``values``."""
    axis = Axis.fit(values, LEFT, WIDTH - RIGHT)
    return [axis.place(mark) for mark in marks]


def _drawable(curve: Series, log_x: bool, log_y: bool) -> Array:
    points = np.array([curve.x, curve.y], np.float64)
    good = np.isfinite(points).all(axis=0)
    for axis, log in enumerate((log_x, log_y)):
        if log:
            good &= points[axis] > 0.0
    points = points[:, good]
    if points.shape[1] > MOST_POINTS:
        keep = np.unique(np.linspace(0, points.shape[1] - 1, MOST_POINTS).round().astype(int))
        points = points[:, keep]
    return points


def _all(curves: Sequence[Array], row: int) -> Array:
    return np.concatenate([curve[row] for curve in curves]) if curves else np.zeros(0)


def _grid(x: Axis, y: Axis) -> list[str]:
    bottom, top, left, right = y.start, y.end, x.start, x.end
    parts = [f'<rect class="frame" x="{left}" y="{top}" width="{right - left}" height="{bottom - top}"/>']
    for value in x.ticks():
        at = x.place(value)
        parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{bottom}"/>')
        parts.append(f'<text class="tick x" x="{at:.1f}" y="{bottom + 16}">{number(value, x.log)}</text>')
    for value in y.ticks():
        at = y.place(value)
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="tick y" x="{left - 7}" y="{at + 4:.1f}">{number(value, y.log)}</text>')
    return parts


def _curve(index: int, curve: Series, points: Array, x: Axis, y: Axis) -> list[str]:
    places = [(x.place(float(a)), y.place(float(b))) for a, b in points.T]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    parts = [f'<polyline class="series series-{index}" points="{path}"/>']
    if curve.dots or len(places) == 1:
        for (a, b), (px, py) in zip(places, points.T, strict=True):
            tip = f"{curve.name}: {py:.4g} at {px:.4g}"
            parts.append(
                f'<circle class="series-{index}" cx="{a:.1f}" cy="{b:.1f}" r="2.6">'
                f"<title>{escape(tip)}</title></circle>"
            )
    return parts


def _legend(series: Sequence[Series]) -> list[str]:
    """The SVG elements of the legend: the names of the curves, in a row above the frame."""
    parts, at = [], float(LEFT)
    for k, curve in enumerate(series):
        parts.append(
            f'<line class="series series-{k}" x1="{at}" x2="{at + 22}" y1="{TOP - 12}" y2="{TOP - 12}"/>'
        )
        parts.append(f'<text class="legend" x="{at + 28}" y="{TOP - 8}">{escape(curve.name)}</text>')
        at += 52 + 9.0 * len(curve.name)  # about the width of the text, at the largest size of its letters
    return parts


def number(value: float, log: bool = False) -> str:
    """The label of a tick: 1,000 or 0.5; on a logarithmic axis, small and large numbers as powers of ten."""
    if not isfinite(value):
        return "–"
    if log and value > 0.0 and not 1e-2 <= value < 1e3:
        return f'10<tspan dy="-5" font-size="0.72em">{round(log10(value))}</tspan>'
    if value != 0.0 and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:,.10g}"


def picture(image: Array, quality: int = 82, lossless: bool = False) -> str:
    """A picture as a ``data:`` address: uint8, gray or RGB, as JPEG, or as PNG if ``lossless``; bool always as PNG."""
    needed("PIL")
    from PIL import Image

    buffer = io.BytesIO()
    if image.dtype == np.bool_:
        Image.fromarray(image.astype(np.uint8) * 255).convert("1").save(buffer, "PNG")
        kind = "png"
    elif lossless:
        Image.fromarray(image).save(buffer, "PNG", optimize=True)
        kind = "png"
    else:
        Image.fromarray(image).save(buffer, "JPEG", quality=quality)
        kind = "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
