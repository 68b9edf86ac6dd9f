"""pyrpca: principal component pursuit by inexact augmented Lagrange multipliers."""

from __future__ import annotations

from benchmarks.contestants import Challenge, Outcome
from benchmarks.contestants.rivals import Answer, chosen, timed
from benchmarks.data import Array


def solve(challenge: Challenge) -> Outcome:
    from pyrpca import rpca_pcp_ialm

    def decompose(matrix: Array, weight: float) -> Answer:
        return rpca_pcp_ialm(matrix, weight, verbose=False, **chosen(challenge, "tol", "rho"))[0], None

    return timed(challenge, decompose)
