"""The frame around the commands: the parser, the exit codes, the signals.

A command is a module of this folder, named like the command, with

    def add_parser(subparsers: Subparsers) -> None      # its options; no heavy import on the way
    def run(arguments: argparse.Namespace) -> int       # the work; 0 when done

It imports at the top nothing but the standard library and modules of Rankwolf that do the same, such as
:mod:`rankwolf.cli.common`; NumPy and the rest are imported inside ``run``, so that ``--help`` answers at once. What a
user can cause is raised as ValueError, OSError, MemoryError or a missing extra, and becomes one line and exit code 2
here.

Exit codes: 0 done, 2 bad input or usage, 130 interrupted (SIGINT), 143 terminated (SIGTERM), 141 when the reader of
the output went away. The environment variable ``RANKWOLF_DEBUG=1`` shows the traceback of an error instead.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from math import inf
from types import FrameType, ModuleType, TracebackType
from typing import Any, NoReturn

from rankwolf import __version__
from rankwolf.ground.extras import EXTRAS, missing
from rankwolf.ground.printable import printable

COMMANDS = ("demo", "separate", "decompose", "recover", "path", "score", "completion")

DONE, BAD_INPUT, INTERRUPTED, BROKEN_PIPE, TERMINATED = 0, 2, 130, 141, 143

FOR_CLEANING = 1.0  # seconds after a signal in which further signals are ignored

# What argparse says where it takes a value such as -999x for an option.
TAKEN_FOR_AN_OPTION = re.compile(r"^argument \S+: expected .*argument|^unrecognized arguments: (.* )?-[^-]")

CAUSED_BY_USERS = (ValueError, OSError, ModuleNotFoundError, MemoryError)


class Parser(argparse.ArgumentParser):
    """argparse with one line for a mistake, and without abbreviated options, which break when options are added."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})

    def error(self, message: str) -> NoReturn:
        """Print one line, what is wrong and how to get help, and exit with code 2."""
        if message.endswith("required: INPUT"):
            message += " (options with several words, such as --drop, take all that follow: give INPUT first)"
        elif TAKEN_FOR_AN_OPTION.search(message):
            message += " (a value that begins with a minus is joined to its option, as in --missing=-999x)"
        self.exit(BAD_INPUT, f"{self.prog}: error: {one_line(message)}. See '{self.prog} --help'.\n")


class Stopped(KeyboardInterrupt):
    """SIGINT or SIGTERM as an exception; code that handles Ctrl-C (KeyboardInterrupt) handles it too.

    It is a subclass because ``python -m`` ends by SIGINT once a plain KeyboardInterrupt has passed through an ``exec``.
    """


class Signals:
    """Inside the block, SIGINT and SIGTERM raise :class:`Stopped`, so that nothing half-written stays behind.

    Python raises it wherever the main thread happens to be. An exception in a finaliser is lost, so then the signal is
    sent again. A library may turn the exception into an error of its own, so ``received`` keeps which signal came.
    Signals within a second after the first are ignored, which leaves time for cleaning up.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._heard = -inf
        self._before: list[tuple[signal.Signals, Any]] = []
        self._again: threading.Timer | None = None

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():  # the only one that may set handlers
            self._hook, sys.unraisablehook = sys.unraisablehook, self._drop
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and shells set it
                    self._before.append((number, signal.signal(number, self._handle)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._again is not None:
            self._again.cancel()
        for number, handler in self._before:
            signal.signal(number, handler)
        if self._before:
            sys.unraisablehook = self._hook

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now < self._heard + FOR_CLEANING:
            return
        self.received, self._heard = signal.Signals(number), now
        raise Stopped

    def _drop(self, lost: sys.UnraisableHookArgs) -> None:
        """The ``sys.unraisablehook``: after a signal, a lost :class:`Stopped` is sent again, the rest is ignored."""
        if self.received is None:
            self._hook(lost)
        elif isinstance(lost.exc_value, Stopped):
            self._heard = -inf
            self._again = threading.Timer(0.05, os.kill, (os.getpid(), self.received))
            self._again.start()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command in this process; returns its exit code.

    argparse ends by SystemExit, after ``--help`` and mistakes in usage. Errors that no user can cause are raised.
    """
    with Signals() as signals:
        try:
            modules = find_commands()
            arguments = build_parser(modules).parse_args(argv)
            return int(modules[arguments.command].run(arguments))
        except (Exception, KeyboardInterrupt) as error:
            if signals.received is signal.SIGTERM:
                return complain("terminated", TERMINATED)
            if signals.received is signal.SIGINT or isinstance(error, KeyboardInterrupt):
                return complain("interrupted", INTERRUPTED)
            if isinstance(error, BrokenPipeError):
                # Python would complain once more when it flushes stdout at exit.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return BROKEN_PIPE
            if os.environ.get("RANKWOLF_DEBUG") or not isinstance(error, CAUSED_BY_USERS):
                raise
            return complain(f"error: {describe(error)}", BAD_INPUT)


def find_commands() -> dict[str, ModuleType]:
    """The command modules that this installation has."""
    names = {command: f"rankwolf.cli.{command}" for command in COMMANDS}
    return {command: import_module(name) for command, name in names.items() if find_spec(name)}


def build_parser(modules: dict[str, ModuleType]) -> Parser:
    """The parser of ``rankwolf`` with one subparser for each command."""
    parser = Parser(
        prog="rankwolf",
        description="Split data into a low-rank and a sparse part: background and what moves, signal and outliers.",
        epilog="Exit codes: 0 done, 2 bad input or usage, 130 interrupted, 143 terminated.",
    )
    parser.add_argument("--version", action="version", version=f"rankwolf {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in modules.values():
        module.add_parser(subparsers)
    return parser


def describe(error: Exception) -> str:
    """An exception that a user caused, as one line: what, the rule, the value, the remedy."""
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        said = str(error)
        return one_line(str(missing(package)) if package in EXTRAS and "pip install" not in said else said)
    # Not at the top of the file: these import NumPy, and --help must not wait for that.
    from rankwolf.cli.words import complaint, in_options
    from rankwolf.ground.complaints import BadParameterError

    if isinstance(error, BadParameterError):
        return one_line(complaint(error))
    if isinstance(error, OSError) and error.strerror:
        name = f" {os.fspath(error.filename)!r}" if error.filename is not None else ""
        return f"Cannot use{name or ' a file'}: {error.strerror}. Check the name, the permissions and the free space."
    if isinstance(error, MemoryError):
        return one_line(f"Not enough memory. {error}")
    return one_line(in_options(str(error)))


def one_line(message: str) -> str:
    """The message without line breaks, and without other characters that control a terminal."""
    return printable(" ".join(message.split()))


def complain(message: str, code: int) -> int:
    """Print the last words of a command that ended badly, in one line; returns its exit code."""
    print(f"rankwolf: {one_line(message)}", file=sys.stderr)
    return code
