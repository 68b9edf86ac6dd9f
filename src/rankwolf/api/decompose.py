"""``decompose``: the two parts of a matrix whose entries were observed, all or some."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from rankwolf.api.rank import at_rank, check_rank
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
from rankwolf.api.warm import check_start, make_start
from rankwolf.data import Source
from rankwolf.data.open import check_source, open_source
from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad, check_choice, check_number, check_rng, check_size
from rankwolf.ground.deadline import Deadline, TimeUp
from rankwolf.ground.low_rank import LowRank
from rankwolf.problem import SPARSE_BY, NoiseBounded, Penalized, Problem
from rankwolf.result import Decomposition, Status
from rankwolf.result.decomposition import NotRefittedError
from rankwolf.result.doubts import longer_than_noise, quietly, warned
from rankwolf.run.loop import Runner
from rankwolf.run.progress import Callback, Stopping
from rankwolf.run.watching import Watch
from rankwolf.solvers import Solver
from rankwolf.solvers.base import Start
from rankwolf.weights.descent import noise_weights
from rankwolf.weights.paper import paper_weights


@warned
def decompose(
    X: Any,
    *,
    observed: Any = None,
    limits: tuple[Any, Any] | None = None,
    implicit: str = "missing",
    columns: Any = "all",
    lambdas: tuple[float, float] | None = None,
    delta: float | str = "auto",
    radii: tuple[float, float] | None = None,
    noise: float | None = None,
    weight: float | None = None,
    rank: int | None = None,
    refit: bool | None = None,
    sparse: str = "entries",
    problem: Problem | None = None,
    method: str | Solver[Any, Any] = "auto",
    tol: float = 1e-3,
    stop: str = "gap",
    start: Decomposition | LowRank | Start | None = None,
    max_iter: int = 1000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    verbose: bool = False,
    rng: Any = None,
    n_threads: int | None = None,
    max_memory: int | str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | str = "60s",
    resume: bool = False,
) -> Decomposition:
    """Split a matrix into a low-rank and a sparse part, M ≈ L + S.

    Solves min ½‖P_Ω(L + S − M)‖²_F + λ_L‖L‖_* + λ_S‖S‖₁, or with ``radii`` the problem in which ‖L‖_* ≤ τ_L and
    ‖S‖₁ ≤ τ_S are constraints, or with ``noise`` min ‖L‖_* + λ‖S‖₁ subject to ‖P_Ω(L + S − M)‖_F ≤ ε. Ω are the
    entries that are observed: not NaN, not masked, True in ``observed``.

    Parameters
    ----------
    X : array of shape (m, n)
        Any real dtype and memory order, or a masked array. It is not copied, and stays in its own dtype. A memory map,
        an h5py dataset, a Zarr array, or a list of these or of files (``.npy``, ``.h5``, ``.zarr``), whose rows follow
        each other, stays on the disk and is read once in each pass. A dask.array stays on its workers. A pandas, polars
        or pyarrow table, an xarray.DataArray or a torch tensor on the CPU is taken too; tables give their row and
        column names to ``fit.low_rank.to_frame()`` and ``fit.sparse.to_frame()``.
    observed : boolean array of shape (m, n), optional
        True where an entry was observed; an array, or on the disk as well.
    limits : (low, high), optional
        For entries that are known only to lie between two values, such as readings below a detection limit: numbers or
        arrays of X's shape, None or NaN where there is no limit. They count where X is missing; the misfit of such an
        entry is its distance from the interval. For ``"splitting"``.
    implicit : {"missing", "zeros"}
        What it means that a scipy.sparse matrix does not store an entry. ``"missing"``: the entry was not observed
        (ratings); time and memory grow with the stored entries alone. ``"zeros"``: it is an observed zero (counts);
        tiles are made dense one at a time, so the time is that of a dense matrix, but the memory is not.
    columns : {"all", "numeric"} or list of names
        Which columns of a table. ``"all"``: a column of dates, durations or words is an error that names it;
        ``"numeric"`` leaves such columns out.
    lambdas : (λ_L, λ_S), optional
        The weights themselves. Larger λ_L: lower rank; larger λ_S: fewer entries in S.
    delta : "auto" or float
        How the weights are chosen otherwise. ``"auto"``: from the noise in X, λ_S = 2σ and λ_L the norm that noise has
        (:mod:`rankwolf.weights.noise`), measured on at most 400 rows and columns. A number: δ of the paper's rule,
        λ_L = δρ‖P_Ω M‖_F and λ_S = δ√ρ‖P_Ω M‖_F/√max(m, n), ρ the observed fraction; smaller keeps more rank in L. The
        paper uses 1e-3 for video and 1e-2 for faces. S with λ_S = 2σ holds one in twenty entries of pure noise: for a
        list of outliers, :meth:`Decomposition.refit`.
    radii : (τ_L, τ_S), optional
        Solve the norm-constrained problem instead: the least misfit with ‖L‖_* ≤ τ_L and ‖S‖₁ ≤ τ_S, which hold in what
        is returned. The relative gap is relative to the misfit, which is the whole objective here.
    noise : ε, optional
        Solve min ‖L‖_* + λ‖S‖₁ subject to ‖P_Ω(L + S − M)‖_F ≤ ε instead, ε ≥ 0. With ``noise=0`` this is classical
        principal component pursuit: L + S = M on Ω up to rounding. Where the data is a low-rank and a sparse matrix,
        and theory allows it, L is recovered to the last digits at the default ``tol`` already.
    weight : λ, optional
        λ of the problem that ``noise`` defines. Default: 1/√max(m, n).
    rank : int, optional
        L of this rank, not shrunk: a convex fit with the weights of the noise, its weakest directions left out or the
        strongest of its residual added, then :meth:`Decomposition.refit`. This problem is not convex: the answer is a
        local one, without a gap. ``start`` and ``checkpoint`` do not go with it.
    refit : bool, optional
        True: the estimate, :meth:`Decomposition.refit` of the convex fit, with that beside it as ``fit.convex``. False:
        the optimum of the convex problem. Default: the estimate where nothing is said about the problem and the matrix
        is in memory; with weights, radii, ε, limits, a method, a start or a checkpoint given, the optimum.
    sparse : {"entries", "rows", "columns"}
        What S has few of. With ``"rows"`` or ``"columns"`` S is zero but for a few whole rows or columns (outlier
        pursuit): ‖S‖₁ is replaced by the sum of their norms, in every form. For ``"splitting"``.
    problem : rankwolf.problem.Problem, optional
        A form of the problem that was made beforehand, such as one of your own, in place of the parameters above.
    method : str or Solver
        ``"splitting"`` for every form on a matrix that fits into memory some ten times over; ``"hybrid"`` for weights
        and ``"path"`` around it for noise and radii, wherever the matrix is; ``"fw-t"`` for weights, ``"fw-p"`` for
        radii, ``"fw"``, ``"ista"`` and ``"fista"`` for both; ``"als"``, and no other, for a sparse matrix of observed
        entries, with weights; ``"auto"`` picks.
        A solver object, such as ``rankwolf.solvers.FrankWolfe(step="line-search")``, carries its own settings.
    tol, stop : float, {"gap", "paper"}
        ``"gap"``: the certified relative distance to the optimum is at most ``tol``. ``"paper"``: the objective changed
        by at most ``tol``, relatively, in five iterations in a row.
    start : Decomposition, optional
        An earlier result, of the same matrix or of its first rows: the run goes on from its L, which saves most of the
        passes where little has changed. Its weights may differ from those of this run. For ``"hybrid"`` and ``"als"``.
    max_iter, max_seconds : int, float
        Limits; the result says whether one of them ended the run. The time is kept to within a pass over the data or
        two seconds, from the call to the return.
    callback : callable, optional
        Called with a :class:`Record` after each iteration; returning False stops. See ``rankwolf.callbacks``.
    verbose : bool
        Print a table with a row for each iteration; in a notebook, a bar that moves.
    rng : None, int or numpy.random.Generator
        The start of the singular-vector computations. The same seed gives the same bytes.
    n_threads : int, optional
        Default: every core that this process may use.
    max_memory : int or str, optional
        What the process may take, in bytes or as ``"2GB"``, for data on the disk; arrays that a method keeps beside the
        data go to files in TMPDIR when they would not fit. For an array in memory it limits only these arrays.
    checkpoint : path, optional
        A file that holds the state of the run. It is replaced in one step, from time to time and at the end. See
        :mod:`rankwolf.run.checkpoint`.
    checkpoint_every : int or str
        How often: a whole number of passes, or a time such as ``"90s"`` or ``"10min"``.
    resume : bool
        Go on from the checkpoint, where there is one; it must be of the same data, problem and method. Tolerance,
        limits, threads and memory may differ. Without it, a checkpoint that exists already is an error.

    Returns
    -------
    Decomposition

    Warns
    -----
    RankwolfWarning
        Where a part is zero or full, where a limit was hit: what is odd, and the remedy.

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
    settings = check_settings(
        "decompose",
        problem=problem,
        lambdas=lambdas,
        radii=radii,
        noise=noise,
        delta=delta,
        tol=tol,
        stop=stop,
        max_iter=max_iter,
        max_seconds=max_seconds,
        callback=callback,
        n_threads=n_threads,
    )
    # A delta beside lambdas is no error: it is ignored.
    given_delta = None if settings.from_noise else settings.delta
    check_one_form("decompose", problem=problem, radii=radii, noise=noise, delta=given_delta)
    wanted = None if rank is None else check_rank(rank, settings, start=start, checkpoint=checkpoint)
    weight_of_S = None if weight is None else _check_weight(weight, settings)
    check_start(start)
    deadline = Deadline(settings.max_seconds)
    check_choice("implicit", implicit, ("missing", "zeros"))
    generator = check_rng(rng)
    limit = None if max_memory is None else check_size("max_memory", max_memory)
    source = open_source(X, observed, settings.threads, implicit, limit, columns=columns)
    check_choice("sparse", sparse, SPARSE_BY)
    source.limits = None if limits is None else check_limits(limits, source)
    form = settings.form if settings.epsilon is None else NoiseBounded
    solver = choose_solver(method, form, source.kind, special=_special(limits, sparse))
    check_takes_start(start, solver, form, source.kind)
    asked = {**settings.asked, "weight": weight_of_S, "sparse": sparse}
    kept = check_checkpoint(checkpoint, checkpoint_every, resume, solver, asked, "decompose")
    saved = None if kept is None else kept.saved
    if saved is not None:
        source.take_over(saved.summary)
    check_source(source)
    watch = Watch(callback, verbose, settings.stopping.tol, "decompose")
    runner = Runner(solver, settings.stopping, generator, deadline, watch.callback)
    if wanted is not None:
        return watch.end(at_rank(source, wanted, runner))
    _use_double_where_needed(source, settings.stopping, form)
    chosen = fixed_problem(settings, source, saved)
    if chosen is None:
        chosen = _choose_problem(settings, weight_of_S, source, runner)
    if sparse != "entries" and chosen.sparse == "entries":
        given = settings.given is not None or weight_of_S is not None
        chosen = chosen.by_lines(sparse, source.user_shape, given)
    check_scale(chosen, saved, source.summary.norm)
    begin = None if start is None or saved is not None else make_start(start, source, chosen, runner)
    fit = runner.solve(chosen, source, begin, kept)
    if refit is None:
        said = (settings.given, settings.epsilon, limits, start, checkpoint)
        plain = settings.from_noise and sparse == "entries" and method == "auto" and stop == "gap"
        plain = plain and source.in_memory and source.summary.norm > 0.0 and fit.status.converged
        refit = plain and all(value is None for value in said)
    return watch.end(_refitted(fit, deadline) if refit else fit)


# Without its RankwolfWarnings, for callers that report the doubts themselves (:func:`rankwolf.result.doubts.doubts`).
decompose_quietly = quietly(decompose)


def _refitted(fit: Decomposition, deadline: Deadline) -> Decomposition:
    """The refit with the convex fit beside it, or the convex fit where the time is up before.

    Directions that noise alone could make are left out, and the others are fitted once more.
    """
    try:
        with deadline:
            deadline.check()
            found = fit.refit()
            strong = longer_than_noise(found)
            if 0 < strong < found.low_rank.rank:
                found = replace(found, low_rank=found.low_rank.first(strong)).refit(keep_rank=True)
            return replace(found, convex=fit)
    except TimeUp:
        return replace(fit, status=Status.TIME_LIMIT)
    except NotRefittedError:
        return fit


def _check_weight(weight: Any, settings: Settings) -> float:
    """``weight`` as a number: λ of min ‖L‖_* + λ‖S‖₁. A ValueError without ``noise``, which defines that problem."""
    number = check_number("weight", weight)
    if settings.epsilon is None:
        raise bad("weight", "given with noise", repr(weight), remedy="Weights of both parts are lambdas=.")
    return number


def _special(limits: Any, sparse: str) -> str | None:
    """The argument that only some solvers take, as a word for errors."""
    if limits is not None:
        return "limits"
    return None if sparse == "entries" else f"sparse={sparse!r}"


def check_limits(limits: Any, source: Source) -> tuple[Array, Array]:
    """(low, high) as arrays that lie as the source sees the matrix, ∓∞ where there is no limit."""
    try:
        low, high = limits
        ends = tuple(
            np.broadcast_to(np.asarray(none if given is None else given, np.float64), source.user_shape)
            for given, none in ((low, -np.inf), (high, np.inf))
        )
    except (TypeError, ValueError):
        rule = f"a pair (low, high) of numbers or arrays of shape {source.user_shape}, or None"
        raise bad("limits", rule, type(limits).__name__) from None
    low, high = (
        np.where(np.isnan(end), none, end) for end, none in zip(ends, (-np.inf, np.inf), strict=True)
    )
    if np.any(low > high):
        raise bad("limits", "low ≤ high", f"{int(np.count_nonzero(low > high))} entries with low > high")
    return (low.T, high.T) if source.transposed else (low, high)


def _use_double_where_needed(source: Source, stopping: Stopping, form: type[Problem]) -> None:
    """Read float32 data as float64 where ``tol`` is below the least gap that single precision can prove."""
    if stopping.kind == "gap" and 0.0 < stopping.tol < form.single and source.dtype == np.float32:
        source.use_type(np.dtype(np.float64))


def _choose_problem(settings: Settings, weight_of_S: float | None, source: Source, runner: Runner) -> Problem:
    """The problem whose numbers follow from the data: from ε, from the noise, or from δ by the paper's rule."""
    if settings.epsilon is not None:
        return NoiseBounded(weight_of_S or 1.0 / max(source.shape) ** 0.5, settings.epsilon)
    if settings.from_noise:
        return Penalized(*noise_weights(source, runner.rng, runner.deadline))
    return Penalized(*paper_weights(source, settings.delta))
