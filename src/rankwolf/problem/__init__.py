"""The convex problems that are solved, in one language.

A form of the problem is one class. It answers what an algorithm, the certificate and the loop ask of it: the objective
of a pair (L, S), a lower bound on the optimum from a dual point, the vertex that Frank-Wolfe moves towards, the
thresholds of a proximal step, and its own description. The arguments are norms, inner products and counts, which passes
over the data (for entries) or products with A (for measurements) have added up.

Nothing here knows of data, passes or solvers, and no array of the matrix's size comes in. Which numbers define a
problem is chosen in :mod:`rankwolf.weights`; a solver asks the class and never which class it is.
"""

from __future__ import annotations

from rankwolf.problem.base import Certificate, FindThreshold, Found, Problem, Share, WithOracles
from rankwolf.problem.constrained import Constrained
from rankwolf.problem.noise_bounded import NoiseBounded
from rankwolf.problem.penalized import Past, Penalized

# Forms by the name of the parameter that defines them. A checkpoint stores that name.
FORMS: dict[str, type[Problem]] = {
    form.parameter: form
    for form in (
        Penalized,
        Constrained,
        NoiseBounded,
    )
}

__all__ = [
    "FORMS",
    "Certificate",
    "Constrained",
    "FindThreshold",
    "Found",
    "NoiseBounded",
    "Past",
    "Penalized",
    "Problem",
    "Share",
    "WithOracles",
]
