"""A rendered surveillance scene of any length; nothing to download. The longer side of the matrix is the rows."""

from __future__ import annotations

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.harness import judge
from rankwolf.scene import Scene


def load(
    *,
    seed: int,
    height: int = 128,
    width: int = 160,
    frames: int = 1000,
    dtype: str = "uint8",
    delta: float = 1e-3,
) -> Dataset:
    scene = Scene(height=height, width=width, n_frames=frames, seed=seed)
    pixels = height * width
    matrix = np.empty((pixels, frames) if pixels >= frames else (frames, pixels), dtype)
    by_frame = matrix.T if pixels >= frames else matrix
    for piece in scene.pieces(128):
        by_frame[piece.start : piece.start + len(piece.frames)] = piece.matrix
    return Dataset("scene", matrix, None, judge.paper_weights(matrix, None, delta))
