"""Every code block of README.md, CONTRIBUTING.md and the pages, run as a reader would paste it.

``python docs/blocks.py`` runs them all and prints a list with pass or fail; ``--quick`` runs the Python ones and only
parses the commands. Which blocks there are, and what is done with each:

- ``python``: run by itself, in an empty folder, warnings as errors. Where "prints" and a block of output follow, the
  output is compared, but for its numbers. After ``<!-- quoted: … -->`` it is a quotation, which
  tests/test_documents.py compares with the source.
- ``sh``: every ``rankwolf`` and ``python`` line is run, one block of a page after the other, in a folder with small
  files of the names that the page uses. ``make`` targets and the extras of ``pip install`` must exist. ``dask`` lines
  are started by tests/test_on_dask.py.
- After ``<!-- not run: reason -->``, the reason is listed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import io
import multiprocessing
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
import traceback
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
FENCE = re.compile(
    r"(?P<before><!-- (?P<mark>[a-z ]+)(?:: (?P<reason>[^\n]*?))? -->\n)?"
    r"^```(?P<language>python|sh)\n(?P<code>.*?)^```$"
    r"(?:\n\nprints\n\n```\w*\n(?P<output>.*?)^```$)?",
    re.M | re.S,
)
SECONDS = 300


@dataclass(frozen=True)
class Block:
    """One block of one page."""

    page: str
    line: int
    language: str
    code: str
    output: str | None
    mark: str | None
    reason: str | None

    @property
    def name(self) -> str:
        """Page and line."""
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """The blocks of one page, in order."""
    text = page.read_text(encoding="utf-8")
    name = str(page.relative_to(ROOT))
    return [
        Block(name, text.count("\n", 0, match.start("code")), match["language"], match["code"], match["output"],
              match["mark"], match["reason"])
        for match in FENCE.finditer(text)
    ]  # fmt: skip


def pages() -> list[Path]:
    """All that readers see; what Sphinx generated is left out."""
    return [page for page in PAGES if not {"_build", "gallery", "api"} & set(page.relative_to(ROOT).parts)]


def without_numbers(text: str) -> str:
    """Times differ from run to run, and the last digits, and with them counts of one, from machine to machine."""
    text = re.sub(r"[\d.,e+-]*\d", "#", text).replace("# iterations,", "# iteration,")
    return re.sub(r"\s+", " ", text).strip()


def _run_python(block: Block, result: multiprocessing.SimpleQueue[str]) -> None:
    """In a process of its own, in an empty folder."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            with redirect_stdout(printed), warnings.catch_warnings():
                warnings.simplefilter("error")
                exec(compile(block.code, block.name, "exec"), {"__name__": "__main__"})
            wanted = block.output
            if wanted is not None and without_numbers(printed.getvalue()) != without_numbers(wanted):
                result.put(f"fail: printed\n{printed.getvalue()}instead of\n{wanted}")
            else:
                result.put("pass")
        except BaseException:
            result.put("fail: " + traceback.format_exc(limit=-2))
        os.chdir("/")


def run_python(block: Block) -> str:
    """ "pass", or "fail: …". The process is forked, so that the libraries are imported once for all blocks."""
    for name in ("rankwolf.api.decompose", "rankwolf.factors.robust_pca", "matplotlib.pyplot", "pandas"):
        importlib.import_module(name)
    context = multiprocessing.get_context("fork")
    result = context.SimpleQueue()
    process = context.Process(target=_run_python, args=(block, result))
    process.start()
    process.join(SECONDS)
    if process.is_alive():
        process.kill()
        return f"fail: not done in {SECONDS} s"
    return "fail: the process died" if result.empty() else result.get()


def lines_of(block: Block) -> list[str]:
    """The commands of a block, without comments."""
    joined = block.code.replace("\\\n", " ")
    return [
        line
        for line in (raw.split("  #")[0].strip() for raw in joined.splitlines())
        if line and line[0] != "#"
    ]


def check_command(line: str) -> str:
    """ "pass" where the options, targets and extras of a line exist."""
    words = shlex.split(line)
    if "|" in words:
        words = words[words.index("|") + 1 :]
    words = words[: words.index(">")] if ">" in words else words
    if words[0] == "rankwolf":
        from rankwolf.cli.main import build_parser, find_commands

        try:
            build_parser(find_commands()).parse_args(words[1:])
        except SystemExit as error:
            return "pass" if error.code == 0 else f"fail: {line}: options"
        return "pass"
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
        wrong = [word for word in words[1:] if "=" not in word and word not in targets]
        return f"fail: no make target {wrong[0]}" if wrong else "pass"
    if words[:2] == ["pip", "install"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        asked = {extra for found in re.findall(r"\[([\w,]+)\]", line) for extra in found.split(",")}
        wrong = asked - set(extras["optional-dependencies"])
        return f"fail: no extra {sorted(wrong)[0]}" if wrong else "pass"
    return "pass" if words[0] in ("python", "dask", "cd", "cat") else f"fail: {words[0]}: nobody checks this"


def run_commands(blocks: list[Block]) -> dict[Block, str]:
    """The blocks of one page, one after the other in one folder."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder))
        for block in blocks:
            checked = [answer for answer in map(check_command, lines_of(block)) if answer != "pass"]
            answers[block] = checked[0] if checked else "pass"
            for line in lines_of(block):
                first = line.split()[0]
                if checked or block.mark is not None or first in ("make", "pip", "dask", "cd"):
                    continue
                # The package and the Python that run this, whatever is installed elsewhere.
                python = shlex.quote(sys.executable)
                script = f'rankwolf() {{ {python} -m rankwolf "$@"; }}; python() {{ {python} "$@"; }}; {line}'
                done = subprocess.run(
                    ["bash", "-o", "pipefail", "-c", script],
                    cwd=folder,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=SECONDS,
                )
                if done.returncode:
                    answers[block] = f"fail: {line}: {done.stderr.strip()[-400:]}"
                    break
    return answers


def make_files(folder: Path) -> None:
    """Small files of the names that the pages use."""
    import numpy as np

    rng = np.random.default_rng(0)
    table = rng.standard_normal((120, 2)) @ rng.standard_normal((2, 12)) + 0.1 * rng.standard_normal(
        (120, 12)
    )
    table[rng.random(table.shape) < 0.02] += 10.0
    names = ",".join(f"sensor {number}" for number in range(12))
    for name in ("panel.csv", "readings.csv"):
        np.savetxt(folder / name, table, delimiter=",", header=names, comments="")
    np.save(folder / "matrix.npy", table)
    frames = np.clip(120 + 30 * np.sin(np.arange(96) / 9) + rng.normal(0, 2, (60, 64, 96)), 0, 255).astype(
        np.uint8
    )
    truth = np.zeros(frames.shape, np.uint8)
    for number, frame in enumerate(frames):
        frame[20:36, number : number + 16] = 240
        truth[number, 20:36, number : number + 16] = 255
    write_video(folder, ("street.mp4", "monday.mp4", "tuesday.mp4"), frames)
    write_pictures(folder, truth, frames)
    (folder / "frames.rgb").write_bytes(np.repeat(frames[..., None], 3, axis=-1).tobytes())


def write_video(folder: Path, names: tuple[str, ...], frames: Any) -> None:
    """The same frames under several names."""
    import av

    for name in names:
        with av.open(str(folder / name), "w") as container:
            stream = container.add_stream("libx264", rate=25)
            stream.height, stream.width, stream.pix_fmt = *frames.shape[1:], "yuv420p"
            for frame in frames:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="gray")))
            container.mux(stream.encode())


def write_pictures(folder: Path, truth: Any, frames: Any) -> None:
    """Labelled masks, and a folder of photographs."""
    from PIL import Image

    for name, pictures in {"groundtruth": truth, "photographs": frames[::3]}.items():
        (folder / name).mkdir(parents=True)
        for number, picture in enumerate(pictures, start=1):
            Image.fromarray(picture).save(folder / name / f"{number:06d}.png")


class Passed:
    """Python blocks that passed before, with the same package and the same constraints; kept in a file, if any."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        source = hashlib.sha256(sys.version.encode())
        for file in [ROOT / "constraints.txt", *sorted(ROOT.glob("src/**/*.py"))]:
            source.update(file.read_bytes())
        self.source = source.hexdigest()
        self.known = set(path.read_text(encoding="utf-8").split()) if path and path.is_file() else set()
        self.used: set[str] = set()

    def answer(self, block: Block) -> str:
        """ "pass" without a run where it is known."""
        key = hashlib.sha256((self.source + block.code + (block.output or "")).encode()).hexdigest()
        answer = "pass" if key in self.known else run_python(block)
        self.used |= {key} if answer == "pass" else set()
        return answer

    def keep(self) -> None:
        """Write what passed this time."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text("\n".join(sorted(self.used)), encoding="utf-8")


def answers(quick: bool = False, cache: Path | None = None) -> dict[Block, str]:
    """Every block, and "pass", "fail: …", "not run: …" or "quotation"."""
    found: dict[Block, str] = {}
    passed = Passed(cache)
    for page in pages():
        commands = []
        for block in blocks_of(page):
            if block.mark == "quoted":
                found[block] = "quotation"
            elif block.mark == "not run":
                found[block] = f"not run: {block.reason}"
            elif block.language == "python":
                found[block] = passed.answer(block)
            else:
                commands.append(block)
                if quick:
                    wrong = [answer for answer in map(check_command, lines_of(block)) if answer != "pass"]
                    found[block] = wrong[0] if wrong else "pass"
        if commands and not quick:
            found |= run_commands(commands)
    passed.keep()
    return found


def main() -> int:
    """Print the list; 1 if anything failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="parse the commands instead of running them")
    parser.add_argument(
        "--cache", type=Path, help="a file of blocks that passed before, with the same package"
    )
    options = parser.parse_args()
    os.environ.setdefault("MPLBACKEND", "Agg")
    found = answers(options.quick, options.cache)
    for block, answer in sorted(found.items(), key=lambda pair: (pair[0].page, pair[0].line)):
        print(f"{block.name:<40} {block.language:<7} {answer}")
    failed = sum(answer.startswith("fail") for answer in found.values())
    print(f"{len(found)} blocks, {sum(answer == 'pass' for answer in found.values())} pass, {failed} fail")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
