"""``rankwolf demo``: render a scene, separate it, draw what came out, and say how close it is to the truth."""

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
    from rankwolf.result.decomposition import Decomposition, Record
    from rankwolf.video.scene import Rendered

# The height of the waves in gray levels. It is above the contrast of the faintest objects, so that no threshold on
# |frame − background| can tell the two apart.
WAVES = 25.0
SCENE, PICTURE = "scene.mkv", "demo.png"


def add_parser(subparsers: Any) -> None:
    """The options of ``rankwolf demo``."""
    parser = subparsers.add_parser(
        "demo",
        help="render a scene and separate it: nothing to download",
        description="Render a surveillance scene (lamps that drift and switch, objects that move, somebody who "
        "stands still, water, noise), split it into background and foreground, and compare with the truth.",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("demo-output"),
        metavar="FOLDER",
        help="where the scene, the results and the page go (default: %(default)s)",
    )
    parser.add_argument("--frames", type=int, default=300, metavar="N", help="frames (default: %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=0, help="each seed renders another scene (default: %(default)s)"
    )
    add_force_option(parser)
    add_output_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Render, separate, compare and write; returns 0.

    The folder is made first, so that a place that cannot be written is known before any work.
    """
    target: Path = arguments.output
    require("av", "PIL", "jinja2", "matplotlib")
    output = Output.of(arguments)
    with whole_folder(target, force=arguments.force) as folder:
        video = render(arguments, output)
        summary = separate_scene(video, folder, target, output)
    output.say(
        f"Open {target / PAGE} in a browser: a slider through the frames, and how the run went.\n"
        f"Open {target / PICTURE}: observed, background, foreground, mask of four moments.\n"
        f"rankwolf.load({str(target / RESULT)!r}) reads the result; {target / SUMMARY} has the figures."
    )
    output.finish({**summary, "output": str(target)})
    return 0


def render(arguments: argparse.Namespace, output: Output) -> Rendered:
    """The frames of the scene that the options ask for, with their true backgrounds and masks."""
    from rankwolf.video.scene import Scene

    scene = Scene(n_frames=arguments.frames, seed=arguments.seed, water=WAVES, person=True)
    output.say(
        f"Rendering {scene.n_frames} frames of {scene.height} × {scene.width}: {scene.n_lamps} lamps, "
        f"{scene.n_objects} objects, water, somebody who stands still for a third of the time, "
        f"noise of {scene.noise:g} gray levels."
    )
    return scene.render()


def separate_scene(video: Rendered, folder: Path, target: Path, output: Output) -> dict[str, Any]:
    """Write the scene as a video, separate it, and write pictures, page and summary into ``folder``.

    Returns the summary, with the distances from the truth. ``target`` is where the folder will be in the end.
    """
    from rankwolf.report.video_page import Album, video_page
    from rankwolf.video.outcome import summarize
    from rankwolf.video.scoring import background_distances, score_frames
    from rankwolf.video.separation import Job, separate

    write_scene(video, folder / SCENE)
    output.say(f"Decomposing {SCENE}.")
    album, masks = Album(), list[Any]()

    def visit(pictures: Any, total: int | None) -> None:
        masks.append(pictures.mask)
        album.visit(pictures, total)

    outcome = separate(Job(folder / SCENE), folder, Table(output.talks), visit)
    fit = outcome.fit
    assert fit is not None
    output.say(f"\n{fit!r}\n")
    errors = background_distances(video, fit.low_rank)
    score = score_frames(masks, video.masks).as_dict()
    output.say(
        "Root mean square distance from the true background, in gray levels:\n"
        f"  the frames as they are    {errors['frames']:7.2f}\n"
        f"  the median frame          {errors['median']:7.2f}\n"
        f"  L                         {errors['low_rank']:7.2f}\n"
        f"  L, where objects hide it  {errors['low_rank_behind_objects']:7.2f}\n"
        f"Mask of what moves: precision {score['precision']:.3f}, recall {score['recall']:.3f}, "
        f"F-measure {score['f_measure']:.3f}\n"
    )
    summary = summarize(outcome) | {"input": str(target / SCENE)}
    command = f"rankwolf separate {target / SCENE} -o separated"
    page = video_page(album, summary, fit, outcome.activity, outcome.residuals, command, None, outcome.levels)
    (folder / PAGE).write_text(page, encoding="utf-8")
    draw(video, fit, masks, folder / PICTURE)
    summary |= {"distance_from_true_background": errors, "mask": score}
    write_summary(folder, summary)
    return summary


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


def write_scene(video: Rendered, path: Path) -> None:
    """Write the scene as a lossless video, so that the truth is about the very frames that are separated."""
    from fractions import Fraction

    from rankwolf.video.picture_writers import Shape, VideoSink

    sink = VideoSink(path, "ffv1", Shape(video.frames.shape[1], video.frames.shape[2], Fraction(25)))
    for frame in video.frames:
        sink.write(frame)
    sink.close()


def draw(video: Rendered, fit: Decomposition, masks: list[Any], path: Path) -> None:
    """Write a picture of four moments to ``path``, one row each: observed, background L, foreground S, mask."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from rankwolf.result.residual import thresholded

    assert fit.lambdas is not None

    count, height, width = video.frames.shape
    moments = sorted({round(share * (count - 1)) for share in (0.1, 0.4, 0.55, 0.95)})
    layout = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.0, hspace=0.0)
    figure = Figure(figsize=(12.0, 3.0 * height / width * len(moments) + 0.6), layout=layout, dpi=150)
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(moments), 4, squeeze=False)
    # The fit of a video cannot compute S any more, because its store of frames is closed.
    left, right = fit.low_rank.factors()
    foreground = thresholded(video.matrix[moments].astype(left.dtype), left[moments], right, fit.lambdas[1])
    for row, moment, sparse in zip(axes, moments, foreground, strict=True):
        background = fit.low_rank[moment].reshape(height, width)
        row[0].imshow(video.frames[moment], cmap="gray", vmin=0, vmax=255)
        row[1].imshow(background, cmap="gray", vmin=0, vmax=255)
        # Zero is white: darker than the background is blue, brighter is red.
        row[2].imshow(sparse.reshape(height, width), cmap="RdBu_r", vmin=-160, vmax=160)
        row[3].imshow(masks[moment], cmap="gray", vmin=0, vmax=1)
        row[0].set_ylabel(f"frame {moment + video.start}", fontsize=10)
        for axis in row:
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
    titles = (
        "observed",
        f"background L, rank {fit.low_rank.rank}",
        f"foreground S, {_share(fit)} not zero",
        "mask",
    )
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=11)
    figure.supxlabel("Foreground: red is brighter than the background, blue is darker.", fontsize=9)
    figure.savefig(path)


def _share(fit: Decomposition) -> str:
    rows, columns = fit.low_rank.shape
    return f"{fit.sparse.nonzeros / (rows * columns):.1%}"
