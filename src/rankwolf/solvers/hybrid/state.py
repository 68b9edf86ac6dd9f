"""What the hybrid carries from one pass to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import numpy as np

from rankwolf.data import Source
from rankwolf.ground.arrays import Array
from rankwolf.ground.low_rank import LowRank
from rankwolf.passes import ClippedSums
from rankwolf.problem import Found, Past, Penalized
from rankwolf.solvers.base import MADE_AGAIN
from rankwolf.solvers.hybrid.pace import Pace
from rankwolf.solvers.hybrid.sweep import HybridSums

# Two changes of weights that differ by less than this are the same change, but for rounding.
SAME_RATIO = 1e-6


@dataclass
class Point:
    """An evaluated L = left·rightᵀ, its objective with the ``weights`` of its pass, and the sums of that pass.

    ``basis`` is Q and ``length`` is s of that pass.
    """

    left: Array
    right: Array
    weights: Penalized
    objective: float
    nuclear_norm: float
    sums: HybridSums
    basis: Array
    length: float


@dataclass(frozen=True)
class End:
    """L at the end of the path; S is M − L where that is larger than ``limit``, which is at the level of rounding."""

    low_rank: LowRank
    limit: float


@dataclass
class Level:
    """Where on the path a state is: the weights, and how many passes were made with them.

    ``before`` are the weights of the level before, at whose end L was ``rows``·``right``ᵀ; None on the first level.
    ``past`` is the memory of the search for weights. Where the weights follow every pass: the least gaps so far, and
    the number of passes since (``waited``).
    """

    weights: Penalized
    rows: Array
    right: Array
    before: Penalized | None = None
    past: Past = field(default_factory=Past)
    passes: int = 0
    least_gap: float = inf
    least_relative_gap: float = inf
    waited: int = 0

    def wait(self, gap: float, relative_gap: float, smaller: float) -> None:
        """Count the passes since the gap or the relative gap last fell to the share ``smaller`` of the least one."""
        less = gap < smaller * self.least_gap or relative_gap < smaller * self.least_relative_gap
        self.waited = 0 if less else self.waited + 1
        self.least_gap = min(gap, self.least_gap)
        self.least_relative_gap = min(relative_gap, self.least_relative_gap)


@dataclass
class HybridState:
    """The best point, and what the next pass starts from.

    U itself is not kept: ``rows`` is B of the last pass, and U⁺ = B·``left_map`` belongs to ``right``, V⁺ of step 3.
    ``previous_rows`` and ``previous`` are the U⁺ and V⁺ before these, for momentum. ``basis`` is Q of the next pass.
    ``shares`` are the observed and the live share of each row, ``observed`` is the number of observed entries.
    ``level`` says where on the path the state is, ``best`` is the least objective with the level's weights, and
    ``value`` the objective of the problem itself. ``first``: no pass was made yet.
    """

    shares: Array
    rows: Array
    previous_rows: Array
    left_map: Array
    right: Array
    basis: Array
    previous: Array
    rng: np.random.Generator
    observed: int
    pace: Pace
    level: Level
    point: Point | None = None
    best: float = inf
    value: float = inf
    first: bool = True
    proof_ratio: float = 1.0
    end: End | None = field(default=None, metadata=MADE_AGAIN)
    end_tried: bool = field(default=False, metadata=MADE_AGAIN)

    @classmethod
    def at(
        cls,
        source: Source,
        weights: Penalized,
        right: Array,
        basis: Array,
        rng: np.random.Generator,
    ) -> HybridState:
        """A state without U: the first pass, at these weights, fits the rows to ``right``."""
        empty, no_columns = source.allocate(0), np.zeros((source.shape[1], 0), source.dtype)
        return cls(
            shares=source.allocate(2),
            rows=empty,
            previous_rows=empty,
            left_map=np.zeros((0, right.shape[1]), source.dtype),
            right=right,
            basis=basis,
            previous=no_columns,
            rng=rng,
            observed=source.summary.observed,
            pace=Pace(),
            level=Level(weights, empty, no_columns),
        )

    @property
    def has_rows(self) -> bool:
        """Whether U is known: after the first pass, or before it if L was given with U."""
        return not self.first or self.left_map.shape[0] > 0

    @property
    def evaluated(self) -> Point:
        """The best point; RuntimeError before the first step."""
        if self.point is None:
            raise RuntimeError("A hybrid state has a point after the first step.")
        return self.point

    @property
    def found(self) -> Found:
        """The norms and inner products at the best point."""
        return self.found_at(self.evaluated)

    @property
    def sees_all(self) -> bool:
        """Whether no direction that the last step brought into L has a singular value above λ_L.

        Such a direction has grown unseen by the probes, and others may have: the Ritz bound is then too optimistic.
        """
        lengths = np.sum(np.square(self.right, dtype=np.float64), axis=0)[self.evaluated.right.shape[1] :]
        return not lengths.size or float(lengths.max()) <= self.level.weights.lambda_L

    def found_at(self, point: Point) -> Found:
        """The norms and inner products at ``point``."""
        return self.found_by(point.sums, point.weights.lambda_S, point.nuclear_norm, point.right.shape[1])

    def found_by(self, sums: ClippedSums, level: float, nuclear_norm: float, rank: int) -> Found:
        """The same at an L of this norm and rank, from the sums of a pass that clipped at ``level``."""
        return Found(
            nuclear_norm,
            rank,
            sums.g_squared,
            sums.s_norm,
            sums.nonzeros,
            self.observed,
            clipped_dot_l=sums.g_dot_m - sums.g_squared - level * sums.s_norm,
            signs_dot_l=sums.sign_dot_m - sums.s_norm - level * sums.nonzeros,
        )

    def follow(self, weights: Penalized, most: float) -> None:
        """Go on with slightly different weights; the best objective is converted to them.

        Where they differ by more than the factor ``most``, the conversion would be too inexact, and ``best`` is ∞.
        """
        if weights == self.level.weights:
            return
        self.level.weights = weights
        if self.point is not None:
            then = self.point.weights
            self.best = weights.objective_at(then, self.found) if weights.ratio(then) <= most else inf

    def return_to_best(self) -> None:
        """Let the next pass start from the best point, with its own U, V and Q."""
        point = self.evaluated
        self.rows, self.left_map = point.left, np.eye(point.right.shape[1])
        self.right, self.basis = point.right, point.basis

    def stay(self) -> None:
        """Go back to the level before, where the best point is, if time was up before the new level had a point."""
        if self.best == inf and self.level.before is not None:
            self.level.weights = self.level.before

    def enter(self, weights: Penalized, predicts: bool) -> None:
        """Go to another level: objectives of the last one are not comparable there, and momentum starts anew.

        Along the path L is nearly linear in the weights, L(λ) ≈ L* − λW: singular values are shrunk by λ_L, and
        outliers pull with λ_S. So, with ``predicts`` and if the weights keep their ratio, the first pass starts on the
        line through the ends of the last two levels. For the weights λ⁻ and λ of these and the next ones λ⁺, that is a
        move with momentum (λ − λ⁺)/(λ⁻ − λ).
        """
        level, ahead = self.level, 0.0
        if predicts and level.before is not None and level.before.lambda_L > level.weights.lambda_L:
            change_L, change_S = (
                new / old for new, old in zip(weights.pair, level.weights.pair, strict=True)
            )
            if change_L < 1.0 and abs(change_L - change_S) < SAME_RATIO:
                fallen = level.before.lambda_L - level.weights.lambda_L
                ahead = (level.weights.lambda_L - weights.lambda_L) / fallen
                self.previous_rows, self.previous = level.rows, level.right
        level.before, level.weights, level.passes = level.weights, weights, 0
        self.best = inf
        self.pace.start_anew(ahead)
