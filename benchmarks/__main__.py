"""The measurements that the documents quote.

``python -m benchmarks`` lists them by question. ``python -m benchmarks NAME …`` runs one; ``--help`` after the name
shows its options. ``python -m benchmarks quick`` is what ``make bench`` runs, at most 20 minutes, after which rows are
left out and say so; ``full`` takes hours. ``--docs`` writes ``docs/benchmarks.md`` from all that was saved.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

QUESTIONS = ("paper", "speed", "scale", "quality", "faults")
# Modules that others share, and that measure nothing themselves.
SHARED = {"children", "survival", "__init__", "__main__"}
QUICK_MINUTES = 18.0
# What matters most comes first, in case time runs out.
QUICK = ("scaling", "peers")


def modules() -> dict[str, str]:
    """Name to module, question by question."""
    here = Path(__file__).parent
    found = {
        path.stem: f"benchmarks.{question}.{path.stem}"
        for question in QUESTIONS
        for path in sorted((here / question).glob("*.py"))
        if path.stem not in SHARED and (question, path.stem) != ("paper", "tables")
    }
    return {**found, "ablation": "benchmarks.ablation"}


def main(arguments: Sequence[str] | None = None) -> None:
    words = list(sys.argv[1:] if arguments is None else arguments)
    known = modules()
    if not words or words[0] in ("-h", "--help"):
        _list(known)
    elif words[0] in ("quick", "full"):
        _selection(words[0] == "full", None, words[1:])
    elif words[0] in known:
        module = import_module(known[words[0]])
        if {"NAME", "measure"} <= vars(module).keys():  # an experiment of the harness
            _selection("--full" in words, [words[0]], [word for word in words[1:] if word != "--full"])
        else:
            sys.argv = [f"python -m benchmarks {words[0]}", *words[1:]]
            module.main()
    else:
        sys.exit(f"benchmarks: {words[0]!r} is not one of quick, full, {', '.join(known)}.")


def _list(known: dict[str, str]) -> None:
    print(__doc__)
    for question in QUESTIONS:
        about = import_module(f"benchmarks.{question}").__doc__
        print(f"{question}: {about}")
        for name, module in known.items():
            if module.startswith(f"benchmarks.{question}."):
                text = Path(__file__).parent.joinpath(question, f"{name}.py").read_text(encoding="utf-8")
                first = text.split('"""')[1].strip().splitlines()[0]
                print(f"  {name:<18} {first}")
        print()
    print("solver: what each part of the hybrid is worth.\n  ablation           passes without each of them")


def _selection(full: bool, only: list[str] | None, words: Sequence[str]) -> None:
    """Experiments of the harness: each run in a process of its own, each row saved as soon as it is there."""
    from benchmarks.harness import document
    from benchmarks.harness.experiment import Options, Session

    by_name = {module.NAME: module for module in document.EXPERIMENTS}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(by_name), default=only, help="these alone")
    parser.add_argument(
        "--data", nargs="+", default=[], help="these data sets of the two timings again; the other rows stay"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ours", default="hybrid", help="the solver to show (a contestant's name)")
    parser.add_argument("--minutes", type=float, help=f"time for all of it (quick: {QUICK_MINUTES:.0f})")
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.md at the end")
    chosen = parser.parse_args(words)
    minutes = chosen.minutes or (float("inf") if full or chosen.only else QUICK_MINUTES)
    deadline = time.monotonic() + 60.0 * minutes
    options = Options(full, chosen.threads, chosen.seed, chosen.ours, deadline, tuple(chosen.data))
    for name in chosen.only or (by_name if full else QUICK):
        module = by_name[name]
        print(f"\n{module.TITLE}", flush=True)
        session = Session(name, options)
        module.measure(session)
        print("\n" + module.report(session.results.rows, session.results.head["settings"]), flush=True)
    if chosen.docs:
        print(document.write())


if __name__ == "__main__":
    main()
