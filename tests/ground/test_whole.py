"""Files that appear whole or not at all: names nobody can guess, leftovers of the dead, several who write one name."""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

import rankwolf as rw
from rankwolf import platform
from rankwolf.ground.whole import PREFIX, SUFFIX, remove_leftovers, replace, whole

FIT = rw.decompose(np.outer(np.arange(30.0), np.arange(20.0)) + np.eye(30, 20), rng=0)


def test_several_threads_save_to_one_name(tmp_path):
    """Before, most of them failed: they shared one temporary name."""
    errors, start = [], threading.Barrier(4)

    def save():
        start.wait()
        try:
            FIT.save(tmp_path / "fit.npz")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=save) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert os.listdir(tmp_path) == ["fit.npz"]
    assert rw.load(tmp_path / "fit.npz").objective == FIT.objective


def test_a_leftover_of_the_same_process_number_is_in_nobodys_way(tmp_path):
    """In containers, numbers come again: before, the next run with the same one failed."""
    (tmp_path / f".fit.npz.{os.getpid()}.part").touch()
    FIT.save(tmp_path / "fit.npz")
    assert rw.load(tmp_path / "fit.npz").objective == FIT.objective


def test_a_planted_link_leads_nowhere(tmp_path, monkeypatch):
    """Even one whose name was guessed: the folder is made, not found."""
    zarr = pytest.importorskip("zarr")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    guessed = "00" * 8
    monkeypatch.setattr(os, "urandom", bytes)  # zeros: somebody knew what the system would draw
    (tmp_path / f"{PREFIX}{guessed}{SUFFIX}").symlink_to(elsewhere)
    with pytest.raises(OSError, match="out"):
        FIT.sparse.to_zarr(tmp_path / "out.zarr")
    monkeypatch.undo()
    FIT.sparse.to_zarr(tmp_path / "out.zarr")
    assert os.listdir(elsewhere) == []
    np.testing.assert_allclose(zarr.open_array(str(tmp_path / "out.zarr"))[...], np.asarray(FIT.sparse))


KILLED = """
import os, signal, sys, time
from rankwolf.ground.whole import whole
with whole(sys.argv[1]) as temporary:
    temporary.write_text("half of it")
    print(temporary.parent.name, flush=True)
    time.sleep(60.0)
"""


@pytest.mark.skipif(
    platform.fcntl is None and sys.platform != "win32", reason="Linux without its locks is no system"
)
def test_leftovers_of_the_dead_are_removed_and_those_of_the_living_are_not(tmp_path):
    words = [sys.executable, "-c", KILLED, str(tmp_path / "out")]
    dead, living = (subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2))
    try:
        names = [process.stdout.readline().strip() for process in (dead, living)]
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert set(os.listdir(tmp_path)) == set(names)
        with whole(tmp_path / "out") as temporary:
            temporary.write_text("all of it")
        assert set(os.listdir(tmp_path)) == {"out", names[1]}
    finally:
        for process in (dead, living):
            process.kill()
            process.wait()
            process.stdout.close()
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_of_one_that_died_before_it_was_locked(tmp_path):
    """One that was made a moment ago is somebody's."""
    old, young = (tmp_path / f"{PREFIX}{name}{SUFFIX}" for name in ("old", "young"))
    for folder in (old, young):
        folder.mkdir()
    os.utime(old, (0, 0))
    remove_leftovers(tmp_path)
    assert [folder.exists() for folder in (old, young)] == [False, True]


def test_a_leftover_that_is_a_link_or_a_file_stays(tmp_path):
    target = tmp_path / "precious"
    target.mkdir()
    (target / "file").touch()
    (tmp_path / f"{PREFIX}1{SUFFIX}").symlink_to(target)
    (tmp_path / f"{PREFIX}2{SUFFIX}").touch()
    remove_leftovers(tmp_path)
    assert (target / "file").exists()
    assert len(os.listdir(tmp_path)) == 3


def unknown_library(*arguments, **options):
    raise OSError("no such library")


@pytest.mark.parametrize("at_once", [True, False])
def test_a_folder_takes_the_place_of_a_folder(tmp_path, monkeypatch, at_once):
    if not at_once:  # a system without renameat2: its C library does not load
        monkeypatch.setattr(ctypes, "CDLL", unknown_library)
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
        (folder / folder.name).touch()
    old.chmod(0o750)
    replace(new, old)
    assert os.listdir(old) == ["new"]
    assert stat.S_IMODE(old.stat().st_mode) == 0o750
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".old")]


def test_a_long_name_is_no_trouble(tmp_path):
    name = "x" * 250
    with whole(tmp_path / name) as temporary:
        temporary.touch()
    assert os.listdir(tmp_path) == [name]
    with pytest.raises(OSError, match=r"x{250}") as caught, whole(tmp_path / ("x" * 300)) as temporary:
        temporary.touch()
    assert caught.value.filename == str(tmp_path / ("x" * 300))


def test_an_error_inside_names_what_the_user_named(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, whole(tmp_path / "out") as temporary:
        (temporary / "inner").touch()
    assert caught.value.filename == str(tmp_path / "out" / "inner")
    with pytest.raises(FileNotFoundError) as caught, whole(tmp_path / "nowhere" / "out"):
        pass
    assert caught.value.filename == str(tmp_path / "nowhere" / "out")
