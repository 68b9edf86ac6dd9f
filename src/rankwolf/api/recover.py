"""``recover``: the two parts of a matrix that was only measured, b = A[M]."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from rankwolf.api.measured_weights import (
    default_weights,
    series_weights,
    weights_by_descent,
    weights_for_misfit,
    weights_for_noise,
)
from rankwolf.api.settings import (
    Settings,
    check_checkpoint,
    check_scale,
    check_settings,
    check_takes_start,
    choose_solver,
    fixed_problem,
)
from rankwolf.data.measurements import Measurements
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad, check_choice, check_number, check_rng, check_size
from rankwolf.ground.deadline import Deadline
from rankwolf.ground.low_rank import LowRank
from rankwolf.problem import Penalized, Problem
from rankwolf.result import Decomposition
from rankwolf.result.doubts import warned
from rankwolf.run.loop import Runner
from rankwolf.run.progress import Callback, Stopping
from rankwolf.run.watching import Watch
from rankwolf.sensing import as_sensing
from rankwolf.solvers import PrimalDual, Solver
from rankwolf.solvers.primal_dual import PrimalDualSettings

# The runs that find the weights need only a rough gap, and each starts where the last one ended.
ROUGH_TOL, ROUGH_STEPS = 0.02, 60
TO_THE_END_OF_PATH = PrimalDual(settle=PrimalDualSettings().linger)
DEFAULT_TOL = 1e-3


@warned
def recover(
    b: Any,
    sensing: Any,
    shape: tuple[int, int] | None = None,
    *,
    lambdas: tuple[float, float] | None = None,
    delta: float | str = 1e-3,
    radii: tuple[float, float] | None = None,
    noise: float | None = None,
    problem: Problem | None = None,
    method: str | Solver[Any, Any] = "auto",
    tol: float | None = None,
    stop: str = "auto",
    max_iter: int = 1000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    verbose: bool = False,
    norm: float | None = None,
    dtype: Any = None,
    rng: Any = None,
    n_threads: int | None = None,
    start: Any = None,
    max_memory: int | str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | str = "60s",
    resume: bool = False,
) -> Decomposition:
    """Recover a low-rank and a sparse part from linear measurements, b ≈ A[L + S].

    Solves min ½‖b − A[L + S]‖² + λ_L‖L‖_* + λ_S‖S‖₁ (equation 1.3 of the paper), or with ``radii`` the problem in which
    ‖L‖_* ≤ τ_L and ‖S‖₁ ≤ τ_S are constraints. L and S are real or complex. L is kept as factors; S and A*y are arrays
    of the matrix's size.

    Parameters
    ----------
    b : array of shape (p,), or in a shape that the operator knows
        The measurements; k-space with zeros or anything else where nothing was measured, for Fourier operators.
    sensing : operator
        One of :mod:`rankwolf.sensing`; a list of p sensing matrices A_k, with b_k = ⟨A_k, M⟩; anything that
        ``scipy.sparse.linalg.aslinearoperator`` takes, PyLops included, acting on ``M.ravel()``; or a pair
        (forward, adjoint) of functions. Linearity and the adjoint are tested once, with random matrices.
    shape : (m, n)
        The shape of M. It may be left out where the operator knows it.
    lambdas : (λ_L, λ_S), optional
        Default: λ_L = δρ‖A‖‖b‖ and λ_S = δ·max(ρ, 0.4)·‖A‖‖b‖/√max(m, n), with ρ = p/(mn)
        (:func:`rankwolf.api.measured_weights.default_weights`); for a run that ends with the path, both as in
        :func:`rankwolf.api.measured_weights.series_weights`. Multiplying A and b by a constant changes nothing.
    delta : float or "auto"
        δ of that rule. ``"auto"`` sets both weights from the noise in b, which is measured, or given as ``noise``.
    radii : (τ_L, τ_S), optional
        Solve the norm-constrained problem instead.
    noise : float, optional
        ε > 0: both weights of the rule are multiplied by one factor, with which ‖b − A[L + S]‖ = ε, to 1 %. The optimum
        then solves min λ_L‖L‖_* + λ_S‖S‖₁ subject to ‖b − A[L + S]‖ ≤ ε. With ``delta="auto"``, ε is taken as the norm
        of the noise in b instead.
    problem : rankwolf.problem.Problem, optional
        A problem with weights or radii that was made beforehand, in place of the parameters above.
    method : str or Solver
        ``"primal-dual"`` and ``"fw-t"`` for weights, ``"fw-p"`` for radii; ``"fista"``, ``"ista"`` (projected gradient
        for radii) and ``"fw"`` for both; ``"auto"`` is ``"primal-dual"`` for weights and ``"fista"`` for radii. A
        solver object carries its own settings.
    norm : float, optional
        An upper bound on ‖A‖, where one is known; it sets the step sizes and is the ‖A‖ of the default weights. By
        default the operator's own, or an estimate from about 65 products with A and A*, a few per cent too large on
        purpose.
    dtype : optional
        The type of L and S: ``float``, ``complex``, or the same in single precision, ``"float32"`` and
        ``"complex64"``. By default complex where the operator says so (coil maps, Fourier coefficients in time), and
        otherwise real, with a warning where real matrices do not explain b.
    start : Decomposition or (L, S), optional
        Where the run begins, for ``"primal-dual"``: the solution of a similar problem.
    max_memory : int or str, optional
        For ``"primal-dual"``: what the process may take, in bytes or as ``"2GB"``. Arrays that the method keeps go to
        files in TMPDIR where they would not fit beside three matrices for A, A* and the proof.
    checkpoint, checkpoint_every, resume
        As in :func:`rankwolf.decompose`.
    stop : {"auto", "gap", "paper", "path"}
        ``"gap"`` and ``"paper"`` as in :func:`rankwolf.decompose`, with ``tol``. ``"path"``: both weights come down
        from where L = S = 0 is optimal, and the run ends 16 iterations after they have arrived. For a strongly
        under-sampled series this gives a better picture than the optimum; the gap is certified as well. ``"auto"`` is
        ``"path"`` behind a transform that makes S sparse (:class:`rankwolf.sensing.Temporal`), unless ``lambdas``,
        ``radii``, ``problem``, ``tol`` or ``start`` are given, and ``"gap"`` otherwise.
    tol : float, optional
        For ``"gap"`` and ``"paper"``; 1e-3 by default.
    max_iter, max_seconds, callback, verbose, rng, n_threads
        As in :func:`rankwolf.decompose`. The threads are for Fourier and cosine transforms; BLAS keeps to one. A
        callback that wants to see L and S is a :class:`rankwolf.callbacks.WithIterate`.

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
    check_choice("stop", stop, ("auto", "gap", "paper", "path"), "recover")
    settings = check_settings(
        "recover",
        problem=problem,
        lambdas=lambdas,
        radii=radii,
        noise=noise,
        delta=delta,
        tol=DEFAULT_TOL if tol is None else tol,
        stop="gap" if stop in ("auto", "path") else stop,
        max_iter=max_iter,
        max_seconds=max_seconds,
        callback=callback,
        n_threads=n_threads,
    )
    deadline = Deadline(settings.max_seconds)
    solver = choose_solver(method, settings.form, "measurements", "recover")
    check_takes_start(start, solver, settings.form, "measurements")
    operator = as_sensing(sensing, shape)
    series = operator.sparsifies and settings.given is None
    to_the_end_of_path = _ends_with_path(solver, stop, tol, start, series)
    if to_the_end_of_path and not isinstance(method, Solver):
        solver = TO_THE_END_OF_PATH
    stopping = replace(settings.stopping, kind="path") if to_the_end_of_path else settings.stopping
    for name, value in (("norm", norm), ("noise", noise)):
        if value is not None:
            check_number(name, value, where="recover")
    generator = check_rng(rng, "recover")
    limit = None if max_memory is None else check_size("max_memory", max_memory, "recover")
    if limit is not None and not solver.limits_memory:
        raise bad(
            "max_memory", "None for this method", repr(max_memory), "recover", "'primal-dual' takes one."
        )
    asked = {**settings.asked, "path": to_the_end_of_path}
    kept = check_checkpoint(checkpoint, checkpoint_every, resume, solver, asked, "recover")
    data = Measurements(b, operator, norm, settings.threads, dtype, limit)
    begin = None if start is None else _check_start(start, data)
    saved = None if kept is None else kept.saved
    chosen, sigma = fixed_problem(settings, data, saved), None
    if chosen is None:
        weights, sigma = _choose_weights(settings, data, generator, deadline, to_the_end_of_path)
        chosen = Penalized(*weights)
    check_scale(chosen, saved, data.summary.norm, data.norm, where="recover")
    watch = Watch(callback, verbose, stopping.tol, "recover")
    runner = Runner(solver, stopping, generator, deadline, watch.callback)
    fit = watch.end(runner.solve(chosen, data, begin, kept))
    return fit if sigma is None else replace(fit, noise_scale=sigma)


def _ends_with_path(solver: Solver[Any, Any], stop: str, tol: Any, start: Any, rule_for_series: bool) -> bool:
    """Whether the run ends with the path: ``stop`` is "path", or is "auto" and means it.

    A ValueError for ``stop="path"`` with a solver that has none, or beside ``tol`` or ``start``.
    """
    if not solver.has_path:
        if stop == "path":
            rule = "'gap' or 'paper' for this method"
            raise bad("stop", rule, repr(stop), "recover", "'primal-dual' has a path.")
        return False
    if stop == "auto":
        return rule_for_series and tol is None and start is None
    if stop == "path" and not (tol is None and start is None):
        raise ValueError(
            "stop='path' of recover excludes 'tol' and 'start': it ends where the weights have come down. Give one."
        )
    return stop == "path"


def _choose_weights(
    settings: Settings, data: Measurements, rng: np.random.Generator, deadline: Deadline, series: bool
) -> tuple[tuple[float, float], float | None]:
    """((λ_L, λ_S), σ): from δ, from the noise in b, or from the bound ε. σ is None unless the weights follow from it.

    For a ``series``, whose runs end with the path, noise and misfit are measured at the end of the path.
    """

    def short_run(problem: Penalized, last: Decomposition | None) -> Decomposition:
        """A rough solution: for a ``series`` from the top of the path, otherwise from the ``last`` one, if any."""
        if series:
            stopping = Stopping("path", tol=ROUGH_TOL, max_iter=settings.stopping.max_iter)
            return Runner(TO_THE_END_OF_PATH, stopping, rng, deadline).solve(problem, data)
        stopping = Stopping(tol=ROUGH_TOL, max_iter=ROUGH_STEPS)
        given = None if last is None else _check_start(last, data)
        return Runner(PrimalDual(), stopping, rng, deadline).solve(problem, data, given)

    if settings.from_noise and settings.epsilon is None:
        return weights_by_descent(data, short_run, rng)
    if settings.from_noise and settings.epsilon is not None:
        sigma = settings.epsilon / data.b.size**0.5
        return weights_for_noise(data, sigma, rng), sigma
    weights = series_weights(data, settings.delta, rng) if series else default_weights(data, settings.delta)
    if settings.epsilon is not None:
        weights = weights_for_misfit(data, settings.epsilon, weights, short_run)
    return weights, None


def _check_start(start: Any, data: Measurements) -> tuple[LowRank, Array]:
    """(L, S) of a result or of a pair of matrices; L in the type of the run. A ValueError where they do not fit b."""
    low_rank: Any
    sparse: Any
    if isinstance(start, Decomposition):
        low_rank, sparse = start.low_rank, start.sparse
    else:
        try:
            low_rank, sparse = start
        except (TypeError, ValueError):
            raise bad("start", "a Decomposition or a pair (L, S)", type(start).__name__, "recover") from None
    dense = np.asarray(sparse)
    if not isinstance(low_rank, LowRank):
        given = np.asarray(low_rank)
        if given.shape == data.shape and np.all(np.isfinite(given)):
            low_rank = LowRank.from_factors(given, np.eye(data.shape[1], dtype=given.dtype))
    if tuple(np.shape(low_rank)) != data.shape or dense.shape != data.shape or not np.all(np.isfinite(dense)):
        raise bad(
            "start",
            f"finite matrices of shape {data.shape}",
            f"{np.shape(low_rank)} and {dense.shape}",
            "recover",
        )
    if data.real and (low_rank.dtype.kind == "c" or dense.dtype.kind == "c"):
        raise bad("start", "real, as L and S are", "complex matrices", "recover", "See dtype=complex.")
    return LowRank(low_rank.u.astype(data.dtype), low_rank.s, low_rank.vt.astype(data.dtype)), dense
