"""What the parts of ``chaos`` share: their options, the rows that they print, and the exit code."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.faults.children import warm_up
from benchmarks.harness.options import options_of

# A fault, how often it was tried, how often it was survived, and what went wrong first.
Row = tuple[str, int, int, str]


def tries_and_seed(about: str | None) -> argparse.Namespace:
    """The options ``--tries`` and ``--seed`` of the command line; ``about`` is what ``--help`` says."""
    parser = options_of(about)
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def tell_of_children(about: str | None, survive: Callable[[Path, int, int], Iterable[Row]]) -> None:
    """The rows of ``survive(folder, tries, seed)``, which forks children, in a folder that is removed afterwards."""
    options = tries_and_seed(about)
    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        tell(survive(Path(folder), options.tries, options.seed))


def tell(rows: Iterable[Row]) -> None:
    """Print each row as soon as it is there, and leave with 1 where a try was not survived."""
    good = True
    for name, tries, survived, wrong in rows:
        good = good and survived == tries
        print(f"{name}: {survived} of {tries} {wrong}", flush=True)
    raise SystemExit(0 if good else 1)
