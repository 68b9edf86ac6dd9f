"""The paper's Figure 3 on the videos we have: observed, L and S: ``python -m benchmarks figure3``.

Lobby, Restaurant and escalator, δ = 1e-3 as in the paper, ρ = 1 and ρ = 0.6, solved to a certified gap of 1e-3. The
picture goes to ``benchmarks/results/figure3.png``. ``--weights noise`` shows what ``rankwolf separate`` does instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.harness.options import options_of
from benchmarks.harness.results import FOLDER
from rankwolf.api.decompose import decompose
from rankwolf.result.decomposition import Decomposition
from rankwolf.video.choosing_weights import temporal_noise, weights_for

Array = np.ndarray[Any, np.dtype[Any]]

# Moments in which something happens: somebody crosses the dimmed hall, people queue, people come off the stairs.
MOMENTS = {"lobby": 645, "restaurant": 1612, "escalator": 100}
RHOS = (1.0, 0.6)


@dataclass(frozen=True)
class Panel:
    """One row of three pictures, with its name."""

    name: str
    observed: Array
    low_rank: Array
    sparse: Array


def separate(frames: Array, rho: float, weights: str, delta: float) -> tuple[Decomposition, Array | None]:
    matrix = frames.reshape(len(frames), -1)
    shape = (matrix.shape[0], matrix.shape[1])
    seen = data.observed(shape, rho, seed=0)
    options: dict[str, Any] = {"delta": delta}
    if weights == "noise":
        options = {"lambdas": weights_for(temporal_noise(matrix, seen), shape, rho)}
    return decompose(matrix, observed=seen, tol=1e-3, max_seconds=900.0, rng=0, **options), seen


def panel(name: str, moment: int, rho: float, weights: str) -> Panel:
    frames = data.frames(name)
    fit, seen = separate(frames, rho, weights, data.DELTA[name])
    picture = frames.shape[1:]
    observed = frames[moment].astype(np.float32)
    if seen is not None:
        observed[~seen[moment].reshape(picture)] = np.nan
    print(
        f"{name:<12} rho {rho:g}: rank {fit.low_rank.rank}, S {fit.sparse.nonzeros / frames.size:.1%}, "
        f"gap {fit.relative_gap:.1e}, {fit.passes} passes, {fit.seconds:.1f} s",
        flush=True,
    )
    title = f"{name}, ρ = {rho:g}, rank {fit.low_rank.rank}"
    return Panel(title, observed, fit.low_rank[moment].reshape(picture), fit.sparse[moment].reshape(picture))


def draw(panels: list[Panel], path: Path) -> None:
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = [shown.observed.shape[0] / shown.observed.shape[1] for shown in panels]
    column = 2.3 / heights[0]  # inches
    figure = Figure(
        figsize=(0.4 + 3 * column, sum(heights) * column + 0.08 * len(panels) + 0.3),
        layout="constrained",
        dpi=130,
    )
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(panels), 3, squeeze=False, gridspec_kw={"height_ratios": heights})
    gray = colormaps["gray"].with_extremes(bad="#8c2d2d")  # what was not observed
    for row, shown in zip(axes, panels, strict=True):
        row[0].imshow(shown.observed, cmap=gray, vmin=0, vmax=255)
        row[1].imshow(shown.low_rank, cmap="gray", vmin=0, vmax=255)
        row[2].imshow(np.abs(shown.sparse), cmap="gray", vmin=0, vmax=128)
        row[0].set_ylabel(shown.name, fontsize=8)
        for axis in row:
            axis.set(xticks=[], yticks=[])
    for axis, title in zip(axes[0], ("observed (red: not)", "L", "|S|"), strict=True):
        axis.set_title(title, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    print(f"Look at {path}")


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--weights", choices=("paper", "noise"), default="paper")
    arguments = parser.parse_args()
    panels = [panel(name, moment, rho, arguments.weights) for name, moment in MOMENTS.items() for rho in RHOS]
    suffix = "" if arguments.weights == "paper" else "-noise"
    draw(panels, FOLDER / f"figure3{suffix}.png")


if __name__ == "__main__":
    main()
