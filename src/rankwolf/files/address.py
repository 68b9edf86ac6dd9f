"""``file.h5::/path``: a file and the member that is meant; and one place where errors of its readers are translated."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rankwolf.ground.printable import printable

# Errors of the system that are not about damage: no such file, no permission, a folder, a name that is too long, too
# many open files. They are raised as they are.
SAID_BY_THE_SYSTEM = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENAMETOOLONG, errno.EMFILE)
MOST_CHARACTERS = 500


class RefusedError(ValueError):
    """A file is not read, and why, in one line of limited length, however much a library said."""


@dataclass(frozen=True)
class Address:
    """A file and, for kinds of file that hold several arrays, the name of one.

    >>> Address.parse("data.h5::/sensors/raw")
    Address(path=PosixPath('data.h5'), member='/sensors/raw')
    >>> Address.parse("data.csv").member is None
    True
    """

    path: Path
    member: str | None = None
    shown: str | None = field(default=None, repr=False)
    """The name for messages, where it is not the path: standard input is read from a temporary file."""

    @classmethod
    def parse(cls, text: object) -> Address:
        """The address that a user typed, split at ``::``; an Address is returned as it is."""
        if isinstance(text, Address):
            return text
        name, separator, member = str(text).partition("::")
        if separator and not member.strip("/"):
            raise ValueError(f"The address {str(text)!r} names nothing after '::'. Give {name}::NAME.")
        return cls(Path(name), member if separator else None)

    def __str__(self) -> str:
        name = self.shown or str(self.path)
        return name if self.member is None else f"{name}::{self.member}"

    def bad(self, problem: str) -> RefusedError:
        """The error "Cannot read …" about this file, in the one form that all readers use."""
        words = printable(" ".join(problem.split()).replace(" )", ")"))
        shown = words if len(words) < MOST_CHARACTERS else words[: MOST_CHARACTERS - 1] + "…"
        return RefusedError(f"Cannot read {str(self)!r}: {shown}")

    def choose(self, names: list[str], what: str) -> str:
        """The one of ``names`` that the address means, or the only one; errors call a member a ``what``."""
        shown = ", ".join(repr(name) for name in names[:8]) + (", …" if len(names) > 8 else "")
        if self.member is None:
            if len(names) == 1:
                return names[0]
            if not names:
                raise self.bad(f"it holds no {what}.")
            raise self.bad(f"it holds several: {shown}. Give one as {self.shown or self.path}::{names[0]}.")
        for name in (self.member, self.member.strip("/")):
            if name in names:
                return name
        raise self.bad(f"it holds no {what} of that name. It holds {shown or 'none'}.")

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """Inside the block, an error of any kind over a damaged file becomes a :class:`RefusedError` of one line.

        Libraries fail over damaged files in more ways than anybody can list: ``tokenize.TokenError``, ``RuntimeError``,
        ``AttributeError``, ``struct.error``, ``RecursionError``. ``what`` is what the file should have been.
        """
        try:
            yield
        except (RefusedError, ModuleNotFoundError):
            raise
        except MemoryError as error:
            said = f" ({error})" if str(error) else ""
            raise self.bad(f"its contents would take more memory than such a file may{said}.") from error
        except Exception as error:
            if (
                isinstance(error, OSError)
                and error.errno in SAID_BY_THE_SYSTEM
                and error.filename is not None
            ):
                raise
            said = str(error) or type(error).__name__
            raise self.bad(f"it is not {what}, or damaged ({said}).") from error


def is_plain_name(name: str) -> bool:
    """Whether a name out of a stranger's file may be used for something that is written.

    >>> is_plain_name("raw data.2"), is_plain_name(".."), is_plain_name("../x")
    (True, False, False)
    """
    return re.fullmatch(r"\w[\w .-]{0,200}", name) is not None
