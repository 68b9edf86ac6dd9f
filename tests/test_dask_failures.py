"""Dask when it fails: a worker, all of them, the memory, the scheduler. Time is lost, or there is one clear error."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from test_on_dask import as_dask, scene, settings  # skips where Dask is not installed

import rankwolf as rw
from rankwolf.data.on_dask import workers

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")


@pytest.mark.doubts("most of it is noise", "iteration limit")
def test_a_killed_worker_costs_time_and_not_the_result():
    """One for each method, of four: a nanny that is slow to start another does not matter."""
    X = as_dask(scene())
    with (
        distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster, timeout=120) as client,
    ):
        for method in ("hybrid", "fw-t", "fista"):
            options = settings(method) | {"tol": 0.0, "max_iter": 9}
            calm = rw.decompose(X, **options)
            killed = []

            def kill(record, killed=killed):
                if record.iteration == 5:
                    killed.extend(list(client.run(os.getpid).values())[:1])
                    threading.Timer(0.03, os.kill, (killed[0], signal.SIGKILL)).start()

            fit = rw.decompose(X, callback=kill, **options)
            assert killed
            assert fit.objective == pytest.approx(calm.objective, rel=1e-10)
            assert fit.passes == calm.passes


def test_no_workers_left_is_one_error(monkeypatch):
    monkeypatch.setattr(workers, "WITHOUT_WORKERS", 1.0)  # a minute is long for a test
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster, timeout=120) as client,
    ):

        async def remove(dask_scheduler):
            for address in list(dask_scheduler.workers):
                await dask_scheduler.remove_worker(address, stimulus_id="test")

        def leave(record):
            client.run_on_scheduler(remove)

        with pytest.raises(RuntimeError, match="Every Dask worker is gone"):
            rw.decompose(as_dask(scene()), rng=0, tol=0.0, max_iter=20, callback=leave)
        with pytest.raises(RuntimeError, match="No Dask worker came within 1 seconds"):
            rw.decompose(as_dask(scene()), rng=0)  # once an error of Dask's own


def allocating(block_info=None, *, most):
    """A block whose making takes far more memory than it has in the end."""
    (first, last), (_, columns) = block_info[None]["array-location"]
    return np.ones((last - first, most * columns), np.float32)[:, :columns].copy()


@pytest.mark.parametrize("most", [400, 1], ids=["a block", "the rows"])
def test_memory_that_runs_out_is_one_error(most, monkeypatch):
    """A limit that a nanny keeps is passed while a block is made, or when the residual is beside it."""
    # A worker dies in each attempt, and the system takes its time to make another.
    monkeypatch.setattr(workers, "WITHOUT_WORKERS", 20.0)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", memory_limit="300MiB"
        ) as cluster,
        distributed.Client(cluster, timeout=120),
    ):
        heights = (4000,) * 2 if most > 1 else (7000,) * 6
        X = da.map_blocks(allocating, most=most, chunks=(heights, (1000,)), dtype=np.float32,
                          meta=np.empty((0, 0), np.float32))  # fmt: skip
        started = time.monotonic()
        with pytest.raises(RuntimeError, match="memory"):
            rw.decompose(X, rng=0, method="fw-t", lambdas=(10.0, 0.1), max_iter=3)
        assert time.monotonic() - started < 100.0


def test_a_lost_scheduler_is_one_error(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    quiet = {"cwd": tmp_path, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask_command, host, port = [sys.executable, "-m", "dask"], *address.split(":")
    scheduler = subprocess.Popen(
        [*dask_command, "scheduler", "--host", host, "--port", port, "--no-dashboard"], **quiet
    )
    worker = subprocess.Popen(
        [*dask_command, "worker", f"tcp://{address}", "--nthreads", "1", "--no-nanny", "--no-dashboard"],
        **quiet,
    )
    try:
        with distributed.Client(f"tcp://{address}", timeout=120) as client:
            client.wait_for_workers(1, timeout=120)
            killed = []

            def kill(record):
                if record.iteration == 2:
                    scheduler.kill()
                    killed.append(time.monotonic())

            with pytest.raises(RuntimeError, match="scheduler is gone"):
                rw.decompose(as_dask(scene()), rng=0, tol=0.0, max_iter=50, callback=kill)
            assert time.monotonic() - killed[0] < 60.0
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait(timeout=60)


def test_a_worker_of_another_version_is_named():
    """Before, its tasks ended one worker after the other, and the run said that memory was short."""
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster, timeout=120) as client,
    ):
        client.run = lambda *words, **settings: {"tcp://1.2.3.4:5": "0.9.9"}  # what an old worker answers
        said = rf"this version of Rankwolf, {rw.__version__}\. The worker tcp://1\.2\.3\.4:5 has 0\.9\.9\."
        with pytest.raises(RuntimeError, match=said):
            rw.decompose(as_dask(scene()), rng=0, max_iter=1)


def test_a_worker_without_the_package_is_named():
    class Client:
        def run(self, *words, **settings):
            return {"tcp://1.2.3.4:5": ModuleNotFoundError("No module named 'rankwolf'")}

    with pytest.raises(RuntimeError, match=r"tcp://1.2.3.4:5 has none \(No module named"):
        workers.check_versions(Client())


@pytest.mark.doubts("iteration limit")
def test_tls_between_the_processes_changes_nothing():
    pytest.importorskip("cryptography")
    X, options = scene(), {"rng": 0, "delta": 1e-2, "max_iter": 4}
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            dashboard_address=":0",
            security=True,
            processes=False,
            protocol="tls",
        ) as cluster,
        distributed.Client(cluster, timeout=120),
    ):
        assert cluster.scheduler_address.startswith("tls://")
        fit = rw.decompose(as_dask(X), **options)
    assert fit.objective == pytest.approx(rw.decompose(X, **options).objective, rel=1e-10)
