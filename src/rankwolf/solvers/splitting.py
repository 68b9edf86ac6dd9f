"""Primal-dual splitting: every form of the problem, on entries and on measurements, by two proximal steps.

A form is min F(A[L + S]) + N(L, S): F says how A[L + S] meets the data, N what is simple. With x = (L, S) and
the dual variable y, whose image A*y pulls both parts towards the data, an iteration is

    x⁺ = prox_γN(x + γA*y)
    y⁺ = prox_σF*(y + σ(b − A[2x⁺ − x]))          σ = 1/(2γd), AA* ≼ d·I
    (x, y) ← (x, y) + 1.65·((x⁺, y⁺) − (x, y))

(Chambolle and Pock, 2011; relaxed as by Condat, 2013). Where AA* = d·I, as for entries, Fourier samples and cosines,
this is Douglas-Rachford splitting. The forms differ in the two proximal steps alone
(``Problem.threshold_L``, ``threshold_S`` and ``dual_step``):

- *N by weights*: singular values less γλ_L, entries less γλ_S. *By radii*: both parts are projected onto their balls.
  *Rows or columns* (outlier pursuit): their norms take the place of the entries.
- *F*: half the squared distance to the data (weights, radii), or distance ≤ ε (noise; pursuit with ε = 0). The data
  of an entry is an interval [low, high]: one number where it was observed, a half-line at a detection limit, the whole
  line where it is missing.
- With weights on entries S is left out: it is T_λS(P_Ω(M − L)) at every L, F becomes Huber's loss, and y⁺ is also
  projected onto |y| ≤ λ_S.

y is a dual point as it stands: it proves a lower bound (``Problem.lower_bound``) once it is scaled into the constraints
‖A*y‖₂ ≤ λ_L and |A*y| ≤ λ_S. On entries what exceeds λ_L is taken out of the long directions first.

γ trades progress in x for progress in y. It begins at ‖A*b‖₂/(2λ_L√min(m, n)), the ratio of their sizes, as A*y looks
like noise with the norm λ_L at the optimum; with S in the state at a third of that (radii: 3; noise: ‖A*b‖₂/5). It is
balanced at a few iterations, ever more rarely, so that the convergence theory for a fixed γ holds in the end. Where the
state is small the iteration is accelerated (:mod:`rankwolf.solvers.anderson`).

All of it is arithmetic of the array API (:func:`rankwolf.ground.arrays.namespace`): torch's and CuPy's arrays stay on
their device, and only numbers come to the host. Cost of an iteration: a product with A and one with A*, singular value
thresholding (an eigendecomposition of the Gram matrix of the shorter side, or from a warm subspace where that is long),
and a few passes over arrays in memory. Memory: six to ten matrices in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from rankwolf.data import Source
from rankwolf.ground.arrays import Array, inner, like, namespace, to_numpy
from rankwolf.ground.deadline import current
from rankwolf.ground.low_rank import LowRank
from rankwolf.oracles import l1
from rankwolf.oracles.l1 import magnitudes, shrunk_by
from rankwolf.oracles.nuclear import spectral_norm
from rankwolf.oracles.subspace import WarmThreshold
from rankwolf.problem import Problem
from rankwolf.solvers.anderson import Anderson
from rankwolf.solvers.base import (
    MADE_AGAIN,
    MeasuredSolution,
    Report,
    Solution,
    Solver,
    group_axis,
    proximal_L,
)
from rankwolf.solvers.data_terms import DataTerm, EntriesTerm, RotatedTerm, make_term
from rankwolf.solvers.exact_end import exact_end

RELAXATION = 1.65
# γ is balanced at these iterations, each about √2 times the last. It changes where the changes of x and y differ by
# more than the factor BALANCE, and by no more than this factor.
BALANCED_AT = (4, 8, 12, 18, 26, 36, 50, 70, 100, 140, 200, 280, 400, 560, 800)
BALANCE = 2.0
# Objective and bound are computed again after this share of the iterations so far.
LOOK_SHARE = 0.1


@dataclass(kw_only=True)
class SplittingState:
    """x = (L, S) and y before the next iteration, and the pair x⁺ that the last one found.

    ``sparse`` is None where S is left out. ``adjoint`` is A*y and ``image`` A[L + S], kept because they are linear;
    None where A changes nothing.
    """

    low_rank: Array
    sparse: Array | None
    dual: Array
    adjoint: Array | None
    image: Array | None
    gamma: float
    found: LowRank
    found_sparse: Array | None
    best_dual: Array
    shrink_L: WarmThreshold
    shrink_dual: WarmThreshold
    anderson: Anderson = field(default_factory=Anderson)
    iteration: int = 0
    next_look: int = 1
    objective: float = np.inf
    lower_bound: float = 0.0
    nonzeros: int = 0
    term: Any = field(default=None, metadata=MADE_AGAIN)


class Splitting(Solver[Problem, SplittingState]):
    """Primal-dual splitting (see the module): every form, on entries in memory and on measurements.

    ``relaxation`` is the factor of the third line of the method, between 1 and 2.

    >>> import numpy as np, rankwolf as rw
    >>> X = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> X[3, 5] += 100.0
    >>> fit = rw.decompose(X, radii=(400.0, 60.0), method=rw.solvers.Splitting())
    >>> bool(fit.low_rank.nuclear_norm <= 400.0 * (1 + 1e-12)), fit.status.name
    (True, 'GAP_REACHED')
    """

    name = "splitting"
    solves = (Problem,)
    takes = ("entries", "sparse entries", "measurements")
    states = (SplittingState, LowRank, WarmThreshold, Anderson)
    takes_start = True
    any_data_term = True

    def __init__(self, relaxation: float = RELAXATION) -> None:
        self.relaxation = relaxation

    def init(self, problem: Problem, data: Any, rng: np.random.Generator) -> SplittingState:
        """x = 0 and y = 0."""
        term = make_term(problem, data)
        zero = self._zero(term, data)
        y = 0.0 * term.distance(term.image(zero))
        back = term.adjoint(term.distance(term.image(zero)))
        size = spectral_norm(back) / term.bound
        if term.bounds is not None:
            size = spectral_norm(term.adjoint(term.distance(term.image(zero)) / term.bounds))
        without = leaves_sparse_out(problem, term)
        return SplittingState(
            low_rank=zero,
            sparse=None if without else 0.0 * zero,
            dual=y,
            adjoint=None if term.identity else 0.0 * back,
            image=None if term.identity else 0.0 * y,
            gamma=problem.first_step(size, min(data.shape), 1 if without else 2) if size > 0.0 else 1.0,
            found=LowRank(zero[:, :0], zero[0, :0], zero[:0]),
            found_sparse=None,
            best_dual=y,
            shrink_L=WarmThreshold(data.shape, rng),
            shrink_dual=WarmThreshold(data.shape, rng),
            objective=problem.objective(inner(y, y), 0.0, 0.0) if size == 0.0 else np.inf,
            term=term,
        )

    @staticmethod
    def _zero(term: DataTerm, data: Any) -> Array:
        if isinstance(term, EntriesTerm):
            return namespace(term.low).zeros_like(term.low)  # type: ignore[no-any-return]
        return data.zeros()  # type: ignore[no-any-return]

    def init_at(self, problem: Problem, data: Any, rng: np.random.Generator, start: Any) -> SplittingState:
        """At the pair (L, S), or at L with its best S, and with the residual there as y unless that is given."""
        state = self.init(problem, data, rng)
        term, axis = state.term, group_axis(problem, data)
        more: tuple[Any, ...] = ()
        if isinstance(data, Source):
            given = np.asarray(data.gather(start.left) @ start.right.T, np.float64)
            state.low_rank = given if data.device is None else like(given, data.device)
            rest = term.distance(state.low_rank)
            sparse = shrunk_by(rest, best_threshold(problem, magnitudes(rest, axis)), axis)
        else:
            state.low_rank, sparse = (data.as_state(part) for part in start[:2])
            more = start[2:]  # y and γ of a run on a part of the data
        state.sparse = None if state.sparse is None else sparse
        total = term.image(state.low_rank + sparse)
        state.dual = term.distance(total)
        if problem.most_misfit < np.inf and problem.dual_radii is not None:  # in units of the weights
            state.dual = state.dual / max(spectral_norm(term.adjoint(state.dual)), 1e-300)
        if more:
            state.gamma = more[1]
            state.dual = state.dual if more[0] is None else more[0]
        if not term.identity:
            state.image, state.adjoint = total, term.adjoint(state.dual)
        return state

    def restore(self, problem: Problem, data: Any, state: SplittingState) -> SplittingState:
        """The data term is made again."""
        state.term = make_term(problem, data)
        return state

    def step(self, problem: Problem, data: Any, state: SplittingState) -> SplittingState:
        """The three lines of the method; objective and bound at some iterations."""
        current().check()
        term, gamma, axis = state.term, state.gamma, group_axis(problem, data)
        problem = inside_of(problem, term)
        adjoint = state.dual if state.adjoint is None else state.adjoint
        image = state.image
        if image is None:
            image = state.low_rank if state.sparse is None else state.low_rank + state.sparse
        bound = term.bound if term.bounds is None else term.bounds
        sigma = 1.0 / ((1.0 if state.sparse is None else 2.0) * gamma * bound)
        # x⁺ = prox_γN(x + γA*y)
        pull = gamma * adjoint
        low_rank, state.found = proximal_L(problem, state.low_rank + pull, gamma, state.shrink_L)
        total, sparse = low_rank, None
        if state.sparse is not None:
            pull += state.sparse
            find = partial(l1.projection_threshold, magnitudes(pull, axis))
            sparse = shrunk_by(pull, problem.threshold_S(gamma, find), axis)
            total = low_rank + sparse
        state.found_sparse = sparse
        # y⁺ = prox_σF*(y + σ(b − A[2x⁺ − x]))
        new_image = term.image(total)
        ahead = 2.0 * new_image
        ahead -= image
        ahead -= state.dual / sigma
        dual = problem.dual_step(term.distance(ahead), sigma, term.curvature)
        if state.sparse is None and problem.dual_radii is not None:  # S is left out
            dual = dual - shrunk_by(dual, problem.dual_radii[1], axis)
        new_adjoint = term.adjoint(dual)
        state.iteration += 1
        if state.iteration >= state.next_look:
            state.next_look = state.iteration + max(2, int(LOOK_SHARE * state.iteration))
            self._look(problem, state, axis, (low_rank, sparse, new_image), (dual, new_adjoint))
        if state.iteration in BALANCED_AT:
            moved = _distance(low_rank, state.low_rank) ** 2
            if sparse is not None:
                moved += _distance(sparse, state.sparse) ** 2
            self._balance(state, moved**0.5, _distance(new_adjoint, adjoint))
        # (x, y) ← (x, y) + 1.65·((x⁺, y⁺) − (x, y))
        moves = [
            ("low_rank", low_rank, gamma**-0.5),
            ("dual", dual, (gamma * term.typical_bound) ** 0.5),
        ]
        if sparse is not None:
            moves.append(("sparse", sparse, gamma**-0.5))
        if not term.identity:
            moves += [("image", new_image, 0.0), ("adjoint", new_adjoint, 0.0)]
        before = [getattr(state, name) for name, _, _ in moves]
        after = [_relaxed(old, new, self.relaxation) for old, (_, new, _) in zip(before, moves, strict=True)]
        after = state.anderson.next(before, after, [scale for _, _, scale in moves])
        for (name, _, _), array in zip(moves, after, strict=True):
            setattr(state, name, array)
        return state

    def _balance(self, state: SplittingState, moved: float, turned: float) -> None:
        """Change γ where x moves much faster than A*y, or A*y than x."""
        ratio = state.gamma * max(turned, 1e-300) / max(moved, 1e-300)
        if not 1.0 / BALANCE < ratio < BALANCE:
            state.gamma *= min(max(ratio**-0.5, 1.0 / BALANCE), BALANCE)
            state.anderson.reset()

    def _look(
        self,
        problem: Problem,
        state: SplittingState,
        axis: int | None,
        pair: tuple[Array, Array | None, Array],
        dual: tuple[Array, Array],
    ) -> None:
        """Objective of the pair that would be returned, and the best lower bound of y."""
        (low_rank, sparse, image), (y, back), term = pair, dual, state.term
        xp, nuclear_norm = namespace(low_rank), state.found.nuclear_norm
        if isinstance(term, EntriesTerm):
            sizes = magnitudes(term.distance(low_rank), axis)
            theta = best_threshold(problem, sizes)
            over = xp.clip(sizes - theta, 0.0, None)
            state.nonzeros = int(xp.count_nonzero(over)) * (1 if axis is None else low_rank.shape[axis])
            within = sizes - over
            state.objective = problem.objective(inner(within, within), nuclear_norm, float(xp.sum(over)))
            y = term.allowed(y)
            if (
                problem.dual_radii is not None
            ):  # what is longer than λ_L is taken out; the rest is clipped again
                most_L, most_S = problem.dual_radii
                shorter = y - state.shrink_dual.threshold(y, most_L)[0]
                shorter = xp.where(y != 0.0, shorter, xp.zeros_like(y))
                y = term.allowed(shorter - shrunk_by(shorter, most_S, axis))
            back = y
        else:
            assert sparse is not None
            squared = term.squared(term.distance(image))
            l1_norm = float(xp.sum(magnitudes(sparse, axis)))
            value = problem.objective(squared + term.outside, nuclear_norm, l1_norm)
            excess = max(squared**0.5 - problem.most_misfit, 0.0)
            state.nonzeros = int(xp.count_nonzero(sparse))
            state.objective = value + term.dual_squared(y) ** 0.5 * excess
        dot, squared = term.dot(y), term.dual_squared(y)
        if problem.most_misfit == np.inf:  # what A misses is part of b and of y
            dot, squared = dot + term.outside, squared + term.outside
        bound = problem.lower_bound(dot, squared, spectral_norm(back), float(xp.max(magnitudes(back, axis))))
        if bound > state.lower_bound:
            state.lower_bound, state.best_dual = bound, y

    def report(self, problem: Problem, state: SplittingState) -> Report:
        """Objective, bound, rank and nonzeros at the last look."""
        return Report(
            objective=state.objective,
            lower_bound=state.lower_bound,
            rank=state.found.rank,
            nonzeros=state.nonzeros,
            step_size=state.gamma,
        )

    def solution(self, problem: Problem, data: Any, state: SplittingState) -> Any:
        """A pair that satisfies the constraints: L and the best S beside it, or for measurements S moved a little."""
        term, axis = state.term, group_axis(problem, data)
        low_rank = dense(state.found)
        if isinstance(term, EntriesTerm):
            end = self._exact(problem, data, state)
            if end is not None:
                exact, sparse = end
                return Solution(exact, 0.0, sparse=sparse, explicit=Explicit(term, state.best_dual, axis))
            rest = term.distance(low_rank)
            theta = best_threshold(problem, magnitudes(rest, axis))
            lazily = axis is None and data.limits is None and leaves_sparse_out(problem, term)
            stored = None if lazily else shrunk_by(rest, theta, axis)
            found = state.found
            if lazily and data.dtype == np.float32 and data.device is None:
                found = LowRank(found.u.astype(data.dtype), found.s, found.vt.astype(data.dtype))
            return Solution(found, theta, sparse=stored, explicit=Explicit(term, state.best_dual, axis))
        sparse = data.zeros() if state.found_sparse is None else state.found_sparse
        dual, inside = state.best_dual, inside_of(problem, term)
        if isinstance(term, RotatedTerm):
            most = inside.most_misfit
            share = 1.0 if most == np.inf else term.dual_squared(dual) ** 0.5 / max(most, 1e-300)
            dual = term.for_operator(dual, share)
        if problem.most_misfit < np.inf:
            sparse = within_misfit(inside, term, low_rank, sparse)
        return MeasuredSolution(state.found, sparse, dual)

    @staticmethod
    def _exact(problem: Problem, data: Any, state: SplittingState) -> tuple[LowRank, Array] | None:
        """The exact end of a pursuit, where there is one and it is no worse than the pair as it is."""
        term, axis, device = state.term, group_axis(problem, data), data.device
        if problem.most_misfit > 0.0 or state.found_sparse is None:
            return None
        low, high = to_numpy(term.low), to_numpy(term.high)
        seen = np.isfinite(low)
        if np.any((low != high) & (seen | np.isfinite(high))):  # limits
            return None
        u, s, vt = (to_numpy(x) for x in (state.found.u, state.found.s, state.found.vt))
        found = exact_end(
            low, seen, seen & (to_numpy(state.found_sparse) == 0.0), LowRank(u, s, vt), axis is None
        )
        if found is None:
            return None
        low_rank, sparse = found
        value = problem.objective(0.0, low_rank.nuclear_norm, float(np.sum(magnitudes(sparse, axis))))
        if value > state.objective:
            return None
        if device is not None:
            low_rank = LowRank(*(like(x, device) for x in (low_rank.u, low_rank.s, low_rank.vt)))
            sparse = like(sparse, device)
        return low_rank, sparse


# ------------------------------------------------------------ small things


@dataclass(frozen=True)
class Explicit:
    """A dual point on entries as an array, with the data term that it is a dual point of, for the judge."""

    term: EntriesTerm
    dual: Array
    axis: int | None


def leaves_sparse_out(problem: Problem, term: DataTerm) -> bool:
    """Whether S is T_λS(P_Ω(M − L)) at every L: on entries, with weights."""
    return term.identity and problem.dual_radii is not None and problem.most_misfit == np.inf


def inside_of(problem: Problem, term: DataTerm) -> Problem:
    """The problem in the range of A: what no pair can explain is taken off ε."""
    if term.outside == 0.0 or problem.most_misfit == np.inf:
        return problem
    return problem.with_misfit(max(problem.most_misfit**2 - term.outside, 0.0) ** 0.5)


def best_threshold(problem: Problem, sizes: Array) -> float:
    """θ of the best S beside an L: entries or lines of these ``sizes`` are shortened by it."""
    return problem.threshold_beside(partial(l1.projection_threshold, sizes), partial(l1.clip_level, sizes))


def dense(low_rank: LowRank) -> Array:
    """L as an array of its own library."""
    return (low_rank.u * low_rank.s) @ low_rank.vt


def _relaxed(old: Any, new: Any, factor: float) -> Any:
    step = new - old
    step *= factor
    step += old
    return step


def _distance(x: Array, y: Any) -> float:
    step = x - y
    return float(inner(step, step) ** 0.5)


def within_misfit(problem: Problem, term: DataTerm, low_rank: Array, sparse: Array) -> Array:
    """S moved by the least that brings A[L + S] within ε of the data; by conjugate gradients unless AA* = d·I."""
    for _ in range(3):
        rest = term.distance(term.image(low_rank + sparse))
        step = problem.dual_step(
            rest, 1.0 / term.bound, term.curvature
        )  # σ(e − its projection onto the ball)
        if inner(step, step) == 0.0:
            break
        if not term.exact and term.curvature is None:
            step = _normal_equations(term, step * term.bound)
        sparse = sparse + term.adjoint(step) * (1.0 + 1e-13)
    return sparse


def _normal_equations(term: DataTerm, right: Array) -> Array:
    """ν with AA*ν = ``right``, by conjugate gradients to rounding or 500 iterations."""
    solution, residual = 0.0 * right, right
    direction, size = residual, inner(right, right)
    first = size
    for _ in range(500):
        if size <= 1e-28 * first:
            break
        image = term.image(term.adjoint(direction))
        step = size / inner(direction, image)
        solution = solution + step * direction
        residual = residual - step * image
        size, before = inner(residual, residual), size
        direction = residual + (size / before) * direction
    return solution
