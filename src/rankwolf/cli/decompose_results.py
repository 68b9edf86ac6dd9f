"""What ``rankwolf decompose`` writes and says when the matrix is solved."""

from __future__ import annotations

import argparse
import time
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rankwolf.cli.bars import Bars
from rankwolf.cli.common import command_of, last_words, remove, same_job, whole_folder, write_summary
from rankwolf.ground.plural import number_of
from rankwolf.ground.result_files import PAGE, RESULT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rankwolf.data import Source
    from rankwolf.factors.scaling import Scaling
    from rankwolf.files import LabelledMatrix
    from rankwolf.result.decomposition import Decomposition

PIPE = "-"
LOW_RANK, OUTLIERS = "low_rank", "outliers"
# A cell whose text begins with one of these is a formula to a spreadsheet.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class Clock:
    """Measures the stages of a command; ``seconds`` has the duration of each, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """End the stage ``name``, which began at the last lap, or when the clock was made."""
        now = time.perf_counter()
        self.seconds[name], self._last = now - self._last, now


class Solved(NamedTuple):
    """The input and the results, for the functions that write them; ``parts`` is ``fit``, or its refit."""

    arguments: argparse.Namespace
    matrix: LabelledMatrix
    source: Source
    scaling: Scaling
    fit: Decomposition
    parts: Decomposition
    kind: str
    clock: Clock
    add_options: Callable[[argparse.ArgumentParser], None]


def refits(arguments: argparse.Namespace) -> bool:
    """Whether the parts are refitted before they are written.

    Not with --no-refit, not where --noise or --radii sets a bound that they have to meet, and not with --rank, where
    they are not shrunk.
    """
    met = (arguments.noise, arguments.radii, arguments.rank)
    return bool(arguments.refit) and all(value is None for value in met)


def write_folder(solved: Solved, bars: Bars) -> dict[str, Any]:
    """Write both parts, the result, the summary and, if asked for, the page; returns the summary."""
    arguments, target = solved.arguments, solved.arguments.output
    with whole_folder(target, force=arguments.force) as folder:
        bars.stage("write", 2 * solved.matrix.shape[0])
        names = write_parts(folder, solved.kind, solved.matrix, solved.parts, solved.scaling, bars)
        solved.clock.lap("write")
        summary = summarize(solved)
        write_summary(folder, summary)
        if arguments.report:
            (folder / PAGE).write_text(page(solved, summary), encoding="utf-8", errors="backslashreplace")
    if arguments.force:
        remove_stale(target, {*names, *([PAGE] if arguments.report else [])})
    return summary


def write_pipe(solved: Solved) -> dict[str, Any]:
    """Write one part as a text to standard output; returns the summary."""
    from rankwolf.cli.pipes import text_output
    from rankwolf.files.writing import dialect_for, row_blocks, write_text

    parts, scaling, matrix = solved.parts, solved.scaling, solved.matrix
    wants_outliers = solved.arguments.part == OUTLIERS
    part = scaling.stretched(parts.sparse) if wants_outliers else scaling.restored(parts.low_rank)
    file = text_output()
    write_text(file, row_blocks(part), matrix.labels, dialect_for(solved.kind, matrix))
    file.flush()
    solved.clock.lap("write")
    return summarize(solved)


def write_parts(
    folder: Path, kind: str, matrix: LabelledMatrix, fit: Decomposition, scaling: Scaling, bars: Bars
) -> set[str]:
    """Write both parts and the result; returns the names of the files of the parts.

    A sparse matrix may be too large to be written out densely: where the kind of file has a sparse form, S is written
    in that form and L as its factors.
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
    """Remove tables and pages of an earlier run that this run did not overwrite: the new summary is not about them."""
    from rankwolf import files

    endings = {kind.endings[0] for kind in files.KINDS}
    known = {f"{name}{ending}" for name in (LOW_RANK, OUTLIERS) for ending in endings} | {PAGE}
    remove(target / name for name in known - written)


def summarize(solved: Solved) -> dict[str, Any]:
    """Sizes, weights, gap, status, seconds: numbers and words that JSON knows.

    Objective, gap and status are those of the convex ``fit``; rank, outliers and noise those of the ``parts`` that
    were written.
    """
    from rankwolf import __version__
    from rankwolf.cli.words import in_options
    from rankwolf.platform import peak_memory
    from rankwolf.result.doubts import doubts

    arguments, matrix, source, fit, parts = (
        solved.arguments,
        solved.matrix,
        solved.source,
        solved.fit,
        solved.parts,
    )
    (m, n), seconds = matrix.shape, solved.clock.seconds
    weights = "noise" if arguments.delta == "auto" else "paper"
    if arguments.lambdas or arguments.radii or arguments.noise is not None:
        weights = "given"
    if arguments.rank is not None:  # those of the noise or, where that cannot be measured, of a path
        weights = "rank"
    return {
        "rankwolf": __version__,
        "input": arguments.input,
        "command": same_job("decompose", solved.add_options, arguments),
        "kind": matrix.kind,
        "format": solved.kind,
        "rows": m,
        "columns": n,
        "sparse_input": matrix.is_sparse,
        "implicit": arguments.implicit if matrix.is_sparse else None,
        "observed_fraction": source.observed_fraction,
        "standardized": solved.scaling.scale is not None,
        **solved.scaling.as_dict(),
        "weights_from": weights,
        **fit.as_dict(),
        "refit": parts.noise_scale is not None,
        "rank": parts.low_rank.rank,
        "nonzeros": parts.sparse.nonzeros,
        "passes": parts.passes,
        "noise_scale": parts.noise_scale,
        "seconds": {**seconds, "total": sum(seconds.values())},
        "bytes_read": source.bytes_read,
        "peak_memory_bytes": peak_memory(),
        "notes": list(matrix.notes),
        "treated_as_data": list(matrix.keys),
        "warnings": [*matrix.warnings, *map(in_options, doubts(fit)), *formulas(matrix, solved.kind)],
    }


def formulas(matrix: LabelledMatrix, kind: str) -> list[str]:
    """A warning, in a list, if names in a csv or tsv file begin like formulas, which a spreadsheet might run.

    Otherwise the list is empty. The names are written unchanged.
    """
    if kind.removesuffix(".gz") not in ("csv", "tsv"):
        return []
    labels = matrix.labels
    names = [str(name) for name in (*(labels.columns or ()), *(labels.index or ()), labels.index_name or "")]
    count = sum(name[:1] in FORMULA_STARTS and not _is_number(name) for name in names if name)
    if not count:
        return []
    begin = number_of(count, "name of a row or column begins", "names of rows or columns begin")
    return [f"{begin} like a formula, which a spreadsheet may run when it opens the tables."]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def page(solved: Solved, summary: dict[str, Any]) -> str:
    """The text of report.html. Cost: a pass over the data to count observed entries, and another one to compute S."""
    from rankwolf.data.column_statistics import observed_counts
    from rankwolf.report.matrix_page import matrix_page
    from rankwolf.report.outliers import Cell, Outliers

    matrix, source, scaling, parts = solved.matrix, solved.source, solved.scaling, solved.parts
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
    command = command_of("decompose", solved.add_options, solved.arguments)
    return matrix_page(summary, solved.fit, parts, outliers, cells, command)


def assumptions(notes: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Lines about what was assumed of a file: its notes, and columns that look like keys but were treated as data."""
    remedy = "(--index NAME names the rows by it, --drop NAME leaves it out)"
    named = ", ".join(key or "the column without a heading" for key in keys)
    return [*notes, *([f"treated as data: {named} {remedy}"] if keys else [])]


def story(summary: dict[str, Any], target: Path, has_page: bool) -> list[str]:
    """The lines that are printed at the end; without the folder of the results where they went to standard output."""
    missing = 1.0 - summary["observed_fraction"]
    if summary["refit"]:
        found = f"{number_of(summary['nonzeros'], 'outlier')} beside noise of {summary['noise_scale']:.3g}"
    else:
        found = f"{number_of(summary['nonzeros'], 'entry', 'entries')} beyond λ_S in the sparse part"
    certified = summary["relative_gap"] is not None and isfinite(summary["relative_gap"])
    gap = f"certified gap {summary['relative_gap']:.2g} after " if certified else "a local answer after "
    refit = ", refit included" if summary["refit"] else ""
    said = (
        f"{summary['rows']:,} × {summary['columns']:,}, {missing:.1%} missing: low-rank part of rank "
        f"{summary['rank']}, {found}; {gap}{number_of(summary['passes'], 'pass', 'passes')}{refit}."
    )
    lines = [said, *assumptions(summary["notes"], summary["treated_as_data"])]
    last = last_words(summary, target, has_page)
    return [*lines, *(last[:-1] if str(target) == PIPE else last)]
