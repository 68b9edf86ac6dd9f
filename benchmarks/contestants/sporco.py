"""SPORCO: principal component pursuit by ADMM; its default tolerance of 1e-3 and its limit of 1000 iterations."""

from __future__ import annotations

from benchmarks.contestants import Challenge, Outcome
from benchmarks.contestants.rivals import Answer, timed
from benchmarks.data import Array


def solve(challenge: Challenge) -> Outcome:
    from sporco.admm import rpca

    def decompose(matrix: Array, weight: float) -> Answer:
        tol = challenge.settings.get("tol", 1e-3)
        options = rpca.RobustPCA.Options({"Verbose": False, "MaxMainIter": 1000, "RelStopTol": tol})
        solver = rpca.RobustPCA(matrix, weight, options)
        low_rank, _ = solver.solve()
        return low_rank, len(solver.getitstat().Iter)

    return timed(challenge, decompose)
