"""What ``decompose`` and ``recover`` are told beside the data: checked, and turned into a problem and a solver."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwolf.data import Data
from rankwolf.ground.complaints import (
    BadParameterError,
    bad,
    check_choice,
    check_count,
    check_interval,
    check_number,
    check_pair,
    check_threads,
)
from rankwolf.problem import Constrained, Penalized, Problem
from rankwolf.run.checkpoint import Checkpoint, Saved
from rankwolf.run.checkpoint import read as read_checkpoint
from rankwolf.run.progress import Stopping
from rankwolf.solvers import SOLVERS, Solver
from rankwolf.weights.paper import PAPER_DELTA

# What each argument says about the problem, as the end of a sentence for errors.
MEANINGS = {
    "problem": "states the whole problem, with its numbers",
    "lambdas": "are the weights of ‖L‖_* and ‖S‖₁ beside the misfit",
    "radii": "bound ‖L‖_* and ‖S‖₁, and the misfit is as small as they allow",
    "noise": "bounds the misfit, and the norms are as small as it allows",
    "rank": "is that of L, and nothing is shrunk",
    "sigma": "chooses weights by the size of the noise",
    "delta": "chooses weights by the paper's rule",
}
# Kinds of data, as errors call them.
KINDS = {
    "entries": "a matrix of observed entries",
    "sparse entries": "a sparse matrix of observed entries",
    "measurements": "measurements",
}
# What to give instead of a form of the problem that no solver takes on a kind of data.
INSTEAD = {
    "entries": "Give weights",
    "sparse entries": "Give weights, or implicit='zeros'",
    "measurements": "Give weights or radii",
}


def check_checkpoint(
    path: Any, every: Any, resume: bool, solver: Solver[Any, Any], asked: dict[str, Any], where: str
) -> Checkpoint | None:
    """The checkpoint at ``path``, with the run that it already holds; None without a path.

    ``asked`` is what defines the problem (``Settings.asked``). A ValueError where a run is there and ``resume`` is
    False, or where that run has another method or problem; it names the function ``where``.
    """
    passes, seconds = check_interval("checkpoint_every", every, where)
    if path is None:
        if resume:
            raise bad("checkpoint", "a path when resume is given", "None", where)
        return None
    if not solver.states:
        raise ValueError(f"The method {solver.name!r} keeps no checkpoints.")
    if not isinstance(path, str | os.PathLike):
        raise bad("checkpoint", "a path", repr(path), where)
    place = Path(path)
    if not place.parent.is_dir():
        raise bad("checkpoint", "in a folder that exists", repr(os.fspath(path)), where)
    settings = {"method": solver.name, **vars(solver), **asked}
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
    """What ``decompose`` and ``recover`` are told beside the data, checked.

    At most one of ``problem``, ``weights``, ``bounds`` and ``epsilon`` is there. Where none is, the weights follow from
    the noise (``from_noise``) or from ``delta``.
    """

    stopping: Stopping
    max_seconds: float | None
    problem: Problem | None
    weights: tuple[float, float] | None
    bounds: tuple[float, float] | None
    epsilon: float | None
    from_noise: bool
    delta: float
    threads: int

    @property
    def form(self) -> type[Problem]:
        """The class of the problem. With ``noise`` it is Penalized, which ``decompose`` replaces by NoiseBounded."""
        if self.problem is not None:
            return type(self.problem)
        return Penalized if self.bounds is None else Constrained

    @property
    def given(self) -> Problem | None:
        """The problem, where its two numbers are known without the data; None otherwise."""
        if self.problem is not None:
            return self.problem
        if self.bounds is not None:
            return Constrained(*self.bounds)
        return None if self.weights is None else Penalized(*self.weights)

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments that define the problem, by name: a checkpoint that was made with other values is refused."""
        return {
            "problem": None if self.problem is None else self.problem.describe(),
            "lambdas": self.weights,
            "radii": self.bounds,
            "noise": self.epsilon,
            "delta": "auto" if self.from_noise else self.delta,
        }


def check_one_form(where: str, **given: Any) -> None:
    """A ValueError where more than one of the arguments ``given`` is not None; it says what each of them means."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        first, second = names[:2]
        raise ValueError(
            f"The '{first}' and '{second}' parameters of {where} exclude each other: {first} {MEANINGS[first]}, "
            f"{second} {MEANINGS[second]}. Give one."
        )


def check_delta(delta: Any, where: str) -> float | None:
    """δ of the paper's rule; None for "auto", where the noise decides."""
    if isinstance(delta, str) and delta == "auto":
        return None
    try:
        return check_number("delta", delta, where=where)
    except BadParameterError:
        raise bad("delta", "'auto' or a positive, finite number", repr(delta), where) from None


def check_settings(
    where: str,
    *,
    problem: Any,
    lambdas: Any,
    radii: Any,
    noise: Any,
    delta: Any,
    tol: Any,
    stop: Any,
    max_iter: Any,
    max_seconds: Any,
    callback: Any,
    n_threads: Any,
) -> Settings:
    """The arguments of ``decompose`` or ``recover``, checked before any work. Errors name the function ``where``."""
    check_one_form(where, problem=problem, lambdas=lambdas, radii=radii, noise=noise)
    if problem is not None and not isinstance(problem, Problem):
        raise bad("problem", "a form such as rankwolf.problem.Penalized(3.0, 0.1)", repr(problem), where)
    if callback is not None and not callable(callback):
        raise bad("callback", "callable", repr(callback), where)
    number = check_delta(delta, where)
    stopping = Stopping(
        kind=check_choice("stop", stop, ("gap", "paper"), where),
        tol=check_number("tol", tol, positive=False, where=where),
        max_iter=check_count("max_iter", max_iter, where),
    )
    return Settings(
        stopping=stopping,
        max_seconds=None if max_seconds is None else check_number("max_seconds", max_seconds, where=where),
        problem=problem,
        weights=None if lambdas is None else check_pair("lambdas", lambdas, where),
        bounds=None if radii is None else check_pair("radii", radii, where, positive=False),
        epsilon=None if noise is None else check_number("noise", noise, positive=False, where=where),
        from_noise=number is None,
        delta=PAPER_DELTA if number is None else number,
        threads=check_threads(n_threads, where),
    )


def choose_solver(
    method: str | Solver[Any, Any],
    problem: type[Problem],
    kind: str,
    where: str = "decompose",
    special: str | None = None,
) -> Solver[Any, Any]:
    """The solver that ``method`` names, if it solves this form of the problem on this ``kind`` of data.

    A ValueError names those that do, if it does not. ``special`` names an argument that only some solvers take. "auto"
    is the first in the registry that does.
    """
    fitting = [
        name for name in fitting_solvers(problem, kind) if special is None or SOLVERS[name].any_data_term
    ]
    given = "weights (lambdas or delta)" if problem is Penalized else f"{problem.parameter}"
    others = [name for name in fitting if name != "auto"]
    if not fitting:
        raise ValueError(f"The problem given by {given} has no solver for {KINDS[kind]}. {INSTEAD[kind]}.")
    if isinstance(method, Solver):
        solver = method
    elif not isinstance(method, str):
        raise bad("method", "a name or a solver", repr(method), where)
    elif method == "auto":
        return SOLVERS[fitting[0]]()
    elif method in SOLVERS:
        solver = SOLVERS[method]()
    else:
        rule = "'auto', a solver, or one of " + ", ".join(repr(name) for name in SOLVERS if name != "auto")
        raise bad("method", rule, repr(method), where)
    if special is not None and not solver.any_data_term:
        raise ValueError(f"The method {solver.name!r} does not take {special}. 'splitting' does.")
    if kind not in solver.takes:
        raise ValueError(
            f"The method {solver.name!r} does not take {KINDS[kind]}. "
            f"For this data there are: {', '.join(map(repr, others))}."
        )
    if not issubclass(problem, solver.solves):
        raise ValueError(
            f"The method {solver.name!r} does not solve the problem given by {given}. "
            f"These do: {', '.join(map(repr, others))}."
        )
    return solver


def fitting_solvers(problem: type[Problem], kind: str) -> list[str]:
    """The names of the solvers that solve this form of the problem on this ``kind`` of data."""
    return [
        name
        for name, solver in SOLVERS.items()
        if issubclass(problem, solver.solves) and kind in solver.takes
    ]


def check_takes_start(start: Any, solver: Solver[Any, Any], problem: type[Problem], kind: str) -> None:
    """A ValueError for a ``start`` with a solver that can only begin at L = S = 0; it names those that take one."""
    if start is None or solver.takes_start:
        return
    able = [name for name in fitting_solvers(problem, kind) if SOLVERS[name].takes_start and name != "auto"]
    remedy = f"These do: {', '.join(map(repr, able))}." if able else "Leave start out."
    raise ValueError(f"The method {solver.name!r} begins at L = S = 0 and takes no start. {remedy}")


def fixed_problem(settings: Settings, data: Data, saved: Saved | None) -> Problem | None:
    """The problem that is known without looking at the data: that of a checkpoint, else the one given, else None.

    A ValueError for a checkpoint of other data.
    """
    if saved is not None:
        saved.check_data(data)
        return saved.problem
    return settings.given


def check_scale(
    problem: Problem,
    saved: Saved | None,
    norm: float,
    operator_norm: float | None = None,
    where: str = "decompose",
) -> None:
    """Refuse weights or radii that are out of proportion to the data. In a checkpoint, they mean that it is damaged."""
    try:
        problem.check_scale(norm, operator_norm, where)
    except BadParameterError as error:
        if saved is None:
            raise
        raise ValueError(f"The checkpoint {str(saved.path)!r} is damaged: {error}") from None
