"""``rankwolf demo``: a street that is separated and a table that is repaired, both rendered, with their truth."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwolf.cli.common import (
    Output,
    add_force_option,
    add_output_options,
    whole_folder,
    write_summary,
)
from rankwolf.ground.extras import require
from rankwolf.ground.result_files import PAGE, RESULT, SUMMARY

if TYPE_CHECKING:
    from rankwolf.ground.arrays import Array
    from rankwolf.result.decomposition import Record
    from rankwolf.video.drawing import Pictures
    from rankwolf.video.street import Street

SCENE, PICTURE, TABLE = "scene.mkv", "demo.png", "sensors"
# The moments that the picture shows, as shares of the time.
MOMENTS = (0.1, 0.4, 0.6, 0.93)


def add_parser(subparsers: Any) -> None:
    """The options of ``rankwolf demo``."""
    parser = subparsers.add_parser(
        "demo",
        help="render a street and a table, and separate them: nothing to download",
        description="Render a street (cars that pass, somebody who waits, light that changes, noise) and a table of "
        "sensors with broken and missing readings, split both, and compare with the truth.",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("demo-output"),
        metavar="FOLDER",
        help="where the scene, the results and the pages go (default: %(default)s)",
    )
    parser.add_argument("--frames", type=int, default=300, metavar="N", help="frames (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="each seed renders others (default: %(default)s)")
    add_force_option(parser)
    add_output_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Render, separate, compare and write; returns 0.

    The folder is made first, so that a place that cannot be written is known before any work.
    """
    from rankwolf.video.street import Street

    target: Path = arguments.output
    require("av", "PIL", "jinja2", "matplotlib", "sklearn")
    if arguments.frames < 1:
        raise ValueError(f"--frames must be at least 1. Got {arguments.frames} instead.")
    output = Output.of(arguments)
    with whole_folder(target, force=arguments.force) as folder:
        from rankwolf.cli.demo_table import repair

        output.say("A table:")
        table, told = repair(folder / TABLE, arguments.seed)
        for line in told:
            output.say(f"  {line}")
        summary = {**separate_street(Street(arguments.frames, seed=arguments.seed), folder, target, output)}
        summary["table"] = table
        write_summary(folder, summary)
    output.say(
        f"Open {target / PAGE} in a browser: a slider through the frames, and how the run went.\n"
        f"Open {target / PICTURE}: what was filmed, the background, what moves, the mask.\n"
        f"Open {target / TABLE / 'sensors.png'}: the table, and what was found in it; repaired.csv is beside it.\n"
        f"rankwolf.load({str(target / RESULT)!r}) reads the result; {target / SUMMARY} has the figures."
    )
    output.finish({**summary, "output": str(target)})
    return 0


def separate_street(street: Street, folder: Path, target: Path, output: Output) -> dict[str, Any]:
    """Film the street, separate it, and write pictures and page into ``folder``, which will be ``target``.

    Returns the summary, with the distances from the truth.
    """
    import numpy as np

    from rankwolf.report.video_page import Album, video_page
    from rankwolf.video.outcome import summarize
    from rankwolf.video.reading import Selection
    from rankwolf.video.scoring import score_frames
    from rankwolf.video.separation import Job, separate

    output.say(
        f"\nA street: {len(street)} frames of {street.height} × {street.width} in colour, cars, somebody who walks by, "
        "somebody who waits for a third of the time, light that changes by a sixth, noise."
    )
    masks = film(street, folder / SCENE)
    output.say(f"Decomposing {SCENE}.")
    album, kept, found = Album(), dict[int, Any](), list[Any]()
    moments = {round(share * (len(street) - 1)) for share in MOMENTS}
    squares = {"frames": 0.0, "background": 0.0}

    def visit(pictures: Pictures, total: int | None) -> None:
        found.append(pictures.mask)
        album.visit(pictures, total)
        truth = street.film(pictures.number)
        if truth.mask.any():
            for name, picture in (("frames", truth.frame), ("background", pictures.background)):
                squares[name] += float(np.mean((picture[truth.mask] - truth.background[truth.mask]) ** 2))
        if pictures.number in moments:
            kept[pictures.number] = pictures

    job = Job(folder / SCENE, Selection(color=True))
    outcome = separate(job, folder, Table(output.talks), visit)
    fit = outcome.fit
    assert fit is not None
    output.say(f"\n{fit!r}\n")
    with_objects = max(1, sum(bool(mask.any()) for mask in masks))
    errors = {name: (total / with_objects) ** 0.5 for name, total in squares.items()}
    score = score_frames(found, np.array(masks)).as_dict()
    output.say(
        "Distance from the empty street where something is in front of it, in gray levels:\n"
        f"  the frames          {errors['frames']:6.1f}\n"
        f"  the background      {errors['background']:6.1f}\n"
        f"Mask of what moves: precision {score['precision']:.3f}, recall {score['recall']:.3f}, "
        f"F-measure {score['f_measure']:.3f}\n"
    )
    summary = summarize(outcome) | {"input": str(target / SCENE)}
    command = f"rankwolf separate {target / SCENE} -o separated"
    page = video_page(album, summary, fit, outcome.activity, outcome.residuals, command, None, outcome.levels)
    (folder / PAGE).write_text(page, encoding="utf-8")
    draw([kept[number] for number in sorted(kept)], folder / PICTURE)
    return summary | {"distance_from_true_background": errors, "mask": score}


class Table:
    """An observer of the separation that prints the solver's table of iterations, if ``talks``."""

    def __init__(self, talks: bool) -> None:
        from rankwolf.run.callbacks import LogTable

        self._table = LogTable() if talks else None

    def stage(self, name: str, total: int | None) -> None:
        """Nothing: the table of iterations says enough."""

    def advance(self, frames: int) -> None:
        """Nothing: the demo is short."""

    def record(self, record: Record) -> object:
        """Print the row of one iteration."""
        return None if self._table is None else self._table(record)


def film(street: Street, path: Path) -> list[Array]:
    """Write the street as a lossless video, so that the truth is about the very frames; returns the true masks."""
    from fractions import Fraction

    from rankwolf.video.picture_writers import Shape, VideoSink

    sink, masks = VideoSink(path, "ffv1", Shape(street.height, street.width, Fraction(25))), []
    for filmed in street:
        sink.write(filmed.frame)
        masks.append(filmed.mask)
    sink.close()
    return masks


def draw(moments: list[Pictures], path: Path) -> None:
    """Write a picture of some moments to ``path``, a row each: filmed, background, what moves, mask."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    height, width = moments[0].mask.shape
    layout = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02, wspace=0.0, hspace=0.0)
    figure = Figure(figsize=(12.0, 3.0 * height / width * len(moments) + 0.35), layout=layout, dpi=150)
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(moments), 4, squeeze=False)
    for row, pictures in zip(axes, moments, strict=True):
        cut = np.where(pictures.mask[..., None], pictures.observed, np.uint8(245))
        for axis, picture in zip(row, (pictures.observed, pictures.background, cut), strict=False):
            axis.imshow(picture)
        row[3].imshow(pictures.mask, cmap="gray", vmin=0, vmax=1)
        row[0].set_ylabel(f"frame {pictures.number}", fontsize=10)
        for axis in row:
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
    for axis, title in zip(axes[0], ("filmed", "background", "what moves", "mask"), strict=True):
        axis.set_title(title, fontsize=11)
    figure.savefig(path)
