"""The convex problems that are solved: weights, radii, a bound on the noise.

A form is one small class. It answers what an algorithm, the certificate and the loop ask: the objective of a pair
(L, S), a lower bound on the optimum from a dual point, Frank-Wolfe's vertex, and the two proximal steps. The arguments
are norms, inner products and singular values; nothing here knows of data, passes or solvers.

Which numbers define a problem is chosen in :mod:`rankwolf.weights`. A solver asks the class, never which class it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import ClassVar

import numpy as np

from rankwolf.ground.arrays import Array, inner
from rankwolf.ground.complaints import bad

# ``find(radius)`` is the threshold θ with Σ max(|x| − θ, 0) = radius, for whatever numbers x a step thresholds.
FindThreshold = Callable[[float], float]
# What S has few of.
SPARSE_BY = ("entries", "rows", "columns")
# The largest factor between the numbers that define a problem and the scale of the data, in either direction; beyond
# it rounding would decide the answer.
REACH = 1e12
# The range of λ in ‖L‖_* + λ‖S‖₁. From λ = 1 on, S costs at least as much as L whatever it holds.
LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 10.0


@dataclass(frozen=True)
class Problem(ABC):
    """min over (L, S) of a misfit of P_Ω(L + S − M) (or A[L + S] − b), with L and S kept small.

    ``parameter`` is the name under which users give the pair of numbers that define the problem, ``symbols`` what they
    are called in results and files, ``letters`` what people read. Every answer costs a few operations.
    """

    parameter: ClassVar[str]
    symbols: ClassVar[tuple[str, str]]
    letters: ClassVar[tuple[str, str]]
    unit: ClassVar[str]
    remedy: ClassVar[str]
    sparse: str = field(default="entries", kw_only=True)
    """What S has few of: "entries", or whole "rows" or "columns", the sum of whose norms then replaces ‖S‖₁."""
    single: ClassVar[float] = 1e-4
    """The relative error of sums over float32 tiles: smaller relative gaps cannot be reached with them."""

    @property
    def pair(self) -> tuple[float, float]:
        """The two numbers that define the problem."""
        first, second = (float(getattr(self, name)) for name in self.symbols)
        return first, second

    def describe(self) -> dict[str, float]:
        """The two numbers by name, such as ``{"lambda_L": 3.0, "lambda_S": 0.1}``."""
        return dict(zip(self.symbols, self.pair, strict=True))

    def __str__(self) -> str:
        return ", ".join(
            f"{letter} = {number:.4g}" for letter, number in zip(self.letters, self.pair, strict=True)
        )

    @abstractmethod
    def check_scale(self, norm: float, operator_norm: float | None = None, where: str = "decompose") -> None:
        """Refuse numbers out of proportion to data of this ``norm``, measured by an A of norm ``operator_norm``."""

    # What is minimised.

    @abstractmethod
    def penalty(self, nuclear_norm: float, l1_norm: float) -> float:
        """What the objective charges for ‖L‖_* and ‖S‖₁."""

    def objective(self, misfit_squared: float, nuclear_norm: float, l1_norm: float) -> float:
        """The objective of a pair from ‖P_Ω(L + S − M)‖², ‖L‖_* and ‖S‖₁."""
        return 0.5 * misfit_squared + self.penalty(nuclear_norm, l1_norm)

    def size(self, norm: float) -> float:
        """What a gap is compared with where the objective is 0, for data of this norm: the objective at L = S = 0."""
        return 0.5 * norm**2

    @abstractmethod
    def lower_bound(self, dot_m: float, squared: float, spectral_norm: float, largest_entry: float) -> float:
        """A lower bound on the optimum from any dual point Y, used at its best multiple; at least 0.

        ``dot_m`` is ⟨Y, M⟩ (or Re⟨y, b⟩), ``squared`` is ‖Y‖² (or ‖y‖²). The last two are upper bounds on ‖Y‖₂ and
        max|Y| (of A*y for measurements).
        """

    # The two proximal steps.

    @abstractmethod
    def threshold_L(self, step: float, find: FindThreshold) -> float:
        """The threshold of singular values in a proximal step of this length (Algorithms 7 and 8).

        ``find`` gives it where ‖L‖_* is prescribed.
        """

    @abstractmethod
    def threshold_S(self, step: float, find: FindThreshold) -> float:
        """The threshold of the entries of S in a proximal step of this length; ``find`` as for L."""

    @abstractmethod
    def threshold_beside(self, find: FindThreshold, find_clip: FindThreshold) -> float:
        """The θ of the best S beside a given L, S = T_θ(P_Ω(M − L)).

        ``find(radius)`` is the θ with ‖S‖₁ = radius, ``find_clip(radius)`` the one with ‖M − L − S‖ = radius.
        """

    def dual_step(self, distance: Array, sigma: float, curvature: Array | None = None) -> Array:
        """prox_σF* of the misfit F, where σ·``distance`` = y + σ(b − A[x]) is where the step begins.

        With a ``curvature`` w, F is ½Σ wᵢrᵢ².
        """
        if curvature is None:
            return distance * (sigma / (1.0 + sigma))
        return distance * (sigma / (1.0 + sigma / curvature))

    # What splitting asks.

    def first_step(self, norm: float, side: int, parts: int) -> float:
        """γ with which splitting begins, for data with this spectral norm and this shorter side.

        ``parts``: 2 where L and S are both in the state, 1 where S is left out.
        """
        return 3.0

    @property
    def dual_radii(self) -> tuple[float, float] | None:
        """The bounds on ‖Y‖₂ and max|Y| of a dual point; None where there are none."""
        return None

    @property
    def most_misfit(self) -> float:
        """The largest misfit ‖P_Ω(L + S − M)‖_F that is allowed."""
        return inf

    def with_misfit(self, epsilon: float) -> Problem:
        """This problem with another ``most_misfit``."""
        return self

    def by_lines(self, sparse: str, shape: tuple[int, int], given: bool) -> Problem:
        """This form with S sparse by whole "rows" or "columns" of a matrix of this ``shape``.

        Unless its numbers were ``given`` for lines, the weight of S is taken from that of entries.
        """
        return replace(self, sparse=sparse)


@dataclass(frozen=True)
class SmoothProblem(Problem):
    """A form whose misfit is smooth: the algorithms of the paper, by gradient steps and vertices, solve it."""

    @abstractmethod
    def vertex(self, objective: float, spectral_norm: float, largest_entry: float) -> tuple[float, float]:
        """(t_L, t_S): the norms of the vertices t_L·u vᵀ and ±t_S·e_i e_jᵀ that the oracles answer (Algorithms 3 to 6).

        ``spectral_norm`` and ``largest_entry`` are those of minus the gradient of the misfit. With weights, an upper
        bound ``objective`` on the optimum bounds both norms.
        """


def _check_reach(problem: Problem, scale: float, unit: str, where: str) -> None:
    if not all(scale / REACH <= x <= scale * REACH for x in problem.pair):
        rule = f"within a factor {REACH:g} of {unit} = {scale:.3g}"
        raise bad(problem.parameter, rule, str(problem.pair), where, problem.remedy)


@dataclass(frozen=True)
class Penalized(SmoothProblem):
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

    def check_scale(self, norm: float, operator_norm: float | None = None, where: str = "decompose") -> None:
        """The weights bound the gradient A*b, whose size is ‖A‖·‖b‖."""
        unit = "‖X‖_F" if operator_norm is None else self.unit
        _check_reach(self, (norm or 1.0) * (operator_norm or 1.0), unit, where)

    def penalty(self, nuclear_norm: float, l1_norm: float) -> float:
        """λ_L‖L‖_* + λ_S‖S‖₁."""
        return self.lambda_L * nuclear_norm + self.lambda_S * l1_norm

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

    def threshold_L(self, step: float, find: FindThreshold) -> float:
        """step·λ_L."""
        return step * self.lambda_L

    def threshold_S(self, step: float, find: FindThreshold) -> float:
        """step·λ_S."""
        return step * self.lambda_S

    def threshold_beside(self, find: FindThreshold, find_clip: FindThreshold) -> float:
        """λ_S."""
        return self.lambda_S

    def first_step(self, norm: float, side: int, parts: int) -> float:
        """norm/(2λ_L√side): the ratio of the sizes of L and of noise with the spectral norm λ_L.

        A third of it with two parts: on MRI series that takes a third fewer products, on small random problems a fifth
        more.
        """
        return float(norm / ((2.0 if parts == 1 else 6.0) * self.lambda_L * side**0.5))

    @property
    def dual_radii(self) -> tuple[float, float]:
        """(λ_L, λ_S)."""
        return self.lambda_L, self.lambda_S

    def by_lines(self, sparse: str, shape: tuple[int, int], given: bool) -> Penalized:
        """λ_S(1 + √k)/2 for lines of k entries, unless the weights were ``given``.

        λ_S = 2σ keeps noise out of most entries. The norm of a whole line of noise is σ√k, and hardly varies.
        """
        entries = shape[1] if sparse == "rows" else shape[0]
        weight = self.lambda_S if given else self.lambda_S * (0.5 * entries**0.5 + 0.5)
        return Penalized(self.lambda_L, weight, sparse=sparse)


@dataclass(frozen=True)
class Constrained(SmoothProblem):
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
    single = 1e-2  # the objective is the misfit alone, a few hundredths of what the penalised objective is

    def check_scale(self, norm: float, operator_norm: float | None = None, where: str = "decompose") -> None:
        """The radii have the size of a matrix that explains the data; 0 is allowed and means that the part is 0."""
        scale = (norm or 1.0) / (operator_norm or 1.0)
        unit = "‖X‖_F" if operator_norm is None else self.unit
        within = Constrained(*(tau or scale for tau in self.pair))
        _check_reach(within, scale, unit, where)

    def penalty(self, nuclear_norm: float, l1_norm: float) -> float:
        """Nothing: the radii are constraints."""
        return 0.0

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

    def threshold_beside(self, find: FindThreshold, find_clip: FindThreshold) -> float:
        """The threshold of the projection onto the ℓ1 ball."""
        return find(self.tau_S)


@dataclass(frozen=True)
class NoiseBounded(Problem):
    """min ‖L‖_* + λ‖S‖₁ subject to ‖P_Ω(L + S − M)‖_F ≤ ε; with ε = 0 principal component pursuit.

    Two numbers; every answer costs a few operations.

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
    single = 1.0  # float32 would break the bound by its rounding
    remedy = "The weight of S is 1/√max(m, n) by default."

    def check_scale(self, norm: float, operator_norm: float | None = None, where: str = "decompose") -> None:
        """Refuse ε < 0 or NaN, and a λ outside of its range."""
        if not self.epsilon >= 0.0:
            raise bad("noise", "at least 0", f"{self.epsilon:g}", where)
        if not LEAST_WEIGHT <= self.weight <= MOST_WEIGHT:
            rule = f"between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}"
            raise bad("weight", rule, f"{self.weight:g}", where, self.remedy)

    def penalty(self, nuclear_norm: float, l1_norm: float) -> float:
        """‖L‖_* + λ‖S‖₁."""
        return nuclear_norm + self.weight * l1_norm

    def objective(self, misfit_squared: float, nuclear_norm: float, l1_norm: float) -> float:
        """‖L‖_* + λ‖S‖₁: the misfit is a constraint."""
        return self.penalty(nuclear_norm, l1_norm)

    def size(self, norm: float) -> float:
        """‖P_Ω M‖_F: a norm, like the objective."""
        return norm

    def lower_bound(self, dot_m: float, squared: float, spectral_norm: float, largest_entry: float) -> float:
        """The dual is max ⟨Y, M⟩ − ε‖Y‖_F over ‖Y‖₂ ≤ 1 and |Y| ≤ λ; Y is scaled into the constraints."""
        longest = max(spectral_norm, largest_entry / self.weight)
        return max(dot_m - self.epsilon * squared**0.5, 0.0) / longest if longest > 0.0 else 0.0

    def threshold_L(self, step: float, find: FindThreshold) -> float:
        """The step: the weight of ‖L‖_* is 1."""
        return step

    def threshold_S(self, step: float, find: FindThreshold) -> float:
        """step·λ."""
        return step * self.weight

    def threshold_beside(self, find: FindThreshold, find_clip: FindThreshold) -> float:
        """The threshold at which the misfit is ε."""
        return find_clip(self.epsilon) if self.epsilon > 0.0 else 0.0

    def dual_step(self, distance: Array, sigma: float, curvature: Array | None = None) -> Array:
        """σ times the step from ``distance`` to its projection onto Σ wᵢrᵢ² ≤ ε².

        With w = 1 that is a ball. Otherwise the projection is e/(1 + μw), where μ solves one equation: its left side is
        convex and falls in μ, so Newton's method on its root 1/√ finds it from below.
        """
        if curvature is None:
            size = inner(distance, distance) ** 0.5
            return distance * (sigma * max(1.0 - self.epsilon / size, 0.0) if size > 0.0 else 0.0)
        if self.epsilon == 0.0:
            return distance * sigma
        squares = curvature * np.abs(distance) ** 2
        if float(np.sum(squares)) <= self.epsilon**2:
            return distance * 0.0
        mu = 0.0
        for _ in range(100):
            ratio = 1.0 / (1.0 + mu * curvature)
            value = float(np.sum(squares * ratio**2)) ** 0.5
            slope = float(np.sum(squares * curvature * ratio**3)) / value
            change = (value / self.epsilon - 1.0) * value / slope
            mu += change
            if change <= 1e-15 * mu:
                break
        return distance * (sigma * mu * curvature / (1.0 + mu * curvature))

    def first_step(self, norm: float, side: int, parts: int) -> float:
        """A fifth of the norm of the data."""
        return norm / 5.0

    @property
    def dual_radii(self) -> tuple[float, float]:
        """(1, λ)."""
        return 1.0, self.weight

    @property
    def most_misfit(self) -> float:
        """ε."""
        return self.epsilon

    def with_misfit(self, epsilon: float) -> NoiseBounded:
        """The same with another ε."""
        return replace(self, epsilon=epsilon)

    def by_lines(self, sparse: str, shape: tuple[int, int], given: bool) -> NoiseBounded:
        """λ = √(20/n) for n lines, at most 0.7.

        k lines that share a direction are cheaper in S where λ√k < 1. So a direction belongs to L where more than a
        twentieth of the lines share it. Smaller weights call lines of high leverage outliers.
        """
        lines = shape[0] if sparse == "rows" else shape[1]
        weight = self.weight if given else min((20.0 / lines) ** 0.5, 0.7)
        return replace(self, weight=weight, sparse=sparse)


# Forms by the name of the parameter that defines them. A checkpoint stores that name.
FORMS: dict[str, type[Problem]] = {form.parameter: form for form in (Penalized, Constrained, NoiseBounded)}
