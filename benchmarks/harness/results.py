"""Saved results: one JSON file for each experiment, rewritten after each row so that a broken run keeps its rows."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness import machine

FOLDER = Path(__file__).resolve().parents[1] / "results"
Row = dict[str, Any]


class Results:
    """Rows of one experiment with the machine, the commit and the settings they were measured with."""

    def __init__(self, name: str, settings: Row, path: Path | None = None) -> None:
        self.path = path or FOLDER / f"{name}.json"
        self.head: Row = {
            "experiment": name,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine.describe(),
            "settings": settings,
        }
        self.rows: list[Row] = []

    def add(self, row: Row) -> Row:
        """Keep a row and write the file."""
        self.rows.append(row)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".part")
        temporary.write_text(json.dumps(_plain({**self.head, "rows": self.rows}), indent=1) + "\n")
        os.replace(temporary, self.path)
        return row


def load(name: str, folder: Path = FOLDER) -> Row | None:
    """What :class:`Results` saved under this name, or None."""
    path = folder / f"{name}.json"
    saved: Row | None = json.loads(path.read_text()) if path.exists() else None
    return saved


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: both become null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table, padded so that it reads well as plain text too; what a short row lacks is "–"."""
    head = list(header)
    cells = [head, *([*row, *["–"] * (len(head) - len(row))] for row in map(list, rows))]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)
