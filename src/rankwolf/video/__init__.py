"""Frames to matrix and back: reading, separating, writing and scoring of video, image folders and arrays of frames.

Solving is done by :mod:`rankwolf.api`; options and messages are in :mod:`rankwolf.cli`: nothing here prints.

Public are :class:`Separator`, which separates a stream frame by frame, its ``LiveSettings``, and ``MaskRule``, how a
mask is made.

One file per noun:

- frames in: ``reading`` (files and folders), ``stream`` (frames that come one by one), ``scene`` (a rendered video with
  known truth), ``shake`` (frames of a camera that trembles, aligned), ``picture`` (a frame as a row of the matrix),
  ``store`` (the matrix, in memory or on disk);
- the background: ``choosing_weights`` (weights from the data), ``residual_noise`` (M − L in a sample), ``model`` (new
  frames by a saved result), ``live`` (a model that keeps learning);
- the mask: ``rule`` (its constants), ``mask`` (all of it), ``consensus`` (samples of each pixel's background),
  ``still`` (where it stands still), ``tidy`` (from pixels to objects), ``scoring`` (against known truth);
- pictures out: ``drawing`` (a separated frame as pictures), ``picture_writers`` (videos and image files), ``tracks``
  (objects and their numbers);
- the whole: ``separation`` (all steps in order), ``separated`` (the same from Python), ``outcome`` (its results
  as a dictionary), ``side_by_side`` (threads).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankwolf.video.live import LiveSettings, Separator
    from rankwolf.video.rule import MaskRule

__all__ = ["LiveSettings", "MaskRule", "Separator"]

_HOMES = {
    "LiveSettings": "rankwolf.video.live",
    "MaskRule": "rankwolf.video.rule",
    "Separator": "rankwolf.video.live",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
