"""Frames to matrix and back: reading, separating, writing and scoring of video, image folders and arrays of frames.

Solving is the affair of :mod:`rankwolf.api`, and options and messages are that of :mod:`rankwolf.cli`: nothing here
prints.

For other people's code: :class:`Separator`, which separates a stream frame by frame, its ``LiveSettings``, and
``MaskRule``, how a mask is made.

One file per noun: ``reading`` (where frames come from), ``stream`` (frames that come one by one), ``picture`` (a
frame as a row of the matrix), ``store`` (the matrix, in memory or on disk), ``noise`` (weights from the data),
``mask`` (what moves), which is made of ``consensus`` (samples of each pixel's background), ``absorbed`` (objects that
stay), ``light`` (a change that is only another light) and ``tidy`` (from pixels to objects), ``side_by_side``
(threads), ``drawing`` (a separated frame as pictures), ``writing`` (where they go), ``separation`` (all of it in
order), ``residual`` (what L leaves over, in a sample), ``summary`` (what it came to), ``model`` (frames that a saved
result has not seen), ``live`` (a model that keeps learning), ``scoring`` (against known masks), ``scene`` (a video
with known truth).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankwolf.video.live import LiveSettings, Separator
    from rankwolf.video.mask import MaskRule

__all__ = ["LiveSettings", "MaskRule", "Separator"]

_HOMES = {
    "LiveSettings": "rankwolf.video.live",
    "MaskRule": "rankwolf.video.mask",
    "Separator": "rankwolf.video.live",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
