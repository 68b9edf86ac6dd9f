"""The documents quote code and print output; both are true.

``python tests/test_documents.py`` renews the quotes and the quickstart's output after a change.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README, CONTRIBUTING, ALGORITHMS = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "docs" / "algorithms.md",
)
QUICKSTART = ROOT / "examples" / "quickstart.py"
QUOTE = re.compile(r"(<!-- quoted: (\S+) ([^\n]+) -->\n```python\n)(.*?)(?=```)", re.S)
PROGRAM = re.compile(r"(?<=## Ten lines\n\n```python\n).*?(?=```)", re.S)
OUTPUT = re.compile(r"(?<=\nprints\n\n```\n).*?(?=```)", re.S)
RENEW = "Run: python tests/test_documents.py"


def definitions(path: str, names: str) -> str:
    """The source of classes (``Solver``) or methods (``Source.read``), from decorator to end, without indentation."""
    source = (ROOT / path).read_text(encoding="utf-8")
    parts = []
    for name in names.split():
        body: list[ast.stmt] = ast.parse(source).body
        for step in name.split("."):
            node = next(n for n in body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == step)
            body = node.body
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        parts.append(textwrap.dedent("\n".join(source.splitlines()[first - 1 : node.end_lineno])))
    return "\n\n\n".join(parts) + "\n"


def run_quickstart() -> str:
    return subprocess.run(
        [sys.executable, str(QUICKSTART)], capture_output=True, text=True, check=True
    ).stdout


def without_numbers(text: str) -> str:
    """Times differ from run to run, and the last digits, and with them counts of one, from machine to machine."""
    return re.sub(r"[\d.,e-]*\d", "#", text).replace("# iterations,", "# iteration,")


def test_quickstart_is_the_example_and_prints_what_the_readme_says():
    text = README.read_text(encoding="utf-8")
    assert PROGRAM.search(text)[0] == QUICKSTART.read_text(encoding="utf-8"), RENEW
    printed, promised = run_quickstart(), OUTPUT.search(text)[0]
    assert without_numbers(printed) == without_numbers(promised), RENEW
    now, then = (float(re.search(r"error of L: ([\d.]+)", output)[1]) for output in (printed, promised))
    assert now == pytest.approx(then, rel=0.02), RENEW


def test_quoted_contracts_are_in_the_source():
    quotes = QUOTE.findall(CONTRIBUTING.read_text(encoding="utf-8"))
    assert [names for _, _, names, _ in quotes] == [
        "Solver",
        "Report",
        "Source.read Source.read_user",
        "Task",
    ]
    for _, path, names, quote in quotes:
        assert quote == definitions(path, names), RENEW


def test_statuses_are_the_ones_that_exist():
    from rankwolf import Status

    rows = re.findall(r"^\| `([A-Z_]+)` \| (.*) \|$", ALGORITHMS.read_text(encoding="utf-8"), re.M)
    assert rows == [(status.name, status.value) for status in Status]


def test_methods_are_the_ones_that_exist():
    from rankwolf.solvers import SOLVERS

    table = README.read_text(encoding="utf-8").split("## Methods")[1].split("*Weights*")[0]
    assert set(re.findall(r'`"([a-z-]+)"`', table)) == {*SOLVERS, "auto"}


def test_links_between_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text(encoding="utf-8")):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def renew() -> None:
    """Write the quotes, the program and its output into the documents."""
    text = CONTRIBUTING.read_text(encoding="utf-8")
    CONTRIBUTING.write_text(QUOTE.sub(lambda m: m[1] + definitions(m[2], m[3]), text), encoding="utf-8")
    program, output = QUICKSTART.read_text(encoding="utf-8"), run_quickstart()
    text = PROGRAM.sub(lambda _: program, README.read_text(encoding="utf-8"))
    README.write_text(OUTPUT.sub(lambda _: output, text), encoding="utf-8")


if __name__ == "__main__":
    renew()
