"""Words from strangers, before they reach a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""``text`` with every character that a terminal might obey written as an escape.

    These are control characters, line breaks, marks that reverse the direction of writing, and the bytes of a file name
    that is not UTF-8 (which Python keeps as lone surrogates).

    >>> printable("a\x1b[31mb\n")
    'a\\x1b[31mb\\n'
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
