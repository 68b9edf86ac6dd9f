"""``rankwolf decompose``: every kind of file, names kept, nothing half-written, and its page in a browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse
import zarr

import rankwolf as rw
from rankwolf import files
from rankwolf.cli import decompose as command
from rankwolf.cli.main import main
from rankwolf.weights.noise import OUTLIER_IN_SIGMAS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NAMES = [f"sensor {k}" for k in range(12)]


def panel(m=80, n=12):
    """Rank 2, noise, 3 % outliers of +9, 10 % missing; one row that is all wrong."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((m, 2)) @ rng.standard_normal((2, n)) + 0.1 * rng.standard_normal((m, n))
    data[rng.random((m, n)) < 0.03] += 9.0
    data[17] += 40.0 * rng.choice([-1.0, 1.0], n)
    data[rng.random((m, n)) < 0.1] = np.nan
    return data


def frame():
    days = pd.date_range("2024-01-01", periods=80, name="day").strftime("%Y-%m-%d")
    return pd.DataFrame(panel(), columns=NAMES, index=days)


def write(folder, kind):
    data = panel()
    path = folder / f"data{files.kind_named(kind).endings[0]}"
    if kind == "npy":
        np.save(path, data)
    elif kind == "npz":
        np.savez(path, X=data)
    elif kind == "mat":
        scipy.io.savemat(path, {"X": data})
    elif kind == "mat73":
        files.write_rows(folder, "data", kind, data, files.LabelledMatrix(data, "npy"), lambda rows: None)
    elif kind == "parquet":
        frame().to_parquet(path)
    elif kind == "feather":
        frame().reset_index().to_feather(path)
    elif kind == "xlsx":
        frame().to_excel(path, sheet_name="Daten")
    elif kind == "hdf5":
        with h5py.File(path, "w") as file:
            file["group/X"] = data
    elif kind == "zarr":
        zarr.create_array(str(path), data=data)
    else:
        frame().to_csv(path, sep="," if kind.startswith("csv") else "\t")
    return path


def run(*arguments):
    return main(["decompose", *map(str, arguments)])


def test_the_kinds_of_the_command_are_those_of_the_files():
    assert [kind.name for kind in files.KINDS] == list(command.KINDS)


@pytest.mark.parametrize("kind", command.KINDS)
def test_each_kind_comes_back_in_kind(tmp_path, kind, capsys):
    source = write(tmp_path, kind)
    assert run(source, "-o", tmp_path / "out", "--json", "--delta", "0.02", "--threads", 1) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out)
    assert captured.err == ""
    assert summary["kind"] == summary["format"] == kind
    given = files.read_matrix(source)
    low_rank, outliers = (
        files.read_matrix(tmp_path / "out" / f"{name}{files.kind_named(kind).endings[0]}")
        for name in ("low_rank", "outliers")
    )
    for part in (low_rank, outliers):
        assert part.kind == kind
        assert part.labels == given.labels
        assert part.member == given.member or kind == "mat73"
    fit = rw.decompose(np.asarray(given.values), delta=0.02, rng=0, n_threads=1).refit()
    np.testing.assert_allclose(low_rank.values, np.asarray(fit.low_rank), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(outliers.values, np.asarray(fit.sparse), rtol=1e-9, atol=1e-9)
    assert rw.load(tmp_path / "out" / "result.npz").low_rank.rank == summary["rank"] == fit.low_rank.rank
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["rank"] == summary["rank"]
    if kind == "parquet":
        loaded = pd.read_parquet(tmp_path / "out" / "low_rank.parquet")
        pd.testing.assert_index_equal(loaded.index, pd.read_parquet(source).index)
        assert list(loaded.columns) == NAMES


def test_sparse_files_stay_sparse(tmp_path):
    rng = np.random.default_rng(0)
    data = np.outer(rng.standard_normal(90), rng.standard_normal(40)) + 0.1 * rng.standard_normal((90, 40))
    data[::7, ::5] += 6.0
    matrix = scipy.sparse.csr_array(np.where(rng.random((90, 40)) < 0.6, data, 0.0))
    scipy.sparse.save_npz(tmp_path / "ratings.npz", matrix)
    assert run(tmp_path / "ratings.npz", "-o", tmp_path / "out", "--quiet", "--report") == 0
    outliers = scipy.sparse.load_npz(tmp_path / "out" / "outliers.npz")
    assert 0 < outliers.nnz < matrix.nnz
    with np.load(tmp_path / "out" / "low_rank.npz") as factors:
        low_rank = factors["u"] * factors["s"] @ factors["vt"]
    assert low_rank.shape == (90, 40)
    assert run(tmp_path / "ratings.npz", "-o", tmp_path / "dense", "--quiet", "--format", "csv") == 0
    np.testing.assert_allclose(
        pd.read_csv(tmp_path / "dense" / "low_rank.csv", header=None).to_numpy(), low_rank, atol=1e-9
    )
    zeros = ("--implicit", "zeros", "--delta", "0.05")
    assert run(tmp_path / "ratings.npz", "-o", tmp_path / "zeros", "--quiet", *zeros) == 0
    assert json.loads((tmp_path / "zeros" / "summary.json").read_text())["observed_fraction"] == 1.0


def test_columns_of_different_units(tmp_path):
    """Scaled columns give the same outliers, in their own units."""
    scale = np.logspace(-3, 3, 12)
    offset = np.linspace(-500.0, 900.0, 12)
    frame().to_csv(tmp_path / "a.csv")
    (frame() * scale + offset).to_csv(tmp_path / "b.csv")
    options = ("--standardize", "--quiet", "--delta", "0.02", "--threads", 1)
    for name in "ab":
        assert run(tmp_path / f"{name}.csv", "-o", tmp_path / name, *options) == 0
    a, b = (
        [pd.read_csv(tmp_path / name / f"{part}.csv", index_col=0) for part in ("low_rank", "outliers")]
        for name in "ab"
    )
    # The rounds of the factor model are in single precision.
    np.testing.assert_allclose((b[0] - offset) / scale, a[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(b[1] / scale, a[1], atol=1e-3)
    plain = files.read_matrix(tmp_path / "a.csv").values
    residual = np.nan_to_num(plain - a[0].to_numpy() - a[1].to_numpy())
    limits = json.loads((tmp_path / "a" / "summary.json").read_text())
    limit = OUTLIER_IN_SIGMAS * limits["noise_scale"]
    assert np.all(np.abs(residual) <= limit * np.array(limits["scale"]) * (1 + 1e-9))


def test_a_table_with_nothing_said_is_measured_in_units_of_its_columns_noise(tmp_path, capsys):
    """Twenty planted cells in columns of 1e-5 to 1e6; a comment, a short row and the keys are each said in a line."""
    rng = np.random.default_rng(0)
    units = np.array([1.0, 1e6, 1e-5, 3.0, 10.0, 100.0])
    data = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 6)) + 0.1 * rng.standard_normal((300, 6))
    places = rng.choice(data.size, 20, replace=False)
    data.ravel()[places] += 5.0
    lines = pd.DataFrame(data * units, columns=list("abcdef")).to_csv(index=False).splitlines()
    short = next(i for i in range(9, 300) if not np.any(np.isin(6 * (i - 1) + np.arange(6), places)))
    lines[short] = lines[short].rsplit(",", 1)[0]
    (tmp_path / "x.csv").write_text("\n".join(["# from the station", *lines]) + "\n")
    assert run(tmp_path / "x.csv", "-o", tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert "Left out: 1 line above the table that began with #." in said
    assert "1 row has fewer cells than others: the rest is missing." in said
    assert "in units of its own noise" in said
    outliers = pd.read_csv(tmp_path / "out" / "outliers.csv").to_numpy() != 0
    assert outliers.ravel()[places].all() and outliers.sum() < 26
    assert run(tmp_path / "x.csv", "-o", tmp_path / "plain", "--quiet", "--no-standardize") == 0
    assert not json.loads((tmp_path / "plain" / "summary.json").read_text())["standardized"]


def test_results_are_replaced_only_when_asked(tmp_path, capsys):
    source = write(tmp_path, "csv")
    out = tmp_path / "out"
    assert run(source, "-o", out, "--quiet", "--report", "--format", "npy") == 0
    (out / "notes.txt").write_text("mine")
    assert run(source, "-o", out, "--quiet") == 2
    assert "Give --force" in capsys.readouterr().err
    assert run(source, "-o", out, "--quiet", "--force") == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "low_rank.csv", "notes.txt", "outliers.csv", "result.npz", "summary.json",
    ]  # fmt: skip
    assert capsys.readouterr().out == ""
    assert run(source, "-o", source, "--force") == 2
    assert "lies in the output" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "out"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.csv"], "No such file"),
        (["data.csv::x"], "Leave out '::x'"),
        (
            ["data.csv", "--delta", "little"],
            "--delta must be 'auto' or a positive, finite number. Got 'little' instead.",
        ),
        (
            ["data.csv", "--delta", "-1"],
            "--delta must be 'auto' or a positive, finite number. Got -1.0 instead.",
        ),
        (["data.csv", "--method", "magic"], "--method must be 'auto'"),
        (["data.csv", "--index", "nothing"], "no column 'nothing'"),
        (["data.csv", "--max-memory", "much"], "--max-memory must be a size"),
        (["data.csv", "--max-memory", "1kB"], "more than the limit of 1 kB"),
        (["infinite.csv"], "must be finite"),
        (["words.csv"], "must hold numbers"),
        (["huge.npy"], "more than it holds"),
        (["lost.zarr", "--strict"], "1 of 4 chunks are not in the Zarr store"),
        (["ratings.npz", "--standardize"], "does not go with a sparse matrix"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "csv")
    (tmp_path / "infinite.csv").write_text("a,b\n1,2\n3,inf\n")
    (tmp_path / "words.csv").write_text("a,b\n1,2\n3,four\n")
    np.save(tmp_path / "huge.npy", np.zeros((2, 2)))
    header = (tmp_path / "huge.npy").read_bytes().replace(b"(2, 2)", b"(9, 9)")
    (tmp_path / "huge.npy").write_bytes(header)
    zarr.create_array(str(tmp_path / "lost.zarr"), data=np.ones((4, 4)), chunks=(2, 2))
    next(path for path in (tmp_path / "lost.zarr" / "c").rglob("*") if path.is_file()).unlink()
    scipy.sparse.save_npz(tmp_path / "ratings.npz", scipy.sparse.eye_array(5, format="csr"))
    before = sorted(tmp_path.iterdir())
    assert run(*arguments, "-o", "out") == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_lost_chunk_is_a_warning(tmp_path, capsys):
    zarr.create_array(str(tmp_path / "lost.zarr"), data=panel(), chunks=(40, 12))
    (tmp_path / "lost.zarr" / "c" / "1" / "0").unlink()
    assert run(tmp_path / "lost.zarr", "-o", tmp_path / "out", "--json") == 0
    captured = capsys.readouterr()
    assert "1 of 2 chunks" in captured.err
    assert "1 of 2 chunks" in json.loads(captured.out)["warnings"][0]


def test_a_terminated_run_leaves_nothing(tmp_path):
    """Waits until the bar of the solver is there: by then the signal is expected."""
    np.save(tmp_path / "large.npy", np.random.default_rng(0).standard_normal((3000, 1500)))
    words = [
        "decompose",
        "large.npy",
        "-o",
        "out",
        "--lambdas",
        "1",
        "0.1",
        "--tol",
        "1e-12",
        "--method",
        "fista",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "rankwolf", *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "120"},
    )  # fmt: skip
    seen = b""
    while b"Solving" not in seen:
        part = process.stdout.read1(4096)
        assert part, seen
        seen += part
    process.terminate()
    assert b"terminated" in process.communicate(timeout=60)[0]
    assert process.returncode == 143
    assert [path.name for path in tmp_path.iterdir()] == ["large.npy"]


@pytest.mark.parametrize("kind", ["npy", "hdf5", "zarr"])
@pytest.mark.parametrize("options", [[], ["--standardize"]], ids=["plain", "standardized"])
def test_what_is_large_stays_on_the_disk(tmp_path, kind, options, monkeypatch, capsys):
    source = write(tmp_path, kind)
    words = ["--json", "--delta", "0.02", *options]
    assert run(source, "-o", tmp_path / "whole", *words) == 0
    # As if the file were larger than a quarter of the memory.
    monkeypatch.setattr("rankwolf.files.kinds.KEPT_SHARE", 0.0)
    assert run(source, "-o", tmp_path / "parts", *words, "--report") == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert second["bytes_read"] > 0
    assert first["bytes_read"] == 0 or kind == "npy", "small ones are read into memory"
    assert second["objective"] == pytest.approx(first["objective"], rel=1e-6)
    assert second["observed_fraction"] == first["observed_fraction"] < 1.0
    for name in ("low_rank", "outliers"):
        whole, parts = (
            files.read_matrix(tmp_path / folder / f"{name}{files.kind_named(kind).endings[0]}").values
            for folder in ("whole", "parts")
        )
        np.testing.assert_allclose(parts, whole, atol=1e-4)


def store(folder, rows, name="data.zarr"):
    """A chunk of 1000 rows takes 3 MB."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((rows, 5), np.float32) @ rng.standard_normal((5, 750), np.float32)
    data += 0.3 * rng.standard_normal(data.shape, np.float32)
    data[::9, ::11] += 9.0
    if name.endswith(".npy"):
        np.save(folder / name, data)
    else:
        zarr.create_array(str(folder / name), data=data, chunks=(1000, 750))
    return [sys.executable, "-m", "rankwolf", "decompose", name, "-o", "out", "--delta", "0.004", "--json"]  # fmt: skip


def test_a_store_is_solved_within_the_memory_that_was_given(tmp_path):
    """120 MB, of which a run may keep a quarter of its memory: it stays on the disk.

    The interpreter and the libraries take from 180 MB, on Python 3.11, to 250 MB, on 3.13.
    """
    words = store(tmp_path, 40_000)

    def run(memory):
        given = [*words, "--max-memory", memory]
        return subprocess.run(given, cwd=tmp_path, capture_output=True, text=True, timeout=250)

    least = int(re.search(r"at least (\d+) MB", run("1MB").stderr)[1])
    assert least < 400
    done = run(f"{least + 30}MB")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["peak_memory_bytes"] < (least + 30) * 1e6
    assert summary["relative_gap"] <= 1e-3
    assert zarr.open_array(str(tmp_path / "out" / "outliers.zarr")).shape == (40_000, 750)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_and_its_checkpoint_stays(tmp_path, number, code):
    words = [*store(tmp_path, 4000, "data.npy"), "--checkpoint", "run.checkpoint", "--checkpoint-every", "1"]
    process = subprocess.Popen([*words, "--tol", "0"], cwd=tmp_path, stderr=subprocess.PIPE)
    while not (tmp_path / "run.checkpoint").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    sent = time.monotonic()
    message = process.communicate(timeout=120)[1]
    assert process.returncode == code
    assert message.count(b"\n") == 1
    assert time.monotonic() - sent < 20.0  # two seconds and a tile, on a machine that does nothing else
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.npy", "run.checkpoint"]
    resumed = subprocess.run([*words, "--resume"], cwd=tmp_path, capture_output=True, text=True, timeout=250)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["relative_gap"] <= 1e-3


def test_the_story(tmp_path, capsys):
    assert run(write(tmp_path, "csv"), "-o", tmp_path / "out", "--report", "--drop", "sensor 3") == 0
    printed = capsys.readouterr().out
    assert re.search(
        r"80 × 11, \d+\.\d% missing: low-rank part of rank \d+, \d+ outliers beside noise of [\d.]+; certified gap",
        printed,
    )
    assert printed.rstrip().endswith("report.html")
    # The page tells the passes of the solver from those of the refit, which the line above counts together.
    (both,) = re.findall(r"after (\d+) passes, refit included", printed)
    ((solving, refitting),) = re.findall(
        r"(\d+) passes over the data, (\d+) more for the refit",
        (tmp_path / "out" / "report.html").read_text(),
    )
    assert int(solving) + int(refitting) == int(both)
    assert int(refitting) > 0


def test_the_page_in_a_browser(tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: make system-packages")
    hostile = frame().rename(columns={"sensor 0": "<script>alert(1)</script>"})
    hostile.to_csv(tmp_path / "a.csv")
    assert run(tmp_path / "a.csv", "-o", tmp_path / "out", "--report", "--quiet") == 0
    page = tmp_path / "out" / "report.html"
    with playwright.sync_playwright() as running:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = running.chromium.launch(executable_path=CHROMIUM, args=flags)
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        noise = []
        tab.on("console", lambda message: noise.append(message.text))
        tab.on("pageerror", lambda error: noise.append(str(error)))
        tab.on(
            "request",
            lambda request: noise.append(request.url) if not request.url.startswith("data:") else None,
        )
        tab.goto(page.as_uri())
        assert noise == [page.as_uri()]
        titles = tab.eval_on_selector_all("h2", "all => all.map(one => one.textContent)")
        assert titles == [
            "Where the outliers are", "The most outlying rows", "The most outlying columns", "The most outlying cells",
            "Singular values of L", "Convergence", "To repeat the run",
        ]  # fmt: skip
        first = tab.eval_on_selector(".lists table tr:nth-child(2) td", "cell => cell.textContent")
        assert first == "2024-01-18"
        box = tab.locator("svg image").bounding_box()
        assert box["width"] > 800
        assert box["height"] > 100
        browser.close()


@pytest.mark.parametrize(
    ("delta", "words"), [("1e-3", "of at most 30, so most of it is noise"), ("100", "low-rank part is zero")]
)
def test_weights_that_do_not_fit_are_said(delta, words, tmp_path, capsys):
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).standard_normal((60, 30)))
    assert run(tmp_path / "noise.npy", "-o", tmp_path / "out", "--delta", delta, "--max-seconds", 5) == 0
    assert words in capsys.readouterr().err
    assert words in json.loads((tmp_path / "out" / "summary.json").read_text())["warnings"][0]
