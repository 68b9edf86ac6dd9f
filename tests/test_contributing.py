"""The diffs that CONTRIBUTING sketches are whole: applied to a copy of the package, they do what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DIFF = re.compile(r"```diff\n(.*?)```", re.S)


def sections(diff):
    """(path, hunks) for each file of a diff; a hunk is (old lines, new lines)."""
    for section in re.split(r"^\+\+\+ ", diff, flags=re.M)[1:]:
        path, _, body = section.partition("\n")
        hunks = []
        for hunk in body.strip("\n").split("\n\n"):
            lines = hunk.splitlines()
            assert all(line[0] in "+-" for line in lines), hunk
            hunks.append([[line[1:] for line in lines if line[0] == sign] for sign in "-+"])
        yield path, hunks


def apply(diff, root):
    for name, hunks in sections(diff):
        path = root / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for old, new in hunks:
            before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
            assert text.count(before) == 1 or not text, f"{name} has not once:\n{before}"
            text = text.replace(before, after) if text else after
        path.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """The package with everything that CONTRIBUTING adds to it."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    diffs = DIFF.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    for diff in diffs:
        apply(diff, root)
    return root, diffs


def test_each_addition_is_one_file_and_one_entry_in_a_registry(extended):
    """A new file and its import and entry in the registry, or a class and its entry in the file of its kind."""
    _, diffs = extended
    assert len(diffs) == 3
    for diff in diffs:
        *new, (_, entries) = list(sections(diff))
        assert len(new) <= 1
        changed = [line for old, after in entries for line in after if line not in old]
        assert len(new) == 0 or len(changed) == 2


PROGRAM = """
import numpy as np, rankwolf as rw
from rankwolf.problem import Mixed
from rankwolf.data.formula import Function

assert rw.__file__.startswith({root!r})
function = Function((30, 16), lambda i, j: np.sin(i) * np.cos(j) + 9.0 * ((7 * i + 3 * j) % 31 == 0))
X = function.of(np.arange(30)[:, None], np.arange(16))
weights = (1.0, 0.3)
A = rw.sensing.Entries(np.ones(X.shape, bool))

truth = rw.decompose(X, lambdas=weights, method="fista", tol=1e-6, rng=0)
for fit in (
    rw.decompose(X, lambdas=weights, method="heavy-ball", tol=1e-3, rng=0),
    rw.decompose(function, lambdas=weights, method="heavy-ball", tol=1e-3, rng=0),
    rw.recover(A.apply(X), A, lambdas=weights, method="heavy-ball", tol=1e-3, rng=0),
):
    assert fit.status.name == "GAP_REACHED" and fit.method == "heavy-ball"
    assert truth.objective * (1 - 1e-9) <= fit.objective <= truth.objective / (1 - 1e-3)

# With the norm that weights give as the radius, L and S are the same.
mixed = Mixed(truth.low_rank.nuclear_norm, weights[1])
optimum = truth.objective - weights[0] * mixed.tau_L
fits = [rw.decompose(X, problem=mixed, method=method, tol=3e-2, rng=0) for method in ("auto", "heavy-ball")]
fits.append(rw.recover(A.apply(X), A, problem=mixed, tol=3e-2, rng=0))
for fit in fits:
    assert fit.status.name == "GAP_REACHED"
    assert (1 - 1e-5) * optimum <= fit.objective <= optimum / (1 - 3e-2)
slow = rw.decompose(X, problem=mixed, method="fw", tol=3e-2, max_iter=50, rng=0)
for fit in (*fits, slow):
    assert fit.objective - fit.gap <= optimum * (1 + 1e-5)
assert slow.objective < slow.history[0].objective
assert fits[0].problem == mixed and "τ_L = " in repr(fits[0]) and fits[0].radii is None
fits[0].save({root!r} + "/fit.npz")
assert rw.load({root!r} + "/fit.npz").problem == mixed
"""


def test_what_they_add_satisfies_the_linter(extended):
    root, diffs = extended
    shutil.copy(ROOT / "pyproject.toml", root)
    changed = [path for diff in diffs for path, _ in sections(diff)]
    for words in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *words, *changed]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if "No module named ruff" in done.stderr:
            pytest.skip("ruff is not installed")
        assert done.returncode == 0, done.stdout + done.stderr


def test_what_they_add_works(extended):
    """Without compilation: a copy of the package has no compiled kernels, and the matrices are small."""
    root, _ = extended
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "NUMBA_DISABLE_JIT": "1"}
    program = PROGRAM.format(root=str(root))
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
