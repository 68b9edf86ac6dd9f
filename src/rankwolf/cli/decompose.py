"""``rankwolf decompose``: the low-rank part and the outliers of a matrix or table in a file."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwolf.cli.bars import Bars
from rankwolf.cli.common import (
    Output,
    add_force_option,
    add_output_options,
    add_solving_options,
    add_strict_option,
    check_folder,
    checkpoint_of,
    is_done,
    parse_size,
    warn,
)
from rankwolf.cli.decompose_results import (
    LOW_RANK,
    OUTLIERS,
    PIPE,
    Clock,
    Solved,
    refits,
    story,
    write_folder,
    write_pipe,
)
from rankwolf.ground.extras import require
from rankwolf.ground.result_files import PAGE, RESULT

if TYPE_CHECKING:
    from rankwolf.data import Source
    from rankwolf.files import LabelledMatrix
    from rankwolf.result.decomposition import Decomposition

KINDS = "npy npz mat mat73 csv tsv csv.gz tsv.gz parquet feather xlsx hdf5 zarr".split()


def add_parser(subparsers: Any) -> None:
    """The options of ``rankwolf decompose``."""
    parser = subparsers.add_parser(
        "decompose",
        help="split a table or matrix in a file into a low-rank part and outliers",
        description="Split a matrix into a low-rank part and sparse outliers, and write both in the same kind of file. "
        "Rows are samples; empty cells, nulls and NaN are missing and are filled in the low-rank part. Of a sparse "
        "matrix, the entries that are not stored are missing too, unless --implicit zeros says otherwise.",
    )
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options, in groups; also called to make a parser from which only the defaults are read."""
    parser.add_argument(
        "input",
        metavar="INPUT",
        help="csv, tsv, txt (also .gz), xlsx, parquet, feather, npy, npz, mat, h5, zarr, or - for standard input; "
        "file::name for one of several arrays or sheets, as in data.h5::/raw",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="where the results go; - writes one table to standard output",
    )
    add_reading_options(parser)
    _add_solving(parser)
    _add_writing(parser)
    add_force_option(parser)
    add_output_options(parser)


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add the options about how the input is read."""
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--index",
        default="auto",
        metavar="COLUMN",
        help="the column that names the rows, or none (default: the first, where it has no heading or no numbers)",
    )
    group.add_argument(
        "--columns", nargs="+", action="extend", default=[], metavar="COLUMN", help="the only ones to keep"
    )
    group.add_argument(
        "--drop", nargs="+", action="extend", default=[], metavar="COLUMN", help="columns to leave out"
    )
    group.add_argument(
        "--missing",
        nargs="+",
        action="extend",
        default=[],
        metavar="WORD",
        help="further words or numbers for a missing cell, e.g. -999, or --missing=-999x for a word that begins with a "
        "minus; empty, -, ?, NA, n/a, NaN, null, none always are",
    )
    group.add_argument(
        "--decimal", choices=(".", ","), help="the decimal mark of a text (default: as its cells look)"
    )
    header = group.add_mutually_exclusive_group()
    header.add_argument("--header", action="store_true", help="the first line of a text is a heading")
    header.add_argument(
        "--no-header",
        action="store_true",
        help="the first line is data (default: it is a heading unless all its cells are numbers)",
    )
    group.add_argument(
        "--implicit",
        choices=("missing", "zeros"),
        default="missing",
        help="what a sparse matrix does not store: ratings not given, or counts of zero (default: %(default)s)",
    )
    group.add_argument(
        "--standardize",
        action=argparse.BooleanOptionalAction,
        help="solve in units of each column's own noise, as the factor model of RobustPCA measures it (default: for a "
        "table with named columns, where nothing is said about weights, noise, rank or a start)",
    )
    add_strict_option(group)
    group.add_argument(
        "--max-memory",
        metavar="SIZE",
        help="what the process may take, e.g. 2GB: npy, HDF5 and Zarr stay on the disk, other kinds must fit (default: "
        "3/4 of what is free)",
    )


def _add_solving(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("solving")
    weights = group.add_mutually_exclusive_group()
    weights.add_argument(
        "--delta",
        default="auto",
        help="weights by the paper's rule with this number, or from the noise (default: auto)",
    )
    weights.add_argument(
        "--lambdas", type=float, nargs=2, metavar=("LOW_RANK", "SPARSE"), help="the weights themselves"
    )
    weights.add_argument(
        "--noise",
        type=float,
        metavar="SIZE",
        help="bound the distance of both parts together from the data by this number instead; 0: no noise at all",
    )
    weights.add_argument(
        "--radii",
        type=float,
        nargs=2,
        metavar=("LOW_RANK", "SPARSE"),
        help="bound the nuclear norm of the low-rank part and the sum of magnitudes of the sparse part instead",
    )
    weights.add_argument(
        "--rank", type=int, metavar="R", help="a low-rank part of this rank, not shrunk, instead"
    )
    group.add_argument(
        "--weight",
        type=float,
        metavar="LAMBDA",
        help="with --noise: what an entry of the sparse part costs beside a singular value (default: 1/√(longer side))",
    )
    group.add_argument(
        "--refit",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="fit the low-rank part again without shrinkage, and call what is beyond 3.29 standard deviations of the "
        "noise an outlier (default); with --no-refit both parts are those of the convex problem, and the sparse part "
        "holds what is beyond its weight, about one in twenty entries of pure noise",
    )
    group.add_argument(
        "--start",
        type=Path,
        metavar="RESULT",
        help="begin at an earlier result of the same matrix or of its first rows: a folder that this command wrote, or "
        "its result.npz",
    )
    add_solving_options(group)
    group.add_argument(
        "--max-iter",
        type=int,
        default=1000,
        metavar="N",
        help="stop solving after N steps (default: %(default)s)",
    )


def _add_writing(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("writing")
    group.add_argument(
        "--format",
        default="same",
        choices=("same", *KINDS),
        help="kind of the tables (default: that of the input)",
    )
    group.add_argument(
        "--part",
        choices=(LOW_RANK, OUTLIERS),
        help=f"with -o -: which table is written (default: {LOW_RANK})",
    )
    group.add_argument("--report", action="store_true", help=f"make {PAGE}, a page to look at")


def run(arguments: argparse.Namespace) -> int:
    """Read, solve and write; returns 0. Nothing appears in the output folder before everything is written."""
    to_pipe = str(arguments.output) == PIPE
    if not to_pipe and is_done("decompose", add_options, arguments):
        return 0
    check_output(arguments)
    if arguments.report:
        require("jinja2")
    output, clock = Output.of(arguments, to_stderr=to_pipe), Clock()

    from rankwolf.data.open import open_source
    from rankwolf.factors.scaling import Scaling
    from rankwolf.ground.complaints import check_threads

    with ExitStack() as inputs:
        draws = output.talks and (not to_pipe or sys.stderr.isatty())
        with Bars(draws, arguments.tol, "row", to_pipe) as bars:
            bars.stage("read", None)
            matrix = read(arguments, inputs)
            kind = kind_of_parts(arguments, matrix)
            limit = memory_limit(arguments)
            threads = check_threads(arguments.threads)
            table = open_source(matrix.values, None, threads, arguments.implicit, limit)
            matrix, standardized = standardizes(arguments, matrix)
            scaling = Scaling.by_model(table, limit) if standardized else Scaling.none()
            source = scaling.apply(table)
            clock.lap("read")
            bars.stage("solve", None)
            limits = matrix.limits and tuple(scaling.of_values(end) for end in matrix.limits)
            fit = solve(source, arguments, bars, limits)
            clock.lap("solve")
            parts = fit
            if refits(arguments):
                bars.stage("refit", None)
                parts = fit.refit()
                clock.lap("refit")
            solved = Solved(arguments, matrix, source, scaling, fit, parts, kind, clock, add_options)
            summary = {} if to_pipe else write_folder(solved, bars)
        if to_pipe:
            summary = write_pipe(solved)
    for text in summary["warnings"]:
        warn(f"warning: {text}")
    for line in story(summary, arguments.output, arguments.report):
        output.say(line)
    output.finish({**summary, "output": str(arguments.output)})
    return 0


def check_output(arguments: argparse.Namespace) -> None:
    """Refuse, before any work, an output that must not be replaced, or that does not go with other options."""
    target: Path = arguments.output
    if str(target) == PIPE:
        for option in ("json", "report"):
            if getattr(arguments, option):
                raise ValueError(
                    f"--{option} does not go with -o -, which writes one table to standard output."
                )
        return
    if arguments.part is not None:
        raise ValueError("--part says which table goes to standard output. Give -o - with it.")
    check_folder(target, arguments.force, path_of(arguments.input))


def kind_of_parts(arguments: argparse.Namespace, matrix: LabelledMatrix) -> str:
    """The kind of file that is written; a ValueError if it has no room for the parts."""
    from rankwolf.files.writing import check_room

    kind = str(matrix.kind if arguments.format == "same" else arguments.format)
    if str(arguments.output) == PIPE:
        text = kind.removesuffix(".gz")
        if text not in ("csv", "tsv") and arguments.format != "same":
            raise ValueError(f"Standard output takes --format csv or tsv. Got {arguments.format!r} instead.")
        return text if text in ("csv", "tsv") else "csv"
    if kind == "xlsx":
        check_room(matrix.shape)
    return kind


def path_of(address: str) -> Path:
    """The path in an address ``path::name``; the name is that of an array or a sheet in the file."""
    return Path(address.partition("::")[0])


def read(arguments: argparse.Namespace, inputs: ExitStack) -> LabelledMatrix:
    """The input as a matrix; a ValueError says why it cannot be read.

    Standard input is kept in a temporary file until ``inputs`` is closed.
    """
    from dataclasses import replace

    from rankwolf.files import Address, TableOptions, read_matrix

    address = Address.parse(arguments.input)
    if str(address.path) == PIPE:
        from rankwolf.cli.pipes import received

        address = Address(inputs.enter_context(received()), address.member, "standard input")
    header = True if arguments.header else False if arguments.no_header else None
    matrix = read_matrix(
        address,
        max_memory=memory_limit(arguments),
        options=TableOptions(
            arguments.index, header, arguments.drop, arguments.columns, arguments.missing, arguments.decimal
        ),
        may_stay=True,
    )
    if arguments.strict and matrix.warnings:
        raise ValueError(f"Cannot read {arguments.input!r}: {' '.join(matrix.warnings)} --strict forbids it.")
    if arguments.standardize and matrix.is_sparse:
        raise ValueError("--standardize does not go with a sparse matrix: it would leave no zeros.")
    if arguments.index == "auto" and matrix.labels.index is not None:
        matrix = replace(matrix, notes=(*matrix.notes, _named_by(matrix.labels.index_name)))
    return matrix


def standardizes(arguments: argparse.Namespace, matrix: LabelledMatrix) -> tuple[LabelledMatrix, bool]:
    """(the matrix with a note if that was not asked for, whether to solve in units of the columns' noise)."""
    from dataclasses import replace

    if arguments.standardize is not None:
        return matrix, bool(arguments.standardize)
    said = ("lambdas", "noise", "radii", "rank", "start", "checkpoint")
    plain = arguments.delta == "auto" and all(getattr(arguments, name) is None for name in said)
    if not plain or matrix.is_sparse or matrix.labels.columns is None:
        return matrix, False
    note = "Each column was measured in units of its own noise (--no-standardize leaves them as they are)."
    return replace(matrix, notes=(*matrix.notes, note)), True


def _named_by(column: str | None) -> str:
    """A note that ``column`` was taken for the names of the rows, although no option said so."""
    which = column or "the first column, which has no heading"
    return f"The rows are named by {which} (--index takes another column, or none)."


def memory_limit(arguments: argparse.Namespace) -> int | None:
    """``--max-memory`` in bytes; None where it was not given."""
    return None if arguments.max_memory is None else parse_size(arguments.max_memory)


def solve(source: Source, arguments: argparse.Namespace, bars: Bars, limits: Any = None) -> Decomposition:
    """The decomposition of ``source`` that the options ask for, without warnings: the summary has the doubts."""
    from rankwolf.api.decompose import decompose_quietly

    return decompose_quietly(
        source,
        limits=limits,
        start=earlier_result(arguments),
        lambdas=arguments.lambdas,
        noise=arguments.noise,
        weight=arguments.weight,
        radii=arguments.radii,
        rank=arguments.rank,
        refit=False,
        delta=parse_delta(arguments.delta),
        method=arguments.method,
        tol=arguments.tol,
        max_iter=arguments.max_iter,
        max_seconds=arguments.max_seconds,
        callback=bars.record,
        rng=arguments.seed,
        n_threads=arguments.threads,
        **checkpoint_of(arguments),
    )


def earlier_result(arguments: argparse.Namespace) -> Decomposition | None:
    """The result that --start names; None without it."""
    from rankwolf.result.saving import load

    place: Path | None = arguments.start
    if place is None:
        return None
    return load(place / RESULT if place.is_dir() else place, max_memory=memory_limit(arguments))


def parse_delta(text: str) -> float | str:
    """``--delta`` as a number; any other word is returned as it is, for the library to accept or refuse."""
    try:
        return float(text)
    except ValueError:
        return text
