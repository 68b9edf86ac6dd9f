"""The constants of the method, each with the question that it answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PrimalDualSettings:
    """Chosen by ``python -m benchmarks measured_gap --rule``, which also leaves one problem out at a time."""

    start: float = 0.9
    """The first weights, as a share of those at which L = S = 0 is optimal."""
    fall: float = 0.6
    """What the weights are multiplied by from one iteration of the path to the next."""
    settle: int = 4
    """Iterations of the path at the final weights."""
    linger: int = 16
    """The same where the run ends with the path; from the grid of ``python -m benchmarks series_rule``."""
    relaxation: float = 1.8
    """How far a primal-dual step goes: 1 is the step itself, below 2 it converges."""
    step: float = 0.02
    """The first primal step γ‖A‖², as a share of μ₀: how much larger the weights at which L = S = 0 is optimal are."""
    looseness_power: float = 1.0
    """How much longer γ is where d is far above what AA* does to the dual point: (Σd|y|²/‖A*y‖²) to this power."""
    most_looseness: float = 4.0
    """A larger ratio counts as this one. Noise that A* hardly sees makes it large without saying anything about AA*."""
    too_short: float = 20.0
    """γ grows while the bound loses this many times more by scaling y to be feasible than primal and dual differ."""
    too_long: float = 0.3
    """γ shrinks where the first of these two is below this many times the second."""
    change: float = 1.08
    """By how much γ grows or shrinks in an iteration."""
    memory: float = 0.7
    """The share of the past in the smoothed logarithm of that ratio."""
