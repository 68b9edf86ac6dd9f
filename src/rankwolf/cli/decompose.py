"""``rankwolf decompose``: the low-rank part and the outliers of a matrix or table in a file."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwolf.cli.bars import Bars
from rankwolf.cli.common import (
    Output,
    add_force_option,
    add_output_options,
    add_solving_options,
    add_strict_option,
    check_target,
    checkpoint_of,
    command_of,
    last_words,
    parse_size,
    remove,
    to_json,
    warn,
    whole_folder,
)

if TYPE_CHECKING:
    from rankwolf.files import LabelledMatrix
    from rankwolf.result import Decomposition
    from rankwolf.scaling import Scaling

KINDS = ("npy", "npz", "mat", "mat73", "csv", "tsv", "parquet", "hdf5", "zarr")
LOW_RANK, OUTLIERS = "low_rank", "outliers"
# A table with fewer columns may well need half of them.
DOUBTFUL_SIDE = 20


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
    """All of them, grouped."""
    parser.add_argument(
        "input",
        metavar="INPUT",
        help="npy, npz, mat, csv, tsv, parquet, h5, zarr; file::name for one of several arrays, as in data.h5::/raw",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="where the results go"
    )
    _add_reading(parser)
    _add_solving(parser)
    _add_writing(parser)
    add_force_option(parser)
    add_output_options(parser)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--index", default="auto", metavar="COLUMN",
        help="the column that names the rows, or none (default: the first, where it has no heading or no numbers)",
    )  # fmt: skip
    group.add_argument("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to leave out")
    header = group.add_mutually_exclusive_group()
    header.add_argument("--header", action="store_true", help="the first line of a text is a heading")
    header.add_argument(
        "--no-header", action="store_true", help="it is not (default: it is, if it is not all numbers)"
    )
    group.add_argument(
        "--implicit",
        choices=("missing", "zeros"),
        default="missing",
        help="what a sparse matrix does not store: ratings not given, or counts of zero (default: %(default)s)",
    )
    group.add_argument(
        "--standardize",
        action="store_true",
        help="solve in units of each column: median 0, spread 1 (robustly); for columns of different units",
    )
    add_strict_option(group)
    group.add_argument(
        "--max-memory", metavar="SIZE",
        help="what the process may take, e.g. 2GB: npy, HDF5 and Zarr stay on the disk, other kinds must fit (default: "
        "3/4 of what is free)",
    )  # fmt: skip


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
    add_solving_options(group)


def _add_writing(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("writing")
    group.add_argument(
        "--format",
        default="same",
        choices=("same", *KINDS),
        help="kind of the tables (default: that of the input)",
    )
    group.add_argument("--report", action="store_true", help="make report.html, a page to look at")


def run(arguments: argparse.Namespace) -> int:
    """Read, solve, write; everything appears under its name when all of it is whole."""
    target: Path = arguments.output
    check_target(target, arguments.force)
    if target.exists() and not target.is_dir():
        raise ValueError(f"The output {str(target)!r} is a file. Give the name of a folder.")
    output, clock = Output.of(arguments), _Clock()

    from rankwolf.scaling import Scaling
    from rankwolf.sources import as_stored

    with Bars(output.talks, arguments.tol, "row") as bars:
        bars.stage("read", None)
        matrix = read(arguments)
        values = matrix.values if (stored := as_stored(matrix.values)) is None else stored
        scaling = Scaling.of(values, memory_limit(arguments)) if arguments.standardize else Scaling.none()
        clock.lap("read")
        bars.stage("solve", None)
        fit = solve(scaling.apply(values), arguments, bars)
        clock.lap("solve")
        with whole_folder(target, force=arguments.force) as folder:
            bars.stage("write", 2 * matrix.shape[0])
            kind = matrix.kind if arguments.format == "same" else arguments.format
            names = write_parts(folder, kind, matrix, fit, scaling, bars)
            clock.lap("write")
            summary = summarize(arguments, matrix, scaling, fit, kind, clock.seconds)
            (folder / "summary.json").write_text(to_json(summary, indent=2) + "\n", encoding="utf-8")
            if arguments.report:
                (folder / "report.html").write_text(
                    page(matrix, scaling, fit, summary, arguments), encoding="utf-8"
                )
    if arguments.force:
        remove_stale(target, {*names, *(["report.html"] if arguments.report else [])})
    for text in summary["warnings"]:
        warn(f"warning: {text}")
    for line in story(summary, target, arguments.report):
        output.say(line)
    output.finish({**summary, "output": str(target)})
    return 0


class _Clock:
    """Seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """The stage that ends now."""
        now = time.perf_counter()
        self.seconds[name], self._last = now - self._last, now


def read(arguments: argparse.Namespace) -> LabelledMatrix:
    """The matrix, or a ValueError that says why not."""
    from rankwolf.files import read_matrix
    from rankwolf.files.tables import TableOptions

    header = True if arguments.header else False if arguments.no_header else None
    matrix = read_matrix(
        arguments.input,
        max_memory=memory_limit(arguments),
        options=TableOptions(arguments.index, header, arguments.drop),
        may_stay=True,
    )
    if arguments.strict and matrix.warnings:
        raise ValueError(f"Cannot read {arguments.input!r}: {' '.join(matrix.warnings)} --strict forbids it.")
    if arguments.standardize and matrix.is_sparse:
        raise ValueError("--standardize does not go with a sparse matrix: it would leave no zeros.")
    return matrix


def memory_limit(arguments: argparse.Namespace) -> int | None:
    """Bytes."""
    return None if arguments.max_memory is None else parse_size(arguments.max_memory)


def solve(values: Any, arguments: argparse.Namespace, bars: Bars) -> Decomposition:
    """One call of rankwolf.decompose."""
    from rankwolf.api import decompose

    return decompose(
        values, implicit=arguments.implicit, lambdas=arguments.lambdas, max_memory=memory_limit(arguments),
        delta=parse_delta(arguments.delta), method=arguments.method, tol=arguments.tol,
        max_seconds=arguments.max_seconds, callback=bars.record, rng=arguments.seed, n_threads=arguments.threads,
        **checkpoint_of(arguments),
    )  # fmt: skip


def parse_delta(text: str) -> float | str:
    """A number, or ``auto``."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--delta must be a number or 'auto'. Got {text!r} instead.") from None


def write_parts(
    folder: Path, kind: str, matrix: LabelledMatrix, fit: Decomposition, scaling: Scaling, bars: Bars
) -> set[str]:
    """Both parts and the result; the names of the files.

    A sparse matrix may have more rows and columns than anybody can write out: where the kind of file has a sparse
    form, S is written in it and L as its factors.
    """
    from rankwolf.files import kind_named, write_factors, write_rows, write_sparse

    if matrix.is_sparse and kind_named(kind).sparse:
        low_rank = fit.low_rank
        paths = [
            write_factors(folder, LOW_RANK, kind, {"u": low_rank.u, "s": low_rank.s, "vt": low_rank.vt}),
            write_sparse(folder, OUTLIERS, kind, fit.sparse.to_scipy(), matrix),
        ]
    else:
        paths = [
            write_rows(folder, LOW_RANK, kind, scaling.restored(fit.low_rank), matrix, bars.advance),
            write_rows(
                folder,
                OUTLIERS,
                kind,
                scaling.stretched(fit.sparse),
                matrix,
                bars.advance,
                scaling.stretched_parts(fit.sparse.parts()),
            ),
        ]
    fit.save(folder / "result.npz", with_sparse=False)
    return {path.name for path in paths}


def remove_stale(target: Path, written: set[str]) -> None:
    """What an earlier run left under names that this run did not use: it does not belong to the summary any more."""
    from rankwolf import files

    endings = {kind.endings[0] for kind in files.KINDS}
    known = {f"{name}{ending}" for name in (LOW_RANK, OUTLIERS) for ending in endings} | {"report.html"}
    remove(target / name for name in known - written)


def summarize(
    arguments: argparse.Namespace, matrix: LabelledMatrix, scaling: Scaling, fit: Decomposition, kind: str,
    seconds: dict[str, float],
) -> dict[str, Any]:  # fmt: skip
    """Sizes, weights, gap, status, seconds: numbers and words that JSON knows."""
    from rankwolf import __version__
    from rankwolf.files.memory import peak_memory
    from rankwolf.result import ThresholdedResidual
    from rankwolf.scaling import observed_counts

    m, n = matrix.shape
    if isinstance(fit.sparse, ThresholdedResidual):  # the solver has counted
        observed = fit.sparse.source.summary.observed
    elif matrix.is_sparse and arguments.implicit == "zeros":
        observed = m * n
    else:
        observed = int(observed_counts(matrix.values)[0].sum())
    weights = "given" if arguments.lambdas else "noise" if arguments.delta == "auto" else "paper"
    return {
        "rankwolf": __version__,
        "input": arguments.input,
        "kind": matrix.kind,
        "format": kind,
        "rows": m,
        "columns": n,
        "sparse_input": matrix.is_sparse,
        "implicit": arguments.implicit if matrix.is_sparse else None,
        "observed_fraction": observed / (m * n),
        "standardized": arguments.standardize,
        **scaling.as_dict(),
        "weights_from": weights,
        **fit.as_dict(),
        "seconds": {**seconds, "total": sum(seconds.values())},
        "peak_memory_bytes": peak_memory(),
        "warnings": [*matrix.warnings, *doubts(fit)],
    }


def doubts(fit: Decomposition) -> list[str]:
    """A sentence where the weights do not fit the data: noise in L, or nothing in it."""
    rank, most = fit.low_rank.rank, min(fit.low_rank.shape)
    if rank == 0:
        return ["The low-rank part is zero: the weights are too large for this data. Give a smaller --delta."]
    if most >= DOUBTFUL_SIDE and rank > most / 2:
        return [
            f"The low-rank part has rank {rank} of at most {most}, so most of it is noise: the weights are too small "
            "for this data. Give a larger --delta."
        ]
    return []


def page(
    matrix: LabelledMatrix, scaling: Scaling, fit: Decomposition, summary: dict[str, Any], arguments: argparse.Namespace
) -> str:  # fmt: skip
    """report.html."""
    from rankwolf.report.matrix_page import matrix_page
    from rankwolf.report.outliers import Cell, Outliers
    from rankwolf.scaling import observed_counts

    in_rows, in_columns = observed_counts(matrix.values)
    if matrix.is_sparse and arguments.implicit == "zeros":
        in_rows[:], in_columns[:] = matrix.shape[1], matrix.shape[0]
    outliers = Outliers(matrix.shape, matrix.labels, in_rows, in_columns)
    if matrix.is_sparse:
        outliers.add(slice(0, matrix.shape[0]), slice(0, matrix.shape[1]), fit.sparse.to_scipy())
    else:
        for part in fit.sparse.parts():
            outliers.add(*part)
    low_rank = scaling.restored(fit.low_rank)
    cells = []
    for i, j in outliers.places():
        observed, expected = float(matrix.values[i, j]), float(low_rank[i : i + 1][0, j])
        cells.append(Cell(matrix.labels.row(i), matrix.labels.column(j), observed, expected))
    return matrix_page(summary, fit, outliers, cells, command_of("decompose", add_options, arguments))


def story(summary: dict[str, Any], target: Path, has_page: bool) -> list[str]:
    """What happened, in a few lines."""
    missing = 1.0 - summary["observed_fraction"]
    said = (
        f"{summary['rows']:,} × {summary['columns']:,}, {missing:.1%} missing: low-rank part of rank "
        f"{summary['rank']}, {summary['nonzeros']:,} outliers; certified gap {summary['relative_gap']:.2g} after "
        f"{summary['passes']} passes."
    )
    return [said, *last_words(summary, target, has_page)]
