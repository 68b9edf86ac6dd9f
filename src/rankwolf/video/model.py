"""New frames with a saved result: the factor of the pixels stays, each frame only finds its own few coefficients.

For a frame m and L = U Vᵀ with V from the result this is min over u of Σ Huber_λS(m − V u) + (λ/2)‖u‖², solved by
:func:`rankwolf.rows.fit_rows`; nothing of the old video is needed, and no frame waits for another.

With λ = λ_L this is what the whole problem asks of each of its rows. But there λ_L had to find the rank as well, and it
shrinks directions that the old video used little: a lamp that was rarely on comes out too dark. For new frames the rank
is known, and a tenth of λ_L is enough to keep weak directions from fitting noise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rankwolf.result import load
from rankwolf.rows import fit_rows
from rankwolf.video.drawing import Block
from rankwolf.video.picture import Picture, read_region
from rankwolf.video.reading import Reader

Array = np.ndarray[Any, np.dtype[Any]]

SHRINKAGE = 0.1
SAMPLED_COLUMNS = 32768
# Of the length of a frame: Newton's next step would be the square of it.
TOL = 1e-3
# Of the summary beside the result.
NEEDED = ("height", "width", "channels", "residual_noise", "photographs")


@dataclass(frozen=True, eq=False)
class Model:
    """V (columns, rank) of a balanced factorisation, the weights, the noise of the residual, and the geometry."""

    path: Path
    right: Array
    lambda_L: float
    lambda_S: float
    residual_noise: float
    picture: Picture
    photographs: bool = False

    @classmethod
    def load(cls, path: Path) -> Model:
        """From the folder that ``rankwolf separate`` wrote, or its ``result`` in it."""
        file = next((p for p in (path, path / "result.npz", path.with_suffix(".npz")) if p.is_file()), path)
        fit = load(file)
        settings = _summary(file.parent / "summary.json")
        if fit.lambdas is None:
            raise ValueError(
                f"The model {str(file)!r} was solved with radii; new frames need one with weights."
            )
        height, width, channels = (int(settings[key]) for key in ("height", "width", "channels"))
        region_file = file.parent / "region.png"
        region = read_region(region_file, height, width) if region_file.exists() else None
        picture = Picture(height, width, channels, region)
        if picture.columns != fit.low_rank.shape[1]:
            raise ValueError(f"The model {str(file)!r} and the summary beside it do not belong together.")
        right = np.ascontiguousarray(fit.low_rank.factors()[1], np.float32)
        noise, photographs = float(settings["residual_noise"]), bool(settings["photographs"])
        return cls(file, right, *fit.lambdas, noise, picture, photographs)

    def check(self, reader: Reader) -> Picture:
        """The geometry, if the new frames have it."""
        mine, theirs = self.picture, (reader.height, reader.width, reader.channels)
        if (mine.height, mine.width, mine.channels) != theirs:
            kind = {1: "gray", 3: "colour"}
            raise ValueError(
                f"The model is for {mine.width} × {mine.height} {kind[mine.channels]} frames. Got {theirs[1]} × "
                f"{theirs[0]} {kind[theirs[2]]} instead: --scale and --color must be those of the model."
            )
        return mine

    def fit(self, frames: Array) -> Array:
        """The coefficients (b, rank) of rows (b, columns).

        A few pixels are enough to come within a fraction of a gray level; starting there, all of them take a third of
        the time.
        """
        every, ridge = -(-frames.shape[1] // SAMPLED_COLUMNS), SHRINKAGE * self.lambda_L
        start = fit_rows(frames[:, ::every], self.right[::every], ridge / every, self.lambda_S, tol=TOL)
        return fit_rows(frames, self.right, ridge, self.lambda_S, start=start, tol=TOL)


def _summary(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {key: content[key] for key in NEEDED}
    except FileNotFoundError:
        raise ValueError(
            f"The model needs the file {str(path)!r} that 'rankwolf separate' wrote beside it."
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{str(path)!r} is not the summary of a separation: {error}") from error


def blocks_by_model(model: Model, reader: Reader, rows_at_once: int) -> Iterator[Block]:
    """New frames with the L that the model gives them, a few at a time."""
    rows = (model.picture.to_row(frame) for frame in reader)
    first = 0
    while batch := list(islice(rows, rows_at_once)):
        frames = np.stack(batch)
        yield Block(first, frames, None, model.fit(frames.astype(np.float32)) @ model.right.T)
        first += len(batch)
