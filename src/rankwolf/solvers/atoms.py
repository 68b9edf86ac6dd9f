"""What the Frank-Wolfe methods share: L as a sum of atoms, the residual, and the oracle for the nuclear ball."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np

from rankwolf.lowrank import LowRank
from rankwolf.oracles.nuclear import KrylovSpace, SingularPair
from rankwolf.passes import (
    AlignAtom,
    AtomSums,
    MoveResidual,
    MoveResidualAndEntry,
    MultiplyResidual,
    ResidualSums,
)
from rankwolf.sources import Array, Source

# Singular vectors carried from one iteration to the next; they ride in passes that are made anyway.
WARM_VECTORS = 3


class Atoms:
    """L = Σ wᵢ aᵢ bᵢᵀ. Scaling all of it costs the number of atoms, adding one nothing: ``left`` is kept as it is.

    ``source`` is where the left vectors live, one or more of them in a row-aligned array; None for plain arrays.
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[np.generic]) -> None:
        self._left: list[Any] = []
        self._right: list[Array] = []
        self._weights: Array = np.zeros(0)
        self._shape, self._dtype = shape, np.dtype(dtype)
        # The rank is at most min(shape): an SVD frees at least 64 places, and is paid for by as many steps.
        self._shorter, self._most = min(shape), min(shape) + 64

    @property
    def count(self) -> int:
        """How many atoms there are, an upper bound on the rank."""
        return min(int(np.count_nonzero(self._weights)), self._shorter)

    def blend(
        self, keep: float, weight: float, left: Any, right: Array, source: Source | None = None
    ) -> None:
        """L ← keep·L + weight·left·rightᵀ; nobody may change ``left`` (m, 1) and ``right`` (n,) afterwards."""
        self._weights = self._weights * keep
        if weight == 0.0:
            return
        if self._weights.size >= self._most:
            self._compress(source)
        self._left.append(left)
        self._right.append(right[:, None].astype(self._dtype, copy=False))
        self._weights = np.append(self._weights, weight)

    def to_low_rank(self, source: Source | None = None) -> LowRank:
        """The singular value decomposition of the sum."""
        if not self._left:
            return LowRank.zeros(self._shape, self._dtype)
        weighted = partial(_side_by_side, self._weights.astype(self._dtype))
        right = np.hstack(self._right)
        if source is None:
            return LowRank.from_factors(weighted(*self._left), right)
        return source.low_rank(source.map(weighted, *self._left), right)

    def _compress(self, source: Source | None) -> None:
        compact = self.to_low_rank(source)
        self._left, self._right = [compact.u], [np.ascontiguousarray(compact.vt.T)]
        self._weights = compact.s.copy()


def _side_by_side(weights: Array, *columns: Array) -> Array:
    stacked = np.hstack(columns)
    stacked *= weights
    return stacked


@dataclass
class AtomicState:
    """An iterate of a Frank-Wolfe method.

    ``residual`` is D = P_Ω(M − L) (for plain Frank-Wolfe, P_Ω(M − L − S)), clipped at ``limit`` to give G. ``sums`` and
    ``warm`` belong to this D: ``sums.product`` is GᵀG·warm.
    """

    atoms: Atoms
    residual: Array
    left: Array
    warm: Array
    limit: float
    sums: ResidualSums
    rng: np.random.Generator
    iteration: int = 0
    t_L: float = 0.0
    t_S: float = 0.0
    lower_bound: float = 0.0
    step_size: float = float("nan")
    sparse_step_size: float = float("nan")
    surrogate_gap: float = float("nan")
    extra: dict[str, float] = field(default_factory=dict)

    def oracle_tol(self, coarse: float, objective: float) -> float:
        """How exact the oracle has to be: ``coarse`` far from the optimum, a tenth of the relative gap near it."""
        return (
            min(coarse, 0.1 * max(objective - self.lower_bound, 0.0) / objective)
            if objective > 0.0
            else coarse
        )


def start_at_zero(source: Source, rng: np.random.Generator) -> AtomicState:
    """L = S = 0: the residual is the data, nothing is clipped."""
    n = source.shape[1]
    warm = np.linalg.qr(rng.standard_normal((n, min(WARM_VECTORS, n))))[0]
    residual, left = source.allocate(n), source.allocate(1)
    move = MoveResidual(0.0, 1.0, np.zeros(n, source.dtype), inf, warm.astype(source.dtype))
    sums = source.run(move, residual, left)
    return AtomicState(Atoms(source.shape, source.dtype), residual, left, warm, inf, sums, rng)


ATOMIC_STATES = (AtomicState, Atoms, ResidualSums)


@dataclass(frozen=True)
class Atom:
    """u vᵀ for the leading singular pair of G, and its inner products on Ω with itself, L and S."""

    pair: SingularPair
    right: Array
    squared: float
    dot_l: float
    dot_s: float


def leading_atom(source: Source, state: AtomicState, tol: float, max_products: int) -> Atom:
    """Line 3 of Algorithms 3 to 6: the nuclear ball's oracle at the iterate, to a relative residual ``tol`` of GᵀG.

    The product with the warm vectors was made when D moved; each further one is a pass over D, and the last pass turns
    v into u = Gv/σ and collects the inner products. ``state.left`` holds u afterwards.
    """
    space = KrylovSpace(source.shape[1])
    space.add(state.warm, state.sums.product)
    pair = space.leading_pair()
    for _ in range(max_products):
        if pair.upper**2 - pair.value**2 <= tol * pair.value**2:
            break
        block = space.next_block(1, state.rng)
        if block is None:
            break
        task = MultiplyResidual(block.astype(source.dtype), state.limit)
        space.add(block, source.run(task, state.residual).product)
        pair = space.leading_pair()
    state.warm = np.linalg.qr(space.leading_images(WARM_VECTORS))[0]
    right = pair.right.astype(source.dtype)
    left = source.allocate(1)
    sums: AtomSums = source.run(AlignAtom(right, state.limit), state.residual, left)
    length = float(sums.values[0]) ** 0.5
    if length == 0.0:
        state.left = left
        return Atom(replace(pair, value=0.0, upper=0.0), right, 0.0, 0.0, 0.0)
    state.left = source.map(partial(_divided, length), left)
    squared, dot_l, dot_s = sums.values[1] / length**2, sums.values[2] / length, sums.values[3] / length
    return Atom(replace(pair, value=length, upper=max(pair.upper, length)), right, squared, dot_l, dot_s)


def move(source: Source, state: AtomicState, step: float, radius: float, right: Array, limit: float) -> None:
    """L ← (1 − step)·L + step·radius·u vᵀ, and the residual with it; G is clipped at ``limit`` from now on."""
    state.atoms.blend(1.0 - step, step * radius, state.left, right, source)
    task = MoveResidual(
        1.0 - step, step, (radius * right).astype(source.dtype), limit, _probes(source, state)
    )
    state.sums = source.run(task, state.residual, state.left)
    state.limit = limit
    state.iteration += 1
    state.step_size = step


def clip_at(source: Source, state: AtomicState, limit: float) -> None:
    """Leave D as it is, clip it at ``limit`` from now on, and measure it again."""
    nothing = np.zeros(source.shape[1], source.dtype)
    state.sums = source.run(
        MoveResidual(1.0, 0.0, nothing, limit, _probes(source, state)), state.residual, state.left
    )
    state.limit = limit


def move_with_entry(
    source: Source, state: AtomicState, step: float, radius: float, right: Array, row_numbers: Array,
    place: tuple[int, int], weight: float,
) -> None:  # fmt: skip
    """The same with one entry of S, which plain Frank-Wolfe keeps in the residual."""
    state.atoms.blend(1.0 - step, step * radius, state.left, right, source)
    task = MoveResidualAndEntry(
        1.0 - step, step, (radius * right).astype(source.dtype), _probes(source, state), place, weight
    )
    state.sums = source.run(task, state.residual, state.left, row_numbers)
    state.iteration += 1
    state.step_size = state.sparse_step_size = step


def _divided(length: float, left: Array) -> Array:
    quotient: Array = left / left.dtype.type(length)
    return quotient


def _probes(source: Source, state: AtomicState) -> Array:
    return state.warm.astype(source.dtype)
