"""The language: what every form of the problem answers, and what passes find for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, ClassVar

from rankwolf.ground.arrays import Array
from rankwolf.ground.complaints import bad

if TYPE_CHECKING:
    from rankwolf.problem.penalized import Past, Penalized

# ``find(radius)`` is the threshold θ with Σ max(|x| − θ, 0) = radius, for whatever numbers x a step thresholds.
FindThreshold = Callable[[float], float]
# How far the numbers of a problem may be from the scale of the data, in either direction.
REACH = 1e12


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
    clipped_dot_l: float
    """⟨G, L⟩; λ_L‖L‖_* at an optimum."""
    signs_dot_l: float
    """⟨sign S, L⟩."""

    def clipped_l1(self, level: float) -> float:
        """An upper bound on ‖G‖₁: ``level`` at each entry of S, and Cauchy-Schwarz for the others."""
        rest = max(self.misfit_squared - self.nonzeros * level * level, 0.0)
        return float(self.nonzeros * level + (rest * max(self.observed - self.nonzeros, 0)) ** 0.5)


@dataclass(frozen=True)
class Share:
    """What a sample of the rows has of the matrix: rows, the norm of noise in it, ‖P_Ω M‖_F; as ratios."""

    rows: float
    noise: float
    norm: float


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
    follows: ClassVar[bool] = False
    """Whether the prices follow every pass, and are not looked for level by level."""
    single: ClassVar[float] = 1e-4
    """Relative gaps below this are out of reach of sums over float32 tiles, which carry about as large an error."""

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

    def check_scale(self, norm: float, operator_norm: float | None = None, where: str = "decompose") -> None:
        """Refuse numbers that are out of all proportion to the data: rounding would decide the answer."""
        scale = self.scale(norm or 1.0, operator_norm or 1.0)
        if not all(scale / REACH <= x <= scale * REACH for x in self.pair):
            unit = "‖X‖_F" if operator_norm is None else self.unit
            rule = f"within a factor {REACH:g} of {unit} = {scale:.3g}"
            raise bad(self.parameter, rule, str(self.pair), where, self.remedy)

    @abstractmethod
    def penalty(self, nuclear_norm: float, l1_norm: float) -> float:
        """What the objective charges for ‖L‖_* and ‖S‖₁."""

    def objective(self, misfit_squared: float, nuclear_norm: float, l1_norm: float) -> float:
        """The objective of a pair from ‖P_Ω(L + S − M)‖², ‖L‖_* and ‖S‖₁."""
        return 0.5 * misfit_squared + self.penalty(nuclear_norm, l1_norm)

    def size(self, norm: float) -> float:
        """What the objective is compared with where it is 0, for data of this norm: here its value at L = S = 0."""
        return 0.5 * norm**2

    @property
    def exact(self) -> bool:
        """Whether L + S = M is asked for: the end of the path, where the weights are nothing."""
        return False

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

    def price_of_step(self, now: Penalized, length: float, find: FindThreshold) -> float:
        """λ_L of a threshold step of this length; ``find`` is asked where a norm is prescribed."""
        return now.lambda_L

    def prices_after(self, now: Penalized, threshold_L: float, found: Found, most: float) -> Penalized:
        """The weights for the next pass, where they follow every pass (``follows``).

        The pass was made with ``now`` and ``threshold_L`` is the λ_L of its threshold step. Neither weight changes by
        more than the factor ``most``.
        """
        return now

    def on_sample(self, share: Share) -> Problem:
        """The problem for a sample of the rows."""
        raise TypeError(f"{type(self).__name__} is no place on the path.")

    def from_sample(self, weights: Penalized, share: Share) -> Penalized:
        """The weights to go on with on the whole matrix, when these were found on the sample."""
        raise TypeError(f"{type(self).__name__} is no place on the path.")

    def top(self, lambda_L: float, longer_side: int) -> Penalized:
        """Where the path starts: weights with about this λ_L."""
        raise TypeError(f"{type(self).__name__} is no place on the path.")

    def likely_price(self, shape: tuple[int, int], norm: float) -> float:
        """λ_L at the optimum or above it, as far as the problem tells for data of this norm; 0 if nothing."""
        return 0.0

    def inside(self, now: Penalized, margin: float) -> Problem:
        """The problem to aim at, a little stricter than this one, so that what is reached is allowed.

        ``margin`` is what each of its constraints may cost.
        """
        return self

    def allows(self, now: Penalized, found: Found, margin: float) -> bool:
        """Whether the pair is allowed as it is, and loses little more than ``margin`` by it."""
        return True

    def allowed_spectrum(self, singular: Array, found: Found) -> Array:
        """Singular values that L may have, near these."""
        return singular

    def allowed_threshold(self, threshold: float, found: Found, margin: float) -> float:
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
class Certificate:
    """A lower bound on the optimal value, and whether ‖Y‖₂ was bounded by proof or by a converged Ritz pair.

    ``witness``: right singular vectors of Y in which it is longest, for a solver that wants to know why a bound is low.
    ``likely_bound``: what a better proof would give; ``lower_bound`` may be far below after one that was given up.
    """

    lower_bound: float
    proved: bool
    witness: Array | None
    likely_bound: float
