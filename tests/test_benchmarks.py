"""The parts of the benchmarks on tiny data: the judge judges, runs are recorded, failures are rows."""

import json
import math

import numpy as np
import pytest

import rankwolf as rw
from benchmarks import contestants, data, datasets
from benchmarks.harness import document, judge, process, results, worker
from benchmarks.harness.experiment import Options, Session
from benchmarks.harness.judge import Judge, paper_weights
from benchmarks.harness.machine import PeakMemory
from benchmarks.harness.worker import RunSpec
from benchmarks.paper import tables as paper_tables
from benchmarks.scale import scaling


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(3)
    matrix = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 24)) + 0.1 * rng.standard_normal((40, 24))
    matrix[rng.random(matrix.shape) < 0.05] += 5.0
    matrix[rng.random(matrix.shape) > 0.7] = np.nan
    weights = paper_weights(matrix, None, 0.03)
    fit = rw.decompose(matrix, lambdas=weights, method="fista", tol=1e-9, max_iter=20_000, rng=0)
    return matrix, weights, fit


def test_the_judge_agrees_with_the_formula_and_with_the_solver(small):
    matrix, weights, fit = small
    L = np.asarray(fit.low_rank)
    seen = np.isfinite(matrix)
    D = np.where(seen, matrix - L, 0.0)
    S = np.sign(D) * np.maximum(np.abs(D) - weights[1], 0.0)
    expected = (
        0.5 * np.sum(np.where(seen, matrix - L - S, 0.0) ** 2)
        + weights[0] * np.linalg.norm(L, "nuc")
        + weights[1] * np.abs(S).sum()
    )
    verdict = Judge(matrix, None, weights).judge(*fit.low_rank.factors())
    assert verdict.objective == pytest.approx(expected, rel=1e-12)
    assert verdict.objective == pytest.approx(fit.objective, rel=1e-12)
    assert verdict.nonzeros == np.count_nonzero(S)
    assert verdict.rank == np.linalg.matrix_rank(L, tol=1e-6)
    assert 0.0 <= verdict.relative_gap < 1e-8


def test_the_judge_takes_dense_answers_masks_and_wide_matrices(small):
    matrix, weights, fit = small
    expected = Judge(matrix, None, weights).judge(*fit.low_rank.factors())
    L = np.asarray(fit.low_rank)
    dense = Judge(matrix, None, weights).judge(L, np.eye(L.shape[1]))
    filled, seen = np.nan_to_num(matrix, nan=99.0), np.isfinite(matrix)
    masked = Judge(filled, seen, weights, threads=2).judge(*fit.low_rank.factors())
    wide = Judge(matrix.T, None, weights).judge(*fit.low_rank.T.factors())
    for verdict in (dense, masked, wide):
        assert verdict.objective == pytest.approx(expected.objective, rel=1e-11)
        assert verdict.gap == pytest.approx(expected.gap, rel=1e-3, abs=1e-11 * expected.objective)
    assert paper_weights(filled, seen, 0.03) == pytest.approx(weights)


@pytest.mark.doubts("most of it is noise", "λ_S is below the noise", "iteration limit")
@pytest.mark.parametrize("exact", [True, False])
def test_the_judges_gap_bounds_the_true_distance(small, exact, monkeypatch):
    matrix, weights, fit = small
    # Sizes at which the judge changes its ways: true ones would take minutes.
    monkeypatch.setattr(judge, "EXACT_SIDE", 4096 if exact else 0)
    monkeypatch.setattr(judge, "LONG_VECTORS", 2)
    monkeypatch.setattr(judge, "BLOCK_ENTRIES", 100)
    far = rw.decompose(matrix, lambdas=weights, method="fista", stop="paper", tol=0.0, max_iter=4, rng=0)
    verdict = Judge(matrix, None, weights).judge(*far.low_rank.factors())
    assert verdict.exact is exact
    assert verdict.objective - verdict.gap <= fit.objective * (1.0 + 1e-9)
    assert verdict.relative_gap > 1e-3


@pytest.mark.doubts("most of it is noise", "λ_S is below the noise")
@pytest.mark.parametrize(
    ("contestant", "goal", "value"),
    [("fw-t", "paper", 1e-2), ("fista", "iterations", 7), ("hybrid", "gap", 1e-3), ("ista", "gap", 1e-2)],
)
def test_a_run_is_measured_and_judged(contestant, goal, value):
    spec = RunSpec(contestant, "synthetic", {"size": 60, "rank": 2}, goal, value, threads=1)
    row = worker.perform(vars(spec))
    assert row["objective"] == pytest.approx(row["claimed_objective"], rel=1e-9)
    assert len(row["iteration_seconds"]) == row["iterations"] == len(row["pass_counts"])
    assert sum(row["iteration_seconds"]) <= row["total_seconds"]
    assert row["status"] == {"paper": "PAPER_RULE", "iterations": "CALLBACK", "gap": "GAP_REACHED"}[goal]
    if goal == "gap":
        assert row["relative_gap"] <= value
    if goal == "iterations":
        assert row["iterations"] == value
    assert row["error"] < 1.0
    json.dumps(row)


@pytest.mark.doubts("most of it is noise", "λ_S is below the noise")
def test_a_goal_on_the_objective_stops_where_it_is_reached():
    spec = RunSpec("fista", "synthetic", {"size": 60, "rank": 2}, "iterations", 12, threads=1, certify=False)
    target = worker.perform(vars(spec))["objective"]
    row = worker.perform({**vars(spec), "goal": "objective", "value": 1.5 * target})
    assert row["objective"] <= 1.5 * target
    assert row["iterations"] < 12


def test_a_fresh_process_answers_and_its_failures_are_rows():
    broken = process.call("operator:truediv", {"a": 1}, threads=1, hard_limit=120.0)
    assert broken["failure"].startswith("exit code 1: TypeError")
    late = process.call("time:sleep", {}, threads=1, hard_limit=0.01)
    assert late["failure"] == "no answer within 0 s"


def test_a_rival_that_is_missing_or_breaks_is_a_row(monkeypatch):
    spec = vars(RunSpec("pyrpca", "synthetic", {"size": 20, "rank": 1}, threads=1))
    for error, words in (
        (ImportError("no module"), "not installed"),
        (ValueError("shape"), "ValueError: shape"),
    ):

        def broken(challenge, error=error):
            raise error

        # A rival that breaks when it is told to: none of them does.
        monkeypatch.setattr(contestants, "load", lambda name, broken=broken: broken)
        assert worker.perform(spec)["failure"].startswith(words)


def test_time_that_is_used_up_leaves_rows_out(tmp_path, monkeypatch):
    # Results of a trial are not put among those that were measured.
    monkeypatch.setattr("benchmarks.harness.experiment.FOLDER", tmp_path)
    said = []
    session = Session("trial", Options(deadline=0.0), said.append)
    row = session.run(RunSpec("fw-t", "lobby"), label="lobby")
    assert row["failure"].startswith("left out")
    assert "left out" in said[0]
    kept = results.load("trial", tmp_path / "quick")
    assert kept["rows"][0]["label"] == "lobby"
    assert kept["machine"]["libraries"]["rankwolf"] == rw.__version__


def test_not_a_number_is_null_in_a_result_file(tmp_path):
    session = results.Results("trial", {}, tmp_path / "trial.json")
    session.add({"gap": math.nan, "list": [1.0, math.inf]})
    assert results.load("trial", tmp_path)["rows"] == [{"gap": None, "list": [1.0, None]}]


def test_every_experiment_reports_its_failures(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.harness.experiment.FOLDER", tmp_path)
    monkeypatch.setattr("benchmarks.harness.results.FOLDER", tmp_path)
    # Every run fails at once, instead of taking its hours.
    monkeypatch.setattr(process, "call", lambda *a, **k: {"failure": "it broke", "load_before": 0.5})
    for module in document.EXPERIMENTS:
        session = Session(module.NAME, Options(), lambda line: None)
        module.measure(session)
        assert "it broke" in module.report(session.results.rows, session.results.head["settings"])
    page = document.write(tmp_path / "docs" / "benchmarks.md").read_text()
    assert all(f"## {module.TITLE}" in page for module in document.EXPERIMENTS)
    assert "Load average before the runs: at most 0.5." in page


@pytest.mark.doubts("most of it is noise")
def test_tables_of_the_paper_on_small_data(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    matrix = (rng.random((300, 4)) @ rng.random((4, 30)) + (rng.random((300, 30)) < 0.05)).astype(np.float32)
    # Small data in the place of the paper's, which is not part of the package.
    monkeypatch.setattr(data, "matrix", lambda name, dtype: matrix.copy())
    table = paper_tables.PaperTable(
        "trial", (1.0, 0.6), {"yaleB01": {"fw-t": (30, 900), "ista": (20, 50), "fista": (10, 20)}},
        dict.fromkeys(paper_tables.METHODS, paper_tables.Tolerance(1000, None, 0.1)), repeats=3,
    )  # fmt: skip
    rows = paper_tables.run(table, ["--output", str(tmp_path / "t.json"), "--threads", "1"])
    assert [row["within"] for row in rows if row["rho"] == 1.0] == [True, True, True]
    assert next(row["within"] for row in rows if row["rho"] == 0.6) is False
    by_method = {(row["method"], row["rho"]): row for row in rows}
    assert by_method["fw-t", 1.0]["status"] == "PAPER_RULE"
    for rho in (1.0, 0.6):
        assert (
            by_method["fw-t", rho]["least"]
            <= by_method["fw-t", rho]["ours"]
            <= by_method["fw-t", rho]["most"]
        )
        assert by_method["fista", rho]["objective"] <= by_method["fw-t", rho]["objective"]
    assert "MISS" in capsys.readouterr().out


def test_rendered_scenes_have_their_longer_side_as_rows():
    tall = datasets.load("scene", seed=0, height=12, width=10, frames=30)
    wide = datasets.load("scene", seed=0, height=12, width=10, frames=150)
    assert tall.matrix.shape == (120, 30)
    assert wide.matrix.shape == (150, 120)
    assert tall.matrix.flags.c_contiguous
    assert wide.matrix.dtype == np.uint8


def test_the_slope_of_a_power_law():
    assert scaling.slope([(n, 3.0 * n**1.3) for n in (250, 500, 1000)]) == pytest.approx(1.3)


def test_peak_memory_sees_what_was_freed_again():
    with PeakMemory() as memory:
        np.ones(8_000_000).sum()
    if math.isnan(memory.before):
        pytest.skip("this system does not reset its high-water mark")
    assert 50e6 < memory.above < 120e6


@pytest.mark.realdata
def test_the_papers_matrices_have_the_papers_sizes():
    if not data.folder().exists():
        pytest.skip("RANKWOLF_DATA names no folder with the paper's data")
    assert data.matrix("yaleB01", np.uint8).shape == (32256, 65)
    assert data.matrix("escalator", np.uint8).shape == (20800, 200)
    values, mask = data.masked("yaleB02", 0.6, seed=0)
    assert mask is None
    assert np.isfinite(values).mean() == pytest.approx(0.6, abs=0.002)
