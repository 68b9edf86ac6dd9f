"""The contract of a form of the problem: which questions it answers, and the sums of a pass that it answers from."""

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
# The largest factor between the numbers that define a problem and the scale of the data, in either direction.
REACH = 1e12


@dataclass(frozen=True)
class Found:
    """Norms and inner products that a pass finds at an L: D = P_Ω(M − L), G = clip(D, ±level) and S = D − G."""

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
    """A sample of the rows compared with the whole matrix, as ratios ≤ 1: of rows, noise's norm, and ‖P_Ω M‖_F."""

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
    """Whether the prices (the weights at this form's optimum) change after every pass, and not level by level."""
    single: ClassVar[float] = 1e-4
    """The relative error of sums over float32 tiles: smaller relative gaps cannot be reached with them."""

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
        """The usual size of the parameters, for data of this ``norm`` and an A of norm ``operator_norm``."""

    def check_scale(self, norm: float, operator_norm: float | None = None, where: str = "decompose") -> None:
        """Refuse parameters further than a factor ``REACH`` from the data's scale: rounding would decide the answer."""
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
        """What a gap is compared with where the objective is 0, for data of this norm: the objective at L = S = 0."""
        return 0.5 * norm**2

    @property
    def exact(self) -> bool:
        """Whether L + S = M is asked for: the end of the path, where the weights have fallen to 0."""
        return False

    @property
    @abstractmethod
    def threshold_at_zero(self) -> float:
        """A θ for which L = 0 and S = T_θ(P_Ω M) satisfy the constraints, the best such θ where it is known."""

    @abstractmethod
    def lower_bound(self, dot_m: float, squared: float, spectral_norm: float, largest_entry: float) -> float:
        """A lower bound on the optimum from any dual point Y, used at its best multiple; at least 0.

        ``dot_m`` is ⟨Y, M⟩ (or Re⟨y, b⟩), ``squared`` is ‖Y‖² (or ‖y‖²). The last two are upper bounds on ‖Y‖₂ and
        max|Y| (of A*y for measurements).
        """

    # The questions of the path (rankwolf.solvers.hybrid.path), to which every form is a penalised problem whose weights
    # have to be found. A form that has no such weights raises TypeError.

    def value(self, found: Found, level: float) -> float:
        """The objective of L and the best S that this form allows beside it, from what was found at clip ``level``."""
        return self.objective(found.misfit_squared, found.nuclear_norm, found.l1_norm)

    def prices(self, now: Penalized, found: Found, past: Past) -> Penalized:
        """The weights at which the penalised problem has this form's optimum, as far as is known: the next level.

        They are estimated from the optimum at the weights ``now`` and from ``past``, which is brought up to date.
        """
        raise TypeError(f"{type(self).__name__} is no place on the path.")

    def price_error(self, now: Penalized, found: Found) -> float:
        """The part of the gap that is due to wrong weights ``now``, in units of the penalised objective."""
        raise TypeError(f"{type(self).__name__} is no place on the path.")

    def price_of_step(self, now: Penalized, length: float, find: FindThreshold) -> float:
        """λ_L of a threshold step of this ``length``; ``find`` gives the threshold where ‖L‖_* is prescribed."""
        return now.lambda_L

    def prices_after(self, now: Penalized, threshold_L: float, found: Found, most: float) -> Penalized:
        """The weights for the next pass, where they change after every pass (``follows``).

        The last pass had the weights ``now``, and its threshold step the λ_L ``threshold_L``. Neither weight changes by
        more than the factor ``most``.
        """
        return now

    def on_sample(self, share: Share) -> Problem:
        """This problem with its numbers adapted to a sample of the rows."""
        raise TypeError(f"{type(self).__name__} is no place on the path.")

    def from_sample(self, weights: Penalized, share: Share) -> Penalized:
        """The weights with which to begin on the whole matrix, given the ``weights`` found on the sample."""
        raise TypeError(f"{type(self).__name__} is no place on the path.")

    def top(self, lambda_L: float, longer_side: int) -> Penalized:
        """Where the path starts: weights with about this λ_L."""
        raise TypeError(f"{type(self).__name__} is no place on the path.")

    def likely_price(self, shape: tuple[int, int], norm: float) -> float:
        """A guess of λ_L at the optimum, rather too large, for data of this norm; 0 where the problem gives none."""
        return 0.0

    def inside(self, now: Penalized, margin: float) -> Problem:
        """A slightly stricter problem to aim at, so that a point near its optimum satisfies this one's constraints.

        Tightening a constraint raises the optimum by about ``margin``.
        """
        return self

    def allows(self, now: Penalized, found: Found, margin: float) -> bool:
        """Whether the pair satisfies the constraints, and is inside each of them by little more than ``margin``."""
        return True

    def allowed_spectrum(self, singular: Array, found: Found) -> Array:
        """Singular values near ``singular`` with which L satisfies the constraints."""
        return singular

    def allowed_threshold(self, threshold: float, found: Found, margin: float) -> float:
        """The next threshold for S = T(P_Ω(M − L)), by a Newton step; the same where S satisfies the constraints."""
        return threshold


@dataclass(frozen=True)
class WithOracles(Problem):
    """A form that the algorithms of the paper solve: it knows its vertices and its proximal maps."""

    @abstractmethod
    def vertex(self, objective: float, spectral_norm: float, largest_entry: float) -> tuple[float, float]:
        """(t_L, t_S): the norms of the vertices t_L·u vᵀ and ±t_S·e_i e_jᵀ that the oracles answer (Algorithms 3 to 6).

        ``spectral_norm`` and ``largest_entry`` are those of minus the gradient of the misfit. With weights, an upper
        bound ``objective`` on the optimum bounds both norms.
        """

    @abstractmethod
    def threshold_L(self, step: float, find: FindThreshold) -> float:
        """The threshold of singular values in a proximal step of this length (Algorithms 7 and 8).

        ``find`` gives it where ‖L‖_* is prescribed.
        """

    @abstractmethod
    def threshold_S(self, step: float, find: FindThreshold) -> float:
        """The threshold of the entries of S in a proximal step of this length; ``find`` as for L."""


@dataclass(frozen=True)
class Certificate:
    """A lower bound on the optimal value from a dual point Y.

    ``proved``: ‖Y‖₂ was bounded by proof, not only by a converged Ritz pair. ``witness``: the leading right singular
    vectors of Y, which tell a solver why the bound is low. ``likely_bound``: what a finished proof would give; where
    a proof was given up, ``lower_bound`` may be far below.
    """

    lower_bound: float
    proved: bool
    witness: Array | None
    likely_bound: float
