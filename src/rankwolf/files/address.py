"""``file.h5::/path``: a file, and what is meant in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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

    @classmethod
    def parse(cls, text: object) -> Address:
        """From what a user typed."""
        if isinstance(text, Address):
            return text
        name, separator, member = str(text).partition("::")
        if separator and not member.strip("/"):
            raise ValueError(f"The address {str(text)!r} names nothing after '::'. Give {name}::NAME.")
        return cls(Path(name), member if separator else None)

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path}::{self.member}"

    def bad(self, problem: str) -> ValueError:
        """The one form of a complaint about a file: one line, not too long, whatever a library said."""
        words = " ".join(problem.split()).replace(" )", ")")
        return ValueError(f"Cannot read {str(self)!r}: {words if len(words) < 500 else words[:499] + '…'}")

    def choose(self, names: list[str], what: str) -> str:
        """The member that was named, or the only one."""
        shown = ", ".join(repr(name) for name in names[:8]) + (", …" if len(names) > 8 else "")
        if self.member is None:
            if len(names) == 1:
                return names[0]
            if not names:
                raise self.bad(f"it holds no {what}.")
            raise self.bad(f"it holds several: {shown}. Give one as {self.path}::{names[0]}.")
        for name in (self.member, self.member.strip("/")):
            if name in names:
                return name
        raise self.bad(f"it holds no {what} of that name. It holds {shown or 'none'}.")
