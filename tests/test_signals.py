"""Signals at the worst moments: Ctrl-C stays Ctrl-C, whatever library it met in the middle."""

from __future__ import annotations

import contextlib
import gc
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pytest

import rankwolf as rw
from rankwolf.cli import main
from rankwolf.cli.main import Signals
from rankwolf.ground import whole as storing

pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals belong to the main thread"
)

NOISE = np.random.default_rng(0).standard_normal((40, 6))


class Disturbed:
    """Sends this process a signal just before the ``line``-th line that ``module`` runs in the block."""

    def __init__(self, module, number, line):
        self.file, self.number, self.left, self.before = module.__file__, number, line, sys.gettrace()

    def __enter__(self):
        gc.disable()  # finalisers drop what they raise, in any library: see below
        sys.settrace(self.call)

    def __exit__(self, *error):
        sys.settrace(self.before)
        gc.enable()

    def call(self, frame, event, argument):
        finaliser = "__del__" in (frame.f_code.co_name, frame.f_back.f_code.co_name)
        return self.line if frame.f_code.co_filename == self.file and not finaliser else None

    def line(self, frame, event, argument):
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(self.number)
        return self.line


def lines_of(module, work):
    """How many lines ``module`` runs, the second time; things are imported in the first."""
    work()
    counted = Disturbed(module, signal.SIGINT, 0)
    with counted:
        work()
    return -counted.left


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize("first", range(1, 8))
def test_an_interrupt_within_a_save_is_an_interrupt(first, tmp_path, monkeypatch):
    """Before, one line of nine gave a ValueError about an open writing handle."""
    said = []
    # Python tells of errors in finalisers nowhere else.
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: said.append(str(lost.exc_value)))
    path = tmp_path / "run.checkpoint"

    def work():
        path.unlink(missing_ok=True)
        rw.decompose(NOISE, lambdas=(2.0, 0.5), tol=1e-9, max_iter=2, checkpoint=path, checkpoint_every=1)

    for line in range(first, lines_of(zipfile, work), 61):
        with pytest.raises(KeyboardInterrupt), Disturbed(zipfile, signal.SIGINT, line):
            work()
        assert [file.name for file in tmp_path.iterdir()] in ([], ["run.checkpoint"])
    assert not [words for words in said if "writing handle" in words]


# What the signal stops may be shutil.rmtree, whose iterator Python 3.13 then misses.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_folder_is_the_old_one_or_the_new_one(tmp_path):
    lines = range(1, 150)
    for line in lines:
        # Each in a folder of its own: what an interrupted one leaves there is looked at by the next, line by line.
        target = tmp_path / str(line) / "target"
        target.mkdir(parents=True)
        (target / "old").touch()
        with (
            contextlib.suppress(KeyboardInterrupt),
            Disturbed(storing, signal.SIGINT, line),
            storing.whole(target) as new,
        ):
            new.mkdir()
            (new / "new").touch()
    found = [[file.name for file in (tmp_path / str(line) / "target").iterdir()] for line in lines]
    assert (
        ["old"] in found
        and ["new"] in found
        and [names for names in found if names not in (["old"], ["new"])] == []
    )


@pytest.mark.parametrize(("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
def test_a_command_ends_with_the_signals_code(number, word, tmp_path, capfd):
    np.save(tmp_path / "x.npy", NOISE)
    words = [
        "decompose",
        tmp_path / "x.npy",
        "-o",
        tmp_path / "out",
        "--lambdas",
        2,
        0.5,
        "--tol",
        1e-9,
        "--quiet",
    ]

    def work(name="undisturbed"):
        path = tmp_path / f"{name}.checkpoint"
        path.unlink(missing_ok=True)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        return main([*map(str, words), "--checkpoint", str(path), "--checkpoint-every", "1"])

    count = lines_of(zipfile, work)
    for line in range(1, count, count // 40):
        with Disturbed(zipfile, number, line):
            code = work(line)
        assert (code, capfd.readouterr().err) == (128 + number, f"rankwolf: {word}\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_library_may_answer_with_any_error(number, monkeypatch, capfd):
    def run(arguments):
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt as error:
            raise RuntimeError("cannot close") from error

    # A command that answers a signal as some libraries do, but not when a test asks for it.
    monkeypatch.setattr("rankwolf.cli.score.run", run)
    assert main(["score", "a", "--truth", "b"]) == 128 + number
    assert capfd.readouterr().err.count("\n") == 1


def test_a_second_signal_leaves_time_for_cleaning():
    cleaned = False

    def work():
        nonlocal cleaned
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGTERM)
            cleaned = True

    with Signals() as signals, pytest.raises(KeyboardInterrupt):
        work()
    assert cleaned and signals.received is signal.SIGINT


FROM_A_STRING = """
import signal, sys
import rankwolf.cli
frame = sys.modules["rankwolf.cli.main"]
frame.find_commands = lambda: exec("signal.raise_signal(signal.SIGTERM)")
sys.exit(frame.main(["--version"]))
"""


def test_the_exit_code_is_that_of_the_signal_within_exec(tmp_path):
    """Python kills itself by SIGINT after a plain KeyboardInterrupt from a string that was run."""
    (tmp_path / "inside.py").write_text(FROM_A_STRING)
    done = subprocess.run([sys.executable, "-m", "inside"], cwd=tmp_path, check=False, capture_output=True)
    assert done.returncode == 143


def test_an_interrupt_that_a_finaliser_drops_comes_again():
    class Dropping:
        def __del__(self):
            signal.raise_signal(signal.SIGTERM)

    def drop_and_work():
        Dropping()
        time.sleep(10.0)

    started = time.monotonic()
    with Signals() as signals, pytest.raises(KeyboardInterrupt):
        drop_and_work()
    assert time.monotonic() - started < 5.0
    assert signals.received is signal.SIGTERM


def test_nothing_comes_after_the_block():
    class Dropping:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    before, hook = signal.getsignal(signal.SIGINT), sys.unraisablehook
    with Signals():
        (lambda: Dropping() and None)()
    time.sleep(0.2)
    assert signal.getsignal(signal.SIGINT) is before and sys.unraisablehook is hook


def test_other_threads_leave_the_hook_alone():
    hook, entered, leave = sys.unraisablehook, threading.Event(), threading.Event()

    def work():
        with Signals():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=work)
    with Signals():
        thread.start()
        entered.wait()
    leave.set()
    thread.join()
    assert sys.unraisablehook is hook


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Signals() as signals:
            signal.raise_signal(signal.SIGINT)
        assert signals.received is None
    finally:
        signal.signal(signal.SIGINT, before)
