"""Table 2, on the paper's own faces: ``python -m benchmarks table2``. About six minutes on one core."""

from __future__ import annotations

from benchmarks.paper.tables import PaperTable, Tolerance, run

TABLE = PaperTable(
    name="table2",
    rhos=(1.0, 0.9, 0.8, 0.7, 0.6, 0.5),
    counts={
        "yaleB01": {
            "fw-t": (65, 68, 79, 76, 71, 80),
            "ista": (49, 59, 76, 97, 127, 182),
            "fista": (17, 19, 22, 25, 29, 35),
        },
        "yaleB02": {
            "fw-t": (64, 64, 71, 71, 73, 63),
            "ista": (51, 61, 78, 99, 132, 177),
            "fista": (18, 20, 22, 26, 30, 35),
        },
        "yaleB03": {
            "fw-t": (62, 71, 69, 78, 73, 70),
            "ista": (49, 62, 78, 101, 132, 181),
            "fista": (18, 20, 22, 26, 30, 36),
        },
    },
    tolerances={
        "fw-t": Tolerance(full=3, full_fraction=None, masked_fraction=0.2),
        "ista": Tolerance(full=5, full_fraction=None, masked_fraction=0.1),
        "fista": Tolerance(full=2, full_fraction=None, masked_fraction=0.1),
    },
    repeats=9,
)


def main() -> None:
    run(TABLE)
