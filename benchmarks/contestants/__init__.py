"""One file for each contestant: ``solve(challenge)`` gives an :class:`Outcome`. They do not grade themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from benchmarks.data import Array


@dataclass(frozen=True)
class Challenge:
    """What a contestant is given.

    ``goal`` is one of: ``"gap"`` (a certified relative gap of ``value``), ``"paper"`` (the paper's rule with ε),
    ``"objective"`` (an objective of at most ``value``), ``"iterations"`` (that many). Rivals stop by their own rules.
    """

    matrix: Array
    observed: Array | None
    weights: tuple[float, float]
    goal: str
    value: float
    seed: int
    threads: int
    max_seconds: float
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """L = left·rightᵀ (``right`` None: dense), and the clock: ``seconds`` to the goal, ``total_seconds`` to the answer.

    ``stamps`` are seconds since the call after each iteration, start-up included in the first.
    """

    left: Array
    right: Array | None
    seconds: float
    total_seconds: float
    iterations: int | None
    status: str
    passes: int | None = None
    objective: float | None = None
    relative_gap: float | None = None
    stamps: list[float] = field(default_factory=list)
    pass_counts: list[int] = field(default_factory=list)


Contestant = Callable[[Challenge], Outcome]


def load(name: str) -> Contestant:
    """The contestant of ``benchmarks/contestants/<name>.py``; a dash in the name is an underscore there."""
    solve: Contestant = import_module(f"benchmarks.contestants.{name.replace('-', '_')}").solve
    return solve
