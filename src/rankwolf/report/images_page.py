"""The page of ``rankwolf recover``: a slider through the frames, L, S and their sum side by side, and how it went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwolf import __version__
from rankwolf.ground.arrays import Array
from rankwolf.ground.plural import number_of
from rankwolf.report.figures import picture
from rankwolf.report.page import as_rows, percent, render
from rankwolf.report.solving import solve_charts, solve_facts

if TYPE_CHECKING:
    from rankwolf.result.decomposition import Decomposition

# At most so many frames are shown, spread evenly, and magnitudes are white from this quantile on.
MOST_FRAMES, WHITE = 96, 0.998
PANELS = ("images", "low-rank part", "sparse part")
SHOWN = ("input", "frames", "image", "lambda_L", "lambda_S", "noise_scale", "status", "iterations", "passes")


def images_page(
    low_rank: Array, sparse: Array, summary: Mapping[str, Any], fit: Decomposition, command: str
) -> str:
    """The whole page as HTML, for parts (frames, …image); of volumes the middle slice is shown."""
    numbers = np.unique(np.linspace(0, len(low_rank) - 1, MOST_FRAMES).astype(int))
    series = [np.abs(_slices(part[numbers])) for part in (low_rank + sparse, low_rank, sparse)]
    white = [float(np.quantile(part, WHITE)) or 1.0 for part in series]
    white[1] = white[0]  # one scale for the whole and what stays; what moves is fainter, and has its own
    shots = [
        {"label": f"frame {number}", **{panel: picture(_gray(part[k], top), lossless=True)
         for panel, part, top in zip(PANELS, series, white, strict=True)}}
        for k, number in enumerate(numbers.tolist())
    ]  # fmt: skip
    return render(
        "images.html",
        title=str(summary["input"]).rstrip("/").split("/")[-1],
        subtitle=f"{number_of(len(low_rank), 'frame')} of {' × '.join(map(str, low_rank.shape[1:]))}, "
        f"{percent(summary['measured'])} of k-space measured",
        facts=solve_facts(fit),
        warnings=[],
        notes=summary["notes"],
        panels=PANELS,
        shots=shots,
        brighter=f"{white[0] / white[2]:.3g}",
        charts=solve_charts(fit),
        command=command,
        settings=as_rows({name.replace("_", " "): summary.get(name) for name in SHOWN}),
        version=__version__,
    )


def _slices(part: Array) -> Array:
    return part if part.ndim == 3 else part[:, part.shape[1] // 2]


def _gray(values: Array, white: float) -> Array:
    return np.clip(255.0 * values / white, 0.0, 255.0).astype(np.uint8)
