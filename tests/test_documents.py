"""The documents quote code and print output; both are true.

``python tests/test_documents.py`` renews the quotes and the quickstart's output after a change.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import textwrap
import tomllib
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
CACHE = ROOT / ".pytest_cache" / "blocks"
COMPARED = re.compile(r"(?<=<!-- compared -->\n).*?(?=<!-- /compared -->)", re.S)
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


def rows_of(page: str, heading: str) -> dict[str, dict[str, str]]:
    """The first table after a heading of a page: its rows by their first cell."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").split(heading, 1)[1]
    table = re.search(r"(?:^\|.*\n)+", text, re.M)[0].splitlines()
    names, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table)
    return {row[0]: dict(zip(names, row, strict=True)) for row in rows}


def panels() -> dict[tuple[str, str], dict[str, str]]:
    """The table of the page on RobustPCA, by (table, method)."""
    text = (ROOT / "docs" / "robust_pca.md").read_text(encoding="utf-8")
    lines = re.search(r"^\| table (?:.*\n\|)*.*\n", text, re.M)[0].splitlines()
    names, _, *rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines)
    table = [dict(zip(names, row, strict=True)) for row in rows]
    return {(row["table"].split(",")[0], row["method"]): row for row in table}


def figure(text: str) -> float:
    """A cell as a number; not one where there is no answer."""
    return float(text) if re.fullmatch(r"[\d.e+-]+", text) else float("inf")


def comparison() -> str:
    """README's table, from the pages that the benchmarks wrote; bold where others are better."""
    clip = rows_of("benchmarks.md", "**escalator**")
    square = rows_of("benchmarks.md", "**synthetic**")
    tables = panels()

    def others(rows: dict[str, dict[str, str]], column: str, words: str, most: int) -> str:
        """The best of them by one column, each in these words; bold where it is better than we are."""
        named = sorted((figure(row[column]), name) for name, row in rows.items() if name != "rankwolf")
        silent = sum(value == float("inf") for value, _ in named)
        parts = []
        for value, name in named[: min(most, len(named) - silent)]:
            part = f"{name.split()[0]} {words.format(**rows[name])}"
            parts.append(f"**{part}**" if value < figure(rows["rankwolf"][column]) else part)
        told = silent and "seconds" in words  # once for each problem
        return ", ".join([*parts, *([f"none within 80 s from {silent} others"] if told else [])])

    def line(what: str, ours: str, theirs: str) -> str:
        return f"| {what} | {ours} | {theirs} |"

    memory = [figure(row["peak MB above"]) for name, row in clip.items() if name != "rankwolf"]
    memory = [value for value in memory if value < float("inf")]
    wine, digits = ({m: row for (t, m), row in tables.items() if t == name} for name in ("wine", "digits"))
    in_seconds = "{error of L} in {seconds} s"
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    size = re.search(r"\*\*synthetic\*\*, (\d+ × \d+)", page)[1]
    return "\n".join(
        [
            "| | Rankwolf | others |",
            "|---|---|---|",
            line(
                "a video clip, 20800 × 200",
                f"{clip['rankwolf']['seconds']} s, {clip['rankwolf']['peak MB above']} MB beside the data",
                others(clip, "seconds", "{seconds} s", 4) + f"; {min(memory):.0f} to {max(memory):.0f} MB",
            ),
            line(
                "the same clip, objective of classical pursuit (lower is better)",
                clip["rankwolf"]["pursuit"],
                others(clip, "pursuit", "{pursuit}", 3) + ": they minimise this one",
            ),
            line(
                f"{size}, rank 20, noise, 5 % wrong: error of L",
                in_seconds.format(**square["rankwolf"]),
                others(square, "error of L", in_seconds, 4),
            ),
            line(
                "the same: rank that was found",
                square["rankwolf"]["rank of L"],
                others(square, "rank of L", "{rank of L}", 3),
            ),
            line(
                "wine, 20 % missing, 5 % wrong: error where missing",
                wine["RobustPCA"]["missing"],
                f"IterativeImputer {wine['IterativeImputer']['missing']}, PCA {wine['PCA']['missing']}, "
                f"KNNImputer {wine['KNNImputer']['missing']}",
            ),
            line(
                "digits, the same: variance along the first three components",
                digits["RobustPCA"]["factors"],
                f"**PCA {digits['PCA']['factors']}, KNNImputer {digits['KNNImputer']['factors']}**",
            ),
            line("digits: seconds", digits["RobustPCA"]["seconds"], f"**PCA {digits['PCA']['seconds']}**"),
            "",
        ]
    )


def test_readme_compares_with_the_figures_that_were_measured():
    assert COMPARED.search(README.read_text(encoding="utf-8"))[0] == comparison(), RENEW


def module_from(path: Path):
    """A module of the documents' own folder."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_every_code_block_runs_as_pasted():
    """Python blocks in empty folders, unless nothing has changed since; ``make docs`` also runs the commands."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "blocks.py"), "--quick", "--cache", str(CACHE)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert int(re.search(r"(\d+) pass, 0 fail", done.stdout)[1]) >= 25


def test_a_block_that_fails_is_told(tmp_path):
    blocks = module_from(ROOT / "docs" / "blocks.py")
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nprint(1 / 0)\n```\n\n```sh\nrankwolf separate --no-such-option\n```\n", encoding="utf-8"
    )
    blocks.ROOT = tmp_path
    python, command = blocks.blocks_of(page)
    assert "ZeroDivisionError" in blocks.run_python(python)
    assert blocks.check_command(command.code.strip()).startswith("fail")


def test_every_public_name_is_in_the_reference_with_cost_and_example():
    import rankwolf

    reference = set(
        re.findall(r"^   ([\w.]+)$", (ROOT / "docs" / "api.rst").read_text(encoding="utf-8"), re.M)
    )
    modules = {
        "": rankwolf,
        "sensing.": rankwolf.sensing,
        "solvers.": rankwolf.solvers,
        "video.": rankwolf.video,
    }
    public = {
        prefix + name: getattr(module, name)
        for prefix, module in modules.items()
        for name in module.__all__
        if not inspect.ismodule(getattr(module, name)) and callable(getattr(module, name))
    }
    assert set(public) <= reference
    without = [name for name, thing in public.items() if ">>>" not in (inspect.getdoc(thing) or "")]
    assert not without, f"No example: {without}"
    # What is only a few numbers or a name has no cost worth a word.
    few = {"LowRank", "RankwolfWarning", "Status", "Record", "RobustPCA"}
    words = re.compile(r"cost|passe?s?\b|memory|product|numbers", re.I)
    silent = [
        name for name, thing in public.items() if name not in few and not words.search(inspect.getdoc(thing))
    ]
    assert not silent, f"No cost: {silent}"


def test_lowest_versions_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    used = [*project["dependencies"], *(line for name in RUNTIME for line in extras[name])]
    declared = {re.split(r"[\[>]", line)[0].lower(): line.split(">=")[1] for line in used}
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()[1:]
    tested = dict(line.lower().split("==") for line in lines)
    assert set(declared) | {"polars"} == set(tested)  # an old scikit-learn does not know new frames of polars
    for name, version in declared.items():
        assert (tested[name] + ".0.0").startswith(version + "."), f"{name}: {version}, tested {tested[name]}"


def test_the_version_is_the_same_everywhere():
    from rankwolf import __version__

    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'version: "{__version__}"' in (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_recipe_of_conda_has_what_the_package_has():
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {line.replace(" ", "") for line in recipe["requirements"]["run"]}
    assert needed == {*project["dependencies"], "python" + project["requires-python"]}
    extras = {line for name in RUNTIME for line in project["optional-dependencies"][name]}
    lowest = {re.split(r"[\[>]", line)[0]: line.split(">=")[1] for line in extras}
    other_names = {"matplotlib-base": "matplotlib", "dask-core": "dask"}
    for line in recipe["requirements"]["run_constraints"]:
        name, version = line.split(" >=")
        assert lowest[other_names.get(name, name)] == version, name
    entry = f"rankwolf = {project['scripts']['rankwolf']}"
    assert recipe["build"]["python"]["entry_points"] == [entry]


def test_workflows_call_make_targets():
    yaml = pytest.importorskip("yaml")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    called = set()
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            lines = [step["run"].split() for step in job["steps"] if "run" in step]
            assert all(words[0] == "make" for words in lines), path.name
            called |= {words[1] for words in lines}
    assert {"test", "lint", "docs", "test-sdist", "test-lowest"} <= called <= targets


RUNTIME = ("report", "video", "sklearn", "mri", "dask", "io")


def test_readme_on_an_index_has_no_link_into_the_repository():
    pytest.importorskip("hatchling")
    hook = module_from(ROOT / "hatch_build.py")
    shown = hook.for_an_index(README.read_text(encoding="utf-8"), None)
    assert not re.findall(r"\]\((?!https?:|#)", shown)
    absolute = hook.for_an_index(README.read_text(encoding="utf-8"), "https://example.org/rankwolf")
    assert "](https://example.org/rankwolf/raw/main/docs/demo.png)" in absolute
    assert not re.findall(r"\]\((?!https?:|#)", absolute)


def renew() -> None:
    """Write the quotes, the program and its output into the documents."""
    text = CONTRIBUTING.read_text(encoding="utf-8")
    CONTRIBUTING.write_text(QUOTE.sub(lambda m: m[1] + definitions(m[2], m[3]), text), encoding="utf-8")
    program, output = QUICKSTART.read_text(encoding="utf-8"), run_quickstart()
    text = PROGRAM.sub(lambda _: program, README.read_text(encoding="utf-8"))
    text = COMPARED.sub(lambda _: comparison(), OUTPUT.sub(lambda _: output, text))
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    renew()
