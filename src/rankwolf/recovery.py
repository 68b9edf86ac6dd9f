"""``recover``: the two parts of a matrix that was only measured, b = A[M]."""

from __future__ import annotations

from typing import Any

from rankwolf import validation
from rankwolf.api import check_settings, choose_solver
from rankwolf.problem import Penalized, Problem, paper_weights
from rankwolf.result import Decomposition
from rankwolf.sensing import Measurements, as_sensing
from rankwolf.solve import Callback, solve
from rankwolf.solvers import SOLVERS, Solver
from rankwolf.solvers.measured import MEASURED_SOLVERS


def recover(
    b: Any,
    sensing: Any,
    shape: tuple[int, int] | None = None,
    *,
    lambdas: tuple[float, float] | None = None,
    delta: float = 1e-3,
    radii: tuple[float, float] | None = None,
    method: str | Solver[Any, Any] = "auto",
    tol: float = 1e-3,
    stop: str = "gap",
    max_iter: int = 1000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    norm: float | None = None,
    rng: Any = None,
    n_threads: int | None = None,
) -> Decomposition:
    """Recover a low-rank and a sparse part from linear measurements, b ≈ A[L + S].

    Solves min ½‖b − A[L + S]‖² + λ_L‖L‖_* + λ_S‖S‖₁ (equation 1.3 of the paper), or with ``radii`` the problem in which
    ‖L‖_* ≤ τ_L and ‖S‖₁ ≤ τ_S are constraints. L and S are real; b and A may be complex. Everything is float64, S and
    A*r are arrays of the matrix's size.

    Parameters
    ----------
    b : array of shape (p,)
        The measurements.
    sensing : operator
        One of :mod:`rankwolf.sensing`; a list of p sensing matrices A_k, with b_k = ⟨A_k, M⟩; anything that
        ``scipy.sparse.linalg.aslinearoperator`` takes, PyLops included, acting on ``M.ravel()``; or a pair
        (forward, adjoint) of functions. Linearity and the adjoint are tested once, with random matrices.
    shape : (m, n)
        Of M. It may be left out where the operator knows it.
    lambdas : (λ_L, λ_S), optional
        Default: the paper's rule with ρ = p/(mn) and the operator's scale, λ_L = δρ‖A‖‖b‖ and
        λ_S = δ√ρ‖A‖‖b‖/√max(m, n). Multiplying A and b by a constant then changes nothing.
    delta : float
        δ of that rule.
    radii : (τ_L, τ_S), optional
        Solve the norm-constrained problem instead.
    method : str or Solver
        ``"fw-t"`` for weights, ``"fw-p"`` for radii; ``"fista"``, ``"ista"`` (projected gradient for radii) and
        ``"fw"`` for both; ``"auto"`` is ``"fista"``. An object of :mod:`rankwolf.solvers.measured` carries its own
        settings.
    norm : float, optional
        An upper bound on ‖A‖, where one is known; it sets the step sizes and is the ‖A‖ of the default weights. By
        default the operator's own, or an estimate from about 65 products with A and A*, a few per cent too large on
        purpose.
    tol, stop, max_iter, max_seconds, callback, rng, n_threads
        As in :func:`rankwolf.decompose`. The threads are for Fourier and cosine transforms; BLAS keeps to one.

    Returns
    -------
    Decomposition
        ``passes`` counts the products with A and with A* that the run made.

    Examples
    --------
    >>> import numpy as np, rankwolf as rw
    >>> from rankwolf.sensing import PartialDCT
    >>> generator = np.random.default_rng(0)
    >>> M = np.outer(generator.standard_normal(30), generator.standard_normal(20))
    >>> M[3, 5] += 10.0
    >>> A = PartialDCT.random(480, (30, 20), seed=0)
    >>> fit = rw.recover(A.apply(M), A, M.shape, rng=0)
    >>> fit.low_rank.rank, bool(abs(fit.sparse[3][5] - 10.0) < 0.2), fit.status.name
    (1, True, 'GAP_REACHED')
    """
    settings = check_settings(
        "recover", lambdas=lambdas, delta=delta, radii=radii, tol=tol, stop=stop, max_iter=max_iter,
        max_seconds=max_seconds, callback=callback, n_threads=n_threads,
    )  # fmt: skip
    if isinstance(method, tuple(SOLVERS.values())):
        raise validation.bad("method", "a solver for measurements", f"{type(method).__name__}, which is for entries",
                             "recover", "Those of rankwolf.solvers.measured are.")  # fmt: skip
    solver = choose_solver(method, settings.problem, MEASURED_SOLVERS, "recover")
    if norm is not None:
        norm = validation.check_number("norm", norm, where="recover")
    generator = validation.check_rng(rng, "recover")
    data = Measurements(b, as_sensing(sensing, shape), norm, settings.threads)
    problem = settings.make_problem(default_weights(data, settings.delta))
    check_scale(problem, data)
    return solve(problem, data, solver, settings.rule, callback, generator)


def default_weights(data: Measurements, delta: float) -> tuple[float, float]:
    """The paper's rule with ρ = p/(mn), ‖b‖ and a factor ‖A‖ (Section 5 has projections, whose norm is 1).

    The gradient A*r scales with ‖A‖·‖b‖, and so has what bounds it: the problem for (cA, cb) is then that for (A, b)
    with the objective times c², and has the same solution.
    """
    lambda_L, lambda_S = paper_weights(data, delta)
    return data.norm * lambda_L, data.norm * lambda_S


def check_scale(problem: Problem, data: Measurements) -> None:
    """Weights are compared with ‖A‖·‖b‖ and radii with ‖b‖/‖A‖: far beyond, floating point decides the answer."""
    norm, reach = data.norm, validation.REACH
    if isinstance(problem, Penalized):
        name, pair, what, scale = "lambdas", (problem.lambda_L, problem.lambda_S), "‖A‖·‖b‖", norm
    else:
        name, pair, what, scale = "radii", (problem.tau_L, problem.tau_S), "‖b‖/‖A‖", 1.0 / norm
    scale *= data.summary.norm or 1.0
    if not all(scale / reach <= x <= scale * reach for x in pair):
        raise validation.bad(name, f"within a factor {reach:g} of {what} = {scale:.3g}", str(pair), "recover")
