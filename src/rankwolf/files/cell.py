"""The cell: files from strangers are parsed in a child process, and only plain arrays come out of it.

HDF5, FFmpeg, Arrow and the other libraries in C may crash, hang or fill the memory over a damaged file, and no
``except`` can catch that. So they run in a process of their own, with limits of memory and processor time where the
system has them, and with nothing but a pipe to this one. A crash, a hang or an explosion there is one sentence here.

A job is a function ``job(request)`` that yields pairs (words, arrays): ``words`` is JSON, ``arrays`` a dict of NumPy
arrays without objects. Each pair is one message: a line of JSON, and the bytes of the arrays one after the other.
The child reads its request from standard input, which stays open as long as its parent lives; it ends when that does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from math import inf, prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from rankwolf.files.address import Address, RefusedError
from rankwolf.files.door import check_memory
from rankwolf.ground.arrays import Array
from rankwolf.ground.extras import missing
from rankwolf.platform import end_with_parent, limit_this_process


@dataclass(frozen=True)
class CellLimits:
    """What a child may take, beyond what its contents may: the limits are against accidents and malice, not tight.

    ``memory_factor``: a library holds the file, its own form of the contents and the array: so many times the contents.
    ``memory``: bytes for the library itself, which is imported under the limit. ``seconds`` of processor time, and
    ``seconds_per_mb`` of the file: a spreadsheet takes 5 s a MB. ``patience``: on the clock the child may be silent for
    so many times as long, because others may use the processor too. ``long``: bytes for a job that goes on
    for long, such as a video.
    """

    memory_factor: float = 3.0
    memory: int = 512 * 2**20
    seconds: float = 15.0
    seconds_per_mb: float = 10.0
    patience: float = 4.0
    long: int = 4 * 2**30


LIMITS = CellLimits()
# Array types that may come out: numbers, truth values, text, times.
KINDS = "biufcUM"
# Before the job: the child must find the same modules as this process, and nothing more.
START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from rankwolf.files.cell import child; child()"
)
ONE_THREAD = {
    **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # the others reserve gigabytes, which would count
}
Message = tuple[Any, dict[str, Array]]


class Cell:
    """A child that does ``job`` (``module:function``) with a file; ``for words, arrays in cell:`` gives its messages.

    ``most``: bytes that the arrays of one message may take; None: no limit, nor one of processor time, for what goes on
    for long, such as a video: then only silence is limited. Leaving the ``with`` block ends the child.
    """

    def __init__(
        self, job: str, request: dict[str, Any], address: Address, stored: int, most: int | None
    ) -> None:
        self._address, self._most = address, most
        self._seconds = LIMITS.seconds + LIMITS.seconds_per_mb * stored / 1e6
        self._silent, self._waiting_since = False, inf
        memory = LIMITS.long if most is None else int(LIMITS.memory_factor * most) + LIMITS.memory
        limits = [memory, None if most is None else self._seconds]
        told = {**request, "path": os.fspath(address.path), "member": address.member, "shown": address.shown}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("RANKWOLF_DEBUG") else subprocess.DEVNULL,
            env={**os.environ, **ONE_THREAD},
            pipesize=2**20,
        )
        assert self._process.stdin
        assert self._process.stdout
        self._in, self._out = self._process.stdin, self._process.stdout
        threading.Thread(target=self._watch, daemon=True).start()
        with suppress(OSError):  # it has ended already; reading will say how
            self._in.write(json.dumps({"job": job, "limits": limits, "request": told}).encode() + b"\n")
            self._in.flush()

    def __enter__(self) -> Cell:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child."""
        self._process.kill()
        for pipe in (self._in, self._out):
            with suppress(OSError):
                pipe.close()
        self._process.wait()

    def __iter__(self) -> Iterator[Message]:
        while True:
            self._waiting_since = time.monotonic()
            line = self._out.readline()
            if not line.endswith(b"\n"):
                raise self._ended()
            words = json.loads(line)
            if "arrays" not in words:
                self._waiting_since = inf
                break
            arrays = {name: self._array(*about) for name, about in words["arrays"].items()}
            self._waiting_since = inf
            yield words["words"], arrays
        if "refused" in words:
            raise RefusedError(words["refused"])
        if "missing" in words:
            raise missing(words["missing"])
        if "system" in words:
            raise OSError(*words["system"])

    def _watch(self) -> None:
        """End a child that lets somebody wait for too long; in a thread of its own."""
        while self._process.poll() is None:
            if time.monotonic() - self._waiting_since > LIMITS.patience * self._seconds:
                self._silent = True
                self._process.kill()
            time.sleep(0.5)

    def _array(self, kind: str, shape: list[int], order: Any) -> Array:
        dtype = np.dtype(kind)
        if self._most is not None:
            check_memory(self._address, prod(shape) * dtype.itemsize, self._most)
        if dtype.kind not in KINDS:
            raise self._address.bad(f"it holds {dtype}, which is no plain array.")
        flat = np.empty(prod(shape) * dtype.itemsize, np.uint8)
        view = memoryview(flat.data)
        while view:
            count = self._out.readinto(view)  # type: ignore[attr-defined]
            if not count:
                raise self._ended()
            view = view[count:]
        return flat.view(dtype).reshape(shape, order=order)

    def _ended(self) -> RefusedError:
        """What to say of a child that ended before it had said all."""
        code = self._process.wait()
        overtime = -getattr(signal, "SIGXCPU", 0)
        if self._silent or (code and code == overtime):
            return self._address.bad(
                f"reading it took more than {self._seconds:.0f} seconds; it is most likely damaged."
            )
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        if name == "SIGKILL":
            return self._address.bad("its reader was killed, most likely because the memory was full.")
        return self._address.bad(f"the library that reads it crashed ({name}): it is most likely damaged.")


def ask(job: str, request: dict[str, Any], address: Address, stored: int, most: int) -> Message:
    """The one answer of a job about a file."""
    with Cell(job, request, address, stored, most) as cell:
        return next(iter(cell))


def child() -> None:
    """Do one job; called in the child, where nothing has been read yet."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent too, which ends this process
    answers = os.fdopen(os.dup(1), "wb", buffering=2**20)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints is no answer
    told = json.loads(sys.stdin.buffer.readline())
    end_with_parent()
    request = told["request"]
    last: dict[str, Any] = {"end": True}
    address = Address(Path(request["path"]), request["member"], request["shown"])
    try:
        module, _, name = told["job"].partition(":")
        job = getattr(import_module(module), name)
        limit_this_process(*told["limits"])
        with address.reading(request.get("words", "what it should be")):
            for words, arrays in job(address, request):
                _send(answers, words, arrays)
    except RefusedError as error:
        last = {"refused": str(error)}
    except ModuleNotFoundError as error:
        last = {"missing": (error.name or "").partition(".")[0]}
    except OSError as error:
        last = {"system": [error.errno, error.strerror, error.filename]}
    except BaseException:
        traceback.print_exc()
        os._exit(70)
    answers.write(json.dumps(last).encode() + b"\n")
    answers.flush()
    os._exit(0)  # at once: threads of libraries need not be waited for


def _send(answers: IO[bytes], words: Any, arrays: dict[str, Array]) -> None:
    described, contents = {}, []
    for name, array in arrays.items():
        order = "C" if array.flags.c_contiguous or not array.flags.f_contiguous else "F"
        described[name] = (array.dtype.str, array.shape, order)
        contents.append(np.ascontiguousarray(array.T if order == "F" else array))
    answers.write(json.dumps({"words": words, "arrays": described}).encode() + b"\n")
    for content in contents:
        answers.write(content.reshape(-1).view(np.uint8).data)
    answers.flush()
