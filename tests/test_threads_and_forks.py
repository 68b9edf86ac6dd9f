"""Several threads, forked processes, results that are kept: nothing of the process changes for good, nothing hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

import rankwolf as rw
from rankwolf.ground.counted import Counted
from rankwolf.ground.once import computed_once

NOISE = np.random.default_rng(0).standard_normal((60, 40))


def run(script, **environment):
    """A script in a process of its own; what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=240,
        env={**os.environ, **environment}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_overlapping_users_of_a_setting_leave_it_as_it_was():
    """The order that went wrong: A in, B in, A out, B out."""
    value = [2]

    @contextmanager
    def one():
        before, value[0] = value[0], 1
        yield
        value[0] = before

    setting = Counted(one)
    first, second = setting(), setting()
    for step in (first.__enter__, second.__enter__):
        step()
        assert value == [1]
    first.__exit__(None, None, None)
    assert value == [1]
    second.__exit__(None, None, None)
    assert value == [2]


THREADS = """
import numpy as np, scipy.linalg, threadpoolctl, rankwolf as rw
from concurrent.futures import ThreadPoolExecutor
def threads():
    return {library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}
def solve(k):
    X = np.random.default_rng(k).standard_normal((60 + 7 * k, 40))
    if k % 3:
        rw.decompose(X, rng=0, max_iter=20)
    else:
        rw.recover(X.ravel(), rw.sensing.Entries(np.ones(X.shape, bool)), delta=1e-2, max_iter=5)
with threadpoolctl.threadpool_limits(2):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(solve, range(24)))
    print(*threads())
"""


def test_calls_in_threads_leave_blas_its_threads():
    """Before: one thread for good, after 24 calls in 8 threads."""
    assert run(THREADS) == ["2"]


FIRST_NAMES = """
import threading, rankwolf as rw
names = "decompose", "recover", "path", "RobustPCA", "select_delta", "video", "solvers", "sensing"
gate, found = threading.Barrier(len(names)), []
def ask(name):
    gate.wait()
    found.append(getattr(rw, name).__name__.split(".")[-1])
threads = [threading.Thread(target=ask, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*sorted(found))
"""


def test_threads_may_ask_for_their_first_names_at_once():
    """Before: "deadlock detected by _ModuleLock('numba.core.errors')" in one of them, five times of six."""
    names = ["decompose", "recover", "path", "RobustPCA", "select_delta", "video", "solvers", "sensing"]
    assert run(FIRST_NAMES) == sorted(names)


FORKS = """
import os, threading, time, numpy as np, rankwolf as rw
X = np.random.default_rng(0).standard_normal((60, 40))
rw.decompose(X, rng=0, max_iter=3)
over = threading.Event()
def work():
    while not over.is_set():
        rw.decompose(X, rng=0, max_iter=3)
thread = threading.Thread(target=work)
thread.start()
hung = 0
for number in range(60):
    time.sleep(0.003 * (number % 7))
    child = os.fork()
    if child == 0:
        rw.decompose(X, rng=0, max_iter=3)
        os._exit(0)
    deadline = time.monotonic() + 45.0
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            hung += 1
            break
        time.sleep(0.01)
    if hung:
        break
over.set()
thread.join()
print(hung)
"""


def test_a_child_that_is_forked_during_a_call_does_not_hang():
    """Before: 2 to 5 of 60 waited for the lock of functools.cached_property."""
    assert run(FORKS, OPENBLAS_NUM_THREADS="1") == ["0"]


@pytest.mark.filterwarnings("ignore:.*fork")
def test_in_a_forked_child_only_the_forking_thread_counts():
    entered, leave, value = threading.Event(), threading.Event(), ["free"]

    @contextmanager
    def limited():
        value[0] = "limited"
        yield
        value[0] = "free"

    setting = Counted(limited)

    def work():
        with setting():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        with setting():
            inside = value[0]
        os._exit(0 if (inside, value[0]) == ("limited", "free") else 1)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert value == ["free"]


def test_a_property_is_computed_once():
    class Thing:
        count = 0

        @computed_once
        def value(self):
            """A number."""
            self.count += 1
            return self.count

    thing = Thing()
    assert (thing.value, thing.value, thing.count) == (1, 1, 1)
    assert Thing.value.__doc__ == "A number."


@pytest.mark.doubts("iteration limit")
@pytest.mark.parametrize("kind", ["in memory", "on disk"])
def test_kept_results_keep_no_threads(kind, tmp_path):
    """Before: ten results with 32 threads held 241 of them."""
    rng = np.random.default_rng(0)
    X = (rng.random((4000, 8)) @ rng.random((8, 300)) + 0.1 * rng.random((4000, 300))).astype(np.float32)
    if kind == "on disk":
        np.save(tmp_path / "x.npy", X)
        X = np.load(tmp_path / "x.npy", mmap_mode="r")
    before, kept = threading.active_count(), []
    for number in range(3):
        kept.append(rw.decompose(X, rng=0, max_iter=2, n_threads=8))
        kept[-1].sparse.to_npy(tmp_path / f"{number}.npy")
    deadline = time.monotonic() + 10.0
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert threading.active_count() == before
    assert [fit.sparse[:2].shape for fit in kept] == [(2, 300)] * 3
