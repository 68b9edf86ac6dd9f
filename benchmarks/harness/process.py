"""One measurement, one fresh process: pinned threads, nothing left over from the run before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.harness import machine
from benchmarks.harness.results import Row

_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def call(target: str, arguments: Row, *, threads: int, hard_limit: float) -> Row:
    """The row that ``module:function`` returns for ``arguments``; a crash or a time-out is a row with ``failure``."""
    environment = {**os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(threads))}
    load = machine.load()
    with tempfile.TemporaryDirectory(prefix="rankwolf-bench-") as folder:
        answer = Path(folder) / "answer.json"
        request = json.dumps({"target": target, "arguments": arguments, "answer": str(answer)})
        try:
            done = subprocess.run(
                (sys.executable, "-m", "benchmarks.harness.process"),
                input=request, capture_output=True, text=True, timeout=hard_limit, env=environment, cwd=machine.ROOT,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"failure": f"no answer within {hard_limit:.0f} s", "load_before": load}
        if answer.exists():
            return {**json.loads(answer.read_text()), "load_before": load}
    last = done.stderr.strip().splitlines()[-1:] or ["no message"]
    return {"failure": f"exit code {done.returncode}: {last[0][:200]}", "load_before": load}


def _answer(request: Row) -> None:
    module, function = request["target"].split(":")
    result: Any = getattr(import_module(module), function)(**request["arguments"])
    Path(request["answer"]).write_text(json.dumps(result))


if __name__ == "__main__":
    _answer(json.load(sys.stdin))
