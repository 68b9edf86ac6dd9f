"""Qolmat: principal component pursuit, made for imputation."""

from __future__ import annotations

import numpy as np

from benchmarks.contestants import Challenge, Outcome
from benchmarks.contestants.rivals import Answer, chosen, timed
from benchmarks.data import Array


def solve(challenge: Challenge) -> Outcome:
    from qolmat.imputations.rpca.rpca_pcp import RpcaPcp

    def decompose(matrix: Array, weight: float) -> Answer:
        pace = {"max_iterations": 1000, **chosen(challenge, "max_iterations", "tolerance", "mu")}
        model = RpcaPcp(lam=weight, verbose=False, **pace)
        return model.decompose(matrix, np.ones(matrix.shape, bool))[0], None

    return timed(challenge, decompose)
