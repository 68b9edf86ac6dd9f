"""The two convex problems of the paper, and the rule that picks their weights.

Everything here is a handful of scalars: the sums that these formulas need are collected by passes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from rankwolf.sources.base import Summary


class Data(Protocol):
    """What the loop and the weights ask of whatever is decomposed: a Source, or Measurements of a matrix."""

    passes: int
    bytes_read: int

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n) of the matrix."""

    @property
    def summary(self) -> Summary:
        """The norm of what was observed, among others."""

    @property
    def observed_fraction(self) -> float:
        """ρ: observed entries, or measurements, over mn."""

    def one_blas_thread(self) -> AbstractContextManager[None]:
        """Around the loop."""


@dataclass(frozen=True)
class Penalized:
    """min ½‖P_Ω(L + S − M)‖²_F + λ_L‖L‖_* + λ_S‖S‖₁, equation (1.5)."""

    lambda_L: float
    lambda_S: float

    def objective(self, misfit_squared: float, nuclear_norm: float, l1_norm: float) -> float:
        """f(L, S) from its three parts."""
        return 0.5 * misfit_squared + self.lambda_L * nuclear_norm + self.lambda_S * l1_norm

    def dual_value(self, g_dot_m: float, g_squared: float, spectral_norm: float) -> float:
        """A lower bound on the optimum, from G on Ω with |G| ≤ λ_S and an upper bound on ‖G‖₂.

        The dual is max ⟨Y, M⟩ − ½‖Y‖²_F over Y on Ω with |Y| ≤ λ_S and ‖Y‖₂ ≤ λ_L. Y = θG with
        θ ≤ min(1, λ_L/‖G‖₂) is feasible, and the best such θ is the one below.
        """
        if g_squared <= 0.0:
            return 0.0
        most = min(1.0, self.lambda_L / spectral_norm) if spectral_norm > 0.0 else 1.0
        theta = min(most, max(g_dot_m / g_squared, 0.0))
        return theta * g_dot_m - 0.5 * theta * theta * g_squared


@dataclass(frozen=True)
class Constrained:
    """min ½‖P_Ω(L + S − M)‖²_F subject to ‖L‖_* ≤ τ_L and ‖S‖₁ ≤ τ_S, equation (1.6)."""

    tau_L: float
    tau_S: float

    def objective(self, misfit_squared: float) -> float:
        """l(L, S); the radii do not enter."""
        return 0.5 * misfit_squared

    def surrogate_gap(self, g_dot_x: float, spectral_norm: float, largest_entry: float) -> float:
        """d(x) = ⟨x − v, ∇l(x)⟩ of equation (2.8), with ∇l = −G and v the oracles' answers."""
        return self.tau_L * spectral_norm + self.tau_S * largest_entry - g_dot_x


Problem = Penalized | Constrained


def paper_weights(data: Data, delta: float) -> tuple[float, float]:
    """The paper's weights for this data."""
    return paper_rule(delta, data.summary.norm, data.observed_fraction, max(data.shape))


def paper_rule(
    delta: float, norm: float, observed_fraction: float, longer_side: float
) -> tuple[float, float]:
    """λ_L = δρ‖P_Ω M‖_F and λ_S = δ√ρ‖P_Ω M‖_F / √max(m, n), Section 5.

    A zero matrix has no scale of its own; any positive weights give L = S = 0 then, and 1 stands in for its norm.
    """
    norm = norm or 1.0
    return delta * observed_fraction * norm, delta * observed_fraction**0.5 * norm / longer_side**0.5
