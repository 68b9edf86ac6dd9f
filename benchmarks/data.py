"""The real data of the paper's experiments, found through ``RANKWOLF_DATA`` (default ``../shared/data``).

None of it is part of the repository. A matrix is laid out as in the paper: **a column for each frame or image**, its
pixels down the rows, C-contiguous, so that a tile of rows is one stretch of memory. ``frames`` gives the same numbers
as (count, height, width). Rendered scenes need no files: :mod:`rankwolf.video.scene`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io

Array = np.ndarray[Any, np.dtype[Any]]

FACES = ("yaleB01", "yaleB02", "yaleB03")
VIDEOS = ("lobby", "restaurant", "escalator")
# The paper's λ from δ: 1e-3 for surveillance, 1e-2 for faces (Section 5).
DELTA = {**dict.fromkeys(FACES, 1e-2), **dict.fromkeys(VIDEOS, 1e-3)}

_LOBBY_FRAMES = 1000  # Table 1 uses the first 1000 of 1546
_FILES = {
    "lobby": "lobby_20480x1546_uint8.npz",
    "restaurant": "restaurant_19200x3055_uint8.npz",
    "escalator": "escalator_20800x200_uint8.mat",
}


class MissingDataError(FileNotFoundError):
    """The data is not on this machine."""


def folder() -> Path:
    """Where the data is."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("RANKWOLF_DATA", default))


def frames(name: str) -> Array:
    """(count, height, width), uint8, in the order of time (faces: of file names)."""
    path = folder() / ("faces/" + name if name in FACES else _FILES[name])
    if not path.exists():
        raise MissingDataError(f"{name}: {path} is not there. Set RANKWOLF_DATA to the folder that holds it.")
    if name in FACES:
        return _images(path)
    if path.suffix == ".mat":
        content = scipy.io.loadmat(path)
        height, width = int(content["m"].item()), int(content["n"].item())
        # Columns are frames, each stored column by column.
        return np.ascontiguousarray(content["X"].T.reshape(-1, width, height).transpose(0, 2, 1))
    stack = _stored(path)
    return stack[:_LOBBY_FRAMES] if name == "lobby" else stack


def stored_lobby() -> Array:
    """All frames of Lobby, also those after the paper's."""
    return _stored(folder() / _FILES["lobby"])


def _stored(path: Path) -> Array:
    with np.load(path) as file:
        stack: Array = file["frames"]
    return stack


def _images(path: Path) -> Array:
    from PIL import Image

    return np.stack([np.asarray(Image.open(file)) for file in sorted(path.glob("*.pgm"))])


def matrix(name: str, dtype: Any = np.float32) -> Array:
    """The paper's matrix: pixels × frames."""
    stack = frames(name)
    return np.ascontiguousarray(stack.reshape(stack.shape[0], -1).T, dtype=dtype)


def observed(shape: tuple[int, int], fraction: float, seed: int) -> Array | None:
    """Each entry with probability ``fraction``, another mask for each fraction; None for all of them."""
    if fraction >= 1.0:
        return None
    return np.random.default_rng([seed, round(1000 * fraction)]).random(shape, dtype=np.float32) < np.float32(
        fraction
    )


def masked(name: str, fraction: float, seed: int, dtype: Any = np.float32) -> tuple[Array, Array | None]:
    """(X, mask) for ``decompose``: NaN marks what is missing in a float matrix, a mask in an integer one.

    NaN costs a float matrix nothing: its tiles stay views of it.
    """
    values = matrix(name, dtype)
    mask = observed((values.shape[0], values.shape[1]), fraction, seed)
    if mask is None or values.dtype.kind != "f":
        return values, mask
    values[~mask] = np.nan
    return values, None
