"""The noise-bounded problem: a bound ε on the misfit. With ε = 0 it is classical principal component pursuit."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from rankwolf.ground.complaints import bad
from rankwolf.problem.base import Found, Problem, Share
from rankwolf.problem.penalized import Past, Penalized

# The range of λ. From λ = 1 on, S costs at least as much as L whatever it holds; far beyond, the rounding errors of
# L + S = M would dominate the objective.
LEAST_WEIGHT, MOST_WEIGHT = 1e-12, 1e6
# Shares of ‖P_Ω M‖_F, for a run that begins at an earlier L. Where ε suggests a λ_L below the first, that L may well be
# further from the optimum than such a weight can repair, and the run begins at the second.
LEAST_PRICE, SAFE_PRICE = 2.5e-4, 1e-2


@dataclass(frozen=True)
class NoiseBounded(Problem):
    """min ‖L‖_* + λ‖S‖₁ subject to ‖P_Ω(L + S − M)‖_F ≤ ε; ε = 0 is classical pursuit, L + S = M on Ω.

    The optimum is that of the penalised problem with weights (μ, μλ) for the μ at which the misfit is ε; for ε = 0 it
    is the end of the path, μ → 0. Two numbers; every answer costs a few operations.

    >>> from rankwolf.problem import NoiseBounded
    >>> NoiseBounded(weight=0.5, epsilon=2.0).objective(misfit_squared=2.0, nuclear_norm=10.0, l1_norm=4.0)
    12.0
    """

    weight: float
    epsilon: float

    parameter = "noise"
    symbols = ("weight", "epsilon")
    letters = ("λ", "ε")
    unit = "1"
    remedy = "The weight of S is 1/√max(m, n) by default."

    def scale(self, norm: float, operator_norm: float = 1.0) -> float:
        """1: λ has no unit. (ε is checked against the data.)"""
        return 1.0

    def check_scale(self, norm: float, operator_norm: float | None = None, where: str = "decompose") -> None:
        """Refuse ε < 0 or NaN, an ε for which L = S = 0 is the answer, and a λ outside of the range above."""
        if not self.epsilon >= 0.0:
            raise bad("noise", "at least 0", f"{self.epsilon:g}", where)
        if self.epsilon >= norm > 0.0:
            rule = f"below ‖P_Ω X‖_F = {norm:.6g}"
            raise bad("noise", rule, f"{self.epsilon:g}", where, "L = S = 0 is the answer from there on.")
        if not LEAST_WEIGHT <= self.weight <= MOST_WEIGHT:
            rule = f"between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}"
            raise bad("weight", rule, f"{self.weight:g}", where, self.remedy)

    def penalty(self, nuclear_norm: float, l1_norm: float) -> float:
        """‖L‖_* + λ‖S‖₁."""
        return nuclear_norm + self.weight * l1_norm

    def size(self, norm: float) -> float:
        """‖P_Ω M‖_F: a norm, like the objective."""
        return norm

    @property
    def exact(self) -> bool:
        """Whether ε is 0."""
        return self.epsilon == 0.0

    @property
    def threshold_at_zero(self) -> float:
        """0: with S = P_Ω M there is no misfit."""
        return 0.0

    def objective(self, misfit_squared: float, nuclear_norm: float, l1_norm: float) -> float:
        """‖L‖_* + λ‖S‖₁. The caller makes sure that the misfit is at most ε."""
        return self.penalty(nuclear_norm, l1_norm)

    def lower_bound(self, dot_m: float, squared: float, spectral_norm: float, largest_entry: float) -> float:
        """The dual is max ⟨Y, M⟩ − ε‖Y‖_F over ‖Y‖₂ ≤ 1 and |Y| ≤ λ; the longest feasible multiple of Y is taken."""
        excess = max(spectral_norm, largest_entry / self.weight)
        return max(dot_m - self.epsilon * squared**0.5, 0.0) / excess if excess > 0.0 else 0.0

    def allows(self, now: Penalized, found: Found, margin: float) -> bool:
        """Whether the misfit is at most ε."""
        return found.misfit_squared <= self.epsilon**2

    def value(self, found: Found, level: float) -> float:
        """An upper bound on ‖L‖_* + λ‖S + (1 − c)G‖₁, where c ≤ 1 makes the misfit c‖G‖ at most ε."""
        misfit = found.misfit_squared**0.5
        c = min(1.0, self.epsilon / misfit) if misfit > 0.0 else 1.0
        return self.penalty(found.nuclear_norm, found.l1_norm + (1.0 - c) * found.clipped_l1(level))

    def prices(self, now: Penalized, found: Found, past: Past) -> Penalized:
        """Weights at which ‖G‖ should be ε − 0.1·|‖G‖ − ε|, by extrapolation from the levels so far.

        The response d log‖G‖/d log λ is measured between the last two levels. ‖G‖ grows with the weights, at most in
        proportion, so that every level bounds them from one side; where the extrapolation leaves the bounds, their
        middle is tried. Bounds that contradict each other come from levels that were left too early, and later levels
        get more passes.
        """
        if past.stays():
            return now
        misfit, response = found.misfit_squared**0.5, 1.0
        if past.weights is not None and past.found is not None and past.found.misfit_squared * misfit > 0.0:
            change = log(now.lambda_L / past.weights.lambda_L)
            grown = log(misfit / past.found.misfit_squared**0.5)
            response = min(max(grown / change, 0.1), 1.0) if change else 1.0
        past.weights, past.found = now, found
        if self.exact or misfit == 0.0:
            return now.times(0.0 if self.exact else 2.0)
        aim = self.epsilon - 0.1 * abs(misfit - self.epsilon)
        past.narrow(now.times(self.epsilon / misfit), from_above=misfit > self.epsilon)
        return past.between(now, now.times(float(max(aim / misfit, 1e-3) ** (1.0 / response))))

    def price_error(self, now: Penalized, found: Found) -> float:
        """‖G‖·|ε − ‖G‖|: the duality gap of this form at the optimum for ``now``, times λ_L."""
        misfit = found.misfit_squared**0.5
        return float(misfit * abs(self.epsilon - misfit))

    def on_sample(self, share: Share) -> NoiseBounded:
        """ε goes with the square root of the number of rows; λ = λ_S/λ_L grows as λ_L falls with the norm of noise."""
        return NoiseBounded(self.weight / share.noise, share.rows**0.5 * self.epsilon)

    def from_sample(self, weights: Penalized, share: Share) -> Penalized:
        """λ_L is scaled by the ratio of the norms of noise; λ_S stays."""
        return Penalized(weights.lambda_L / share.noise, weights.lambda_S)

    def top(self, lambda_L: float, longer_side: int) -> Penalized:
        """λ_S = λ·λ_L, as in the objective; λ_L = 1 for a matrix of zeros."""
        return Penalized(lambda_L or 1.0, (lambda_L or 1.0) * self.weight)

    def likely_price(self, shape: tuple[int, int], norm: float) -> float:
        """ε(√m + √n)/√(mn): the spectral norm of noise with the Frobenius norm ε, which is what is left at the optimum.

        A value far below the data is replaced by ``SAFE_PRICE``·‖P_Ω M‖_F, from where the path leads down: at once
        with such small weights, steps would be too short to get anywhere.
        """
        m, n = shape
        price = float(self.epsilon * (m**-0.5 + n**-0.5))
        return price if price >= LEAST_PRICE * norm else SAFE_PRICE * norm

    def allowed_threshold(self, threshold: float, found: Found, margin: float) -> float:
        """A smaller threshold where ‖G‖ > ε, so that ‖G‖ ≤ ε after one or a few calls. 0 for ε = 0.

        ‖G‖² is concave in θ², with the slope ‖S‖₀. A Newton step from above therefore lands at or below the root; it is
        long where few entries exceed θ, and infinite where none does. Two other candidates are the root of the chord
        from 0, which lies above the root, and θ²/2. The smaller of these two is taken, or Newton's if that is larger.
        """
        over = found.misfit_squared - self.epsilon**2
        if self.exact or over <= 0.0:
            return 0.0 if self.exact else threshold
        share = min(self.epsilon**2 / found.misfit_squared, 0.5)
        if found.nonzeros:
            share = max(share, 1.0 - (1.0 + 1e-12) * over / found.nonzeros / threshold**2)
        return float(threshold * share**0.5)
