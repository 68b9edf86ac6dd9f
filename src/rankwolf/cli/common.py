"""What the commands share: how they speak (``--quiet``, ``--json``) and how they write (whole or not at all).

Standard library only, so that a command may import it at the top.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """``--quiet`` and ``--json``, the same for every command."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    group.add_argument(
        "--json", action="store_true", help="print one JSON object at the end and nothing else"
    )


def add_force_option(parser: argparse.ArgumentParser) -> None:
    """``--force``, which every command that writes has."""
    parser.add_argument("--force", action="store_true", help="replace results that are there already")


@dataclass(frozen=True)
class Output:
    """Where a command speaks: sentences for people, or one JSON object for programs. Errors are not its business."""

    quiet: bool = False
    json: bool = False

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Output:
        """As the options of :func:`add_output_options` say."""
        return cls(arguments.quiet, arguments.json)

    @property
    def talks(self) -> bool:
        """Whether there is somebody to read sentences, tables and progress bars."""
        return not (self.quiet or self.json)

    def say(self, text: str = "") -> None:
        """A line for people."""
        if self.talks:
            print(text, flush=True)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """The JSON object, when it was asked for. NaN and infinity have no place in JSON and become null."""
        if self.json:
            print(to_json(summary), flush=True)


def to_json(summary: Mapping[str, Any], indent: int | None = None) -> str:
    """Standard JSON: numbers that JSON does not know become null."""
    return json.dumps(_finite(summary), ensure_ascii=False, allow_nan=False, indent=indent)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value


def check_target(target: Path, force: bool) -> None:
    """Refuse to replace what exists, before any work; an empty folder is not a result."""
    if not target.parent.is_dir():
        raise ValueError(f"The folder {str(target.parent)!r} does not exist. Make it first.")
    taken = any(target.iterdir()) if target.is_dir() else os.path.lexists(target)
    if taken and not force:
        raise ValueError(f"The output {str(target)!r} exists already. Give --force to replace it.")


@contextlib.contextmanager
def whole_folder(target: Path, *, force: bool) -> Iterator[Path]:
    """A folder under a temporary name beside ``target``, moved into place when the block ends well.

    When it does not, nothing stays behind. With ``force``, files of the same names are replaced in a folder that is
    there already, and other files in it are left alone.
    """
    check_target(target, force)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part"))
    try:
        temporary.chmod(0o777 & ~_umask())
        yield temporary
        if target.is_dir():
            for part in sorted(temporary.iterdir()):
                _replace(part, target / part.name)
        else:
            os.replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def whole_file(target: Path, *, force: bool) -> Iterator[Path]:
    """A file name beside ``target`` with the same ending, moved into place when the block ends well."""
    check_target(target, force)
    if target.is_dir():
        raise ValueError(f"The output {str(target)!r} is a folder. Give the name of a file.")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.", suffix=".part") as folder:
        temporary = Path(folder) / target.name
        yield temporary
        _replace(temporary, target)


def _replace(new: Path, target: Path) -> None:
    """os.replace, for folders (a Zarr store, a folder of pictures) as well; files are on the disk before they move."""
    if new.is_dir():
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
    else:
        with new.open("rb") as file:
            os.fsync(file.fileno())
    os.replace(new, target)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def warn(text: str) -> None:
    """A warning: to stderr, whatever the output options say."""
    print(f"rankwolf: {text}", file=sys.stderr)
