"""``rankwolf score``: the masks of a separation against known truth."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rankwolf.cli.common import Output, add_output_options


def add_parser(subparsers: Any) -> None:
    """The options of ``rankwolf score``."""
    parser = subparsers.add_parser(
        "score",
        help="precision, recall and F-measure of a mask against known truth",
        description="Compare the mask that 'rankwolf separate' wrote with labelled masks in the manner of CDnet: "
        "0 static, 50 shadow, 85 outside, 170 unknown, 255 moving; ROI.bmp and temporalROI.txt are respected.",
    )
    parser.add_argument("output", type=Path, metavar="FOLDER", help="what 'rankwolf separate' wrote")
    parser.add_argument("--truth", type=Path, required=True, metavar="FOLDER", help="the labelled masks")
    add_output_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Score the masks and print the measures; returns 0."""
    from rankwolf.video.scoring import Truth, score_folder

    output = Output.of(arguments)
    score = score_folder(arguments.output, Truth(arguments.truth))
    output.say(f"frames               {score.frames:>12}")
    for name in ("precision", "recall", "f_measure", "false_positive_rate"):
        output.say(f"{name.replace('_', ' '):<20} {getattr(score, name):>12.4f}")
    if score.shadow_positives:
        share = score.shadow_positives / score.false_positives
        output.say(f"{share:.0%} of the false positives are hard shadows.")
    output.finish(score.as_dict())
    return 0
