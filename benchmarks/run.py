"""The measurements that the documents quote: ``python -m benchmarks.run --selection quick|full``.

The quick selection is what ``make bench`` runs: at most 20 minutes, after which rows are left out and say so. The full
one takes hours. ``--docs`` writes ``docs/benchmarks.md`` from all that was saved.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from benchmarks.experiments import largest
from benchmarks.harness import document
from benchmarks.harness.experiment import Options, Session

QUICK_MINUTES = 18.0
BY_NAME = {module.NAME: module for module in document.EXPERIMENTS}
# What matters most comes first, in case time runs out.
QUICK = ("agreement", "memory", "against_the_limit", "time_to_objective", "scaling", "time_to_gap", "peers")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--selection", choices=("quick", "full"), default="quick")
    parser.add_argument("--only", nargs="+", choices=list(BY_NAME), help="these experiments alone")
    parser.add_argument(
        "--data", nargs="+", default=[], help="these data sets of the two timings again; the other rows stay"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ours", default="hybrid", help="the solver to show (a contestant's name)")
    parser.add_argument("--minutes", type=float, help=f"time for all of it (quick: {QUICK_MINUTES:.0f})")
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.md at the end")
    chosen = parser.parse_args(arguments)
    full = chosen.selection == "full"
    minutes = chosen.minutes or (float("inf") if full or chosen.only else QUICK_MINUTES)
    deadline = time.monotonic() + 60.0 * minutes
    options = Options(full, chosen.threads, chosen.seed, chosen.ours, deadline, tuple(chosen.data))
    for name in chosen.only or (BY_NAME if full else QUICK):
        module = BY_NAME[name]
        print(f"\n{module.TITLE}", flush=True)
        session = Session(name, options)
        module.measure(session)
        print("\n" + module.report(session.results.rows, session.results.head["settings"]), flush=True)
    if largest.NAME not in QUICK and not full and not chosen.only:
        print(f"\n{largest.TITLE}: only in the full selection.")
    if chosen.docs:
        print(document.write())


if __name__ == "__main__":
    main()
