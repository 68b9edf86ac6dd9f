"""decompy: ``settings["solver"]`` is "pcp" (principal component pursuit) or "ialm"."""

from __future__ import annotations

import numpy as np

from benchmarks.contestants import Challenge, Outcome
from benchmarks.contestants.rivals import Answer, chosen, timed
from benchmarks.data import Array


def solve(challenge: Challenge) -> Outcome:
    def pcp(matrix: Array, weight: float) -> Answer:
        from decompy.matrix_factorization import PrincipalComponentPursuit

        solver = PrincipalComponentPursuit(**chosen(challenge, "delta", "maxiter"))
        result = solver.decompose(matrix, lambdaval=weight)
        return (result.U * result.D) @ result.V.T, result.metrics["convergence"]["iterations"]

    def ialm(matrix: Array, weight: float) -> Answer:
        from decompy.matrix_factorization import InexactAugmentedLagrangianMethod

        setattr(np, "Inf", np.inf)  # noqa: B010  # a name that it asks for and NumPy 2 no longer has
        solver = InexactAugmentedLagrangianMethod(**chosen(challenge, "tol"))
        return solver.decompose(matrix, lambd=weight, **chosen(challenge, "rho")).L, None

    return timed(challenge, pcp if challenge.settings.get("solver", "pcp") == "pcp" else ialm)
