"""The documents show programs and their output; both are true.

``python tests/test_documents.py`` renews the quickstart and its output after a change.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README, ALGORITHMS = ROOT / "README.md", ROOT / "docs" / "algorithms.md"
QUICKSTART = ROOT / "examples" / "quickstart.py"
PROGRAM = re.compile(r"(?<=<!-- quickstart -->\n```python\n).*?(?=```)", re.S)
OUTPUT = re.compile(r"(?<=\nprints\n\n```\n).*?(?=```)", re.S)
CACHE = ROOT / ".pytest_cache" / "blocks"
RENEW = "Run: python tests/test_documents.py"


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


def test_statuses_are_the_ones_that_exist():
    from rankwolf import Status

    rows = re.findall(r"^\| `([A-Z_]+)` \| (.*) \|$", ALGORITHMS.read_text(encoding="utf-8"), re.M)
    assert rows == [(status.name, status.value) for status in Status]


def test_methods_are_the_ones_that_exist():
    from rankwolf.solvers import SOLVERS

    table = ALGORITHMS.read_text(encoding="utf-8").split("<!-- methods -->")[1].split("<!-- /methods -->")[0]
    assert set(re.findall(r'`"([a-z-]+)"`', table)) == set(SOLVERS)


def test_the_readme_is_short_and_its_two_commands_are_targets():
    """``make demo`` and ``make test`` as they stand there; the first is run on a copy in tests/test_cli_demo.py."""
    text = README.read_text(encoding="utf-8")
    assert len(re.sub(r"```.*?```", "", text, flags=re.S).split()) <= 700
    commands = re.findall(r"^make ([a-z]+)", text.split("## Try it")[1].split("```")[1], re.M)
    assert commands == ["demo", "test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{name}:", makefile, re.M) for name in commands)


def test_links_between_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text(encoding="utf-8")):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


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
            assert all(words[0] in ("make", "python") for words in lines), path.name
            called |= {words[1] for words in lines if words[0] == "make"}
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
    """Write the program and its output into the README."""
    program, output = QUICKSTART.read_text(encoding="utf-8"), run_quickstart()
    text = PROGRAM.sub(lambda _: program, README.read_text(encoding="utf-8"))
    README.write_text(OUTPUT.sub(lambda _: output, text), encoding="utf-8")


if __name__ == "__main__":
    renew()
