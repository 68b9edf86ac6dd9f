"""``rankwolf path``: how rank and outliers of a matrix in a file change with δ."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rankwolf.cli.common import (
    Output,
    add_force_option,
    add_output_options,
    add_run_options,
    check_target,
    warn,
)
from rankwolf.cli.decompose import add_reading_options, memory_limit, path_of, read
from rankwolf.cli.decompose_results import assumptions
from rankwolf.ground.extras import require

TOL = 1e-2


def add_parser(subparsers: Any) -> None:
    """The options of ``rankwolf path``."""
    parser = subparsers.add_parser(
        "path",
        help="show how rank and outliers of a matrix in a file change with delta",
        description="Solve a matrix at falling weights, each from the last, and print for each delta the rank of the "
        "low-rank part, what is left over, how much is in the sparse part, and the certified gap. Where the rank stays "
        "the same over a wide range, that is the structure: give such a delta to 'rankwolf decompose --delta'.",
    )
    parser.add_argument("input", metavar="INPUT", help="as for 'rankwolf decompose'")
    add_reading_options(parser)
    group = parser.add_argument_group("solving")
    group.add_argument(
        "--deltas",
        type=float,
        nargs="+",
        metavar="D",
        help="default: 0.1 and halves of it, down to the noise",
    )
    group.add_argument(
        "--tol", type=float, default=TOL, help="certified gap at each point (default: %(default)s)"
    )
    group.add_argument("--max-rank", type=int, metavar="R", help="end at the first point with a higher rank")
    group.add_argument("--max-seconds", type=float, metavar="S", help="end after this time")
    add_run_options(group)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it: a png, svg or pdf file")
    add_force_option(parser)
    add_output_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the matrix, solve it at falling δ, print the table and draw it if asked for; returns 0."""
    if arguments.plot is not None:
        check_target(arguments.plot, arguments.force, path_of(arguments.input))
        require("matplotlib")
    output = Output.of(arguments)
    with ExitStack() as inputs:
        matrix = read(arguments, inputs)
        for text in matrix.warnings:
            warn(f"warning: {text}")
        found = walk(arguments, matrix.values)
    if arguments.plot is not None:
        _draw(found, arguments.plot)
    for line in (*repr(found).splitlines(), *assumptions(matrix.notes, matrix.keys)):
        output.say(line)
    output.finish({"input": arguments.input, **found.as_dict()})
    return 0


def walk(arguments: argparse.Namespace, values: Any) -> Any:
    """The :class:`rankwolf.api.path.Path` of the matrix ``values``, standardised first if the options ask for it."""
    from rankwolf.api.path import path
    from rankwolf.data.open import open_source
    from rankwolf.factors.scaling import Scaling
    from rankwolf.ground.complaints import check_threads

    limit = memory_limit(arguments)
    threads = check_threads(arguments.threads, "path")
    table = open_source(values, None, threads, arguments.implicit, limit, "path")
    scaling = Scaling.by_model(table, limit) if arguments.standardize else Scaling.none()
    return path(
        scaling.apply(table),
        deltas=arguments.deltas,
        tol=arguments.tol,
        max_rank=arguments.max_rank,
        max_seconds=arguments.max_seconds,
        rng=arguments.seed,
        n_threads=arguments.threads,
    )


def _draw(found: Any, target: Path) -> None:
    """Write the plot of a path to ``target``, whole or not at all; the ending of its name says which kind of file."""
    import matplotlib

    from rankwolf.ground.whole import whole

    matplotlib.use("Agg")
    figure = found.plot().figure
    kinds = figure.canvas.get_supported_filetypes()
    kind = target.suffix.lstrip(".").lower()
    if kind not in kinds:
        raise ValueError(f"--plot must end in .png, .svg or .pdf. Got {target.name!r} instead.")
    with whole(target) as temporary:
        figure.savefig(temporary, format=kind, dpi=150)
