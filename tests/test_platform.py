"""What must hold on every system, with the POSIX modules there or hidden."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rankwolf
from rankwolf import platform

ROOT = Path(rankwolf.__file__).parent
# Modules and functions that one of the three systems lacks.
FOREIGN = {"fcntl", "resource", "msvcrt", "pwd", "grp", "termios", "winreg", "ctypes"}
LACKING = {
    "fork", "wait4", "waitpid", "killpg", "setsid", "geteuid", "getuid", "register_at_fork", "sched_getaffinity",
    "posix_fallocate", "pwrite", "pread", "mkfifo", "sysconf", "SIGKILL", "SIGHUP", "SIGBUS", "SIGUSR1",
    "pthread_sigmask", "setitimer", "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK",
}  # fmt: skip


def test_nobody_else_asks_for_what_a_system_lacks():
    for path in ROOT.rglob("*.py"):
        if path == ROOT / "platform.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not FOREIGN & {name.partition(".")[0] for name in names}, f"{path}: {names}"
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert not (node.value.id in ("os", "signal") and node.attr in LACKING), (
                    f"{path}: {node.attr}"
                )
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not node.value.startswith("/proc"), path


def test_memory_is_plausible():
    if sys.modules.get("resource") is not None:  # else this is a system that says nothing
        assert 2**20 < platform.resident_memory() <= platform.peak_memory() < 2**50
    assert 0 < platform.available_memory() < platform.free_memory()


def test_a_lock_is_held_against_other_processes_and_ends_with_its_file(tmp_path):
    if platform.fcntl is None and sys.platform != "win32":
        pytest.skip("this is Linux without its locks: no system")
    path = tmp_path / "lock"
    ask = f"from rankwolf import platform; print(platform.lock(open({str(path)!r}, 'r+b')))"

    def other():
        done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    with path.open("wb") as file:
        assert platform.lock(file)
        assert other() == "False"
    assert other() == "True"


def test_room_for_a_file_never_cuts_it(tmp_path, monkeypatch):
    """Before: every HDF5 file that was written on Windows or macOS lost its end."""
    monkeypatch.delattr(platform.os, "posix_fallocate", raising=False)
    for before, wanted in ((100, 60), (60, 100)):
        with (tmp_path / "a").open("wb") as file:
            file.write(bytes(before))
            file.flush()
            platform.reserve(file, wanted)
        assert (tmp_path / "a").stat().st_size == 100


BLAS = """
import numpy, scipy.linalg
from rankwolf.ground.blas import one_blas_thread, _libraries
for library in _libraries():
    library.set_num_threads(2)  # as a fresh process on two cores
with one_blas_thread():
    pass
for library in _libraries():
    library.set_num_threads(1)  # what OpenBLAS may still say to whoever enters at once
with one_blas_thread():
    pass
print(*{library.get_num_threads() for library in _libraries()})
"""


def test_a_number_of_threads_that_was_just_restored_is_not_taken_for_one():
    """Before: after 24 calls in 8 threads of a fresh process, BLAS kept one thread for good."""
    done = subprocess.run([sys.executable, "-c", BLAS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2"]
