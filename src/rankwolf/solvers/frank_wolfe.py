"""Plain Frank-Wolfe: Algorithm 3 for radii, Algorithm 5 for weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from rankwolf.passes import FindLargest, LargestEntry
from rankwolf.problem import Constrained, Penalized, Problem
from rankwolf.solvers.atoms import (
    ATOMIC_STATES,
    Atom,
    AtomicState,
    leading_atom,
    move_with_entry,
    start_at_zero,
)
from rankwolf.solvers.base import Report, Solution, Solver
from rankwolf.sources import Array, Source


class SparseAtoms:
    """S = Σ wᵢ e_{rᵢ} e_{cᵢ}ᵀ, in a dictionary with one common scale."""

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[np.generic]) -> None:
        self.shape, self.dtype = shape, dtype
        self.entries: dict[tuple[int, int], float] = {}
        self.scale = 1.0

    def blend(self, keep: float, place: tuple[int, int], weight: float) -> None:
        """S ← keep·S + weight·e e ᵀ."""
        self.scale *= keep
        if self.scale < 1e-100:  # in time before it vanishes; 0 after a step of 1
            self.entries = {place: value * self.scale for place, value in self.entries.items() if self.scale}
            self.scale = 1.0
        if weight != 0.0:
            self.entries[place] = self.entries.get(place, 0.0) + weight / self.scale

    def to_scipy(self) -> scipy.sparse.csr_array:
        """As a CSR array."""
        places = np.array(list(self.entries), dtype=np.int64).reshape(-1, 2)
        values = (np.array(list(self.entries.values())) * self.scale).astype(self.dtype)
        matrix = scipy.sparse.csr_array(
            scipy.sparse.coo_array((values, (places[:, 0], places[:, 1])), shape=self.shape)
        )
        matrix.eliminate_zeros()
        return matrix


@dataclass
class PlainState:
    """The iterate, and the sparse part that the residual contains."""

    core: AtomicState
    sparse: SparseAtoms
    row_numbers: Array


class FrankWolfe(Solver[Problem, PlainState]):
    """Frank-Wolfe on both parts, S growing by one entry at a time: simple, and slow where S is not tiny.

    ``step``: ``"open-loop"`` is 2/(k + 2); ``"line-search"`` minimises exactly along the segment. Cost of an iteration:
    as FW-T, and one more read of D for the largest entry.
    """

    name = "fw"
    solves = (Penalized, Constrained)
    states = (PlainState, SparseAtoms, *ATOMIC_STATES)

    def __init__(self, step: str = "open-loop", oracle_tol: float = 1e-2, oracle_products: int = 20) -> None:
        if step not in ("open-loop", "line-search"):
            raise ValueError(
                f"The 'step' parameter of FrankWolfe must be 'open-loop' or 'line-search'. Got {step!r} instead."
            )
        self.step_rule, self.oracle_tol, self.oracle_products = step, oracle_tol, oracle_products

    def init(self, problem: Problem, source: Source, rng: np.random.Generator) -> PlainState:
        """Line 1: L⁰ = S⁰ = 0 (t_L = t_S = 0)."""
        return PlainState(
            start_at_zero(source, rng), SparseAtoms(source.shape, source.dtype), source.row_numbers()
        )

    def step(self, problem: Problem, source: Source, state: PlainState) -> PlainState:
        """Lines 3 to 7 of Algorithm 3, lines 3 to 17 of Algorithm 5."""
        core = state.core
        tol = core.oracle_tol(self.oracle_tol, self._objective(problem, core))
        atom = leading_atom(source, core, tol, self.oracle_products)
        entry = source.run(FindLargest(), core.residual, state.row_numbers)
        core.extra["largest_entry"] = abs(entry.value)
        V_tL, V_tS = self._vertex(problem, core, atom, entry)
        self._update_bounds(problem, core, atom, entry, V_tL, V_tS)
        gamma = 2.0 / (core.iteration + 2.0)
        if self.step_rule == "line-search":
            gamma = self._line_search(problem, source, core, atom, entry, V_tL, V_tS)
        sign = float(np.sign(entry.value))
        place = (entry.row, entry.column)
        move_with_entry(source, core, gamma, V_tL, atom.right, state.row_numbers, place, V_tS * sign)
        state.sparse.blend(1.0 - gamma, place, gamma * V_tS * sign)
        core.t_L += gamma * (V_tL - core.t_L)
        core.t_S += gamma * (V_tS - core.t_S)
        return state

    def report(self, problem: Problem, state: PlainState) -> Report:
        """l(x), or g(x) with t_L and t_S in place of the norms."""
        core = state.core
        return Report(
            self._objective(problem, core), core.lower_bound, core.atoms.count, len(state.sparse.entries),
            core.step_size, core.sparse_step_size, core.surrogate_gap,
        )  # fmt: skip

    def solution(self, problem: Problem, source: Source, state: PlainState) -> Solution:
        """Both parts from their atoms."""
        threshold = problem.lambda_S if isinstance(problem, Penalized) else state.core.extra["largest_entry"]
        return Solution(state.core.atoms.to_low_rank(source), threshold, state.sparse.to_scipy())

    @staticmethod
    def _objective(problem: Problem, core: AtomicState) -> float:
        if isinstance(problem, Penalized):
            return problem.objective(core.sums.g_squared, core.t_L, core.t_S)
        return problem.objective(core.sums.g_squared)

    @staticmethod
    def _vertex(problem: Problem, core: AtomicState, atom: Atom, entry: LargestEntry) -> tuple[float, float]:
        """Lines 3 and 4 of Algorithm 3; lines 5 to 14 of Algorithm 5 with the bounds of equation (4.8)."""
        if isinstance(problem, Constrained):
            return problem.tau_L, problem.tau_S
        half_norm = core.extra.setdefault("half_norm", 0.5 * core.sums.g_squared)  # ½‖P_Ω M‖², at L = S = 0
        U_L, U_S = half_norm / problem.lambda_L, half_norm / problem.lambda_S
        return (
            U_L if atom.pair.value > problem.lambda_L else 0.0,
            U_S if abs(entry.value) > problem.lambda_S else 0.0,
        )

    def _update_bounds(
        self, problem: Problem, core: AtomicState, atom: Atom, entry: LargestEntry, V_tL: float, V_tS: float
    ) -> None:
        """d(x) = ⟨x − v, ∇⟩, and the lower bound that it gives."""
        linear_L, linear_S = atom.pair.upper, abs(entry.value)
        weights = 0.0
        if isinstance(problem, Penalized):
            linear_L, linear_S = linear_L - problem.lambda_L, linear_S - problem.lambda_S
            weights = problem.lambda_L * core.t_L + problem.lambda_S * core.t_S
        core.surrogate_gap = weights - core.sums.g_dot_l + V_tL * linear_L + V_tS * linear_S
        core.lower_bound = max(self._objective(problem, core) - core.surrogate_gap, 0.0)

    @staticmethod
    def _line_search(
        problem: Problem, source: Source, core: AtomicState, atom: Atom, entry: LargestEntry, V_tL: float, V_tS: float
    ) -> float:  # fmt: skip
        """The exact minimiser over [0, 1] of the quadratic along v − x."""
        sign, here = float(np.sign(entry.value)), entry.observed - entry.value  # (L + S) at the entry
        atom_here = float(source.row(core.left, entry.row)[0] * atom.right[entry.column])
        v_squared = V_tL**2 * atom.squared + V_tS**2 + 2.0 * V_tL * V_tS * sign * atom_here
        v_dot_x = V_tL * atom.dot_l + V_tS * sign * here
        curvature = v_squared - 2.0 * v_dot_x + core.sums.l_squared
        slope = V_tL * atom.pair.value + V_tS * abs(entry.value) - core.sums.g_dot_l
        if isinstance(problem, Penalized):
            slope -= problem.lambda_L * (V_tL - core.t_L) + problem.lambda_S * (V_tS - core.t_S)
        return min(max(slope / curvature, 0.0), 1.0) if curvature > 0.0 else 0.0
