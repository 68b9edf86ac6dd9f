"""Table 1, the two videos of it that we have: ``python -m benchmarks table1``.

Lobby takes some minutes, Restaurant much of an hour: choose rows by ``--data`` and ``--rho``.
"""

from __future__ import annotations

from benchmarks.paper.tables import PaperTable, Tolerance, run

TABLE = PaperTable(
    name="table1",
    rhos=(1.0, 0.8, 0.6),
    counts={
        "lobby": {"fw-t": (96, 104, 133), "ista": (144, 216, 380), "fista": (41, 52, 74)},
        "restaurant": {"fw-t": (70, 74, 76), "ista": (52, 81, 144), "fista": (20, 26, 38)},
    },
    tolerances={
        "fw-t": Tolerance(full=None, full_fraction=0.1, masked_fraction=0.1),
        "ista": Tolerance(None, None, None),
        "fista": Tolerance(full=2, full_fraction=None, masked_fraction=None),
    },
    repeats=1,
)


def main() -> None:
    run(TABLE)
