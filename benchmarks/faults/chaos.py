"""Faults of every sort, a number of tries each, and how many were survived: ``make chaos``.

``python -m benchmarks chaos [--tries 20] [--seed 0] [--only disks signals drivers clusters]``

Full disks for every kind of output, SIGINT and SIGTERM at random moments, drivers killed and resumed from their
checkpoints, Dask workers killed, stopped and out of memory, a scheduler that is killed and started again. What survival
means stands beside each row. Each part runs in a process of its own. The exit code is 1 where one was not survived.
"""

from __future__ import annotations

import re
import subprocess
import sys

from benchmarks.harness.options import options_of

MEANINGS = {
    "disks": "one line that names the output, nothing left",
    "signals": "the signal's exit code, one line, nothing left",
    "drivers": "objective and passes of the undisturbed run",
    "clusters": "the undisturbed objective, or one error that says what to do",
}
PARTS = {"disks": "full_disks", "signals": "signals", "drivers": "interrupted", "clusters": "clusters"}


def run(part: str, tries: int, seed: int) -> list[tuple[str, int, int, str]]:
    """The rows that one part prints: ``name: survived of tries …``."""
    words = [sys.executable, "-m", "benchmarks", PARTS[part]]
    words += ["--runs", str(tries)] if part == "drivers" else ["--tries", str(tries), "--seed", str(seed)]
    rows = []
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            found = re.match(r"(.+?): (\d+) of (\d+)(.*)", line)
            if found:
                name = f"driver killed, {found[1]}" if part == "drivers" else found[1]
                rows.append((name, int(found[3]), int(found[2]), found[4].strip()))
    return rows or [(part, tries, 0, f"ended with {process.returncode} and said nothing")]


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    options = parser.parse_args()
    lines, failed = ["| fault | tries | survived | survived means |", "|---|---|---|---|"], 0
    for part in options.only:
        for name, tries, good, _ in run(part, options.tries, options.seed):
            lines.append(f"| {name} | {tries} | {good} | {MEANINGS[part]} |")
            failed += good < tries
    print("\n" + "\n".join(lines))
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
