"""``recover``: the two parts of a matrix that was only measured, b = A[M]."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from rankwolf.api.measured_weights import SETTINGS as HELD_OUT
from rankwolf.api.measured_weights import (
    Found,
    default_weights,
    weights_by_prediction,
    weights_by_refit,
    weights_for_noise,
)
from rankwolf.api.settings import (
    Settings,
    check_checkpoint,
    check_one_form,
    check_scale,
    check_settings,
    check_takes_start,
    choose_solver,
    fixed_problem,
)
from rankwolf.data.measurements import Measurements
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad, check_choice, check_number, check_rng
from rankwolf.ground.deadline import Deadline
from rankwolf.ground.low_rank import LowRank
from rankwolf.problem import LEAST_WEIGHT, MOST_WEIGHT, NoiseBounded, Penalized, Problem
from rankwolf.result import Decomposition
from rankwolf.result.doubts import warned
from rankwolf.run.loop import Runner
from rankwolf.run.progress import Callback
from rankwolf.run.watching import Watch
from rankwolf.sensing import as_sensing
from rankwolf.solvers import Solver, Splitting
from rankwolf.weights.paper import PAPER_DELTA

DEFAULT_TOL = 1e-3
# ε is at least this share of ‖b‖ where weights are computed from it: with 0 they would be zero.
LEAST_NOISE = 1e-6
# Fewer measurements than this, held out, would say too little about the weights.
FEWEST = 10


@warned
def recover(
    b: Any,
    sensing: Any,
    shape: tuple[int, ...] | None = None,
    *,
    lambdas: tuple[float, float] | None = None,
    delta: float | str = "auto",
    radii: tuple[float, float] | None = None,
    noise: float | None = None,
    sigma: float | None = None,
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
        Default: the weights with which the parts predict a tenth of the measurements best that were held out, or
        those of the noise, where it can be measured (:mod:`rankwolf.api.measured_weights`). With fewer than 100
        measurements, those of ``delta=1e-3``.
    delta : float or "auto"
        A number: λ_L = δρ‖A‖‖b‖ and λ_S = δ·max(ρ, 0.4)·‖A‖‖b‖/√max(m, n), with ρ = p/(mn), instead of the search for
        weights. Multiplying A and b by a constant changes nothing.
    sigma : float, optional
        The standard deviation of the noise in one measurement, where it is known: λ_L is the norm of A*e for noise e
        of this size, and λ_S twice the root mean square of its entries. No search then.
    radii : (τ_L, τ_S), optional
        Solve the norm-constrained problem instead.
    noise : float, optional
        ε ≥ 0: solve min ‖L‖_* + λ‖S‖₁ subject to ‖b − A[L + S]‖ ≤ ε instead, which holds to rounding in what is
        returned. λ is λ_S/λ_L of the weights for noise of that size, or with a number ``delta`` of that rule.
    problem : rankwolf.problem.Problem, optional
        A problem with weights or radii that was made beforehand, in place of the parameters above.
    method : str or Solver
        ``"splitting"`` for every form, which is also ``"auto"``; ``"fw-t"`` for weights, ``"fw-p"`` for radii;
        ``"fista"``, ``"ista"`` (projected gradient for radii) and ``"fw"`` for both. A solver object carries its own
        settings.
    norm : float, optional
        An upper bound on ‖A‖, where one is known; it sets the step sizes and is the ‖A‖ of the default weights. By
        default the operator's own, or an estimate from about 65 products with A and A*, a few per cent too large on
        purpose.
    dtype : optional
        The type of L and S: ``float``, ``complex``, or the same in single precision, ``"float32"`` and
        ``"complex64"``. By default complex where the operator says so (coil maps, Fourier coefficients in time), and
        otherwise real, with a warning where real matrices do not explain b.
    start : Decomposition or (L, S), optional
        Where the run begins, for ``"splitting"``: the solution of a similar problem.
    checkpoint, checkpoint_every, resume
        As in :func:`rankwolf.decompose`.
    stop : {"auto", "gap", "paper", "prediction"}
        ``"gap"`` and ``"paper"`` as in :func:`rankwolf.decompose`, with ``tol``. ``"prediction"``: a few iterations
        beyond the pair with which the search for weights ended. For a strongly under-sampled series that is a better
        picture than the optimum; the gap is certified as well. ``"auto"`` is ``"prediction"`` behind a transform that
        makes S sparse (:class:`rankwolf.sensing.Temporal`), unless ``tol`` is given, and ``"gap"`` otherwise.
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
    check_choice("stop", stop, ("auto", "gap", "paper", "prediction"), "recover")
    settings = check_settings(
        "recover",
        problem=problem,
        lambdas=lambdas,
        radii=radii,
        noise=noise,
        delta=delta,
        tol=DEFAULT_TOL if tol is None else tol,
        stop=stop if stop == "paper" else "gap",
        max_iter=max_iter,
        max_seconds=max_seconds,
        callback=callback,
        n_threads=n_threads,
    )
    check_one_form("recover", problem=problem, lambdas=lambdas, radii=radii, sigma=sigma)
    if sigma is not None:
        check_number("sigma", sigma, where="recover")
    deadline = Deadline(settings.max_seconds)
    form = NoiseBounded if settings.epsilon is not None else settings.form
    solver = choose_solver(method, form, "measurements", "recover")
    check_takes_start(start, solver, form, "measurements")
    operator = as_sensing(sensing, shape, b)
    if norm is not None:
        check_number("norm", norm, where="recover")
    generator = check_rng(rng, "recover")
    asked = {**settings.asked, "sigma": sigma}
    kept = check_checkpoint(checkpoint, checkpoint_every, resume, solver, asked, "recover")
    data = Measurements(b, operator, norm, settings.threads, dtype)
    if data.device is not None and not isinstance(solver, Splitting):
        remedy = "Leave method out, or give arrays of NumPy."
        raise bad("method", "'auto' or 'splitting' for tensors", repr(solver.name), "recover", remedy)
    begin: Any = None if start is None else _check_start(start, data)
    saved = None if kept is None else kept.saved
    stopping = settings.stopping
    chosen, noise_scale = fixed_problem(settings, data, saved), sigma
    if chosen is None:
        early = _ends_early(stop, tol, operator, solver, settings)
        found = _choose_weights(settings, sigma, data, generator, deadline, early)
        chosen = Penalized(*found.weights)
        noise_scale = found.sigma
        if early and found.start is not None:
            stopping = replace(stopping, kind="prediction", max_iter=HELD_OUT.last_steps)
        if begin is None and solver.takes_start:
            begin = found.start
        if settings.epsilon is not None:
            weight = min(max(found.weights[1] / found.weights[0], LEAST_WEIGHT), MOST_WEIGHT)
            chosen = NoiseBounded(weight, settings.epsilon)
            begin = None if begin is None else begin[:2]
    check_scale(chosen, saved, data.summary.norm, data.norm, where="recover")
    watch = Watch(callback, verbose, stopping.tol, "recover")
    runner = Runner(solver, stopping, generator, deadline, watch.callback)
    fit = watch.end(runner.solve(chosen, data, begin, kept))
    return fit if noise_scale is None else replace(fit, noise_scale=noise_scale)


def _ends_early(stop: str, tol: Any, operator: Any, solver: Any, settings: Settings) -> bool:
    """Whether the run ends at the pair that predicts best: it was asked to, or may choose and S is sparse in time."""
    if settings.epsilon is not None or not isinstance(solver, Splitting):
        return False
    return stop == "prediction" or (stop == "auto" and tol is None and operator.sparsifies)


def _choose_weights(
    settings: Settings,
    sigma: float | None,
    data: Measurements,
    rng: np.random.Generator,
    deadline: Deadline,
    early: bool,
) -> Found:
    """The weights that belong to a known σ, that follow from δ, or that predict held-out measurements best."""
    if data.summary.norm == 0.0:  # L = S = 0 with any weights
        return Found((1.0, 1.0), None)
    if settings.epsilon is not None and settings.from_noise:
        sigma = max(settings.epsilon, LEAST_NOISE * data.summary.norm) / data.size**0.5
    if sigma is not None:
        return Found(weights_for_noise(data, sigma, rng), sigma)
    if not settings.from_noise:
        return Found(default_weights(data, settings.delta), None)
    if data.size * HELD_OUT.share < FEWEST:
        return Found(default_weights(data, PAPER_DELTA), None)
    with data.one_blas_thread():
        found = weights_by_prediction(data, rng, deadline)
        return found if early or data.device is not None else weights_by_refit(data, found, rng, deadline)


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
