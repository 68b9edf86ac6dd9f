"""The four walks of docs/architecture.md name the files that the calls enter; run as a script, it writes them."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import rankwolf as rw

ROOT = Path(rw.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"


def passed_by(call):
    """The files of the package whose functions ran, in the order of their first call; importing is no call."""
    seen: dict[str, None] = {}

    def look(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(str(ROOT)):
            seen.setdefault(str(Path(code.co_filename).relative_to(ROOT)))

    call()  # whatever is imported late is there now
    threading.setprofile(look)
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(seen)


def matrix():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 12)) + 0.1 * rng.standard_normal((60, 12))
    X[rng.random(X.shape) < 0.05] += 20.0
    return X


def decompose(tmp_path):
    rw.decompose(matrix(), delta="auto", rng=0)


def recover(tmp_path):
    X = matrix()
    A = rw.sensing.Entries(np.random.default_rng(1).random(X.shape) < 0.8)
    rw.recover(A.apply(X), A, delta="auto", rng=0)


def separate(tmp_path):
    from rankwolf.cli.main import main
    from rankwolf.video.scene import Scene

    path = tmp_path / "video.npy"
    np.save(path, Scene(height=24, width=32, n_frames=20, seed=1).render().frames)
    out = str(tmp_path / "out")
    assert main(["separate", str(path), "--output", out, "--quiet", "--force"]) in (0, None)


def fit(tmp_path):
    rw.RobustPCA(random_state=0).fit(matrix())


CALLS = {
    "rw.decompose(X)": decompose,
    "rw.recover(b, A)": recover,
    "rankwolf separate video.mp4": separate,
    "rw.RobustPCA().fit(X)": fit,
}


BLOCK = re.compile(r"(?<=<!-- walks -->\n).*?(?=<!-- /walks -->)", re.S)


def walks(tmp_path):
    """A line for each call: the files of the package that it enters, in order."""
    lines = []
    for name, call in CALLS.items():
        files = passed_by(lambda call=call: call(tmp_path))
        lines.append(f"**`{name}`**, {len(files)} files: " + ", ".join(f"`{file}`" for file in files) + ".\n")
    return "\n".join(lines) + "\n"


@pytest.mark.doubts
def test_the_page_names_the_files_that_the_calls_enter(tmp_path):
    """As a set for each call: the order depends on what was imported before."""
    shown = BLOCK.search(PAGE.read_text(encoding="utf-8"))[0]
    named, passed = (
        [set(re.findall(r"`([\w/]+\.py)`", line)) for line in text.split("\n\n") if line.strip()]
        for text in (shown, walks(tmp_path))
    )
    assert named == passed, "Run: python tests/test_walks.py"


if __name__ == "__main__":
    import tempfile
    import warnings

    warnings.simplefilter("ignore")
    made = walks(Path(tempfile.mkdtemp()))
    PAGE.write_text(BLOCK.sub(lambda _: made, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
