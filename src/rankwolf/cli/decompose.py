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
    from rankwolf.data import Source
    from rankwolf.files import LabelledMatrix
    from rankwolf.result.decomposition import Decomposition
    from rankwolf.tables.scaling import Scaling

KINDS = ("npy", "npz", "mat", "mat73", "csv", "tsv", "parquet", "hdf5", "zarr")
LOW_RANK, OUTLIERS, RESULT = "low_rank", "outliers", "result.npz"
# With one of these a spreadsheet takes the text of a cell for a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


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
    add_reading_options(parser)
    _add_solving(parser)
    _add_writing(parser)
    add_force_option(parser)
    add_output_options(parser)


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """How the input is read."""
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--index",
        default="auto",
        metavar="COLUMN",
        help="the column that names the rows, or none (default: the first, where it has no heading or no numbers)",
    )
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
    check_target(target, arguments.force, _path(arguments.input))
    if target.exists() and not target.is_dir():
        raise ValueError(f"The output {str(target)!r} is a file. Give the name of a folder.")
    output, clock = Output.of(arguments), _Clock()

    from rankwolf.data.open import open_source
    from rankwolf.ground.complaints import check_threads
    from rankwolf.tables.scaling import Scaling

    with Bars(output.talks, arguments.tol, "row") as bars:
        bars.stage("read", None)
        matrix = read(arguments)
        limit = memory_limit(arguments)
        threads = check_threads(arguments.threads)
        table = open_source(matrix.values, None, threads, arguments.implicit, limit)
        scaling = Scaling.of(table, limit) if arguments.standardize else Scaling.none()
        source = scaling.apply(table)
        clock.lap("read")
        bars.stage("solve", None)
        fit = solve(source, arguments, bars)
        clock.lap("solve")
        parts = fit
        if refits(arguments):
            bars.stage("refit", None)
            parts = fit.refit()
            clock.lap("refit")
        with whole_folder(target, force=arguments.force) as folder:
            bars.stage("write", 2 * matrix.shape[0])
            kind = matrix.kind if arguments.format == "same" else arguments.format
            names = write_parts(folder, kind, matrix, parts, scaling, bars)
            clock.lap("write")
            summary = summarize(arguments, matrix, source, scaling, fit, parts, kind, clock.seconds)
            (folder / "summary.json").write_text(to_json(summary, indent=2) + "\n", encoding="utf-8")
            if arguments.report:
                text = page(matrix, source, scaling, fit, parts, summary, arguments)
                (folder / "report.html").write_text(text, encoding="utf-8", errors="backslashreplace")
    if arguments.force:
        remove_stale(target, {*names, *(["report.html"] if arguments.report else [])})
    for text in summary["warnings"]:
        warn(f"warning: {text}")
    for line in story(summary, target, arguments.report):
        output.say(line)
    output.finish({**summary, "output": str(target)})
    return 0


def _path(address: str) -> Path:
    """The file of ``file::name``."""
    return Path(address.partition("::")[0])


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
    from rankwolf.files import TableOptions, read_matrix

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
    """``--max-memory`` in bytes; None where it was not given."""
    return None if arguments.max_memory is None else parse_size(arguments.max_memory)


def solve(source: Source, arguments: argparse.Namespace, bars: Bars) -> Decomposition:
    """One call of rankwolf.decompose, with a matrix that is open already."""
    from rankwolf.api.decompose import decompose_quietly

    return decompose_quietly(
        source,
        start=earlier_result(arguments),
        lambdas=arguments.lambdas,
        noise=arguments.noise,
        delta=parse_delta(arguments.delta),
        method=arguments.method,
        tol=arguments.tol,
        max_seconds=arguments.max_seconds,
        callback=bars.record,
        rng=arguments.seed,
        n_threads=arguments.threads,
        **checkpoint_of(arguments),
    )


def earlier_result(arguments: argparse.Namespace) -> Decomposition | None:
    """What --start names."""
    from rankwolf.result.saving import load

    place: Path | None = arguments.start
    if place is None:
        return None
    return load(place / RESULT if place.is_dir() else place, max_memory=memory_limit(arguments))


def refits(arguments: argparse.Namespace) -> bool:
    """Whether the parts that are written are refitted: not where --noise says how far they may be from the data."""
    return bool(arguments.refit) and arguments.noise is None


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
    fit.save(folder / RESULT, with_sparse=False)
    return {path.name for path in paths}


def remove_stale(target: Path, written: set[str]) -> None:
    """What an earlier run left under names that this run did not use: it does not belong to the summary any more."""
    from rankwolf import files

    endings = {kind.endings[0] for kind in files.KINDS}
    known = {f"{name}{ending}" for name in (LOW_RANK, OUTLIERS) for ending in endings} | {"report.html"}
    remove(target / name for name in known - written)


def summarize(
    arguments: argparse.Namespace,
    matrix: LabelledMatrix,
    source: Source,
    scaling: Scaling,
    fit: Decomposition,
    parts: Decomposition,
    kind: str,
    seconds: dict[str, float],
) -> dict[str, Any]:
    """Sizes, weights, gap, status, seconds: numbers and words that JSON knows.

    Objective, gap and status are those of the convex ``fit``; rank, outliers and noise those of the ``parts`` that
    were written.
    """
    from rankwolf import __version__
    from rankwolf.ground.machine import peak_memory
    from rankwolf.result.doubts import doubts

    m, n = matrix.shape
    weights = "noise" if arguments.delta == "auto" else "paper"
    if arguments.lambdas or arguments.noise is not None:
        weights = "given"
    return {
        "rankwolf": __version__,
        "input": arguments.input,
        "kind": matrix.kind,
        "format": kind,
        "rows": m,
        "columns": n,
        "sparse_input": matrix.is_sparse,
        "implicit": arguments.implicit if matrix.is_sparse else None,
        "observed_fraction": source.observed_fraction,
        "standardized": arguments.standardize,
        **scaling.as_dict(),
        "weights_from": weights,
        **fit.as_dict(),
        "refit": refits(arguments),
        "rank": parts.low_rank.rank,
        "nonzeros": parts.sparse.nonzeros,
        "passes": parts.passes,
        "noise_scale": parts.noise_scale,
        "seconds": {**seconds, "total": sum(seconds.values())},
        "bytes_read": source.bytes_read,
        "peak_memory_bytes": peak_memory(),
        "warnings": [*matrix.warnings, *doubts(fit), *formulas(matrix, kind)],
    }


def formulas(matrix: LabelledMatrix, kind: str) -> list[str]:
    """A sentence where names that are written to a text would be run by a spreadsheet; they are kept as they are."""
    if kind not in ("csv", "tsv"):
        return []
    labels = matrix.labels
    names = [str(name) for name in (*(labels.columns or ()), *(labels.index or ()), labels.index_name or "")]
    count = sum(name[:1] in FORMULA_STARTS and not _is_number(name) for name in names if name)
    if not count:
        return []
    return [
        f"{count} names of rows or columns begin like a formula, which a spreadsheet may run when it opens the tables."
    ]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def page(
    matrix: LabelledMatrix,
    source: Source,
    scaling: Scaling,
    fit: Decomposition,
    parts: Decomposition,
    summary: dict[str, Any],
    arguments: argparse.Namespace,
) -> str:
    """The text of report.html. One pass over the data counts what was observed, and S is computed once more."""
    from rankwolf.data.columns import observed_counts
    from rankwolf.report.matrix_page import matrix_page
    from rankwolf.report.outliers import Cell, Outliers

    outliers = Outliers(matrix.shape, matrix.labels, *observed_counts(source))
    if matrix.is_sparse:
        outliers.add(slice(0, matrix.shape[0]), slice(0, matrix.shape[1]), parts.sparse.to_scipy())
    else:
        for part in parts.sparse.parts():
            outliers.add(*part)
    low_rank = scaling.restored(parts.low_rank)
    cells = []
    for i, j in outliers.places():
        observed, expected = float(matrix.values[i, j]), float(low_rank[i : i + 1][0, j])
        cells.append(Cell(matrix.labels.row(i), matrix.labels.column(j), observed, expected))
    return matrix_page(summary, fit, parts, outliers, cells, command_of("decompose", add_options, arguments))


def story(summary: dict[str, Any], target: Path, has_page: bool) -> list[str]:
    """What happened, in a few lines."""
    missing = 1.0 - summary["observed_fraction"]
    if summary["refit"]:
        found = f"{summary['nonzeros']:,} outliers beside noise of {summary['noise_scale']:.3g}"
    else:
        found = f"{summary['nonzeros']:,} entries beyond λ_S in the sparse part"
    said = (
        f"{summary['rows']:,} × {summary['columns']:,}, {missing:.1%} missing: low-rank part of rank "
        f"{summary['rank']}, {found}; certified gap {summary['relative_gap']:.2g} after {summary['passes']} passes."
    )
    return [said, *last_words(summary, target, has_page)]
