"""A scheduler and two workers in network namespaces of their own, as on three machines; a solve from a fourth.

python -m benchmarks dask_namespaces        (Linux, as root; needs iproute2)

Namespaces rw0 to rw2 hang on a bridge with addresses 10.77.0.2 to 4; the client has 10.77.0.1. Each process is started
by the commands of docs/clusters.md in a folder of its own. Everything is taken down afterwards.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from distributed import Client

import rankwolf as rw
from benchmarks.faults.dask_killed import matrix
from benchmarks.harness.options import options_of

BRIDGE, HOST, PORT = "rwbridge", "10.77.0.1", "8786"
ADDRESSES = ["10.77.0.2", "10.77.0.3", "10.77.0.4"]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def put_up() -> None:
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("addr", "add", f"{HOST}/24", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")
    for k, address in enumerate(ADDRESSES):
        ip("netns", "add", f"rw{k}")
        ip("link", "add", f"rwh{k}", "type", "veth", "peer", "name", "eth0", "netns", f"rw{k}")
        ip("link", "set", f"rwh{k}", "master", BRIDGE, "up")
        ip("-n", f"rw{k}", "addr", "add", f"{address}/24", "dev", "eth0")
        ip("-n", f"rw{k}", "link", "set", "eth0", "up")
        ip("-n", f"rw{k}", "link", "set", "lo", "up")


def take_down() -> None:
    for k in range(len(ADDRESSES)):
        subprocess.run(["ip", "netns", "del", f"rw{k}"], check=False)
    subprocess.run(["ip", "link", "del", BRIDGE], check=False)


def start(k: int, folder: Path, *words: str) -> subprocess.Popen[bytes]:
    command = ["ip", "netns", "exec", f"rw{k}", sys.executable, "-m", "dask", *words, "--no-dashboard"]
    place = folder / f"machine{k}"
    place.mkdir()
    return subprocess.Popen(command, cwd=place, stderr=(place / "log").open("wb"))


def main() -> None:
    options_of(__doc__).parse_args()
    processes: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as name:
        try:
            put_up()
            scheduler = f"tcp://{ADDRESSES[0]}:{PORT}"
            processes.append(start(0, Path(name), "scheduler", "--host", ADDRESSES[0], "--port", PORT))
            for k in (1, 2):
                words = [
                    "worker",
                    scheduler,
                    "--host",
                    ADDRESSES[k],
                    "--nthreads",
                    "1",
                    "--memory-limit",
                    "2GiB",
                ]
                processes.append(start(k, Path(name), *words, "--local-directory", f"worker-{k}"))
            X = matrix(12_000, 200, 2_000)
            with Client(scheduler, timeout=300) as client:
                client.wait_for_workers(2, timeout=300)
                print("workers:", ", ".join(sorted(client.scheduler_info()["workers"])))
                fit = rw.decompose(X, rng=0, delta=1e-2)
            here = rw.decompose(X.compute(scheduler="synchronous"), rng=0, delta=1e-2)
            difference = abs(fit.objective - here.objective) / here.objective
            print(f"objective {fit.objective:.10g}, in memory {here.objective:.10g}: off by {difference:.1e}")
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(timeout=120)
            take_down()
    raise SystemExit(0 if difference < 1e-6 else 1)


if __name__ == "__main__":
    main()
