"""The convex problems that are solved, in one language.

A form of the problem is one class. It answers what an algorithm, the certificate and the loop ask of it: the objective
of a pair (L, S), a lower bound on the optimum from a dual point, the vertex that Frank-Wolfe moves towards, the
thresholds of a proximal step, and its own description. All arguments are scalars, which passes over the data (for
entries) or products with A (for measurements) add up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import astuple, dataclass
from math import inf, log
from typing import ClassVar

from rankwolf.ground.arrays import Array

# ``find(radius)`` is the threshold θ with Σ max(|x| − θ, 0) = radius, for whatever numbers x a step thresholds.
FindThreshold = Callable[[float], float]


@dataclass(frozen=True)
class Found:
    """What a pass finds at an L: with D = P_Ω(M − L) and a clip level, G = clip(D, ±level) and S = D − G."""

    nuclear_norm: float
    rank: int
    misfit_squared: float
    """‖G‖²."""
    l1_norm: float
    """‖S‖₁."""
    nonzeros: int
    """‖S‖₀."""
    observed: int

    def clipped_l1(self, level: float) -> float:
        """An upper bound on ‖G‖₁: ``level`` at each entry of S, and Cauchy-Schwarz for the others."""
        rest = max(self.misfit_squared - self.nonzeros * level * level, 0.0)
        return float(self.nonzeros * level + (rest * max(self.observed - self.nonzeros, 0)) ** 0.5)


@dataclass
class Past:
    """What the search for prices remembers: the weights of the level before, and what was found there."""

    weights: Penalized | None = None
    found: Found | None = None


@dataclass(frozen=True)
class Problem(ABC):
    """min over (L, S) of the misfit ½‖P_Ω(L + S − M)‖²_F (or ½‖A[L + S] − b‖²), with L and S kept small.

    ``parameter`` is the name under which users give the pair of numbers that define the problem, ``symbols`` what they
    are called in results and files, ``letters`` what people read.
    """

    parameter: ClassVar[str]
    symbols: ClassVar[tuple[str, str]]
    letters: ClassVar[tuple[str, str]]
    unit: ClassVar[str]
    remedy: ClassVar[str]

    @property
    def pair(self) -> tuple[float, float]:
        """The two numbers that define the problem."""
        first, second = astuple(self)
        return float(first), float(second)

    def describe(self) -> dict[str, float]:
        """The two numbers by name, such as ``{"lambda_L": 3.0, "lambda_S": 0.1}``."""
        return dict(zip(self.symbols, self.pair, strict=True))

    def __str__(self) -> str:
        return ", ".join(
            f"{letter} = {number:.4g}" for letter, number in zip(self.letters, self.pair, strict=True)
        )

    @abstractmethod
    def scale(self, norm: float, operator_norm: float = 1.0) -> float:
        """The size that sensible parameters have for data of this norm, measured by an A of this norm."""

    @abstractmethod
    def penalty(self, nuclear_norm: float, l1_norm: float) -> float:
        """What the objective charges for ‖L‖_* and ‖S‖₁."""

    def objective(self, misfit_squared: float, nuclear_norm: float, l1_norm: float) -> float:
        """The objective of a pair from ‖P_Ω(L + S − M)‖², ‖L‖_* and ‖S‖₁."""
        return 0.5 * misfit_squared + self.penalty(nuclear_norm, l1_norm)

    @property
    @abstractmethod
    def threshold_at_zero(self) -> float:
        """θ of an S = T_θ(P_Ω M) that is allowed beside L = 0, preferably the best."""

    @abstractmethod
    def lower_bound(self, dot_m: float, squared: float, spectral_norm: float, largest_entry: float) -> float:
        """A lower bound on the optimum from any dual point Y, used at its best multiple; at least 0.

        ``dot_m`` is ⟨Y, M⟩ (or Re⟨y, b⟩), ``squared`` is ‖Y‖² (or ‖y‖²). The last two are upper bounds on ‖Y‖₂ and
        max|Y| (of A*y for measurements).
        """

    # What the path asks (rankwolf.solvers.hybrid.path), which sees a form as a penalised problem whose weights have to
    # be found. A form that is no place on it has no answer.

    def value(self, found: Found, level: float) -> float:
        """An upper bound on the optimum from L and the best S beside it that this form allows; clip level ``level``."""
        return self.objective(found.misfit_squared, found.nuclear_norm, found.l1_norm)

    def prices(self, now: Penalized, found: Found, past: Past) -> Penalized:
        """The weights that this form's optimum has, as far as the optima at ``now`` and before can tell.

        ``past`` is brought up to date.
        """
        raise TypeError(f"{type(self).__name__} is no place on the path.")

    def price_error(self, now: Penalized, found: Found) -> float:
        """How much of the gap comes from ``now`` not being the prices, in units of the penalised objective."""
        raise TypeError(f"{type(self).__name__} is no place on the path.")

    def on_sample(self, rows: float, noise: float) -> Problem:
        """The problem for a sample of the share ``rows`` of the rows, in which noise has ``noise`` times its norm."""
        raise TypeError(f"{type(self).__name__} is no place on the path.")

    def from_sample(self, weights: Penalized, noise: float) -> Penalized:
        """The weights to go on with on the whole matrix, when these were found on the sample."""
        raise TypeError(f"{type(self).__name__} is no place on the path.")

    def top(self, lambda_L: float, longer_side: int) -> Penalized:
        """Where the path starts: weights with about this λ_L."""
        raise TypeError(f"{type(self).__name__} is no place on the path.")

    def allowed_threshold(self, threshold: float, found: Found) -> float:
        """A better threshold for S = T(P_Ω(M − L)) where this one gives an S that is not allowed; a Newton step."""
        return threshold


@dataclass(frozen=True)
class WithOracles(Problem):
    """A form that the algorithms of the paper solve: it knows its vertices and its proximal maps."""

    @abstractmethod
    def vertex(self, objective: float, spectral_norm: float, largest_entry: float) -> tuple[float, float]:
        """(t_L, t_S): how far the oracles' answers t_L·u vᵀ and ±t_S·e_i e_jᵀ are from 0 (Algorithms 3 to 6).

        The other arguments belong to minus the gradient of the misfit; ``objective`` bounds both norms.
        """

    @abstractmethod
    def threshold_L(self, step: float, find: FindThreshold) -> float:
        """Where a proximal step of this length cuts singular values (Algorithms 7 and 8).

        ``find`` is asked where a norm is prescribed.
        """

    @abstractmethod
    def threshold_S(self, step: float, find: FindThreshold) -> float:
        """The same for the entries of S."""


@dataclass(frozen=True)
class Penalized(WithOracles):
    """min ½‖P_Ω(L + S − M)‖²_F + λ_L‖L‖_* + λ_S‖S‖₁, equation (1.5).

    Two numbers; every answer costs a few operations.

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

        θY is feasible for θ ≤ min(1, λ_L/‖Y‖₂, λ_S/max|Y|), and the best such θ is taken. Values above 1 are left out:
        at a point of the problem Y = M − L − S has θ = 1.
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

    def times(self, factor: float) -> Penalized:
        """The same problem with both weights multiplied: a place on the path that leads to it."""
        return Penalized(factor * self.lambda_L, factor * self.lambda_S)

    def towards(self, aim: Penalized, most: float) -> Penalized:
        """``aim``, or where each weight has changed by the factor ``most`` on the way to it."""
        return Penalized(
            min(max(aim.lambda_L, self.lambda_L / most), self.lambda_L * most),
            min(max(aim.lambda_S, self.lambda_S / most), self.lambda_S * most),
        )

    def prices(self, now: Penalized, found: Found, past: Past) -> Penalized:
        """The weights themselves."""
        return self

    def price_error(self, now: Penalized, found: Found) -> float:
        """Nothing at the weights; elsewhere there is no telling."""
        return 0.0 if now == self else inf

    def on_sample(self, rows: float, noise: float) -> Penalized:
        """λ_L goes with the norm of noise, so that as little of it comes into L."""
        return Penalized(noise * self.lambda_L, self.lambda_S)

    def from_sample(self, weights: Penalized, noise: float) -> Penalized:
        """The weights themselves."""
        return self

    def top(self, lambda_L: float, longer_side: int) -> Penalized:
        """A multiple of the weights, at least 1."""
        return self.times(max(1.0, lambda_L / self.lambda_L))

    def threshold_L(self, step: float, find: FindThreshold) -> float:
        """step·λ_L."""
        return step * self.lambda_L

    def threshold_S(self, step: float, find: FindThreshold) -> float:
        """step·λ_S."""
        return step * self.lambda_S


@dataclass(frozen=True)
class Constrained(WithOracles):
    """min ½‖P_Ω(L + S − M)‖²_F subject to ‖L‖_* ≤ τ_L and ‖S‖₁ ≤ τ_S, equation (1.6).

    Two numbers; every answer costs a few operations.

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

    def vertex(self, objective: float, spectral_norm: float, largest_entry: float) -> tuple[float, float]:
        """The radii."""
        return self.tau_L, self.tau_S

    def threshold_L(self, step: float, find: FindThreshold) -> float:
        """The threshold of the projection onto the nuclear ball."""
        return find(self.tau_L)

    def threshold_S(self, step: float, find: FindThreshold) -> float:
        """The threshold of the projection onto the ℓ1 ball."""
        return find(self.tau_S)


@dataclass(frozen=True)
class NoiseBounded(Problem):
    """min ‖L‖_* + λ‖S‖₁ subject to ‖P_Ω(L + S − M)‖_F ≤ ε; ε = 0 is classical pursuit, L + S = M on Ω.

    The optimum is that of the penalised problem with weights (μ, μλ) for the μ at which the misfit is ε; for ε = 0 it
    is the end of the path, μ → 0. Two numbers; every answer costs a few operations.

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
        """The weight has no unit."""
        return 1.0

    def penalty(self, nuclear_norm: float, l1_norm: float) -> float:
        """‖L‖_* + λ‖S‖₁."""
        return nuclear_norm + self.weight * l1_norm

    @property
    def threshold_at_zero(self) -> float:
        """0: S = M leaves no misfit."""
        return 0.0

    def objective(self, misfit_squared: float, nuclear_norm: float, l1_norm: float) -> float:
        """‖L‖_* + λ‖S‖₁: whoever asks has made sure that the misfit is at most ε."""
        return self.penalty(nuclear_norm, l1_norm)

    def lower_bound(self, dot_m: float, squared: float, spectral_norm: float, largest_entry: float) -> float:
        """The dual is max ⟨Y, M⟩ − ε‖Y‖_F over ‖Y‖₂ ≤ 1 and |Y| ≤ λ; Y is made as long as that allows."""
        excess = max(spectral_norm, largest_entry / self.weight)
        return max(dot_m - self.epsilon * squared**0.5, 0.0) / excess if excess > 0.0 else 0.0

    def value(self, found: Found, level: float) -> float:
        """With S + (1 − c)G for the c ≤ 1 at which the misfit is c‖G‖ = ε."""
        misfit = found.misfit_squared**0.5
        c = min(1.0, self.epsilon / misfit) if misfit > 0.0 else 1.0
        return self.penalty(found.nuclear_norm, found.l1_norm + (1.0 - c) * found.clipped_l1(level))

    def prices(self, now: Penalized, found: Found, past: Past) -> Penalized:
        """Where ‖G‖ would be a tenth of its present error below ε, by its response to the weights so far.

        It is d log‖G‖/d log λ between the last two levels; ‖G‖ grows with the weights, at most in proportion.
        """
        misfit, response = found.misfit_squared**0.5, 1.0
        if past.weights is not None and past.found is not None and past.found.misfit_squared * misfit > 0.0:
            change = log(now.lambda_L / past.weights.lambda_L)
            grown = log(misfit / past.found.misfit_squared**0.5)
            response = min(max(grown / change, 0.1), 1.0) if change else 1.0
        past.weights, past.found = now, found
        if self.epsilon == 0.0 or misfit == 0.0:
            return now.times(0.0 if self.epsilon == 0.0 else 2.0)
        aim = self.epsilon - 0.1 * abs(misfit - self.epsilon)
        return now.times(float(max(aim / misfit, 1e-3) ** (1.0 / response)))

    def price_error(self, now: Penalized, found: Found) -> float:
        """‖G‖·|ε − ‖G‖|: what the optimum at ``now`` is away from this form's, by its own dual."""
        misfit = found.misfit_squared**0.5
        return float(misfit * abs(self.epsilon - misfit))

    def on_sample(self, rows: float, noise: float) -> NoiseBounded:
        """The misfit grows like the square root of the number of rows, the noise in L as it says."""
        return NoiseBounded(self.weight / noise, rows**0.5 * self.epsilon)

    def from_sample(self, weights: Penalized, noise: float) -> Penalized:
        """λ_L grows with the norm of noise."""
        return Penalized(weights.lambda_L / noise, weights.lambda_S)

    def top(self, lambda_L: float, longer_side: int) -> Penalized:
        """In the proportion of the objective; any weights for a matrix of zeros."""
        return Penalized(lambda_L or 1.0, (lambda_L or 1.0) * self.weight)

    def allowed_threshold(self, threshold: float, found: Found) -> float:
        """‖G‖² is concave in the square of the threshold: one step from above is enough. 0 for ε = 0."""
        over = found.misfit_squared - self.epsilon**2
        if self.epsilon == 0.0 or over <= 0.0:
            return 0.0 if self.epsilon == 0.0 else threshold
        return float(max(threshold**2 - (1.0 + 1e-12) * over / max(found.nonzeros, 1), 0.0) ** 0.5)


# By the parameter that defines them: a checkpoint says which it was.
FORMS: dict[str, type[Problem]] = {form.parameter: form for form in (Penalized, Constrained, NoiseBounded)}


@dataclass(frozen=True)
class Certificate:
    """A lower bound on the optimal value, and whether ‖Y‖₂ was bounded by proof or by a converged Ritz pair.

    ``witness``: right singular vectors of Y in which it is longest, for a solver that wants to know why a bound is low.
    ``likely_bound``: what a better proof would give; ``lower_bound`` may be far below after one that was given up.
    """

    lower_bound: float
    proved: bool
    witness: Array | None
    likely_bound: float
