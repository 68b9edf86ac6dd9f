"""Signals at the worst moments: Ctrl-C stays Ctrl-C, whatever library it met in the middle."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
import threading
import time
import zipfile

import numpy as np
import pytest

import rankwolf as rw
from rankwolf import storing
from rankwolf.cli import main
from rankwolf.cli.main import Signals

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


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # words of a half-made ZipFile
@pytest.mark.parametrize("first", range(1, 8))
def test_an_interrupt_within_a_save_is_an_interrupt(first, tmp_path):
    """Before, one line of nine gave a ValueError about an open writing handle."""
    path = tmp_path / "run.checkpoint"
    for line in range(first, 700, 7):
        path.unlink(missing_ok=True)
        with pytest.raises(KeyboardInterrupt), Disturbed(zipfile, signal.SIGINT, line):
            rw.decompose(NOISE, lambdas=(2.0, 0.5), tol=1e-9, max_iter=2, checkpoint=path, checkpoint_every=1)
        assert [file.name for file in tmp_path.iterdir()] in ([], ["run.checkpoint"])


def test_a_folder_is_the_old_one_or_the_new_one(tmp_path):
    lines = range(1, 60)
    for line in lines:
        target = tmp_path / str(line)
        target.mkdir()
        (target / "old").touch()
        with (
            contextlib.suppress(KeyboardInterrupt),
            Disturbed(storing, signal.SIGINT, line),
            storing.whole(target) as new,
        ):
            new.mkdir()
            (new / "new").touch()
    found = [[file.name for file in (tmp_path / str(line)).iterdir()] for line in lines]
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
    for line in range(1, 1500, 37):
        path = tmp_path / f"{line}.checkpoint"
        with Disturbed(zipfile, number, line):
            code = main([*map(str, words), "--checkpoint", str(path), "--checkpoint-every", "1"])
        assert (code, capfd.readouterr().err) == (128 + number, f"rankwolf: {word}\n")
    assert not (tmp_path / "out").exists()


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


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Signals() as signals:
            signal.raise_signal(signal.SIGINT)
        assert signals.received is None
    finally:
        signal.signal(signal.SIGINT, before)
