"""rpca: accelerated alternating projections. It has to be told the rank: ``settings["rank"]``."""

from __future__ import annotations

from benchmarks.contestants import Challenge, Outcome
from benchmarks.contestants.rivals import Answer, chosen, timed
from benchmarks.data import Array


def solve(challenge: Challenge) -> Outcome:
    from rpca import RobustPCA

    def decompose(matrix: Array, weight: float) -> Answer:
        rank = int(challenge.settings.get("rank", 10))
        model = RobustPCA(rank, verbose=False, **chosen(challenge, "tol", "gamma", "beta", "trim")).fit(
            matrix
        )
        return model.low_rank_ + model.mean_, model.end_iter_

    return timed(challenge, decompose)
