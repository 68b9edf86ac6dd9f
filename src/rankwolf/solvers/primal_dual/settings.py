"""The constants of the primal-dual method, each with its meaning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PrimalDualSettings:
    """The constants of path and splitting, chosen by ``python -m benchmarks measured_gap --rule``.

    That rule also leaves out one problem at a time. μ₀ = min(‖A*b‖₂/λ_L, max|A*b|/λ_S): with the weights μλ_L and μλ_S
    for μ < μ₀, a step from L = S = 0 brings something into both parts.
    """

    start: float = 0.9
    """The first factor μ on the weights, as a share of μ₀."""
    fall: float = 0.6
    """The factor by which the weights fall from one iteration of the path to the next."""
    settle: int = 4
    """The number of iterations of the path at the final weights."""
    linger: int = 16
    """The same number where the run ends with the path; chosen by ``python -m benchmarks series_rule``."""
    relaxation: float = 1.8
    """ρ, the factor by which a primal-dual step is lengthened: 1 is the step itself, and ρ < 2 converges."""
    step: float = 0.02
    """The first primal step is γ = ``step``·μ₀/‖A‖², times the looseness below."""
    looseness_power: float = 1.0
    """γ is multiplied by this power of Σd|y|²/‖A*y‖², the looseness of AA* ≼ diag(d) at the dual point y."""
    most_looseness: float = 4.0
    """The largest looseness that counts: noise in y that A* hardly sees makes the ratio large for no good reason."""
    too_short: float = 20.0
    """γ grows while making y feasible costs the bound more than this times |F(x) − D(y)| (``splitting._adapt``)."""
    too_long: float = 0.3
    """γ shrinks while making y feasible costs the bound less than this times |F(x) − D(y)|."""
    change: float = 1.08
    """The factor by which γ grows or shrinks in an iteration."""
    memory: float = 0.7
    """The share of the past in the smoothed logarithm of the ratio of these two."""
