"""The shape of the code in numbers, at two commits: ``python -m benchmarks shape --before 601e968``.

Lines, modules at the root, questions after the class of a problem, internal imports inside functions, longest function
and file, ``fmt: skip``, and names of modules that stand in several folders.
"""

from __future__ import annotations

import ast
import io
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.harness.options import options_of
from benchmarks.harness.results import Results, table

HERE = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options_of(__doc__)
    parser.add_argument("--before", default="601e968", help="the commit to compare with")
    parser.add_argument("--after", help="another commit than the files as they are")
    chosen = parser.parse_args(arguments)
    results = Results("shape", vars(chosen))
    with tempfile.TemporaryDirectory() as folder:
        before = results.add(counts(source_at(chosen.before, Path(folder))))
        after = results.add(counts(source_at(chosen.after, Path(folder)) if chosen.after else HERE / "src"))
    print(
        table(
            ["", chosen.before, chosen.after or "now"],
            [[key, str(before[key]), str(after[key])] for key in after],
        )
    )


def source_at(commit: str, folder: Path) -> Path:
    """The folder ``src`` as it was at a commit, unpacked into ``folder``."""
    packed = subprocess.run(
        ["git", "archive", commit, "src"], cwd=HERE, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder / commit, filter="data")
    return folder / commit / "src"


def counts(source: Path) -> dict[str, int | str]:
    root = source / "rankwolf"
    texts = {path.relative_to(root): path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    names = Counter(path.stem for path in texts if path.stem != "__init__")
    functions = [
        (length(node), f"{path}:{node.name}") for path, tree in trees.items() for node in functions_of(tree)
    ]
    lengths = {str(path): text.count("\n") for path, text in texts.items()}
    longest = max(lengths, key=lambda path: lengths[path])
    return {
        "modules": len(texts),
        "lines": sum(lengths.values()),
        "statements": sum(isinstance(node, ast.stmt) for tree in trees.values() for node in ast.walk(tree)),
        "modules at the root": sum(len(path.parts) == 1 and path.stem != "__init__" for path in texts),
        "isinstance(problem": sum(text.count("isinstance(problem") for text in texts.values()),
        "internal imports in functions": sum(inner_imports(tree) for tree in trees.values()),
        "the same outside of cli": sum(
            inner_imports(tree) for path, tree in trees.items() if path.parts[0] != "cli"
        ),
        "fmt: skip": sum(text.count("# fmt: skip") for text in texts.values()),
        "names of several modules": sum(count > 1 for count in names.values()),
        "longest function without its docstring": "{} ({})".format(*max(functions)),
        "longest file": f"{lengths[longest]} ({longest})",
    }


def functions_of(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def length(function: ast.FunctionDef) -> int:
    """Its lines without the docstring."""
    first, whole = function.body[0], (function.end_lineno or 0) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return whole
    return whole - ((first.end_lineno or 0) - first.lineno + 1)


def inner_imports(tree: ast.AST) -> int:
    """Imports of the package's own modules inside functions."""
    found = {
        id(node)
        for function in functions_of(tree)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rankwolf")
    }
    return len(found)


if __name__ == "__main__":
    main()
