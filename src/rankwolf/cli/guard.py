"""The process around a command: a crash in somebody else's native code is one line and exit code 2.

Files from strangers are parsed by HDF5, FFmpeg, Arrow and other libraries in C, and a damaged one may end the process
by SIGSEGV, SIGBUS or SIGABRT, which no ``except`` can catch. So the command runs in a child that is forked before
anything heavy is imported: some 20 ms and 6 MB (``python -m benchmarks guard_cost``). The parent waits and hands on
signals. Where the child ends badly, the parent removes its unfinished files, and reports a crash. Help and the version
read no file, and are printed without a child.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from rankwolf.cli.main import BAD_INPUT, INTERRUPTED, TERMINATED, build_parser, complain, find_commands, main
from rankwolf.ground.deadline import some_go_on
from rankwolf.ground.whole import remove_leftovers

HANDED_ON = (signal.SIGINT, signal.SIGTERM)
READS_NOTHING = {"-h", "--help", "--version"}
PARENT_DEATH = 1  # PR_SET_PDEATHSIG of Linux's prctl


def guarded_main(argv: Sequence[str] | None = None) -> int:
    """Run :func:`rankwolf.cli.main.main` in a child process; returns its exit code, or 2 where it crashed.

    A signal is answered at any time. One that comes while the child is being made is held back until then. One that
    comes before the child has set its own handlers ends the child, and the parent reports it.
    """
    words = sys.argv[1:] if argv is None else argv
    if READS_NOTHING & set(words) and "--" not in words:
        return main(words)
    child = 0

    def hand_on(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(child, number)

    # A signal that is ignored stays so: nohup and shells set that for commands in the background.
    heard = [number for number in HANDED_ON if signal.getsignal(number) is not signal.SIG_IGN]
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    parent = os.getpid()
    child = os.fork()
    for number in heard:
        signal.signal(number, hand_on if child else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
    if not child:
        _go_with(parent)
        if not os.environ.get("RANKWOLF_DEBUG"):
            _silence_libraries()
        return _at_once(main(argv))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code in (0, BAD_INPUT):
        return code
    arguments = _arguments(argv)
    for name in ("output", "checkpoint"):
        with suppress(KeyError, OSError, TypeError):
            remove_leftovers(Path(arguments[name]).parent)
    return code if code > 0 else _crashed(signal.Signals(-code), arguments)


def _at_once(code: int) -> int:
    """Return ``code``, unless calls of LAPACK have outlived ``--max-seconds``: then end the process at once.

    At a usual end Python would wait for them.
    """
    if some_go_on():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _silence_libraries() -> None:
    """Let only this package write to stderr: not NumPy's warnings, and not C libraries about a stranger's file.

    File descriptor 2 goes to /dev/null, and ``sys.stderr`` to a copy of the old descriptor.
    """
    warnings.simplefilter("ignore")
    words = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    sys.stderr = open(words, "w", buffering=1, encoding=sys.stderr.encoding, errors="backslashreplace")  # noqa: SIM115


def _go_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, since nobody else would. On Linux only."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PARENT_DEATH, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _arguments(argv: Sequence[str] | None) -> dict[str, Any]:
    """The options that the child was called with, by name; an empty dict where they are not valid."""
    with (
        open(os.devnull, "w") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
        suppress(SystemExit),
    ):
        return vars(build_parser(find_commands()).parse_args(argv))
    return {}


def _crashed(number: signal.Signals, arguments: dict[str, Any]) -> int:
    if number in HANDED_ON:  # it came before the child had set its handlers
        code = INTERRUPTED if number is signal.SIGINT else TERMINATED
        return complain("interrupted" if code == INTERRUPTED else "terminated", code)
    name = f" over {str(arguments['input'])!r}" if "input" in arguments else ""
    if number is signal.SIGKILL:
        why = (
            "The process was killed, most likely because the memory was full. "
            "Give --max-memory, or close other programs."
        )
    else:
        why = f"A library crashed{name} ({number.name}): the file is most likely damaged, or changed while it was read."
    return complain(f"error: {why} Nothing was written.", BAD_INPUT)
