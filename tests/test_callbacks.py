"""The table, the progress bar, and several callbacks at once."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from math import nan

import numpy as np
import pytest

import rankwolf as rw
import rankwolf.run.callbacks
from rankwolf.run.callbacks import LogTable, ProgressBar, combine, describe

RECORD = rw.Record(
    iteration=7, passes=20, objective=1234.5678, gap=12.5, relative_gap=0.010125, rank=3, nonzeros=4567,
    step_size=0.25, sparse_step_size=0.5, surrogate_gap=13.0, seconds=1.5,
)  # fmt: skip


@pytest.fixture(scope="module")
def matrix() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40))


@pytest.mark.doubts("iteration limit")
def test_table_has_one_header_and_one_row_for_each_iteration(matrix):
    stream = io.StringIO()
    fit = rw.decompose(matrix, delta=0.1, method="fista", rng=0, max_iter=12, callback=LogTable(stream))
    rule, header, second_rule, *rows = stream.getvalue().splitlines()
    assert set(rule) == {"-"} and rule == second_rule and len(header) == len(rule)
    assert (
        " ".join(header.split()) == "Iteration Passes Objective Gap Relative gap Rank Nonzeros Step Seconds"
    )
    assert len(rows) == fit.iterations
    assert {len(row) for row in rows} == {len(header)}
    for row, record in zip(
        rows[:-1], fit.history[:-1], strict=True
    ):  # the last one is judged anew in the result
        cells = row.split()
        assert [int(cells[i]) for i in (0, 1, 5, 6)] == [
            record.iteration,
            record.passes,
            record.rank,
            record.nonzeros,
        ]
        numbers = [record.objective, record.gap, record.relative_gap, record.step_size]
        assert [float(cells[i]) for i in (2, 3, 4, 7)] == pytest.approx(numbers, rel=1e-2)


def test_table_writes_to_stdout_as_it_is_when_called(capsys):
    table = LogTable()
    table(RECORD)
    assert "1.234568e+03" in capsys.readouterr().out


@pytest.mark.doubts("iteration limit")
def test_table_starts_anew_with_a_new_run(matrix):
    stream = io.StringIO()
    table = LogTable(stream)
    for _ in range(2):
        rw.decompose(matrix, delta=0.1, method="fista", rng=0, max_iter=3, callback=table)
    assert stream.getvalue().count("Iteration") == 2


def test_table_shows_a_dash_for_what_is_not_known_yet():
    row = LogTable.row(replace(RECORD, gap=nan, relative_gap=nan, step_size=nan))
    assert row.split()[3:5] == ["-", "-"] and "nan" not in row
    assert len(row) == len(LogTable.HEADER)


def test_library_is_silent_without_a_callback(matrix, capfd):
    rw.decompose(matrix, delta=0.1, method="fista", rng=0)
    assert capfd.readouterr() == ("", "")


def test_combined_callbacks_are_all_called_and_one_false_stops(matrix):
    seen: list[tuple[str, int]] = []

    def first(record: rw.Record) -> bool:
        seen.append(("first", record.iteration))
        return record.iteration < 3

    def second(record: rw.Record) -> None:
        seen.append(("second", record.iteration))

    fit = rw.decompose(matrix, delta=0.1, method="fista", rng=0, tol=0.0, callback=combine(first, second))
    assert fit.status is rw.Status.CALLBACK and fit.iterations == 3
    assert seen == [(name, i) for i in (1, 2, 3) for name in ("first", "second")]


def test_progress_bar_shows_passes_objective_gap_rank_and_time(matrix):
    console_class = pytest.importorskip("rich.console").Console
    stream = io.StringIO()
    console = console_class(file=stream, force_terminal=True, width=140, color_system=None)
    with ProgressBar(tol=1e-2, console=console) as bar:
        seen = []
        watch = combine(bar, seen.append)
        rw.decompose(matrix, delta=0.1, method="fista", rng=0, tol=1e-2, callback=watch)
    last = seen[-1]
    shown = stream.getvalue()
    assert describe(last) in shown
    for word in (f"pass {last.passes}", "objective", "gap", f"rank {last.rank}", "00:0", "left"):
        assert word in shown
    assert "\x1b[?25h" in shown  # the cursor is back


@pytest.mark.parametrize("tol", [None, 1e-3])
@pytest.mark.parametrize("bytes_read", [0, 10**12])
def test_progress_bar_fits_a_terminal_of_80_columns(tol, bytes_read):
    console_class = pytest.importorskip("rich.console").Console
    stream = io.StringIO()
    console = console_class(file=stream, force_terminal=True, width=80, color_system=None)
    record = replace(RECORD, passes=123, objective=2.6801e7, relative_gap=0.0123, rank=100, bytes_read=bytes_read,
                     seconds=500.0)  # fmt: skip
    with ProgressBar(tol=tol, console=console) as bar:
        bar(record)
    assert describe(record) in stream.getvalue()
    assert "…" not in stream.getvalue()


def test_progress_bar_fills_from_the_first_gap_to_tol_on_a_logarithmic_scale():
    bar = ProgressBar(tol=1e-4)
    gaps = (nan, 1.0, 1e-2, 1e-1, 1e-4, 1e-6)
    shares = [bar.share(replace(RECORD, relative_gap=gap)) for gap in gaps]
    assert shares == pytest.approx([0.0, 0.0, 0.5, 0.25, 1.0, 1.0])
    assert ProgressBar().share(RECORD) == 0.0


def test_progress_bar_outside_a_with_block_says_what_to_do():
    with pytest.raises(RuntimeError, match="with ProgressBar"):
        ProgressBar()(RECORD)


def test_the_speed_of_reading_is_shown_for_data_on_disk():
    from dataclasses import replace

    from rankwolf.run.callbacks import describe

    assert "MB/s" not in describe(RECORD)
    assert "250 MB/s" in describe(replace(RECORD, bytes_read=500_000_000, seconds=2.0))


def test_a_progress_bar_without_rich_names_the_remedy(monkeypatch):
    for name in ("rich", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    words = r"This needs the package 'rich'\. Install it with: pip install 'rankwolf\[report\]'"
    with pytest.raises(ModuleNotFoundError, match=words), ProgressBar():
        pass


def test_the_name_that_users_know_is_a_module_and_shows_callbacks_only():
    code = (
        "import sys\n"
        "from rankwolf.callbacks import WithIterate\n"
        "import rankwolf\n"
        "assert rankwolf.callbacks.WithIterate is WithIterate\n"
        "assert sys.modules['rankwolf.callbacks'] is rankwolf.callbacks\n"
        "assert 'numpy' not in sys.modules\n"
        "print(*dir(rankwolf.callbacks))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["LogTable", "ProgressBar", "WithIterate", "combine", "describe"], (
        done.stderr
    )
    assert dir(rankwolf.run.callbacks) == done.stdout.split()
