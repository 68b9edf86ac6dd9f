"""The numbers of a factor model, and the settings of its fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwolf.ground.arrays import Array
from rankwolf.ground.once import computed_once


@dataclass(frozen=True)
class FactorSettings:
    """How a factor model is fitted. Chosen on tables of statsmodels and R (benchmarks/quality/tables.py)."""

    cut: float = 4.5
    """A cell counts while it is within so many standard deviations of what the other cells predict."""
    back: float = 0.85
    """In a round, a cell that did not count comes back within this share of the limit."""
    strength: float = 0.3
    """The strength of the prior on loadings; 1 is a full ARD prior. Imputation, scores and false alarms are the same to
    a per cent from 0.2 to 0.4; 0.05 keeps directions of noise where many cells are missing, and 1 loses weak ones."""
    significant: float = 1.0
    """The strength at which a direction is called a component: about the edge of the spectrum of noise."""
    floor: float = 1e-4
    """The least variance of a column's noise, as a share of the column's variance."""
    rounds: tuple[int, int] = (10, 100)
    """The most rounds of EM on the sample: so many, and more by the share of cells that do not count, its rate."""
    settled: float = 2e-4
    """The fit ends when what EM still has before it is below this: the last mean change of a correlation, times
    λ/(1 − λ), where λ is the share of pairs of cells of which one does not count."""
    most_change: float = 1e-3
    """And the last change itself is below this."""
    noise_change: float = 0.05
    """And the noise of a column changes on average by less than this share: its σ by half of that."""
    limit_change: float = 0.025
    """And its limit, in units of σ, by less than this."""
    free_rounds: int = 2
    """In the first rounds no cell is decided anew."""
    batch_rounds: int = 3
    """Rounds on a batch of new rows."""
    decisions: int = 6
    """In new rows the cells that count are decided at most so often."""
    start_clip: float = 3.0
    """The start clips standardised cells here."""
    start_cut: float = 8.0
    """At the start, and in new rows, a cell counts while it is so many robust deviations from the median at most."""
    sample_rows: tuple[int, int] = (2000, 40)
    """Rounds run on at most so many rows, or so many for each column, whichever is more; then on all rows."""
    full_rounds: int = 2
    """Rounds on all rows, where there are more than in the sample."""
    start_steps: int = 1
    """Updates of loadings and noise at the start, before the first row is predicted."""
    most_power: float = 2.5
    """The heaviest tail of a column: its residuals are at most like this power of Gaussian ones."""
    sizes: tuple[float, float] = (0.2, 1.5)
    """Between these is the middle of a column's residuals, in units of what normal ones would have."""
    step: float = 1.0 / 3.0
    """In a column where more than half of the cells are equal, a cell is known to this share of the usual step."""
    precision_columns: int = 500
    """Tables up to this width keep an n × n precision matrix; wider ones work with factors."""
    core_share: float = 2.0 / 3.0
    """Rows are scored by the scatter of this share of the rows, the most central ones."""
    core_steps: int = 2
    """How often the central rows are chosen anew."""


@dataclass(frozen=True)
class Factors:
    """x = centre + scale·(V u + e), u ~ N(0, I), e_j ~ N(0, ``noise``_j): the parameters, in standardised units.

    ``loadings`` is V (n × r), the strongest direction first. ``resolution``: to how much the cells of a column are
    known, for columns of few values. Residuals of column j are like a Gaussian to the power ``power``, times ``size``.
    """

    centre: Array
    scale: Array
    loadings: Array
    noise: Array
    resolution: Array
    size: Array
    power: Array
    strength: float

    @computed_once
    def core(self) -> Array:
        """H = I + Vᵀ D⁻¹ V, D the noise: the precision of u given a whole row."""
        whitened = self.loadings / self.noise[:, None]
        return np.asarray(np.eye(self.loadings.shape[1]) + self.loadings.T @ whitened)

    @computed_once
    def gain(self) -> Array:
        """D⁻¹ V H⁻¹, n × r: the posterior mean of u is the standardised row times this."""
        return np.asarray(np.linalg.solve(self.core, (self.loadings / self.noise[:, None]).T).T)

    @computed_once
    def half_gain(self) -> Array:
        """D⁻¹ V L⁻ᵀ with H = L Lᵀ: the columns of the gain, made independent."""
        lower = np.linalg.cholesky(self.core)
        return np.asarray(np.linalg.solve(lower, (self.loadings / self.noise[:, None]).T).T)

    @computed_once
    def precision(self) -> Array:
        """(V Vᵀ + D)⁻¹ = D⁻¹ − D⁻¹ V H⁻¹ Vᵀ D⁻¹, n × n."""
        made: Array = -self.gain @ (self.loadings / self.noise[:, None]).T
        made[np.diag_indices(len(made))] += 1.0 / self.noise
        return made

    def covariance(self) -> Array:
        """V Vᵀ + D, n × n, in standardised units."""
        made: Array = self.loadings @ self.loadings.T
        made[np.diag_indices(len(made))] += self.noise
        return made

    def limits(self, deviations: float) -> Array:
        """For each column, which |residual|/deviation is as rare as ``deviations`` standard deviations are."""
        return np.asarray(self.size * deviations**self.power)

    def calibrated(self, ratios: Array) -> Array:
        """Residuals over their deviation, as Gaussian z-scores: heavy tails of a column are taken back."""
        return np.asarray(np.sign(ratios) * (np.abs(ratios) / self.size) ** (1.0 / self.power))
