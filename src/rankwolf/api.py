"""The functions that people call: check, choose, solve, return a Decomposition."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scipy.sparse

from rankwolf import validation
from rankwolf.checkpoint import Checkpoint
from rankwolf.checkpoint import read as read_checkpoint
from rankwolf.problem import Constrained, Penalized, Problem, paper_weights
from rankwolf.result import Decomposition
from rankwolf.solve import Callback, StopRule, solve
from rankwolf.solvers import SOLVERS, Solver
from rankwolf.weights import PAPER_DELTA, noise_weights


def decompose(
    X: Any,
    *,
    observed: Any = None,
    implicit: str = "missing",
    lambdas: tuple[float, float] | None = None,
    delta: float | str = 1e-3,
    radii: tuple[float, float] | None = None,
    method: str | Solver[Any, Any] = "auto",
    tol: float = 1e-3,
    stop: str = "gap",
    max_iter: int = 1000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    rng: Any = None,
    n_threads: int | None = None,
    max_memory: int | str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | str = "60s",
    resume: bool = False,
) -> Decomposition:
    """Split a matrix into a low-rank and a sparse part, M ≈ L + S.

    Solves min ½‖P_Ω(L + S − M)‖²_F + λ_L‖L‖_* + λ_S‖S‖₁, or with ``radii`` the problem in which ‖L‖_* ≤ τ_L and
    ‖S‖₁ ≤ τ_S are constraints. Ω are the entries that are observed: not NaN, not masked, True in ``observed``.

    Parameters
    ----------
    X : array of shape (m, n)
        Any real dtype and memory order, or a masked array. It is not copied, and stays in its own dtype. A memory map,
        an h5py dataset, a Zarr array, or a list of these or of files (``.npy``, ``.h5``, ``.zarr``), whose rows follow
        each other, stays on the disk and is read once in each pass. A dask.array stays on its workers.
    observed : boolean array of shape (m, n), optional
        True where an entry was observed; an array, or on the disk as well.
    implicit : {"missing", "zeros"}
        What the entries that a scipy.sparse matrix does not store are. ``"missing"``: only stored entries were observed
        (ratings), and everything costs what is stored. ``"zeros"``: they are zeros like any other number (counts);
        tiles are made dense one at a time, so time is that of a dense matrix and memory is not.
    lambdas : (λ_L, λ_S), optional
        Default: the paper's rule, λ_L = δρ‖P_Ω M‖_F and λ_S = δ√ρ‖P_Ω M‖_F/√max(m, n), ρ the observed fraction.
    delta : float or "auto"
        δ of that rule: smaller keeps more rank in L, and leaves more noise in S. The paper uses 1e-3 for video and 1e-2
        for faces. ``"auto"`` estimates the noise in X and sets both weights from it (:mod:`rankwolf.weights`): for
        tables, not for video, where what moves is not independent from pixel to pixel.
    radii : (τ_L, τ_S), optional
        Solve the norm-constrained problem instead.
    method : str or Solver
        ``"hybrid"``, ``"fw-t"``, ``"ista"``, ``"fista"`` for weights; ``"als"`` for a sparse matrix of observed
        entries; ``"fw-p"`` for radii; ``"fw"`` for both; ``"auto"`` picks.
        A solver object, such as ``rankwolf.solvers.FrankWolfe(step="line-search")``, carries its own settings.
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
    max_memory : int or str, optional
        What the process may take, in bytes or as ``"2GB"``, for data on the disk; arrays that a method keeps beside the
        data go to files in TMPDIR when they would not fit. For an array in memory it limits those.

    checkpoint : path, optional
        A file in which the run is kept, replaced in one step every so often and at the end. See
        :mod:`rankwolf.checkpoint`.
    checkpoint_every : int or str
        How often: a whole number of passes, or a time such as ``"90s"`` or ``"10min"``.
    resume : bool
        Go on from the checkpoint, where there is one; it must be of the same data, problem and method. Tolerance,
        limits, threads and memory may differ. Without it, a checkpoint that exists already is an error.

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
    from_noise = isinstance(delta, str) and delta == "auto"
    settings = check_settings(
        "decompose", lambdas=lambdas, delta=PAPER_DELTA if from_noise else delta, radii=radii, tol=tol, stop=stop,
        max_iter=max_iter, max_seconds=max_seconds, callback=callback, n_threads=n_threads,
    )  # fmt: skip
    validation.check_choice("implicit", implicit, ("missing", "zeros"))
    sparse = scipy.sparse.issparse(X) and implicit == "missing"
    solver = choose_solver(method, settings.problem, sparse=sparse)
    generator = validation.check_rng(rng)
    limit = None if max_memory is None else validation.check_size("max_memory", max_memory)
    kept = check_checkpoint(
        checkpoint, checkpoint_every, resume, solver,
        {"lambdas": settings.weights, "radii": settings.bounds, "delta": "auto" if from_noise else settings.delta},
    )  # fmt: skip
    saved = None if kept is None else kept.saved
    summary = None if saved is None else saved.summary
    source = validation.check_source(X, observed, settings.threads, implicit, limit, summary)
    if saved is not None:
        saved.check_data(source)
        problem: Problem = saved.problem
    elif from_noise and lambdas is None and radii is None:
        problem = Penalized(*noise_weights(source, generator))
    else:
        problem = settings.make_problem(paper_weights(source, settings.delta))
    validation.check_scale(problem, source.summary.norm)
    return solve(problem, source, solver, settings.rule, callback, generator, kept)


def check_checkpoint(
    path: Any, every: Any, resume: bool, solver: Solver[Any, Any], weights: dict[str, Any]
) -> Checkpoint | None:
    """Where a run is kept, and the run that is there already."""
    passes, seconds = validation.check_interval("checkpoint_every", every)
    if path is None:
        if resume:
            raise validation.bad("checkpoint", "a path when resume is given", "None")
        return None
    if not solver.states:
        raise ValueError(f"The method {solver.name!r} keeps no checkpoints.")
    place = Path(path)
    if not place.parent.is_dir():
        raise validation.bad("checkpoint", "in a folder that exists", repr(os.fspath(path)))
    settings = {"method": solver.name, **vars(solver), **weights}
    saved = None
    if place.exists():
        if not resume:
            raise ValueError(
                f"The checkpoint {os.fspath(path)!r} exists already. Go on from it (resume=True, --resume), or "
                "remove it."
            )
        saved = read_checkpoint(place)
        saved.check_settings(settings)
    return Checkpoint(place, settings, saved, every_passes=passes, every_seconds=seconds)


@dataclass(frozen=True)
class Settings:
    """What ``decompose`` and ``recover`` are told beside the data, checked."""

    rule: StopRule
    weights: tuple[float, float] | None
    bounds: tuple[float, float] | None
    delta: float
    threads: int

    @property
    def problem(self) -> type[Penalized] | type[Constrained]:
        """The kind of problem."""
        return Penalized if self.bounds is None else Constrained

    def make_problem(self, default_weights: tuple[float, float]) -> Problem:
        """The problem itself."""
        if self.bounds is not None:
            return Constrained(*self.bounds)
        return Penalized(*(self.weights or default_weights))


def check_settings(
    where: str, *, lambdas: Any, delta: Any, radii: Any, tol: Any, stop: Any, max_iter: Any, max_seconds: Any,
    callback: Any, n_threads: Any,
) -> Settings:  # fmt: skip
    """Check before any work; ``where`` is the function that the messages name."""
    if lambdas is not None and radii is not None:
        raise ValueError(
            f"The 'lambdas' and 'radii' parameters of {where} exclude each other: two problems. Give one."
        )
    if callback is not None and not callable(callback):
        raise validation.bad("callback", "callable", repr(callback), where)
    rule = StopRule(
        kind=validation.check_choice("stop", stop, ("gap", "paper"), where),
        tol=validation.check_number("tol", tol, positive=False, where=where),
        max_iter=validation.check_count("max_iter", max_iter, where),
        max_seconds=None if max_seconds is None
        else validation.check_number("max_seconds", max_seconds, where=where),
    )  # fmt: skip
    return Settings(
        rule,
        None if lambdas is None else validation.check_pair("lambdas", lambdas, where),
        None if radii is None else validation.check_pair("radii", radii, where),
        validation.check_number("delta", delta, where=where),
        validation.check_threads(n_threads, where),
    )


def choose_solver(
    method: str | Solver[Any, Any], problem: type[Penalized] | type[Constrained],
    solvers: dict[str, type[Solver[Any, Any]]] = SOLVERS, where: str = "decompose", sparse: bool = False,
) -> Solver[Any, Any]:  # fmt: skip
    """The one of ``solvers`` that ``method`` names, if it solves this kind of problem; "auto" is the first.

    ``sparse``: the data is a sparse matrix of observed entries.
    """
    fitting = tuple(
        name for name, solver in solvers.items() if problem in solver.solves and solver.takes_sparse == sparse
    )
    if not fitting:
        raise ValueError(
            "The 'radii' parameter has no solver for a sparse matrix of observed entries. "
            "Give weights, or implicit='zeros'."
        )
    if isinstance(method, Solver):
        solver = method
    elif not isinstance(method, str):
        raise validation.bad("method", "a name or a solver", repr(method), where)
    elif method == "auto":
        return solvers[fitting[0]]()
    elif method in solvers:
        solver = solvers[method]()
    else:
        raise validation.bad(
            "method", "'auto', a solver, or one of " + ", ".join(map(repr, solvers)), repr(method), where
        )
    if problem not in solver.solves:
        given = "weights (lambdas or delta)" if problem is Penalized else "radii"
        raise ValueError(
            f"The method {solver.name!r} does not solve the problem that {given} define. "
            f"These do: {', '.join(map(repr, fitting))}."
        )
    if solver.takes_sparse != sparse:
        raise ValueError(
            f"The method {solver.name!r} {'does not take' if sparse else 'takes nothing but'} a sparse matrix of "
            f"observed "
            f"entries. For this data there are: {', '.join(map(repr, fitting))}."
        )
    return solver
