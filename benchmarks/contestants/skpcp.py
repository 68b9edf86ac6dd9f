"""skpcp: principal component pursuit as a scikit-learn estimator; up to 1000 iterations, its default is 100."""

from __future__ import annotations

from benchmarks.contestants import Challenge, Outcome
from benchmarks.contestants.rivals import Answer, chosen, timed
from benchmarks.data import Array


def solve(challenge: Challenge) -> Outcome:
    from skpcp import PCP

    def decompose(matrix: Array, weight: float) -> Answer:
        model = PCP(alpha=weight, **{"max_iter": 1000, **chosen(challenge, "max_iter", "tol", "mu")}).fit(
            matrix
        )
        return model.low_rank_, model.n_iter_

    return timed(challenge, decompose)
