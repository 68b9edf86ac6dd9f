"""The schemas of our own files, beside what the documents say about them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankwolf.files.schema import SCHEMAS, Entry

PAGE = Path(__file__).parents[2] / "docs" / "attacks.md"
BEGIN, END = "<!-- schemas -->\n", "<!-- /schemas -->"


def described(name, entry):
    bounds = "".join(
        f" {sign} {bound:g}" for sign, bound in (("≥", entry.least), ("≤", entry.most)) if bound is not None
    )
    sides = " × ".join(map(str, entry.shape))
    return f"`{name}`{'?' if entry.optional else ''} {sides} {entry.kinds.replace(' ', '/')}{bounds}"


def table():
    lines = ["| file | in its description | arrays |", "|---|---|---|"]
    for schema in SCHEMAS.values():
        arrays = [described(name, entry) for name, entry in schema.arrays.items()]
        arrays += [f"`{name}0`, `{name}1`, …" for name in schema.others]
        lines.append(
            f"| {schema.words}, format {schema.format} | {', '.join(schema.settings)} | {'; '.join(arrays)} |"
        )
    return "\n".join(lines) + "\n"


def test_the_documents_have_the_schemas():
    shown = PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]
    assert shown == table(), "python tests/files/test_schema.py writes the table anew"


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((2, 3), np.float16), "type"),
        (np.zeros((2, 3), ">f8"), "type"),
        (np.zeros((2, 3), object), "type"),
        (np.zeros((3, 2)), "fit together"),
        (np.full((2, 3), np.nan), "finite"),
        (np.full((2, 3), -1.0), "range"),
    ],
)
def test_what_does_not_fit_is_refused(array, says):
    entry = Entry("f c", ("m", 3), least=0)

    def check():
        entry.check_type("x", array.shape, array.dtype, {})
        entry.check("x", array)

    with pytest.raises(ValueError, match=says):
        check()


if __name__ == "__main__":
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.split(END)[1], encoding="utf-8")
