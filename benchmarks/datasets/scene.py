"""A rendered surveillance scene of any length; nothing to download. The longer side of the matrix is the rows."""

from __future__ import annotations

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.harness import judge
from rankwolf.video.scene import Scene


def load(
    *,
    seed: int,
    height: int = 128,
    width: int = 160,
    frames: int = 1000,
    dtype: str = "uint8",
    delta: float | None = 1e-3,
) -> Dataset:
    """``delta=None``: weights from the noise, λ_S three times its standard deviation.

    The paper's rule lets λ_S grow with the square root of the frames, and with it the rank: moving things come into L.
    So where the number of frames varies, λ_S stays and only λ_L grows.
    """
    scene = Scene(height=height, width=width, n_frames=frames, seed=seed)
    pixels = height * width
    matrix = np.empty((pixels, frames) if pixels >= frames else (frames, pixels), dtype)
    by_frame = matrix.T if pixels >= frames else matrix
    for piece in scene.pieces(128):
        by_frame[piece.start : piece.start + len(piece.frames)] = piece.matrix
    if delta is None:
        lambda_S = 3.0 * scene.noise
        weights = (2.0 * lambda_S * (pixels * frames / 1000) ** 0.5, lambda_S)
    else:
        weights = judge.paper_weights(matrix, None, delta)
    return Dataset("scene", matrix, None, weights)
