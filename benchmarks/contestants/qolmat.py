"""Qolmat: principal component pursuit, made for imputation."""

from __future__ import annotations

import numpy as np

from benchmarks.contestants import Challenge, Outcome
from benchmarks.contestants.rivals import Answer, timed
from benchmarks.data import Array


def solve(challenge: Challenge) -> Outcome:
    from qolmat.imputations.rpca.rpca_pcp import RpcaPcp

    def decompose(matrix: Array, weight: float) -> Answer:
        model = RpcaPcp(
            lam=weight, max_iterations=int(challenge.settings.get("max_iter", 1000)), verbose=False
        )
        return model.decompose(matrix, np.ones(matrix.shape, bool))[0], None

    return timed(challenge, decompose)
