"""Dask clusters in trouble: killed workers, slow ones, full memory, a scheduler that is started again.

``python -m benchmarks clusters [--tries 20]``; rows of ``make chaos``.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import rankwolf as rw
from benchmarks.faults.dask_killed import matrix, solve, worker_processes
from benchmarks.faults.survival import Row, tell, tries_and_seed

AGREEMENT = 1e-10
ROWS, COLUMNS = 12_000, 200


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)


def pause(process: int, seconds: float = 2.0) -> None:
    """A worker that does nothing for a while, as one does whose machine swaps."""
    os.kill(process, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(process, signal.SIGCONT)


def disturbed_workers(name: str, harm: Callable[[int], None], tries: int, seed: int) -> Row:
    """One of three workers, at a random moment. Survived: the objective and the passes of the undisturbed run."""
    rng, good, wrong = random.Random(seed), 0, ""
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, timeout=300) as client,
    ):
        X = matrix(ROWS, COLUMNS, ROWS // 6)
        solve(X, "hybrid")  # compiled, on every worker
        started = time.perf_counter()
        calm = solve(X, "hybrid")
        seconds = time.perf_counter() - started
        for _ in range(tries):
            cluster.scale(3)
            process = rng.choice(worker_processes(client))
            timer = threading.Timer(rng.uniform(0.0, seconds), harm, (process,))
            timer.start()
            fit = solve(X, "hybrid")
            timer.join()
            right = abs(fit.objective / calm.objective - 1.0) <= AGREEMENT and fit.passes == calm.passes
            good += right
            if not right and not wrong:
                wrong = f"objective {fit.objective!r} instead of {calm.objective!r}"
    return name, tries, good, wrong


def adaptive(name: str, tries: int) -> Row:
    """A cluster that Dask itself makes larger and smaller meanwhile. Survived: the objective of a calm one."""
    good, wrong = 0, ""
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, timeout=300),
    ):
        X = matrix(ROWS, COLUMNS, ROWS // 6)
        calm = solve(X, "hybrid")
        cluster.adapt(minimum=1, maximum=3, interval="200ms", wait_count=1)
        for _ in range(tries):
            fit = solve(X, "hybrid")
            right = abs(fit.objective / calm.objective - 1.0) <= AGREEMENT
            good += right
            wrong = wrong or ("" if right else f"objective {fit.objective!r} instead of {calm.objective!r}")
    return name, tries, good, wrong


def killed_every_second(name: str, seed: int, seconds: float = 60.0) -> Row:
    """For a minute, every second one of three. Survived: the calm objective, or one error that says what to do."""
    rng, over = random.Random(seed), threading.Event()
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, timeout=300),
    ):
        X = matrix(ROWS, COLUMNS, ROWS // 6)
        calm = solve(X, "hybrid")

        def harm() -> None:
            end = time.monotonic() + seconds
            while not over.wait(1.0) and time.monotonic() < end:
                nannies = list(cluster.workers.values())
                # One that dies while it starts is given up by Dask, and no worker would be left soon.
                living = [one.pid for one in nannies if one.process and one.process.status.name == "running"]
                with suppress(ProcessLookupError, IndexError):
                    kill(rng.choice(living))

        killer = threading.Thread(target=harm, daemon=True)
        killer.start()
        tries, good, wrong, started = 0, 0, "", time.monotonic()
        while time.monotonic() < started + seconds or not tries:
            tries += 1
            try:
                fit = solve(X, "hybrid")
                right = abs(fit.objective / calm.objective - 1.0) <= AGREEMENT
                said = f"objective {fit.objective!r} instead of {calm.objective!r}"
            except RuntimeError as error:
                right, said = "worker" in str(error), str(error)
            good += right
            wrong = wrong or ("" if right else said)
        over.set()
        killer.join()
    return name, tries, good, wrong


def allocating(block_info: Any = None) -> Any:
    """A block whose making takes 400 times the memory that it has in the end."""
    (first, last), (_, columns) = block_info[None]["array-location"]
    return np.ones((last - first, 400 * columns), np.float32)[:, :columns].copy()


def full_memory(name: str, tries: int) -> Row:
    """Survived: one error within 100 s that says that memory is short."""
    good, wrong = 0, ""
    settings = {"distributed.scheduler.allowed-failures": 0}
    for _ in range(tries):
        with (
            dask.config.set(settings),
            LocalCluster(
                n_workers=1, threads_per_worker=1, dashboard_address=":0", memory_limit="300MiB"
            ) as cluster,
            Client(cluster, timeout=300),
        ):
            X = da.map_blocks(
                allocating,
                chunks=((4000, 4000), (1000,)),
                dtype=np.float32,
                meta=np.empty((0, 0), np.float32),
            )
            started = time.monotonic()
            try:
                rw.decompose(X, rng=0, method="fw-t", lambdas=(10.0, 0.1), max_iter=3)
                said = "nothing"
            except (RuntimeError, MemoryError) as error:
                said = str(error)
            seconds = time.monotonic() - started
            right = "memory" in said and seconds < 100.0
            good += right
            if not right and not wrong:
                wrong = f"{said} after {seconds:.0f} s"
    return name, tries, good, wrong


@contextmanager
def started_cluster(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler and two workers as processes; the scheduler is given."""
    words, quiet = (
        [sys.executable, "-m", "dask"],
        dict[str, Any](stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
    )
    # They must find this very module, as a cluster must have the package that it works for.
    quiet["env"] = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    scheduler = [*words, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    worker = [*words, "worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    with ExitStack() as stack, tempfile.TemporaryDirectory() as place:
        processes = []
        for command in (scheduler, worker, worker):
            process = stack.enter_context(subprocess.Popen(command, cwd=place, **quiet))
            stack.callback(process.kill)
            processes.append(process)
        yield processes[0]


def restarted_scheduler(name: str, tries: int, seed: int) -> Row:
    """The scheduler is killed after some iterations, and another started at the same address.

    Survived: one error that says so, and a resumed run with the objective of the undisturbed one.
    """
    rng, good, wrong = random.Random(seed), 0, ""
    X = matrix(ROWS, COLUMNS, ROWS // 4)
    options: dict[str, Any] = {"rng": 0, "delta": 3e-3, "tol": 0.0, "max_iter": 12}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    with started_cluster(port), Client(address, timeout=300) as client:
        client.wait_for_workers(2, timeout=300)
        calm = rw.decompose(X, **options)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(tries):
            kept: dict[str, Any] = {"checkpoint": Path(folder) / str(number), "checkpoint_every": 1}
            last, said = rng.randint(1, 10), "nothing"
            with started_cluster(port) as scheduler, Client(address, timeout=300) as client:
                client.wait_for_workers(2, timeout=300)

                def stop(record: Any, last: int = last, scheduler: Any = scheduler) -> None:
                    if record.iteration == last:
                        scheduler.kill()

                try:
                    rw.decompose(X, callback=stop, **options, **kept)
                except RuntimeError as error:
                    said = str(error)
            with started_cluster(port), Client(address, timeout=300) as client:
                client.wait_for_workers(2, timeout=300)
                fit = rw.decompose(X, resume=True, **options, **kept)
            right = "scheduler is gone" in said and abs(fit.objective / calm.objective - 1.0) <= AGREEMENT
            good += right
            if not right and not wrong:
                wrong = f"{said}; objective {fit.objective!r} instead of {calm.objective!r}"
    return name, tries, good, wrong


def survive(tries: int, seed: int) -> Iterator[Row]:
    """(row, tries, survivals, what went wrong first)."""
    rows: list[Callable[[], Row]] = [
        partial(disturbed_workers, "Dask worker killed", kill, tries, seed),
        partial(disturbed_workers, "Dask worker stopped for 2 s", pause, tries, seed),
        partial(killed_every_second, "Dask worker killed every second for a minute", seed),
        partial(adaptive, "Dask cluster that adapts", tries),
        partial(restarted_scheduler, "Dask scheduler killed, run resumed on another", tries, seed),
        partial(full_memory, "Dask worker out of memory", tries),
    ]
    for row in rows:
        yield row()


def main() -> None:
    options = tries_and_seed(__doc__)
    # What Dask says about its own dying processes is expected here.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    tell(survive(options.tries, options.seed))


if __name__ == "__main__":
    main()
