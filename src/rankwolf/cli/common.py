"""What the commands share: how they speak (``--quiet``, ``--json``) and how they write (whole or not at all).

It imports only the standard library, and modules of Rankwolf that do the same, so that a command may import it at the
top. Its classes are named tuples: importing ``dataclasses`` would be an eighth of the time of ``rankwolf --help``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rankwolf.ground.printable import printable
from rankwolf.ground.result_files import PAGE, SUMMARY
from rankwolf.ground.whole import flush, replace, whole, workshop

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DEFAULT_TOL = 1e-3


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--quiet`` and ``--json``, the same for every command."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    group.add_argument(
        "--json", action="store_true", help="print one JSON object at the end and nothing else"
    )


def add_strict_option(group: argparse._ArgumentGroup) -> None:
    """Add ``--strict``, for every command that reads what may be damaged."""
    group.add_argument(
        "--strict", action="store_true", help="fail on any damage of the input instead of warning"
    )


def add_force_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--force``, for every command that writes."""
    parser.add_argument("--force", action="store_true", help="replace results that are there already")


def add_solving_options(group: argparse._ArgumentGroup) -> None:
    """Add the options about solving, for every command that solves; those about weights are the command's own."""
    group.add_argument("--method", default="auto", help="the solver (default: %(default)s)")
    group.add_argument(
        "--tol",
        type=float,
        default=DEFAULT_TOL,
        help="certified relative gap to reach (default: %(default)s)",
    )
    group.add_argument(
        "--checkpoint", type=Path, metavar="FILE", help="keep the solver's state in this file as it goes on"
    )
    group.add_argument(
        "--checkpoint-every",
        default="60s",
        metavar="HOW_OFTEN",
        help="a number of passes, or a time such as 90s or 10min (default: %(default)s)",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="go on from the checkpoint, if there is one, instead of refusing",
    )
    group.add_argument("--max-seconds", type=float, metavar="S", help="stop solving after this time")
    add_run_options(group)


def add_run_options(group: argparse._ArgumentGroup) -> None:
    """Add ``--threads`` and ``--seed``, for every command that solves."""
    group.add_argument("--threads", type=int, metavar="N", help="default: every core")
    group.add_argument(
        "--seed",
        type=int,
        default=0,
        help="the seed of the random numbers: the same seed gives the same results (default: %(default)s)",
    )


def checkpoint_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options about checkpoints as keyword arguments of ``decompose``."""
    every: str = arguments.checkpoint_every
    if arguments.resume and arguments.checkpoint is None:
        raise ValueError("--resume goes on from a checkpoint. Give its name as --checkpoint FILE.")
    return {
        "checkpoint": arguments.checkpoint,
        "checkpoint_every": int(every) if every.isdecimal() else every,
        "resume": arguments.resume,
    }


def bad_option(option: str, rule: str, got: object) -> ValueError:
    """The ValueError about the value of an option, in the one form that all commands use."""
    return ValueError(f"{option} must be {rule}. Got {got} instead.")


def parse_size(text: str) -> int:
    """The bytes that ``1GB``, ``512 MiB`` or ``2e9`` means; a ValueError about ``--max-memory`` for anything else.

    >>> parse_size("1GB"), parse_size("512MiB")
    (1000000000, 536870912)
    """
    from rankwolf.ground import complaints

    try:
        return complaints.parse_size(text)
    except ValueError:
        raise bad_option("--max-memory", "a size such as 1GB or 512MiB", repr(text)) from None


def defaults_of(add_options: Callable[[argparse.ArgumentParser], None]) -> argparse.Namespace:
    """The values of all options when none of them is given; ``add_options`` adds them to a parser."""
    plain = argparse.ArgumentParser()
    add_options(plain)
    return plain.parse_args(["input", "-o", "output"])


def command_of(
    command: str, add_options: Callable[[argparse.ArgumentParser], None], arguments: argparse.Namespace
) -> str:
    """The command line that repeats a run, with the options that differ from the defaults that ``add_options`` sets."""
    words = ["rankwolf", command, str(arguments.input), "-o", str(arguments.output)]
    for name, default in vars(defaults_of(add_options)).items():
        if name in ("input", "output"):
            continue
        value = getattr(arguments, name)
        if name in ("quiet", "json") or value == default:
            continue
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            words += [str(item) for item in value] if isinstance(value, list) else [str(value)]
    return shlex.join(words)


def same_job(
    command: str, add_options: Callable[[argparse.ArgumentParser], None], arguments: argparse.Namespace
) -> str:
    """The command line of a job, whether it is begun, resumed or repeated: what the summary keeps about it."""
    free = {"resume": False, "force": False, "max_seconds": None}
    return command_of(command, add_options, argparse.Namespace(**{**vars(arguments), **free}))


def is_done(
    command: str, add_options: Callable[[argparse.ArgumentParser], None], arguments: argparse.Namespace
) -> bool:
    """Whether ``--resume`` asks for a job whose results are in the output already, which is then said."""
    if not arguments.resume or not (arguments.output / SUMMARY).exists():
        return False
    from rankwolf.files.door import read_json

    try:
        summary = read_json(arguments.output / SUMMARY)
    except (OSError, ValueError):
        return False
    job = same_job(command, add_options, arguments)
    done = bool(isinstance(summary, dict) and summary.get("command") == job)
    if done:
        output = Output.of(arguments)
        output.say(f"This job is done: its results are in {arguments.output}. Nothing was computed.")
        output.finish({**summary, "output": str(arguments.output)})
    return done


class Output(NamedTuple):
    """How a command speaks: in sentences for people, or with one JSON object for programs. Errors go another way."""

    quiet: bool = False
    json: bool = False
    to_stderr: bool = False
    """True where a table goes to standard output: sentences then go to standard error."""

    @classmethod
    def of(cls, arguments: argparse.Namespace, to_stderr: bool = False) -> Output:
        """The output that the options of :func:`add_output_options` ask for."""
        return cls(arguments.quiet, arguments.json, to_stderr)

    @property
    def talks(self) -> bool:
        """Whether sentences, tables and progress bars are printed: neither ``--quiet`` nor ``--json`` was given."""
        return not (self.quiet or self.json)

    def say(self, text: str = "") -> None:
        """Print lines for people, unless ``--quiet`` or ``--json`` was given."""
        if self.talks:
            stream = sys.stderr if self.to_stderr else sys.stdout
            print("\n".join(map(printable, text.split("\n"))), file=stream, flush=True)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Print the summary as a JSON object, if ``--json`` was given."""
        if self.json:
            print(to_json(summary), flush=True)


def to_json(summary: Mapping[str, Any], indent: int | None = None) -> str:
    """The summary as standard JSON: NaN and infinity become null, bytes that are not UTF-8 become escapes."""
    import json

    text = json.dumps(_finite(summary), ensure_ascii=False, allow_nan=False, indent=indent)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write the summary into ``folder``, whole or not at all."""
    with whole(folder / SUMMARY) as temporary:
        temporary.write_text(to_json(summary, indent=2) + "\n", encoding="utf-8")


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value


def check_target(target: Path, force: bool, source: Path | None = None) -> None:
    """Refuse, before any work, a ``target`` that exists already; an empty folder may be filled.

    With ``force``, results may be replaced, but never the input: a ``source`` inside the target is refused.
    """
    if not target.parent.is_dir():
        raise ValueError(f"The folder {str(target.parent)!r} does not exist. Make it first.")
    taken = any(target.iterdir()) if target.is_dir() else os.path.lexists(target)
    if taken and not force:
        raise ValueError(f"The output {str(target)!r} exists already. Give --force to replace it.")
    if taken and source is not None and Path(source).resolve().is_relative_to(target.resolve()):
        raise ValueError(
            f"The input {str(source)!r} lies in the output {str(target)!r}, where results could replace it. "
            "Give another --output."
        )


def check_folder(target: Path, force: bool, source: Path | None = None) -> None:
    """As :func:`check_target`, for results that are a folder: a file in its place is refused even with ``force``."""
    check_target(target, force, source)
    if os.path.lexists(target) and not target.is_dir():
        raise ValueError(f"The output {str(target)!r} is a file. Give the name of a folder.")


@contextlib.contextmanager
def whole_folder(target: Path, *, force: bool) -> Iterator[Path]:
    """A folder under a temporary name beside ``target``, moved into place when the block ends well.

    After an error in the block nothing stays behind. With ``force``, the files go into a folder that exists already:
    files of the same names are replaced, others are left alone.
    """
    check_folder(target, force)
    with workshop(target) as place:
        made = place / target.name
        made.mkdir()
        yield made
        parts = sorted(made.iterdir())
        for part in parts:
            flush(part)
        if target.is_dir():
            for part in parts:
                replace(part, target / part.name)
        else:
            os.replace(made, target)


def remove(paths: Iterable[Path]) -> None:
    """Remove those of the files and folders that exist. Of a link, only the link is removed."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def last_words(summary: Mapping[str, Any], target: Path, has_page: bool, speed: str = "") -> list[str]:
    """The last lines of a command: why it stopped, unless the gap was reached; time and memory; where to look."""
    seconds = summary["seconds"]
    split = ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items() if name != "total")
    memory = f"at most {summary['peak_memory_bytes'] / 1e6:.0f} MB of memory"
    stopped_early = summary.get("status", "GAP_REACHED") != "GAP_REACHED"
    return [
        *([summary["status_says"]] if stopped_early else []),
        f"{seconds['total']:.1f} s ({split}){speed}, {memory}.",
        f"Open {target / PAGE}" if has_page else f"The results are in {target}",
    ]


def warn(text: str) -> None:
    """Print a warning to standard error, whatever the output options say."""
    print(f"rankwolf: {printable(text)}", file=sys.stderr)
