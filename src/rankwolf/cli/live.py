"""``rankwolf separate STREAM --live``: a mask for every frame as it comes, by a model that keeps learning."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwolf.cli.common import Output, bad_option, check_folder, warn, write_summary
from rankwolf.cli.separate_results import BACKGROUND, MASK, STATE, next_part, remove_stale
from rankwolf.ground.plural import number_of

if TYPE_CHECKING:
    from rankwolf.video.live import Separator
    from rankwolf.video.rule import MaskRule
    from rankwolf.video.stream import Opened

SAY_EVERY = 10.0
# The state is saved after so many seconds, then whenever it is twice as old, and in the end every so many: a power cut
# loses no more than half of what was learned, and no more than ten minutes.
SAVE_FIRST, SAVE_EVERY = 10.0, 600.0
# Options of a separation without --live, which have no meaning with it.
FOREIGN = (
    "start every mask sample strict max_memory delta lambdas model method tol checkpoint checkpoint_every "
    "resume max_seconds threads format foreground audio overlay no_report threshold"
).split()


def add_live_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--live`` and the options that go with it."""
    group = parser.add_argument_group(
        "live", "for streams: what is written grows as frames come, and is kept"
    )
    group.add_argument(
        "--live",
        action="store_true",
        help="separate a file, address, device or - frame by frame, as it comes",
    )
    group.add_argument(
        "--raw", metavar="WxH", help="the stream is raw bytes: 640x480 gray, 640x480xrgb colour"
    )
    group.add_argument("--warm-up", type=int, metavar="N", help="frames before the first mask (default: 150)")
    group.add_argument(
        "--absorb-after", type=int, metavar="N", help="what stays for N frames is background (default: 3000)"
    )
    group.add_argument(
        "--go-on",
        action="store_true",
        help="go on with the state.npz that an earlier --live left in the output",
    )


def check_live_options(arguments: argparse.Namespace, defaults: argparse.Namespace) -> None:
    """Refuse options that have no meaning with ``--live``, or have one only with it, and numbers that are too small."""
    names = FOREIGN if arguments.live else ("raw", "warm_up", "absorb_after", "go_on")
    for name in names:
        if getattr(arguments, name) != getattr(defaults, name):
            option = "--" + name.replace("_", "-")
            rule = "does not go with --live" if arguments.live else "goes with --live only"
            raise ValueError(f"{option} {rule}. Leave it out.")
    if arguments.go_on and arguments.force:
        raise ValueError("--force does not go with --go-on, which replaces nothing. Leave one of them out.")
    for name, least in (("warm_up", 20), ("absorb_after", 1)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise bad_option(f"--{name.replace('_', '-')}", f"at least {least}", value)


def color_of(arguments: argparse.Namespace) -> bool | None:
    """True with ``--color``, False with ``--gray``; None: in colour if the input has colours."""
    return True if arguments.color else False if arguments.gray else None


def separator_of(arguments: argparse.Namespace, rule: MaskRule, target: Path) -> Separator:
    """A new separator, or with ``--go-on`` the one that was saved in ``target``."""
    from rankwolf.video.live import LiveSettings, Separator

    given = {name: getattr(arguments, name) for name in ("warm_up", "absorb_after")}
    settings = LiveSettings(**{name: value for name, value in given.items() if value is not None})
    if arguments.go_on:
        return Separator.load(target / STATE, settings, rule, arguments.seed)
    return Separator(settings, rule, arguments.seed)


def run_live(arguments: argparse.Namespace, rule: MaskRule) -> int:
    """Separate until the stream ends, and return 0; or until a signal comes, which is raised again.

    In both cases the videos and the state are whole; after a signal there is no summary.
    """
    from rankwolf.video.reading import Moment
    from rankwolf.video.stream import STDIN, RawShape, Stream

    target: Path = arguments.output
    if not arguments.go_on:
        is_file = arguments.input != STDIN and "://" not in arguments.input
        check_folder(target, arguments.force, arguments.input if is_file else None)
    separator = separator_of(arguments, rule, target)
    raw = None if arguments.raw is None else RawShape.parse(arguments.raw)
    stream = Stream(str(arguments.input), raw, color_of(arguments), arguments.scale)
    opened = stream.open()
    first = next(opened.frames, None)
    if first is None:
        said = f"The stream {str(arguments.input)!r} ended before its first whole frame."
        if arguments.input == STDIN and raw is None:
            said += " An mp4 with its index at the end cannot be read from a pipe: give its name, or send mkv or ts."
        raise ValueError(said)
    frames: Iterable[Any] = chain([first], opened.frames)
    if arguments.end is not None:
        end = Moment.parse(arguments.end).frame(opened.rate)
        if end < 1:
            raise bad_option("--end", "after the first frame", arguments.end)
        frames = islice(frames, end)
    target.mkdir(exist_ok=True)
    if arguments.force:  # only now, so that a stream without a first frame replaces nothing
        remove_stale(target)
    writer = Writer(target, opened, separator.count)
    started, before = time.perf_counter(), separator.count
    try:
        separate_stream(frames, separator, writer, target / STATE, Output.of(arguments))
    finally:
        with ExitStack() as stack:  # the state is saved also where the videos cannot be finished
            stack.callback(separator.save, target / STATE)
            stack.callback(writer.close)
    seconds, done = time.perf_counter() - started, separator.count - before
    summary = {
        "input": str(arguments.input),
        "frames": done,
        "frames_before": before,
        "ready": separator.ready,
        "relearned": separator.relearned,
        "seconds": seconds,
        "frames_per_second": done / max(seconds, 1e-9),
        "moving_share": writer.moving / max(1, done),
        "output": str(target),
    }
    write_summary(target, summary)
    output = Output.of(arguments)
    if not separator.ready:
        warn(
            f"the stream ended after {separator.count} of {separator.settings.warm_up} frames that are learned from: "
            "the mask is empty. Give a smaller --warm-up."
        )
    output.say(
        f"{number_of(done, 'frame')}, {summary['frames_per_second']:.1f} a second. The results are in {target}"
    )
    output.finish(summary)
    return 0


class Writer:
    """Writes the background and the mask as videos (Matroska) that can be played even where they were cut off.

    The objects go to a table beside them, line by line.

    ``moving`` is the sum, over frames, of the share of the picture that is in the mask.
    """

    def __init__(self, target: Path, stream: Opened, frames_before: int) -> None:
        from rankwolf.video.tracks import Tracker

        self._target, self._stream, self._written = target, stream, frames_before
        self._sinks: dict[str, Any] = {}
        self._paths: list[Path] = []
        self._table, self._tracker = target, Tracker()
        self.moving = 0.0

    def write(self, background: Any, mask: Any) -> None:
        """Write one frame of each video; the first call opens the files."""
        from rankwolf.video.picture_writers import Shape, VideoSink
        from rankwolf.video.separation import OBJECTS
        from rankwolf.video.tracks import write_objects

        if not self._sinks:
            shape = Shape(mask.shape[0], mask.shape[1], self._stream.rate, self._stream.aspect)
            for name in (BACKGROUND, MASK):
                self._paths.append(next_part(self._target / name))
                self._sinks[name] = VideoSink(self._paths[-1], "libx264", shape)
            self._table = next_part(self._target / OBJECTS)
            self._paths.append(self._table)
            write_objects(self._table, ())
        boxes = self._tracker.follow(self._written, mask)
        write_objects(self._table, boxes, go_on=True)
        self._written += 1
        self._sinks[BACKGROUND].write(background)
        self._sinks[MASK].write(mask.astype("uint8") * 255)
        self.moving += float(mask.mean())

    def close(self) -> None:
        """Finish both files after the last frame, each even if the other one fails."""
        with ExitStack() as stack:
            for path in self._paths:
                stack.callback(_remove_if_empty, path)
            for sink in self._sinks.values():
                stack.callback(sink.close)


def _remove_if_empty(path: Path) -> None:
    """Remove a file into which nothing could be written, as on a full disk."""
    with suppress(OSError):
        if path.stat().st_size == 0:
            path.unlink()


def separate_stream(
    frames: Iterable[Any], separator: Separator, writer: Writer, state: Path, output: Output
) -> None:
    """Separate and write every frame; every 10 seconds say how it goes, and save the state after the first
    frame and then as the constants say."""
    said = time.perf_counter()
    saved, wait = float("-inf"), 0.5 * SAVE_FIRST  # the first frame saves
    for frame in frames:
        background, mask = separator.update(frame)
        writer.write(background, mask)
        if time.perf_counter() - saved > wait:
            saved, wait = time.perf_counter(), min(2.0 * wait, SAVE_EVERY)
            separator.save(state)
        if time.perf_counter() - said > SAY_EVERY:
            said = time.perf_counter()
            doing = "separating" if separator.ready else "learning"
            output.say(f"{doing}: frame {separator.count}, {mask.mean():.1%} moves")
