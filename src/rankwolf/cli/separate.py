"""``rankwolf separate``: background, foreground and mask of a video, an image folder or an array of frames."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwolf.cli.bars import Bars
from rankwolf.cli.common import (
    DEFAULT_TOL,
    Output,
    add_force_option,
    add_output_options,
    add_solving_options,
    add_strict_option,
    bad_option,
    check_folder,
    checkpoint_of,
    command_of,
    defaults_of,
    is_done,
    last_words,
    parse_size,
    same_job,
    warn,
    whole_folder,
    write_summary,
)
from rankwolf.cli.live import add_live_options, check_live_options, color_of, run_live
from rankwolf.cli.separate_results import remove_stale
from rankwolf.ground.extras import require
from rankwolf.ground.plural import number_of
from rankwolf.ground.result_files import PAGE

if TYPE_CHECKING:
    from rankwolf.video.rule import MaskRule
    from rankwolf.video.separation import Job


def add_parser(subparsers: Any) -> None:
    """The options of ``rankwolf separate``."""
    parser = subparsers.add_parser(
        "separate",
        help="split a video or a folder of images into background, foreground and mask",
        description="Split frames into a low-rank background, a sparse foreground and a mask of what moves, and write "
        "them with a page to look at.",
    )
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options, in groups; also called to make a parser from which only the defaults are read."""
    parser.add_argument(
        "input",
        metavar="VIDEO_OR_FOLDER",
        help="a video, a folder of images, a pattern such as 'cam/*.jpg', .npy or .npz",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="where the results go"
    )
    _add_reading(parser)
    _add_solving(parser)
    _add_mask(parser)
    _add_writing(parser)
    add_live_options(parser)
    add_force_option(parser)
    add_output_options(parser)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reading")
    colors = group.add_mutually_exclusive_group()
    colors.add_argument(
        "--color", action="store_true", help="with colours (the default where the first frame has some)"
    )
    colors.add_argument(
        "--gray", action="store_true", help="without colours: faster, and worse on water and leaves"
    )
    group.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th frame")
    group.add_argument(
        "--start", default="0", metavar="WHEN", help="first frame: a number from 0, or a time: 12.5s, 1:30"
    )
    group.add_argument("--end", metavar="WHEN", help="the frame before which to stop")
    group.add_argument(
        "--scale", type=float, default=1.0, metavar="X", help="resize: 0.5 is half the height and width"
    )
    group.add_argument(
        "--mask", type=Path, metavar="IMAGE", help="region of interest: only its white part is looked at"
    )
    group.add_argument(
        "--sample", type=float, metavar="SHARE", help="observe only this random share of the pixels"
    )
    add_strict_option(group)
    group.add_argument(
        "--max-memory", metavar="SIZE", help="keep to this, e.g. 1GB: frames that do not fit go to the disk"
    )


def _add_solving(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("solving")
    weights = group.add_mutually_exclusive_group()
    weights.add_argument(
        "--delta", type=float, help="weights by the paper's rule (0.001 for video, 0.01 for faces)"
    )
    weights.add_argument(
        "--lambdas", type=float, nargs=2, metavar=("LOW_RANK", "SPARSE"), help="the weights themselves"
    )
    weights.add_argument(
        "--model", type=Path, metavar="RESULT", help="use a saved result: only the step for new frames"
    )
    add_solving_options(group)


def _add_mask(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("mask")
    group.add_argument(
        "--threshold",
        type=float,
        metavar="GRAY",
        help="one level of |frame - background| instead of the model",
    )
    group.add_argument(
        "--samples",
        type=int,
        metavar="N",
        help="frames that a pixel remembers (default: 60, or fewer where memory is short)",
    )
    group.add_argument(
        "--radius",
        type=float,
        metavar="SIGMAS",
        help="a pixel is like a sample within so many times the noise (default: 3)",
    )
    group.add_argument(
        "--least-area",
        type=int,
        metavar="PIXELS",
        help="drop smaller parts (default: 77 in 320 × 240, in other pictures by their size)",
    )


def _add_writing(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("writing")
    group.add_argument(
        "--format",
        default="auto",
        choices=("auto", "mp4", "ffv1", "png"),
        help="mp4 is H.264, ffv1 is lossless, png are folders; auto is png for image folders, else mp4",
    )
    group.add_argument(
        "--foreground",
        default="signed",
        choices=("signed", "absolute", "cutout"),
        help="S on middle gray, |S|, or the frame inside the mask",
    )
    group.add_argument(
        "--overlay",
        action="store_true",
        help="also write the frames with masks, boxes and numbers of objects",
    )
    group.add_argument("--audio", action="store_true", help="copy the sound of the input into the videos")
    group.add_argument("--no-report", action="store_true", help=f"do not make {PAGE}")


def run(arguments: argparse.Namespace) -> int:
    """Read, solve and write; returns 0. Nothing appears in the output folder before everything is written.

    With ``--live`` results grow as frames come (:mod:`rankwolf.cli.live`).
    """
    check_live_options(arguments, defaults_of(add_options))
    if arguments.live:
        return run_live(arguments, mask_rule_of(arguments))
    target: Path = arguments.output
    if is_done("separate", add_options, arguments):
        return 0
    check_folder(target, arguments.force, arguments.input)
    require("av", "PIL", *([] if arguments.no_report else ["jinja2"]), extra="video")
    job = job_of(arguments)
    output = Output.of(arguments)

    from rankwolf.report.video_page import Album, video_page
    from rankwolf.video.outcome import summarize
    from rankwolf.video.separation import separate

    album = None if arguments.no_report else Album()
    with whole_folder(target, force=arguments.force) as folder:
        with Bars(output.talks, job.solve.tol) as bars:
            outcome = separate(job, folder, bars, None if album is None else album.visit)
        for text in outcome.warnings:
            warn(f"warning: {text}")
        summary = {**summarize(outcome), "command": same_job("separate", add_options, arguments)}
        write_summary(folder, summary)
        if album is not None:
            page = video_page(
                album,
                summary,
                outcome.fit,
                outcome.activity,
                outcome.residuals,
                command_of("separate", add_options, arguments),
                outcome.reader.names,
                outcome.levels,
            )
            (folder / PAGE).write_text(page, encoding="utf-8", errors="backslashreplace")
        written = [path.name for path in folder.iterdir()]
    if arguments.force:
        remove_stale(target, written)
    for line in story(summary, target, album is not None):
        output.say(line)
    output.finish({**summary, "output": str(target)})
    return 0


def job_of(arguments: argparse.Namespace) -> Job:
    """The job that the options ask for; a ValueError for values and combinations that make no sense."""
    from rankwolf.ground.complaints import check_number, check_pair
    from rankwolf.video.reading import Moment, Selection
    from rankwolf.video.separation import Job, SolveSettings

    if arguments.every < 1:
        raise bad_option("--every", "at least 1", arguments.every)
    if arguments.sample is not None and not 0.0 < arguments.sample <= 1.0:
        raise bad_option("--sample", "above 0 and at most 1", f"{arguments.sample:g}")
    if arguments.audio and arguments.every != 1:
        raise ValueError("--audio keeps the sound in time with the pictures: --every does not go with it.")
    if arguments.audio and arguments.format == "png":
        raise ValueError("--audio needs a video to go into: --format png does not go with it.")
    if arguments.model is not None:
        check_model_options(arguments)
    if "://" in arguments.input:
        raise ValueError(
            f"{arguments.input!r} is an address. Download it first, or give --live to separate it as it comes."
        )
    return Job(
        source=Path(arguments.input),
        selection=Selection(
            start=Moment.parse(arguments.start),
            end=None if arguments.end is None else Moment.parse(arguments.end),
            every=arguments.every,
            scale=arguments.scale,
            color=color_of(arguments),
        ),
        region=arguments.mask,
        sample=arguments.sample,
        solve=SolveSettings(
            lambdas=None if arguments.lambdas is None else check_pair("lambdas", arguments.lambdas),
            delta=None if arguments.delta is None else check_number("delta", arguments.delta),
            method=arguments.method,
            tol=check_number("tol", arguments.tol, positive=False),
            max_seconds=arguments.max_seconds,
            seed=arguments.seed,
            n_threads=arguments.threads,
            checkpoint=checkpoint_of(arguments),
        ),
        rule=mask_rule_of(arguments),
        style=arguments.foreground,
        format=arguments.format,
        model=arguments.model,
        audio=arguments.audio,
        overlay=arguments.overlay,
        strict=arguments.strict,
        max_memory=None if arguments.max_memory is None else parse_size(arguments.max_memory),
    )


def mask_rule_of(arguments: argparse.Namespace) -> MaskRule:
    """The rule for the mask that the options ask for; a ValueError for options that do not go together."""
    from rankwolf.video.rule import MaskRule

    names = ("threshold", "samples", "radius", "least_area")
    given = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    if "threshold" in given and given.keys() & {"samples", "radius"}:
        raise ValueError("--threshold replaces the model: --samples and --radius do not go with it.")
    return MaskRule(**given)


def check_model_options(arguments: argparse.Namespace) -> None:
    """Refuse options that have no meaning with ``--model``, and an output folder that holds the model."""
    if arguments.mask is not None or arguments.sample is not None:
        raise ValueError("--model brings its own region of interest: --mask and --sample do not go with it.")
    if (arguments.method, arguments.tol, arguments.max_seconds) != ("auto", DEFAULT_TOL, None):
        raise ValueError("--model solves nothing: --method, --tol and --max-seconds do not go with it.")
    if arguments.checkpoint is not None:
        raise ValueError("--model does not solve: there is nothing to keep in a --checkpoint.")
    if arguments.output.resolve() in (arguments.model.resolve(), arguments.model.resolve().parent):
        raise ValueError(f"The output {str(arguments.output)!r} has the model in it. Give another folder.")


def story(summary: dict[str, Any], target: Path, has_page: bool) -> list[str]:
    """The lines that are printed at the end: what came out, and :func:`last_words`."""
    frames, share = number_of(summary["frames"], "frame"), f"{summary['moving_share']:.1%} in the mask"
    said = f"{frames} by the model, {share}."
    if "rank" in summary:
        said = (
            f"{frames}, background of rank {summary['rank']}, {share}; "
            f"certified gap {summary['relative_gap']:.2g} after {number_of(summary['passes'], 'pass', 'passes')}."
        )
    if summary["aligned_by_up_to"]:
        said += f" The camera trembled: frames were moved by up to {summary['aligned_by_up_to']} pixels."
    speed = f": {summary['frames_per_second']:.1f} frames a second"
    return [said, *last_words(summary, target, has_page, speed)]
