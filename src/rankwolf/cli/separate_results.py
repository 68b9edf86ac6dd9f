"""What ``rankwolf separate`` leaves in its output, with ``--live`` and without."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from rankwolf.cli.common import remove
from rankwolf.ground.result_files import PAGE, RESULT, SUMMARY

BACKGROUND, MASK, STATE = "background.mkv", "mask.mkv", "state.npz"


def next_part(path: Path) -> Path:
    """``path``, or if it exists the first free one of mask-2.mkv, mask-3.mkv, …: ``--go-on`` overwrites nothing."""
    number, part = 1, path
    while part.exists():
        number += 1
        part = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return part


def remove_stale(target: Path, written: Iterable[str] = ()) -> None:
    """Remove results of an earlier run that are not among ``written``: the new summary is not about them."""
    from rankwolf.video.model import MASK_MODEL, REGION
    from rankwolf.video.picture_writers import FORMATS
    from rankwolf.video.separation import NAMES, OBJECTS, OVERLAY, STILL

    known = {f"{name}{ending}" for name in (*NAMES, OVERLAY) for ending in FORMATS.values()}
    known |= {RESULT, STILL, OBJECTS, REGION, MASK_MODEL, STATE, SUMMARY, PAGE}
    parts = (path.name for path in target.iterdir())
    known |= {name for name in parts if re.fullmatch(r"(background|mask)-\d+\.mkv|objects-\d+\.csv", name)}
    remove(target / name for name in known.difference(written))
