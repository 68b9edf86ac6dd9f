"""Small videos and pictures for the tests: a scene with truth, written with PyAV and Pillow; and separating them."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image

from rankwolf.cli.main import main
from rankwolf.video.reading import Selection, open_frames
from rankwolf.video.scene import Rendered, Scene

# The objects of this seed differ from what is behind them everywhere.
SEED = 5


@cache
def scene(n_frames: int = 80, height: int = 96, width: int = 128) -> Rendered:
    return Scene(height=height, width=width, n_frames=n_frames, n_objects=3, n_lamps=2, seed=SEED).render()


def write_video(path: Path, frames: np.ndarray, codec: str = "libx264", rate: int = 10) -> Path:
    """``ffv1`` is lossless for gray frames; ``mpeg4`` in .avi survives being cut."""
    with av.open(str(path), "w") as container:
        options = {"crf": "12"} if codec == "libx264" else {}
        stream = container.add_stream(codec, rate=Fraction(rate), options=options)
        stream.height, stream.width = frames.shape[1:3]
        color = frames.ndim == 4
        stream.pix_fmt = ("bgr0" if color else "gray") if codec == "ffv1" else "yuv420p"
        if codec == "mpeg4":
            stream.bit_rate = 4_000_000
        for frame in frames:
            picture = av.VideoFrame.from_ndarray(
                np.ascontiguousarray(frame), format="rgb24" if color else "gray"
            )
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path


def write_images(folder: Path, frames: np.ndarray, name: str = "frame{}.png") -> Path:
    folder.mkdir()
    for number, frame in enumerate(frames):
        Image.fromarray(frame).save(folder / name.format(number))
    return folder


def cut(path: Path, target: Path, share: float) -> Path:
    """The first ``share`` of a file's bytes."""
    content = path.read_bytes()
    target.write_bytes(content[: int(share * len(content))])
    return target


def run(*words: object) -> int:
    """``rankwolf separate`` in this process; its exit code."""
    return main(["separate", *map(str, words)])


def pictures(path: Path, color: bool = False) -> np.ndarray:
    """What a video or a folder of images shows."""
    return np.stack(list(open_frames(path, Selection(color=color))))


def summary_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text())


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
