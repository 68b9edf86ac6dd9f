"""The paper's weights: a fixed share δ of the data's norm (Section 5)."""

from __future__ import annotations

from rankwolf.data import Data

# The paper's choice for video.
PAPER_DELTA = 1e-3


def paper_weights(data: Data, delta: float) -> tuple[float, float]:
    """(λ_L, λ_S) by :func:`paper_rule`, with norm, observed share and shape of ``data``."""
    return paper_rule(delta, data.summary.norm, data.observed_fraction, max(data.shape))


def paper_rule(
    delta: float, norm: float, observed_fraction: float, longer_side: float
) -> tuple[float, float]:
    """λ_L = δρ‖P_Ω M‖_F and λ_S = δ√ρ‖P_Ω M‖_F / √max(m, n).

    ρ is the share of observed entries. For a zero matrix any positive weights give L = S = 0; its norm is taken as 1.
    """
    norm = norm or 1.0
    return delta * observed_fraction * norm, delta * observed_fraction**0.5 * norm / longer_side**0.5
