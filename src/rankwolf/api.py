"""The functions that people call: check, choose, solve, return a Decomposition."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwolf import validation
from rankwolf.problem import Constrained, Penalized, Problem, paper_weights
from rankwolf.result import Decomposition
from rankwolf.solve import Callback, StopRule, solve
from rankwolf.solvers import SOLVERS, Solver
from rankwolf.sources import Source


def decompose(
    X: Any,
    *,
    observed: Any = None,
    lambdas: tuple[float, float] | None = None,
    delta: float = 1e-3,
    radii: tuple[float, float] | None = None,
    method: str | Solver[Any, Any] = "auto",
    tol: float = 1e-3,
    stop: str = "gap",
    max_iter: int = 1000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    rng: Any = None,
    n_threads: int | None = None,
) -> Decomposition:
    """Split a matrix into a low-rank and a sparse part, M ≈ L + S.

    Solves min ½‖P_Ω(L + S − M)‖²_F + λ_L‖L‖_* + λ_S‖S‖₁, or with ``radii`` the problem in which ‖L‖_* ≤ τ_L and
    ‖S‖₁ ≤ τ_S are constraints. Ω are the entries that are observed: not NaN, not masked, True in ``observed``.

    Parameters
    ----------
    X : array of shape (m, n)
        Any real dtype and memory order, or a masked array. It is not copied, and stays in its own dtype.
    observed : boolean array of shape (m, n), optional
        True where an entry was observed.
    lambdas : (λ_L, λ_S), optional
        Default: the paper's rule, λ_L = δρ‖P_Ω M‖_F and λ_S = δ√ρ‖P_Ω M‖_F/√max(m, n), ρ the observed fraction.
    delta : float
        δ of that rule: smaller keeps more rank in L, and leaves more noise in S. The paper uses 1e-3 for video and 1e-2
        for faces.
    radii : (τ_L, τ_S), optional
        Solve the norm-constrained problem instead.
    method : str or Solver
        ``"fw-t"``, ``"ista"``, ``"fista"`` for weights; ``"fw-p"`` for radii; ``"fw"`` for both; ``"auto"`` picks. A
        solver object, such as ``rankwolf.solvers.FrankWolfe(step="line-search")``, carries its own settings.
    tol, stop : float, {"gap", "paper"}
        ``"gap"``: the certified relative distance to the optimum is at most ``tol``. ``"paper"``: the objective changed
        by at most ``tol``, relatively, in five iterations in a row.
    max_iter, max_seconds : int, float
        Limits; the result says whether one of them ended the run.
    callback : callable, optional
        Called with a :class:`Record` after each iteration; returning False stops. See :mod:`rankwolf.callbacks`.
    rng : None, int or numpy.random.Generator
        The start of the singular-vector computations. The same seed gives the same bytes.
    n_threads : int, optional
        Default: every core that this process may use.

    Returns
    -------
    Decomposition

    Examples
    --------
    >>> import numpy as np, rankwolf as rw
    >>> generator = np.random.default_rng(0)
    >>> M = np.outer(generator.standard_normal(60), generator.standard_normal(40))
    >>> M[3, 5] += 10.0
    >>> fit = rw.decompose(M, delta=0.01, method="fista", rng=0)
    >>> fit.low_rank.rank, bool(fit.sparse[3][5] > 8.0)
    (1, True)
    """
    threads = validation.check_threads(n_threads)
    rule = StopRule(
        kind=validation.check_choice("stop", stop, ("gap", "paper")),
        tol=validation.check_number("tol", tol, positive=False),
        max_iter=validation.check_count("max_iter", max_iter),
        max_seconds=None if max_seconds is None else validation.check_number("max_seconds", max_seconds),
    )
    if lambdas is not None and radii is not None:
        raise ValueError(
            "The 'lambdas' and 'radii' parameters of decompose exclude each other: two problems. Give one."
        )
    if callback is not None and not callable(callback):
        raise validation.bad("callback", "callable", repr(callback))
    weights = None if lambdas is None else validation.check_pair("lambdas", lambdas)
    bounds = None if radii is None else validation.check_pair("radii", radii)
    delta = validation.check_number("delta", delta)
    solver = choose_solver(method, Penalized if bounds is None else Constrained)
    source = validation.check_source(X, observed, threads)
    problem = _problem(source, weights, bounds, delta)
    return solve(problem, source, solver, rule, callback, np.random.default_rng(rng))


def _problem(
    source: Source, weights: tuple[float, float] | None, bounds: tuple[float, float] | None, delta: float
) -> Problem:
    if bounds is not None:
        return Constrained(*bounds)
    return Penalized(*(weights or paper_weights(source, delta)))


def choose_solver(
    method: str | Solver[Any, Any], problem: type[Penalized] | type[Constrained]
) -> Solver[Any, Any]:
    """The solver that ``method`` names, if it solves this kind of problem."""
    fitting = tuple(name for name, solver in SOLVERS.items() if problem in solver.solves)
    if isinstance(method, Solver):
        solver = method
    elif method == "auto":
        return SOLVERS[fitting[0]]()
    elif method in SOLVERS:
        solver = SOLVERS[method]()
    else:
        raise validation.bad(
            "method", "'auto', a solver, or one of " + ", ".join(map(repr, SOLVERS)), repr(method)
        )
    if problem not in solver.solves:
        given = "weights (lambdas or delta)" if problem is Penalized else "radii"
        raise ValueError(
            f"The method {solver.name!r} does not solve the problem that {given} define. "
            f"These do: {', '.join(map(repr, fitting))}."
        )
    return solver
