"""The four walks of docs/architecture.md pass through the files that it names, in the order in which it names them."""

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


def walks():
    """Heading to the files and folders that the walk under it names, in order."""
    text = PAGE.read_text(encoding="utf-8").split("## Four walks")[1]
    parts = re.split(r"^\*\*`(.*?)`\*\*$", text, flags=re.M)[1:]
    bodies = (body.split("\n\n")[0] for body in parts[1::2])
    return {
        head: re.findall(r"`([\w/]+(?:\.py|/))`", body) for head, body in zip(parts[::2], bodies, strict=True)
    }


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


@pytest.mark.doubts
@pytest.mark.parametrize("walk", CALLS)
def test_a_walk_passes_through_the_files_that_the_page_names(walk, tmp_path):
    named = walks()[walk]
    assert len(named) > 4
    passed = passed_by(lambda: CALLS[walk](tmp_path))
    places = [next((k for k, file in enumerate(passed) if file.startswith(name)), None) for name in named]
    assert None not in places, f"not passed: {[n for n, p in zip(named, places, strict=True) if p is None]}"
    assert places == sorted(places), f"in another order: {[passed[p] for p in sorted(places)]}"


def test_every_walk_is_tried():
    assert list(walks()) == list(CALLS)


if __name__ == "__main__":
    import tempfile

    for name, call in CALLS.items():
        print(name, *passed_by(lambda call=call: call(Path(tempfile.mkdtemp()))), sep="\n  ")
