"""New frames with a saved result: the factor of the pixels stays, each frame only finds its own few coefficients.

For a frame m and L = U Vᵀ with V from the result this is min over u of Σ Huber_λS(m − V u) + (λ/2)‖u‖², solved by
:func:`rankwolf.passes.coefficients.fit_rows`; nothing of the old video is needed, and no frame waits for another.

With λ = λ_L this is what the whole problem asks of each of its rows. But there λ_L also had to find the rank, and it
shrinks directions that were rarely used: a lamp that was rarely on comes out too dark. For new frames the rank is
known, and λ = λ_L/10 is enough to keep weak directions from fitting noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rankwolf.files.door import read_json
from rankwolf.ground.arrays import Array
from rankwolf.ground.once import computed_once
from rankwolf.ground.result_files import RESULT, SUMMARY
from rankwolf.passes.coefficients import fit_rows
from rankwolf.result import load
from rankwolf.video.drawing import FrameBlock
from rankwolf.video.mask import MaskModel, Threshold
from rankwolf.video.picture import Picture, read_region
from rankwolf.video.reading import Reader
from rankwolf.video.rule import MaskRule

# The files beside a result: the region of interest, and what the mask has learned.
REGION, MASK_MODEL = "region.png", "mask.npz"
SHRINKAGE = 0.1
SAMPLED_COLUMNS = 32768
# Newton's method on the sample of pixels ends at a step below this share of ‖V u‖; the next one would be about the
# square of that share.
TOL = 1e-3
# The step over all pixels is repeated while it moves L by more than this many gray levels, root mean square.
LEAST_MOVE, MOST_STEPS = 0.1, 20
# The entries of the summary beside the result that a model needs.
NEEDED = ("height", "width", "channels", "residual_noise", "contrast", "photographs")


@dataclass(frozen=True, eq=False)
class Model:
    """V (columns, rank) of a balanced factorisation, the weights, and the geometry of a frame.

    ``residual_noise`` and ``contrast`` give the level of :class:`rankwolf.video.mask.Threshold`, for photographs.
    """

    path: Path
    right: Array
    lambda_L: float
    lambda_S: float
    residual_noise: float
    contrast: float
    picture: Picture
    photographs: bool = False

    @classmethod
    def load(cls, path: Path) -> Model:
        """The model in a folder that ``rankwolf separate`` wrote; ``path`` is the folder, or the result.npz in it."""
        file = next((p for p in (path, path / RESULT, path.with_suffix(".npz")) if p.is_file()), path)
        fit = load(file)
        settings = _summary(file.parent / SUMMARY)
        if fit.lambdas is None:
            raise ValueError(
                f"The model {str(file)!r} was solved with radii; new frames need one with weights."
            )
        height, width, channels = (int(settings[key]) for key in ("height", "width", "channels"))
        region_file = file.parent / REGION
        region = read_region(region_file, height, width) if region_file.exists() else None
        picture = Picture(height, width, channels, region)
        if picture.columns != fit.low_rank.shape[1]:
            raise ValueError(f"The model {str(file)!r} and the summary beside it do not belong together.")
        right = np.ascontiguousarray(fit.low_rank.factors()[1], np.float32)
        noise, contrast = float(settings["residual_noise"]), float(settings["contrast"])
        return cls(file, right, *fit.lambdas, noise, contrast, picture, bool(settings["photographs"]))

    def check(self, reader: Reader) -> Picture:
        """The geometry of the model; a ValueError if the reader's frames have another."""
        mine, theirs = self.picture, (reader.height, reader.width, reader.channels)
        if (mine.height, mine.width, mine.channels) != theirs:
            kind = {1: "gray", 3: "colour"}
            raise ValueError(
                f"The model is for {mine.width} × {mine.height} {kind[mine.channels]} frames. Got {theirs[1]} × "
                f"{theirs[0]} {kind[theirs[2]]} instead: --scale must be that of the model."
            )
        return mine

    def masker(self, rule: MaskRule) -> MaskModel | Threshold:
        """The maker of masks for new frames: the model that was saved with the result, with this ``rule``.

        For photographs, and where ``rule`` has a threshold, it is one level.
        """
        file = self.path.parent / MASK_MODEL
        if rule.threshold is not None or self.photographs:
            return Threshold.choose(rule, self.residual_noise, self.contrast)
        try:
            return MaskModel.load(file, rule)
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(
                f"The mask needs {str(file)!r}, which 'rankwolf separate' wrote beside the model: {error}. "
                "Give --threshold for a mask without it."
            ) from error

    def fit(self, frames: Array) -> Array:
        """The coefficients (b, rank) of rows (b, columns), exact to a few hundredths of a gray level.

        Newton's method on a sample of the pixels comes within a tenth of a gray level. From there, steps u ← u + H⁻¹g
        use all pixels: g is the negative gradient, and H = VᵀV + λI would be the Hessian if none were an outlier. Such
        a step never goes too far, so it needs no line search, and H is the same small matrix for all frames. The error
        shrinks to about the share of outliers, so one step is nearly always enough. Cost: two products of the frames
        with V, a sixth of the time of Newton's method on all pixels.
        """
        every = -(-frames.shape[1] // SAMPLED_COLUMNS)
        left = fit_rows(frames[:, ::every], self.right[::every], self._ridge / every, self.lambda_S, tol=TOL)
        most = LEAST_MOVE**2 * frames.shape[1]
        for _ in range(MOST_STEPS):
            residual = np.subtract(frames, self.low_rank(left), dtype=np.float32)
            np.clip(residual, -self.lambda_S, self.lambda_S, out=residual)
            descent = residual @ self.right - self._ridge * left
            move = descent @ self._inverse
            left += move
            if np.einsum("ij,jk,ik->i", move, self._gram, move).max() <= most:
                break
        return left

    def low_rank(self, left: Array) -> Array:
        """L = U Vᵀ of frames with the coefficients ``left`` (b, rank)."""
        product: Array = left @ self.right.T
        return product

    @computed_once
    def _gram(self) -> Array:
        return self.right.T @ self.right

    @computed_once
    def _inverse(self) -> Array:
        """(VᵀV + λI)⁻¹."""
        hessian = self._gram.astype(np.float64) + self._ridge * np.eye(self.right.shape[1])
        return np.linalg.inv(hessian).astype(np.float32)

    @property
    def _ridge(self) -> float:
        return SHRINKAGE * self.lambda_L


def _summary(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
        return {key: content[key] for key in NEEDED}
    except FileNotFoundError:
        raise ValueError(
            f"The model needs the file {str(path)!r} that 'rankwolf separate' wrote beside it."
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{str(path)!r} is not a summary that this version wrote: {error}. Separate the first video again."
        ) from error


def blocks_by_model(model: Model, reader: Reader, rows_at_once: int) -> Iterator[FrameBlock]:
    """The frames of ``reader`` in order, with the L that the model gives them, ``rows_at_once`` frames in a block."""
    rows = (model.picture.to_row(frame) for frame in reader)
    first = 0
    while batch := list(islice(rows, rows_at_once)):
        frames = np.stack(batch)
        yield FrameBlock(first, frames, None, model.low_rank(model.fit(frames)))
        first += len(batch)
