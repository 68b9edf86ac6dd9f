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
from rankwolf.solvers.hybrid.settings import HybridSettings
from rankwolf.solvers.hybrid.sweep import HybridSums


@dataclass
class Point:
    """An evaluated L = left·rightᵀ, its objective with the ``weights`` of then, and the sums of that pass."""

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
    """L at the end of the path, and the distance from it that is rounding: S is M − L beyond."""

    low_rank: LowRank
    limit: float


@dataclass
class Level:
    """Where on the path a state is: the weights, and how many passes were made with them.

    ``before`` are the weights of the level before, at whose end L was ``rows``·``right``ᵀ; on the first there are none.
    Where the weights follow every pass: the least gaps so far, and for how many passes there was none that is less.
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

    def wait(self, gap: float, relative_gap: float) -> None:
        """Count the passes without a gap that is less by a tenth, of one kind or the other."""
        less = gap < 0.9 * self.least_gap or relative_gap < 0.9 * self.least_relative_gap
        self.waited = 0 if less else self.waited + 1
        self.least_gap = min(gap, self.least_gap)
        self.least_relative_gap = min(relative_gap, self.least_relative_gap)


@dataclass
class HybridState:
    """The best point, and what the next pass starts from.

    U itself is not kept: ``rows`` is B of the last pass, and U⁺ = B·``left_map`` belongs to ``right``, V⁺ of step 3.
    ``previous_rows`` and ``previous`` are U⁺ and V⁺ before that, for momentum. ``shares`` are the observed and the live
    share of each row, ``observed`` is the number of observed entries. ``level`` says where on the path the state is,
    ``best`` is the objective there, and ``value`` that of the problem itself.
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
        settings: HybridSettings,
    ) -> HybridState:
        """No rows yet: the first pass, at these weights, fits them to ``right``."""
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
        """Whether U is known; before the first pass it is that of a given L, or none."""
        return not self.first or self.left_map.shape[0] > 0

    @property
    def evaluated(self) -> Point:
        """The best point; there is one after the first step."""
        if self.point is None:
            raise RuntimeError("A hybrid state has a point after the first step.")
        return self.point

    @property
    def found(self) -> Found:
        """What was found at the best point."""
        return self.found_at(self.evaluated)

    @property
    def sees_all(self) -> bool:
        """Whether the last step brought no direction into L that is longer than λ_L there.

        One that is has grown unseen by the probes, and others may have: Ritz values on them promise too much.
        """
        lengths = np.sum(np.square(self.right, dtype=np.float64), axis=0)[self.evaluated.right.shape[1] :]
        return not lengths.size or float(lengths.max()) <= self.level.weights.lambda_L

    def found_at(self, point: Point) -> Found:
        """What the pass found that evaluated ``point``."""
        return self.found_by(point.sums, point.weights.lambda_S, point.nuclear_norm, point.right.shape[1])

    def found_by(self, sums: ClippedSums, level: float, nuclear_norm: float, rank: int) -> Found:
        """What the sums of a pass say that clipped at ``level``, about an L of this norm and rank."""
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
        """Go on with weights that are a little different: the best objective is expressed in them.

        Where they differ by more than the factor ``most``, there is nothing to compare with.
        """
        if weights == self.level.weights:
            return
        self.level.weights = weights
        if self.point is not None:
            then = self.point.weights
            self.best = weights.objective_at(then, self.found) if weights.ratio(then) <= most else inf

    def return_to_best(self) -> None:
        """Let the next pass start from the best point as it is."""
        point = self.evaluated
        self.rows, self.left_map = point.left, np.eye(point.right.shape[1])
        self.right, self.basis = point.right, point.basis

    def stay(self) -> None:
        """Back to the last place on the path, where the best point is: the time was up before there was one here."""
        if self.best == inf and self.level.before is not None:
            self.level.weights = self.level.before

    def enter(self, weights: Penalized, predicts: bool) -> None:
        """Go to another place on the path: what was the best is not comparable there, and momentum starts anew.

        Along the path L is nearly linear in the weights, L(λ) ≈ L* − λW: singular values are shrunk by λ_L, and
        outliers pull with λ_S. So the first pass starts from where the line through the ends of the last two levels
        leads. That is a move with momentum (λ − λ⁺)/(λ⁻ − λ), for levels λ⁻, λ and the next one λ⁺, if the weights keep
        their ratio.
        """
        level, ahead = self.level, 0.0
        if predicts and level.before is not None and level.before.lambda_L > level.weights.lambda_L:
            change_L, change_S = (
                new / old for new, old in zip(weights.pair, level.weights.pair, strict=True)
            )
            if change_L < 1.0 and abs(change_L - change_S) < 1e-6:
                fallen = level.before.lambda_L - level.weights.lambda_L
                ahead = (level.weights.lambda_L - weights.lambda_L) / fallen
                self.previous_rows, self.previous = level.rows, level.right
        level.before, level.weights, level.passes = level.weights, weights, 0
        self.best = inf
        self.pace.start_anew(ahead)
