"""The command line's frame, with ``rankwolf demo`` as the command that runs in it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import rankwolf
from rankwolf.cli import main
from rankwolf.cli.common import to_json, whole_folder

FRAMES = "24"


def rankwolf_process(*arguments: str, **settings: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rankwolf", *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        **settings,
    )  # fmt: skip


def run(*arguments: str, cwd: Path | None = None, **environment: str) -> tuple[int, str, str]:
    process = rankwolf_process(*arguments, cwd=cwd, env={**os.environ, **environment})
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> tuple[Path, int, str, str]:
    """One demo, run as a user would."""
    folder = tmp_path_factory.mktemp("demo")
    return folder / "out", *run("demo", "--frames", FRAMES, "-o", "out", cwd=folder)


def test_demo_prints_the_table_and_the_distance_and_says_where_the_results_are(demo):
    folder, code, out, err = demo
    assert (code, err) == (0, "")
    assert out.count("Iteration   Passes") == 1
    assert "Distance from the empty street" in out and "broken readings" not in err
    assert "Open out/demo.png" in out
    assert "Open out/report.html" in out and "F-measure" in out
    assert sorted(path.name for path in folder.iterdir()) == [
        "background.mp4", "background.png", "demo.png", "foreground.mp4", "mask.mp4", "mask.npz", "objects.csv",
        "report.html", "result.npz", "scene.mkv", "sensors", "summary.json",
    ]  # fmt: skip
    assert [path.name for path in folder.parent.iterdir()] == ["out"]


def test_demo_comes_close_to_the_truth(demo):
    summary = json.loads((demo[0] / "summary.json").read_text())
    errors, table = summary["distance_from_true_background"], summary["table"]
    assert summary["status"] == "GAP_REACHED"
    assert summary["relative_gap"] <= 1e-3
    assert errors["background"] < 0.5 * errors["frames"]
    assert table["found"] >= 0.9 * table["broken"] and table["false_alarms"] <= 0.005 * table["readings"]
    assert table["error_of_repair"] < 0.3 * table["error_of_medians"]


def test_demo_lists_what_was_broken_in_the_table(demo):
    lines = (demo[0] / "sensors" / "broken.csv").read_text(encoding="utf-8").splitlines()
    table = json.loads((demo[0] / "summary.json").read_text())["table"]
    assert lines[0] == "hour,sensor,read,expected,deviations"
    assert len(lines) == 1 + table["found"] + table["false_alarms"]
    assert (demo[0] / "sensors" / "sensors.png").stat().st_size > 10_000
    repaired = (demo[0] / "sensors" / "repaired.csv").read_text(encoding="utf-8")
    assert ",," not in repaired and "nan" not in repaired


def test_demo_saves_a_result_that_loads_and_a_picture(demo):
    fit = rankwolf.load(demo[0] / "result.npz")
    assert fit.low_rank.shape == (int(FRAMES), 180 * 320 * 3)
    image = pytest.importorskip("matplotlib.image").imread(demo[0] / "demo.png")
    assert image.shape[0] > 700 and image.shape[1] > 1200
    assert np.ptp(image[..., :3], axis=2).max() > 0.5  # the foreground is in colour


def test_demo_does_not_overwrite_without_force(demo):
    before = (demo[0] / "summary.json").stat().st_mtime_ns
    code, out, err = run("demo", "--frames", FRAMES, "-o", str(demo[0]))
    assert (code, out) == (2, "")
    assert err.startswith("rankwolf: error: The output ") and "--force" in err and err.count("\n") == 1
    assert (demo[0] / "summary.json").stat().st_mtime_ns == before


def test_demo_json_is_one_object_and_quiet_is_nothing(tmp_path, capfd):
    target = tmp_path / "out"
    assert main(["demo", "--frames", "5", "-o", str(target), "--json"]) == 0
    captured = capfd.readouterr()
    assert json.loads(captured.out)["output"] == str(target) and captured.err == ""
    (target / "notes.txt").write_text("mine")
    assert main(["demo", "--frames", "5", "-o", str(target), "--quiet", "--force"]) == 0
    assert capfd.readouterr() == ("", "")
    assert (target / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["demo", "--frames", "0"], "--frames must be at least 1. Got 0 instead."),
        (["demo", "--frames", "many"], "argument --frames: invalid int value: 'many'"),
        (["demo", "--fram", "3"], "unrecognized arguments: --fram 3"),
        (["demo", "-o", "no/such/folder"], "The folder 'no/such' does not exist. Make it first."),
        (["demo", "--json", "--quiet"], "not allowed with argument"),
        (["dmeo"], "invalid choice: 'dmeo'"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(arguments, words, tmp_path):
    code, out, err = run(*arguments, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert words in err and err.count("\n") == 1 and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_written_is_known_before_any_work(tmp_path):
    tmp_path.chmod(0o500)
    # Root may write anywhere but in the kernel's own folders.
    target = tmp_path / "out" if os.geteuid() else Path("/proc/out")
    code, out, err = run("demo", "-o", str(target))
    assert (code, out) == (2, "")
    assert err.startswith("rankwolf: error: Cannot use ") and err.count("\n") == 1


def test_disk_that_takes_no_more_is_one_line_and_leaves_nothing(tmp_path):
    # A limit on the size of a file stops the write in the middle, as a full disk would.
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))  # noqa: E731
    process = rankwolf_process("demo", "--frames", "5", "-q", cwd=tmp_path, preexec_fn=limit)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert "File too large" in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_missing_extra_names_what_to_install(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ModuleNotFoundError('no', name='matplotlib')")
    code, _, err = run("demo", "--frames", "5", "-q", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert code == 2
    assert err == (
        "rankwolf: error: This needs the package 'matplotlib'. Install it with: pip install 'rankwolf[report]'\n"
    )


def test_debug_variable_shows_the_traceback(tmp_path):
    code, _, err = run("demo", "--frames", "0", cwd=tmp_path, RANKWOLF_DEBUG="1")
    assert code == 1 and "Traceback" in err


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_signals_end_a_run_quickly_and_leave_nothing(number, code, word, tmp_path):
    # Python ignores SIGINT where its parent does, as test runners in the background do.
    process = rankwolf_process(
        "demo", "--frames", "800", cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if "Decomposing" in line:
            break
    time.sleep(0.5)
    sent = time.perf_counter()
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err == f"rankwolf: {word}\n"
    assert time.perf_counter() - sent < 5.0  # 2 s and one tile, with room for a busy machine
    assert list(tmp_path.iterdir()) == []


def test_reader_that_goes_away_is_no_traceback(tmp_path):
    process = rankwolf_process("demo", "--frames", "5", cwd=tmp_path)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141 and err == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--version"], f"rankwolf {rankwolf.__version__}"), (["--help"], "demo"), (["demo", "-h"], "--frames")],
)
def test_version_and_help(arguments, words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    assert words in capsys.readouterr().out


def test_help_does_not_wait_for_numerical_libraries():
    script = (
        "import sys; from rankwolf.cli.main import build_parser, find_commands; build_parser(find_commands());"
        "print([name for name in ('numpy', 'scipy', 'numba', 'rich', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_whole_folder_leaves_nothing_after_an_error(tmp_path):
    def interrupted() -> None:
        with whole_folder(tmp_path / "out", force=False) as folder:
            (folder / "half").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_whole_folder_replaces_only_its_own_names(tmp_path):
    out = tmp_path / "out"
    (out / "pictures").mkdir(parents=True)
    (out / "pictures" / "old.png").write_text("old")
    (out / "keep").write_text("keep")
    with pytest.raises(ValueError, match="exists already"), whole_folder(out, force=False):
        pass
    with whole_folder(out, force=True) as folder:
        (folder / "pictures").mkdir()
        (folder / "pictures" / "new.png").write_text("new")
        assert (out / "pictures" / "old.png").exists()  # not before the block has ended
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*")) == [
        "keep",
        "pictures",
        "pictures/new.png",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_json_has_no_nan():
    text = to_json(
        {"gap": float("nan"), "pair": (1.0, float("inf")), "inner": {"x": float("-inf")}, "ok": 0.5}
    )
    assert json.loads(text) == {"gap": None, "pair": [1.0, None], "inner": {"x": None}, "ok": 0.5}
