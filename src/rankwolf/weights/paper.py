"""The paper's weights: a fixed share δ of the data's norm (Section 5)."""

from __future__ import annotations

from rankwolf.data import Data

# The paper's choice for video.
PAPER_DELTA = 1e-3


def paper_weights(data: Data, delta: float) -> tuple[float, float]:
    """(λ_L, λ_S) of the paper's rule for this data."""
    return paper_rule(delta, data.summary.norm, data.observed_fraction, max(data.shape))


def paper_rule(
    delta: float, norm: float, observed_fraction: float, longer_side: float
) -> tuple[float, float]:
    """λ_L = δρ‖P_Ω M‖_F and λ_S = δ√ρ‖P_Ω M‖_F / √max(m, n).

    A zero matrix has no scale of its own; any positive weights give L = S = 0 then, and 1 stands in for its norm.
    """
    norm = norm or 1.0
    return delta * observed_fraction * norm, delta * observed_fraction**0.5 * norm / longer_side**0.5
