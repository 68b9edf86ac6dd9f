"""The README as a package index shows it.

An index has no repository beside it: relative links and pictures lead nowhere there. Where ``[project.urls]`` has a
``Source``, they become addresses below it; without one, links become their words and pictures their captions.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)]+)\)\n*")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)]+)\)")


def for_an_index(text: str, source: str | None) -> str:
    """The text with addresses that work from anywhere."""
    if source is None:
        return LINK.sub(r"\1", PICTURE.sub("", text))
    below = source.rstrip("/") + "/"
    text = PICTURE.sub(lambda m: f"![{m[1]}]({below}raw/main/{m[2]})\n\n", text)
    return LINK.sub(lambda m: f"[{m[1]}]({below}blob/main/{m[2]})", text)


class ReadmeHook(MetadataHookInterface):
    """Called by hatchling for every wheel, sdist and editable install."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``readme``."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(text, source)}
