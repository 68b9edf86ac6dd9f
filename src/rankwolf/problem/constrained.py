"""Bounds on both norms, whose prices follow every pass."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log

from rankwolf.ground.arrays import Array
from rankwolf.problem.base import FindThreshold, Found, Share, WithOracles
from rankwolf.problem.penalized import Penalized

# How far the response of ‖S‖₁ to L is believed, as a share of the norm.
NEAR = 0.1


@dataclass(frozen=True)
class Constrained(WithOracles):
    """min ½‖P_Ω(L + S − M)‖²_F subject to ‖L‖_* ≤ τ_L and ‖S‖₁ ≤ τ_S, equation (1.6).

    Two numbers; every answer costs a few operations.

    >>> from rankwolf.problem import Constrained
    >>> Constrained(10.0, 4.0).objective(misfit_squared=2.0, nuclear_norm=10.0, l1_norm=4.0)
    1.0
    """

    tau_L: float
    tau_S: float

    parameter = "radii"
    symbols = ("tau_L", "tau_S")
    letters = ("τ_L", "τ_S")
    unit = "‖b‖/‖A‖"
    remedy = "From √(mn)·‖X‖_F on, a radius binds nothing."
    follows = True
    single = 1e-2  # the misfit alone is a few hundredths of the penalised objective

    def scale(self, norm: float, operator_norm: float = 1.0) -> float:
        """‖b‖/‖A‖, the size of a matrix that explains b."""
        return norm / operator_norm

    def penalty(self, nuclear_norm: float, l1_norm: float) -> float:
        """Nothing: the radii are constraints."""
        return 0.0

    @property
    def threshold_at_zero(self) -> float:
        """∞: S = 0 is always allowed."""
        return inf

    def lower_bound(self, dot_m: float, squared: float, spectral_norm: float, largest_entry: float) -> float:
        """The dual is max ⟨Y, M⟩ − ½‖Y‖² − τ_L‖Y‖₂ − τ_S·max|Y| over all Y; the best multiple of Y is taken.

        With Y = M − L − S it is at least the objective less the surrogate gap of equation (2.8).
        """
        slope = max(dot_m - self.tau_L * spectral_norm - self.tau_S * largest_entry, 0.0)
        return 0.5 * slope * slope / squared if squared > 0.0 else 0.0

    def value(self, found: Found, level: float) -> float:
        """With L projected onto ‖L‖_* = τ_L and the S of ‖S‖₁ = τ_S beside it, by a model of second order.

        The projection takes Δ = (‖L‖_* − τ_L)/r off each of r singular values: Δ·UVᵀ, along which G has the mean
        p = ⟨G, L⟩/‖L‖_*. It costs at most r(pΔ + ½Δ²), and gains that much where Δ < 0. A gain is not counted beyond
        Δ = −p, beyond half of the level, and beyond half of the misfit, where the model says nothing. The further both
        norms are off, the less is believed of it: a tenth of what they are worth is added. Nothing is off where both
        norms are allowed and nothing is left to explain.
        """
        if self._explains_all(found):
            return 0.0
        misfit, over_L, price = 0.5 * found.misfit_squared, 0.0, 0.0
        if found.rank:
            price = max(found.clipped_dot_l / found.nuclear_norm, 0.0)
            shift = max((found.nuclear_norm - self.tau_L) / found.rank, -price)
            over_L = found.rank * shift
            misfit += over_L * (price + 0.5 * shift)
        change = max(self._excess(found, over_L) / max(found.nonzeros, 1), -0.5 * level)
        estimate = misfit + found.nonzeros * change * (level + 0.5 * change)
        doubt = price * abs(over_L) + level * abs(found.l1_norm - self.tau_S)
        return max(estimate + NEAR * doubt, 0.25 * found.misfit_squared)

    def _explains_all(self, found: Found) -> bool:
        """Whether the pair is allowed and there is no misfit: an optimum, whatever the prices are."""
        within = found.nuclear_norm <= self.tau_L and found.l1_norm <= self.tau_S
        return within and found.misfit_squared == 0.0

    def _excess(self, found: Found, over_L: float) -> float:
        """How much ‖S‖₁ is too large once ``over_L`` has been taken off ‖L‖_*.

        It comes to the residual then: ‖S‖₁ grows with it by ⟨sign S, L⟩/‖L‖_* for each unit. Without this term the two
        constraints would answer to each other's errors, and overshoot by turns.
        """
        along_L = found.signs_dot_l / found.nuclear_norm if found.nuclear_norm > 0.0 else 0.0
        return found.l1_norm - self.tau_S + along_L * over_L

    def price_of_step(self, now: Penalized, length: float, find: FindThreshold) -> float:
        """The one with which the step projects onto ‖L‖_* ≤ τ_L."""
        return find(self.tau_L) / length

    def prices_after(self, now: Penalized, threshold_L: float, found: Found, most: float) -> Penalized:
        """λ_L is that of the projection onto ‖L‖_* ≤ τ_L, λ_S the level at which ‖S‖₁ = τ_S.

        Both are Newton steps, and go together: λ_S lifts G by sign S, which has ⟨sign S, L⟩/‖L‖_* along L.
        """
        lambda_S = now.lambda_S / most
        if found.nonzeros:
            # The residual's tail as that of an exponential: Newton's step on ‖S‖₁ itself overshoots from above.
            over_L = found.nuclear_norm - self.tau_L
            reach = NEAR * found.nuclear_norm  # L may not follow further in one pass
            l1_norm = self.tau_S + self._excess(found, min(max(over_L, -reach), reach))
            l1_norm = max(l1_norm, NEAR * found.l1_norm)
            aim = now.lambda_S + found.l1_norm / found.nonzeros * log(l1_norm / self.tau_S)
            lambda_S = min(max(aim, lambda_S), most * now.lambda_S)
        if found.nuclear_norm > 0.0:
            threshold_L += (lambda_S - now.lambda_S) * found.signs_dot_l / found.nuclear_norm
        return now.towards(Penalized(threshold_L, lambda_S), most)

    def price_error(self, now: Penalized, found: Found) -> float:
        """λ_L·|‖L‖_* − τ_L| + λ_S·|‖S‖₁ − τ_S|."""
        off_L, off_S = found.nuclear_norm - self.tau_L, found.l1_norm - self.tau_S
        return now.lambda_L * abs(off_L) + now.lambda_S * abs(off_S)

    def on_sample(self, share: Share) -> Constrained:
        """‖L‖_* goes with the norm of the data, ‖S‖₁ with the number of rows."""
        return Constrained(share.norm * self.tau_L, share.rows * self.tau_S)

    def from_sample(self, weights: Penalized, share: Share) -> Penalized:
        """λ_L is the norm of G, and grows with the number of rows as its columns do."""
        return Penalized(weights.lambda_L / share.rows**0.5, weights.lambda_S)

    def top(self, lambda_L: float, longer_side: int) -> Penalized:
        """In the usual proportion; any weights for a matrix of zeros."""
        return Penalized(lambda_L or 1.0, (lambda_L or 1.0) / longer_side**0.5)

    def inside(self, now: Penalized, margin: float) -> Constrained:
        """Smaller radii; the weights are the price of a unit of each."""
        return Constrained(
            max(self.tau_L - margin / now.lambda_L, 0.5 * self.tau_L),
            max(self.tau_S - margin / now.lambda_S, 0.5 * self.tau_S),
        )

    def allows(self, now: Penalized, found: Found, margin: float) -> bool:
        """Whether both norms are within their radii, and inside by at most what costs three times the margin."""
        if self._explains_all(found):
            return True
        spare = self.tau_L - found.nuclear_norm, self.tau_S - found.l1_norm
        return all(0.0 <= x <= 3.0 * margin / price for x, price in zip(spare, now.pair, strict=True))

    def allowed_spectrum(self, singular: Array, found: Found) -> Array:
        """The same taken off each, or added, such that they add up to τ_L: what another λ_L would do.

        No more is added than G has along L: beyond, the misfit would grow again.
        """
        while singular.size and singular[-1] <= (singular.sum() - self.tau_L) / singular.size:
            singular = singular[:-1]
        price = max(found.clipped_dot_l / found.nuclear_norm, 0.0) if found.nuclear_norm > 0.0 else 0.0
        return singular + min((self.tau_L - float(singular.sum())) / max(singular.size, 1), price)

    def allowed_threshold(self, threshold: float, found: Found, margin: float) -> float:
        """Newton's method on ‖S‖₁ = τ_S, a convex function of the threshold; it stops a little below τ_S."""
        over = self._excess(found, max(found.nuclear_norm - self.tau_L, 0.0))
        spare = margin / threshold if threshold > 0.0 else 0.0
        if -3.0 * spare <= over <= 0.0:
            return threshold
        if found.nonzeros == 0:
            return 0.5 * threshold
        return max(threshold + (over + spare) / found.nonzeros, 0.0)

    def vertex(self, objective: float, spectral_norm: float, largest_entry: float) -> tuple[float, float]:
        """(τ_L, τ_S), whatever the gradient is."""
        return self.tau_L, self.tau_S

    def threshold_L(self, step: float, find: FindThreshold) -> float:
        """The threshold of the projection onto the nuclear ball."""
        return find(self.tau_L)

    def threshold_S(self, step: float, find: FindThreshold) -> float:
        """The threshold of the projection onto the ℓ1 ball."""
        return find(self.tau_S)
