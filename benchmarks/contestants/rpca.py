"""rpca: accelerated alternating projections. It has to be told the rank: ``settings["rank"]``."""

from __future__ import annotations

from benchmarks.contestants import Challenge, Outcome
from benchmarks.contestants.rivals import Answer, timed
from benchmarks.data import Array


def solve(challenge: Challenge) -> Outcome:
    from rpca import RobustPCA

    def decompose(matrix: Array, weight: float) -> Answer:
        model = RobustPCA(n_components=int(challenge.settings.get("rank", 10)), verbose=False).fit(matrix)
        return model.low_rank_ + model.mean_, model.end_iter_

    return timed(challenge, decompose)
