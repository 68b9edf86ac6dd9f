"""decompy: ``settings["solver"]`` is "pcp" (principal component pursuit) or "ialm"."""

from __future__ import annotations

from benchmarks.contestants import Challenge, Outcome
from benchmarks.contestants.rivals import Answer, timed
from benchmarks.data import Array


def solve(challenge: Challenge) -> Outcome:
    if challenge.settings.get("solver", "pcp") == "pcp":
        return timed(challenge, _pcp)
    return timed(challenge, _ialm)


def _pcp(matrix: Array, weight: float) -> Answer:
    from decompy.matrix_factorization import PrincipalComponentPursuit

    result = PrincipalComponentPursuit().decompose(matrix, lambdaval=weight)
    return (result.U * result.D) @ result.V.T, result.metrics["convergence"]["iterations"]


def _ialm(matrix: Array, weight: float) -> Answer:
    from decompy.matrix_factorization import InexactAugmentedLagrangianMethod

    return InexactAugmentedLagrangianMethod().decompose(matrix, lambd=weight).L, None
