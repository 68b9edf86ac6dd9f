"""The page of ``rankwolf separate``: a slider through the frames, the most eventful of them, and how the run went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwolf import __version__
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import needed
from rankwolf.report import figures
from rankwolf.report.events import Sighting, events_of
from rankwolf.report.page import Fact, as_rows, duration, percent, render
from rankwolf.report.solving import solve_charts, solve_facts, status_warning

if TYPE_CHECKING:
    from rankwolf.result.decomposition import Decomposition
    from rankwolf.video.drawing import Pictures


PANELS = ("observed", "background", "foreground", "mask")
# A page shows at most MOST_FRAMES frames, of a long video at least half as many; wide pictures are made about
# MOST_WIDTH pixels wide.
MOST_FRAMES, MOST_WIDTH = 96, 420
STRIP = 12


@dataclass(frozen=True)
class Shot:
    """A frame on the page: its pictures as data addresses, the largest object in it, and a picture of that object."""

    number: int
    activity: float
    pictures: dict[str, str]
    sighting: Sighting | None = None
    object: str = ""


class Album:
    """Collects frames for the page as they are separated; memory: at most MOST_FRAMES frames, encoded.

    Time is cut into windows of equal length, and of each window the frame is kept in which most moves. Where the number
    of frames is not known, a window is one frame at first. Whenever there are MOST_FRAMES windows and another frame
    comes, neighbours are joined, and windows become twice as long.
    """

    def __init__(self) -> None:
        self.window = 0
        self._shots: list[Shot] = []
        self._best: Pictures | None = None
        self._seen = 0

    def visit(self, frame: Pictures, total: int | None = None) -> None:
        """Take the next of ``total`` frames; it is kept if more moves in it than in the others of its window."""
        if not self.window:
            self.window = -(-(total or 1) // MOST_FRAMES)
        if len(self._shots) == MOST_FRAMES:
            self._join_windows()
        if self._best is None or frame.activity > self._best.activity:
            self._best = frame
        self._seen += 1
        if self._seen == self.window:
            self._close_window()

    def shots(self) -> list[Shot]:
        """The frames that were kept, in order; ends the last window, if it is not full."""
        if self._best is not None:
            self._close_window()
        return self._shots

    def _close_window(self) -> None:
        assert self._best is not None
        self._shots.append(take_shot(self._best))
        self._best, self._seen = None, 0

    def _join_windows(self) -> None:
        pairs = zip(self._shots[::2], self._shots[1::2], strict=True)
        self._shots = [max(pair, key=lambda shot: shot.activity) for pair in pairs]
        self.window *= 2


def take_shot(frame: Pictures) -> Shot:
    """A frame's four pictures, shrunk for the page, and its largest object."""
    small = {panel: shrink(getattr(frame, panel)) for panel in PANELS}
    pictures = {panel: figures.picture(picture) for panel, picture in small.items()}
    sighting = Sighting.of(frame.number, small["mask"])
    cut_out = "" if sighting is None else figures.picture(shrink(sighting.cut_out(frame.observed)))
    return Shot(frame.number, frame.activity, pictures, sighting, cut_out)


def shrink(picture: Array) -> Array:
    """The picture reduced to about MOST_WIDTH columns, by means over squares of pixels; unchanged below 1.5 of that."""
    needed("PIL")
    from PIL import Image

    factor = round(picture.shape[1] / MOST_WIDTH)
    if factor < 2:
        return picture
    if picture.dtype == np.bool_:
        return np.asarray(Image.fromarray(picture.view(np.uint8) * np.uint8(255)).reduce(factor)) > 127
    return np.asarray(Image.fromarray(picture).reduce(factor))


def video_page(
    album: Album,
    summary: Mapping[str, Any],
    fit: Decomposition | None,
    activity: Sequence[float],
    residuals: Array | None,
    command: str,
    names: Sequence[str] | None,
    levels: Array | None = None,
) -> str:
    """The whole page as HTML.

    ``activity`` is the share of each frame that moves; ``residuals`` counts |M − L| by whole gray levels; ``names`` are
    those of the frames, where they are images; ``levels`` (height, width) says about how far from L each pixel may be
    and still belong to the background.
    """
    shots = album.shots()
    frame_numbers = [summary["first_frame"] + shot.number * summary["every"] for shot in shots]
    labels = [names[k] if names else f"frame {k}" for k in frame_numbers]
    busiest = max(range(len(shots)), key=lambda i: shots[i].activity)
    times = summary["first_frame"] + summary["every"] * np.arange(len(activity))
    return render(
        "video.html",
        title="/".join(str(summary["input"]).rstrip("/").split("/")[-2:]),
        subtitle=_subtitle(summary),
        facts=_facts(summary, fit),
        warnings=summary["warnings"] + status_warning(fit),
        panels=PANELS,
        shots=[
            {"label": label, "activity": percent(shot.activity), "x": round(x, 1), **shot.pictures}
            for label, shot, x in zip(labels, shots, figures.x_places(times, frame_numbers), strict=True)
        ],
        first_shown=busiest,
        shown=_shown(album, shots, summary),
        strip=_strip(album, shots, labels, frame_numbers, summary),
        model=None if levels is None else level_map(levels),
        foreground=FOREGROUND[summary["foreground"]],
        verb=_verb(summary),
        unit=_unit(summary),
        activity_chart=figures.line_chart(
            [figures.Series("moving", times.tolist(), [100.0 * share for share in activity])],
            _unit(summary),
            f"per cent that {_verb(summary)}",
        ),
        chart_height=[figures.TOP, figures.HEIGHT - figures.BOTTOM],
        charts=_charts(summary, fit, residuals),
        command=command,
        settings=as_rows(
            {name.replace("_", " "): value for name, value in summary.items() if name not in HIDDEN}
        ),
        version=__version__,
    )


def _strip(
    album: Album,
    shots: Sequence[Shot],
    labels: Sequence[str],
    numbers: Sequence[int],
    summary: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """The STRIP events with the largest objects, in order of time: a picture, when it was seen, and in which shot."""
    places = {shot.number: i for i, shot in enumerate(shots)}
    events = events_of([shot.sighting for shot in shots], album.window)
    events = sorted(events, key=lambda event: -event.best.area)[:STRIP]
    strip = []
    for event in sorted(events, key=lambda event: event.best.number):
        i = places[event.best.number]
        when = clock_time(numbers[i], summary)
        strip.append({"shot": i, "object": shots[i].object, "when": when or labels[i], "label": labels[i]})
    return strip


def clock_time(number: int, summary: Mapping[str, Any]) -> str | None:
    """The time of a frame of the input since its beginning, ``m:ss``; None where the input has no clock.

    >>> clock_time(2250, {"rate": 25.0, "every": 1})
    '1:30'
    """
    if not summary["rate"]:
        return None
    seconds = int(number / (summary["rate"] * summary["every"]))
    return f"{seconds // 60}:{seconds % 60:02d}"


# Dark blue, teal, yellow, white: ordered by brightness, and readable without colours.
PALETTE = ((0, 20, 24, 60), (0.35, 11, 110, 110), (0.7, 230, 190, 60), (1, 255, 250, 235))


def level_map(levels: Array) -> dict[str, Any]:
    """A picture of the levels, bright where the background moves much, and the levels that its colours stand for."""
    low, high = (float(value) for value in np.percentile(levels, (1, 99)))
    share = np.clip((levels - low) / max(high - low, 1.0), 0.0, 1.0)
    stops, *channels = zip(*PALETTE, strict=True)
    colors = np.stack([np.interp(share, stops, channel) for channel in channels], axis=-1)
    return {
        "picture": figures.picture(shrink(colors.astype(np.uint8))),
        "low": round(low),
        "high": round(high),
        "middle": round(float(np.median(levels))),
    }


FOREGROUND = {
    "signed": "S, the sparse part, on middle gray: darker and brighter than the background",
    "absolute": "|S|, the sparse part without its sign",
    "cutout": "what the camera saw where the mask is white",
}
HIDDEN = ("warnings", "seconds", "rankwolf", "status_says")


def _charts(
    summary: Mapping[str, Any], fit: Decomposition | None, residuals: Array | None
) -> list[dict[str, Any]]:
    charts = []
    if residuals is not None:
        level = summary["threshold"]
        marks = [] if level is None else [(level, f"threshold {level:.1f}")]
        shares = residuals / max(1, residuals.sum())
        chart = figures.line_chart(
            [figures.Series("share of pixels", range(len(shares)), shares.tolist())],
            "|frame − background| in gray levels",
            "share of all pixels",
            log_y=True,
            marks=marks,
        )
        noise = (
            f"The residual's noise is {summary['residual_noise']:.2f} gray levels, 1.4826 times the median; "
        )
        contrast = f"the contrast of the frames is {summary['contrast']:.0f}."
        title = "How far frames are from the background"
        charts.append({"title": title, "chart": chart, "why": noise + contrast})
    return charts if fit is None else charts + solve_charts(fit)


def _subtitle(summary: Mapping[str, Any]) -> str:
    kind = "in colour" if summary["channels"] == 3 else "in gray"
    size = (
        f"{summary['frames']:,} {_unit(summary)}s of {summary['width']} × {summary['height']} pixels, {kind}"
    )
    seen = summary["observed_fraction"]
    if summary["aligned_by_up_to"]:
        size += f", moved by up to {summary['aligned_by_up_to']} pixels because the camera trembled"
    return size + (f", {percent(seen)} of the pixels observed" if seen < 1.0 else "")


def _facts(summary: Mapping[str, Any], fit: Decomposition | None) -> list[Fact]:
    seconds = summary["seconds"]
    split = ", ".join(f"{name} {duration(value)}" for name, value in seconds.items() if name != "total")
    facts = [] if fit is None else solve_facts(fit)
    return [
        *facts,
        Fact(
            "in the mask" if summary["photographs"] else "moving",
            percent(summary["moving_share"]),
            f"threshold {summary['threshold']:.1f} gray levels"
            if summary["threshold"] is not None
            else f"by {summary['samples']} samples of each pixel",
        ),
        Fact("whole run", duration(seconds["total"]), split),
        Fact(f"{_unit(summary)}s a second", f"{summary['frames_per_second']:.1f}", "from reading to writing"),
    ]


def _unit(summary: Mapping[str, Any]) -> str:
    """The word for one picture."""
    return "photograph" if summary["photographs"] else "frame"


def _verb(summary: Mapping[str, Any]) -> str:
    """The verb for what is in the mask. Nothing moves in photographs: there it is a shadow, a highlight, a scratch."""
    return "differs" if summary["photographs"] else "moves"


def _shown(album: Album, shots: Sequence[Shot], summary: Mapping[str, Any]) -> str:
    if album.window == 1:
        return f"every {_unit(summary)}"
    which = f"of each {album.window} the one in which most {_verb(summary)}"
    return f"{len(shots)} of {summary['frames']:,} {_unit(summary)}s: {which}"
