"""The penalised problem: a weight on each norm. The other forms are solved as penalised ones with unknown weights."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from rankwolf.problem.base import FindThreshold, Found, Share, WithOracles


@dataclass(frozen=True)
class Penalized(WithOracles):
    """min ½‖P_Ω(L + S − M)‖²_F + λ_L‖L‖_* + λ_S‖S‖₁, equation (1.5).

    Two numbers; every answer costs a few operations.

    >>> from rankwolf.problem import Penalized
    >>> Penalized(3.0, 0.5).objective(misfit_squared=2.0, nuclear_norm=10.0, l1_norm=4.0)
    33.0
    """

    lambda_L: float
    lambda_S: float

    parameter = "lambdas"
    symbols = ("lambda_L", "lambda_S")
    letters = ("λ_L", "λ_S")
    unit = "‖A‖·‖b‖"
    remedy = "Look at delta and at the scale of X."

    def scale(self, norm: float, operator_norm: float = 1.0) -> float:
        """‖A‖·‖b‖, the size of the gradient A*b."""
        return norm * operator_norm

    def penalty(self, nuclear_norm: float, l1_norm: float) -> float:
        """λ_L‖L‖_* + λ_S‖S‖₁."""
        return self.lambda_L * nuclear_norm + self.lambda_S * l1_norm

    @property
    def threshold_at_zero(self) -> float:
        """λ_S."""
        return self.lambda_S

    def lower_bound(self, dot_m: float, squared: float, spectral_norm: float, largest_entry: float) -> float:
        """The dual is max ⟨Y, M⟩ − ½‖Y‖² over ‖Y‖₂ ≤ λ_L and |Y| ≤ λ_S.

        θY is feasible for θ ≤ min(1, λ_L/‖Y‖₂, λ_S/max|Y|), and the best such θ is taken. θ > 1 is not tried, because
        at the optimum Y = M − L − S is itself the best dual point.
        """
        if squared <= 0.0:
            return 0.0
        excess = max(spectral_norm, largest_entry * (self.lambda_L / self.lambda_S)) / self.lambda_L
        theta = min(1.0 / max(excess, 1.0), max(dot_m / squared, 0.0))
        return theta * dot_m - 0.5 * theta * theta * squared

    def vertex(self, objective: float, spectral_norm: float, largest_entry: float) -> tuple[float, float]:
        """Lines 5 to 14 of Algorithm 5: the bounds U = objective/λ, or 0 where the gradient is below the weight.

        Thresholding leaves |G| = λ_S where S is not zero; rounding must not turn that into a vertex.
        """
        return (
            objective / self.lambda_L if spectral_norm > self.lambda_L else 0.0,
            objective / self.lambda_S if largest_entry > self.lambda_S * (1.0 + 1e-12) else 0.0,
        )

    def objective_at(self, now: Penalized, found: Found) -> float:
        """The objective of an L with these weights, from what was ``found`` there with the weights ``now``.

        By a model of second order: the Huber loss is concave in λ_S, with the slope ‖S‖₁ and the curvature −‖S‖₀.
        """
        change = self.lambda_S - now.lambda_S
        huber = 0.5 * found.misfit_squared + now.lambda_S * found.l1_norm
        return (
            huber
            + change * found.l1_norm
            - 0.5 * change * change * found.nonzeros
            + self.lambda_L * found.nuclear_norm
        )

    def ratio(self, other: Penalized) -> float:
        """The larger of the two factors by which the weights differ, at least 1; ∞ where one of them is 0."""
        pairs = list(zip(self.pair, other.pair, strict=True))
        return max(max(a, b) / min(a, b) if min(a, b) > 0.0 else inf for a, b in pairs)

    def times(self, factor: float) -> Penalized:
        """The problem with both weights multiplied by ``factor``: another level of its path."""
        return Penalized(factor * self.lambda_L, factor * self.lambda_S)

    def part_way(self, aim: Penalized, part: float) -> Penalized:
        """λ·(λ_aim/λ)^part for each weight: from these weights (``part`` = 0) to ``aim`` (1)."""
        return Penalized(*(a * (b / a) ** part for a, b in zip(self.pair, aim.pair, strict=True)))

    def towards(self, aim: Penalized, most: float) -> Penalized:
        """``aim``, but each weight changes by at most the factor ``most``."""
        return Penalized(
            min(max(aim.lambda_L, self.lambda_L / most), self.lambda_L * most),
            min(max(aim.lambda_S, self.lambda_S / most), self.lambda_S * most),
        )

    def prices(self, now: Penalized, found: Found, past: Past) -> Penalized:
        """The weights of this problem: there is nothing to look for."""
        return self

    def price_error(self, now: Penalized, found: Found) -> float:
        """0 at the weights of this problem; ∞, for unknown, elsewhere."""
        return 0.0 if now == self else inf

    def on_sample(self, share: Share) -> Penalized:
        """λ_L is scaled by the ratio of the norms of noise, so that noise is kept out of L as before; λ_S stays."""
        return Penalized(share.noise * self.lambda_L, self.lambda_S)

    def from_sample(self, weights: Penalized, share: Share) -> Penalized:
        """The weights of this problem, whatever was found on the sample."""
        return self

    def top(self, lambda_L: float, longer_side: int) -> Penalized:
        """This problem's weights times max(1, ``lambda_L``/λ_L)."""
        return self.times(max(1.0, lambda_L / self.lambda_L))

    def threshold_L(self, step: float, find: FindThreshold) -> float:
        """step·λ_L."""
        return step * self.lambda_L

    def threshold_S(self, step: float, find: FindThreshold) -> float:
        """step·λ_S."""
        return step * self.lambda_S


# The most passes that a level is given after it has settled.
LONGEST = 32


@dataclass
class Past:
    """What the search for prices remembers: the weights of the level before, and what was found there.

    ``least`` and ``most`` bound the weights that are looked for, by the last levels below and above them. Where these
    bounds contradicted each other, every settled level gets ``longer`` more passes; ``stayed`` counts those made.
    """

    weights: Penalized | None = None
    found: Found | None = None
    least: Penalized | None = None
    most: Penalized | None = None
    longer: int = 0
    stayed: int = 0

    def stays(self) -> bool:
        """Whether a level that has settled gets another pass. Called once after each pass of such a level."""
        self.stayed = self.stayed + 1 if self.stayed < self.longer else 0
        return self.stayed > 0

    def narrow(self, bound: Penalized, *, from_above: bool) -> None:
        """Remember a bound. An opposite bound that contradicts it is dropped, and ``longer`` is doubled."""
        if from_above:
            self.most = bound
        else:
            self.least = bound
        if self.least is not None and self.most is not None and self.least.lambda_L >= self.most.lambda_L:
            self.longer = min(max(1, 2 * self.longer), LONGEST)
            self.least, self.most = (None, bound) if from_above else (bound, None)

    def between(self, now: Penalized, aim: Penalized) -> Penalized:
        """``aim``, or the geometric middle of the bounds where going from ``now`` to ``aim`` passes one of them."""
        if self.least is None or self.most is None:
            return aim
        up, down = aim.lambda_L >= now.lambda_L, aim.lambda_L <= now.lambda_L
        beyond = (up and aim.lambda_L >= self.most.lambda_L) or (down and aim.lambda_L <= self.least.lambda_L)
        return self.least.part_way(self.most, 0.5) if beyond else aim
