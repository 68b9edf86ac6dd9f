"""The norm-constrained problem: a bound on each norm. Its prices, the weights, are adapted after every pass."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log

from rankwolf.ground.arrays import Array
from rankwolf.problem.base import FindThreshold, Found, Share, WithOracles
from rankwolf.problem.penalized import Penalized

# The models of how a norm responds to its weight are trusted for changes of up to this share of the norm. Where a norm
# is further off, this share of what the deviation is worth is added to the estimated objective, as a safety margin.
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
    single = 1e-2  # the objective is the misfit alone, a few hundredths of what the penalised objective is

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
        """An estimate of the objective after L is projected onto ‖L‖_* = τ_L and S onto ‖S‖₁ = τ_S.

        The model is of second order. The projection takes Δ = (‖L‖_* − τ_L)/r off each of r singular values: Δ·UVᵀ,
        along which G has the mean p = ⟨G, L⟩/‖L‖_*. It changes the misfit by at most r(pΔ + ½Δ²); S is treated alike.
        Where the norms may grow, gains are limited to Δ ≥ −p, to half of the clip level and to half of the misfit,
        because the model holds no further. A tenth of what both deviations from the radii are worth is added for
        safety. 0 where both norms are within their radii and there is no misfit.
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
        """Whether both norms are within their radii and the misfit is 0: an optimum, whatever the prices are."""
        within = found.nuclear_norm <= self.tau_L and found.l1_norm <= self.tau_S
        return within and found.misfit_squared == 0.0

    def _excess(self, found: Found, over_L: float) -> float:
        """By how much ‖S‖₁ exceeds τ_S once ``over_L`` has been taken off ‖L‖_*.

        Whatever L loses goes into the residual, and ‖S‖₁ grows by ⟨sign S, L⟩/‖L‖_* for each unit of it. Without this
        term each constraint would answer to the error of the other, and both would overshoot in turns.
        """
        along_L = found.signs_dot_l / found.nuclear_norm if found.nuclear_norm > 0.0 else 0.0
        return found.l1_norm - self.tau_S + along_L * over_L

    def price_of_step(self, now: Penalized, length: float, find: FindThreshold) -> float:
        """The λ_L with which the step projects onto ‖L‖_* ≤ τ_L."""
        return find(self.tau_L) / length

    def prices_after(self, now: Penalized, threshold_L: float, found: Found, most: float) -> Penalized:
        """λ_L is that of the projection onto ‖L‖_* ≤ τ_L, λ_S approaches the level at which ‖S‖₁ = τ_S.

        A change of λ_S changes G by as much times sign S, and so the λ_L that fits by ⟨sign S, L⟩/‖L‖_* times as much:
        this is added to λ_L.
        """
        lambda_S = now.lambda_S / most
        if found.nonzeros:
            # Newton's step on log‖S‖₁, exact where |D| has an exponential tail; a step on ‖S‖₁ would overshoot.
            over_L = found.nuclear_norm - self.tau_L
            reach = NEAR * found.nuclear_norm  # in one pass L may not move further than this
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
        """τ_L is scaled by the norm of the data, τ_S by the number of rows."""
        return Constrained(share.norm * self.tau_L, share.rows * self.tau_S)

    def from_sample(self, weights: Penalized, share: Share) -> Penalized:
        """λ_L = ‖G‖₂ grows with the square root of the number of rows, as the columns of G do; λ_S stays."""
        return Penalized(weights.lambda_L / share.rows**0.5, weights.lambda_S)

    def top(self, lambda_L: float, longer_side: int) -> Penalized:
        """λ_S = λ_L/√(longer side), the paper's proportion; λ_L = 1 for a matrix of zeros."""
        return Penalized(lambda_L or 1.0, (lambda_L or 1.0) / longer_side**0.5)

    def inside(self, now: Penalized, margin: float) -> Constrained:
        """Radii smaller by margin/λ, at most by half: a unit of a radius is worth the weight λ in the objective."""
        return Constrained(
            max(self.tau_L - margin / now.lambda_L, 0.5 * self.tau_L),
            max(self.tau_S - margin / now.lambda_S, 0.5 * self.tau_S),
        )

    def allows(self, now: Penalized, found: Found, margin: float) -> bool:
        """Whether both norms are within their radii, and below them by at most 3·``margin``/λ."""
        if self._explains_all(found):
            return True
        spare = self.tau_L - found.nuclear_norm, self.tau_S - found.l1_norm
        return all(0.0 <= x <= 3.0 * margin / price for x, price in zip(spare, now.pair, strict=True))

    def allowed_spectrum(self, singular: Array, found: Found) -> Array:
        """The values shifted by one number, as by another λ_L, so that those left above 0 add up to τ_L.

        At most ⟨G, L⟩/‖L‖_* is added, the component of G along L: beyond, the misfit would grow again.
        """
        while singular.size and singular[-1] <= (singular.sum() - self.tau_L) / singular.size:
            singular = singular[:-1]
        price = max(found.clipped_dot_l / found.nuclear_norm, 0.0) if found.nuclear_norm > 0.0 else 0.0
        return singular + min((self.tau_L - float(singular.sum())) / max(singular.size, 1), price)

    def allowed_threshold(self, threshold: float, found: Found, margin: float) -> float:
        """A Newton step on ‖S‖₁ = τ_S, convex in the threshold; the aim is a little inside, by the ``margin``."""
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
