"""The results of a separation as one dictionary, for ``summary.json``, ``--json`` and the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwolf import __version__
from rankwolf.platform import peak_memory
from rankwolf.video.mask import MaskModel
from rankwolf.video.separation import Outcome


def _mask(outcome: Outcome) -> dict[str, Any]:
    """How the mask was made: by the model of each pixel's background, or by one threshold."""
    masker = outcome.masker
    if isinstance(masker, MaskModel):
        return {
            "mask_by": "model",
            "threshold": None,
            "samples": len(masker.samples.values),
            "radius": (masker.samples.square / masker.samples.values.shape[1]) ** 0.5,
            "still_share": None if masker.still is None else float(masker.still.stands.mean()),
        }
    return {"mask_by": "threshold", "threshold": None if masker is None else masker.level}


def summarize(outcome: Outcome) -> dict[str, Any]:
    """Sizes, weights, gap, status, seconds, passes by name: numbers, words, lists and None, as JSON knows them."""
    job, picture, reader = outcome.job, outcome.picture, outcome.reader
    numbers = reader.numbers
    total = sum(outcome.seconds.values())
    return {
        "rankwolf": __version__,
        "input": str(job.source),
        "model": None if job.model is None else str(job.model),
        "frames": reader.decoded,
        "height": picture.height,
        "width": picture.width,
        "channels": picture.channels,
        "pixels": picture.pixels,
        "first_frame": numbers.start,
        "every": numbers.step,
        "rate": None if reader.rate is None else float(reader.rate / numbers.step),
        "damaged": reader.damaged,
        "observed_fraction": 1.0 if job.sample is None else job.sample,
        "format": outcome.format,
        "foreground": job.style,
        "frame_noise": outcome.frame_noise,
        "photographs": outcome.photographs,
        "weights_from": outcome.weights_from,
        "aligned_by_up_to": None if outcome.steady is None else outcome.steady.farthest,
        "residual_noise": outcome.residual_noise,
        "contrast": outcome.contrast,
        **_mask(outcome),
        **({} if outcome.fit is None else outcome.fit.as_dict()),
        "moving_share": float(np.mean(outcome.activity)) if outcome.activity else 0.0,
        "seconds": {**outcome.seconds, "total": total},
        "frames_per_second": reader.decoded / total if total > 0.0 else None,
        "peak_memory_bytes": peak_memory(),
        "frames_on_disk": outcome.on_disk,
        "warnings": outcome.warnings,
    }
