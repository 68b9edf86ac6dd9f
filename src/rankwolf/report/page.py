"""The frame of every page: a template that extends ``templates/base.html``, filled by Jinja.

A page is one file. Pictures and charts are inside it, and a content security policy forbids the browser to fetch
anything else, so that it works from a disk and tells nobody that it was opened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from rankwolf.ground.extras import needed


@dataclass(frozen=True)
class Fact:
    """One number of the row at the top of a page: "rank", "7", "of 795"."""

    name: str
    value: str
    note: str = ""


# Control characters, and marks that turn the direction of writing: names from strangers may hold them.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def render(template: str, **content: Any) -> str:
    """The page as HTML: ``template`` filled with ``content``. Text is escaped, except charts, which are Markup."""
    needed("jinja2")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("rankwolf.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page: str = environment.get_template(template).render(**content)
    return OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), page)


def percent(share: float) -> str:
    """A share with two significant digits: 12 %, 0.034 %."""
    if not isfinite(share):
        return "unknown"
    return f"{100.0 * share:.2g} %" if share < 0.995 else f"{100.0 * share:.0f} %"


def duration(seconds: float) -> str:
    """A duration as text: 0.4 s, 12 s, 3 min 5 s, with no-break spaces between numbers and units."""
    if seconds < 10.0:
        return f"{seconds:.1f}\N{NO-BREAK SPACE}s"
    if seconds < 60.0:
        return f"{seconds:.0f}\N{NO-BREAK SPACE}s"
    return f"{int(seconds) // 60}\N{NO-BREAK SPACE}min {int(seconds) % 60}\N{NO-BREAK SPACE}s"


def as_rows(settings: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Settings as rows (name, text of the value) of a table, without those that are None."""
    return [(name, _readable(value)) for name, value in settings.items() if value is not None]


def _readable(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(_readable(item) for item in value)
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
