"""TensorLy: robust tensor PCA by augmented Lagrange multipliers, here on a matrix."""

from __future__ import annotations

from benchmarks.contestants import Challenge, Outcome
from benchmarks.contestants.rivals import Answer, chosen, timed
from benchmarks.data import Array


def solve(challenge: Challenge) -> Outcome:
    from tensorly.decomposition import robust_pca

    def decompose(matrix: Array, weight: float) -> Answer:
        # It penalises the nuclear norms of both unfoldings of a matrix, so ℓ1 weighs twice as much in the same problem.
        most = int(challenge.settings.get("max_iter", 300))
        pace = chosen(challenge, "tol", "learning_rate")
        low_rank, _, errors = robust_pca(
            matrix, reg_E=2.0 * weight, n_iter_max=most, return_errors=True, verbose=0, **pace
        )
        return low_rank, len(errors)

    return timed(challenge, decompose)
