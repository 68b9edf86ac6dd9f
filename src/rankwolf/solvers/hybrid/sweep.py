"""The one pass of a step: rows are fitted, and X = L + s·G is multiplied by the basis Q, tile by tile."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from rankwolf.data import Task
from rankwolf.ground.arrays import Array
from rankwolf.passes import CLIPPED_VALUES, ClippedSums, clip_tile, observed_share
from rankwolf.solvers.hybrid.settings import RowSteps

# The columns of the row-aligned array of shares: of the entries of a row, how many are observed, and live.
OBSERVED, LIVE = 0, 1


@dataclass
class HybridSums(ClippedSums):
    """The sums of one pass: those of G and S, and these with B = XQ."""

    basis_gram: Array
    """BᵀB."""
    clipped_basis: Array
    """GᵀB."""
    left_basis: Array
    """UᵀB."""
    left_gram: Array
    """UᵀU."""
    probe_gram: Array
    """(GQ)ᵀ(GQ): its eigenvalues are squared Ritz values of G."""


@dataclass(frozen=True)
class Plan:
    """What a pass starts from: V (``right``, with VᵀV diagonal), the basis Q, and how U comes from the last pass.

    With B of the last pass and U₋, the U⁺ before it, U starts as B·``start_map`` − U₋·``previous_map``; before momentum
    it is B·``left_map``. On the ``first`` pass B is the U of a given L; without one, U starts as a least-squares fit to
    V. ``row_steps`` are pairs: the clip level of a step of the rows, in units of λ_S, and the largest share of the
    whole step. ``measures_rows``: steps after the first are no longer than the curvature allows. ``bold``: rows step by
    the inverse of their live share. ``length`` is s.
    """

    right: Array
    basis: Array
    left_map: Array
    start_map: Array
    previous_map: Array
    lambda_L: float
    lambda_S: float
    row_steps: RowSteps
    measures_rows: bool
    first: bool
    bold: bool
    length: float
    least_live: float


class HybridPass(Task[HybridSums]):
    """Steps 1 and 2 of the method (:mod:`rankwolf.solvers.hybrid`).

    Rows in: B of the pass before, and the U⁺ before that; rows in and out: the observed and the live share; rows out:
    B, U before momentum, U. Cost: (4p + 2)r + 4k operations an entry for p steps of the rows, rank r and k columns in
    Q: 14r + 4k with p = 3.
    """

    def __init__(self, plan: Plan, fully_observed: bool) -> None:
        dtype = plan.basis.dtype
        self.plan, self.full = plan, fully_observed
        self.right, self.right_t, self.basis = plan.right, np.ascontiguousarray(plan.right.T), plan.basis
        self.overlap = (plan.right.T @ plan.basis).astype(dtype)
        self.squares = np.sum(np.square(plan.right, dtype=np.float64), axis=0)
        self.left_map, self.start_map, self.previous_map = (
            x.astype(dtype) for x in (plan.left_map, plan.start_map, plan.previous_map)
        )
        self.depth = plan.basis.shape[1]
        self.length = dtype.type(plan.length)

    def start(self) -> HybridSums:
        """Zeros."""
        (n, k), r = self.basis.shape, self.right.shape[1]
        shapes = (CLIPPED_VALUES,), (k, k), (n, k), (r, k), (r, r), (k, k)
        return HybridSums(*map(np.zeros, shapes))

    def visit(self, sums: HybridSums, tile: Array, *rows: Array) -> None:
        """Move the rows of U that belong to one tile, make B there, and add the sums."""
        old_basis, old_left, shares, new_basis, before, left = rows
        if self.plan.first:
            shares[:] = 1.0 if self.full else observed_share(tile)
        if self.plan.first and not self.left_map.shape[0]:
            left[...] = self._least_squares(tile, shares)
        else:
            np.matmul(old_basis, self.left_map, out=before)
            np.matmul(old_basis, self.start_map, out=left)
            if self.previous_map.size:
                left -= old_left @ self.previous_map
        clipped = self._fit_rows(tile, left, shares, sums)
        part = clipped @ self.basis
        sums.probe_gram += part.T @ part
        part *= self.length
        new_basis[...] = left @ self.overlap + part
        sums.basis_gram += new_basis.T @ new_basis
        sums.clipped_basis += clipped.T @ new_basis
        sums.left_basis += left.T @ new_basis
        sums.left_gram += left.T @ left

    def _least_squares(self, tile: Array, shares: Array) -> Array:
        """A first U: least squares without clipping, the Gram matrix of each row's observed columns taken as w·VᵀV."""
        none = np.zeros((tile.shape[0], self.right.shape[1]), self.right.dtype)
        data = clip_tile(tile, none, self.right_t, inf)
        return np.asarray(data @ self.right) * self._inverse(shares)

    def _inverse(self, shares: Array) -> Array:
        """(w·VᵀV + λ_L I)⁻¹, diagonal, for each row; w = 1 is the majorant that cannot overshoot."""
        live = shares[:, [LIVE]]
        weight = live if self.plan.bold else np.ones_like(live)
        return np.asarray(1.0 / (weight * self.squares + self.plan.lambda_L), self.right.dtype)

    def _fit_rows(self, tile: Array, left: Array, shares: Array, sums: HybridSums) -> Any:
        """The row steps of the plan, then G at the result, which is returned, and the live shares.

        A move p of a row, by the share t of the whole step, changes the descent direction from g to g⁺. This shows the
        curvature c = ⟨p, g − g⁺⟩/(t⟨p, g⟩), and the next step is at most 1/c of the whole one.
        """
        plan, dtype, limit = self.plan, self.right.dtype, self.plan.lambda_S
        inverse, nonzeros = self._inverse(shares), np.empty(tile.shape[0])
        work, descent, moved = np.empty(tile.shape, dtype), np.empty_like(left), np.empty_like(left)
        longest = reach = np.zeros((tile.shape[0], 1), dtype)
        for number, (level, most) in enumerate(plan.row_steps):
            share = most if plan.bold else min(most, 1.0)
            clipped = clip_tile(tile, left, self.right_t, level * limit, out=work)
            np.matmul(clipped, self.right, out=descent)
            descent -= dtype.type(plan.lambda_L) * left
            if number > 0 and plan.measures_rows:
                longest = _longest(share, longest, reach, reach - _row_dots(moved, descent))
            else:
                longest = np.full_like(longest, share)
            np.multiply(longest, inverse, out=moved)
            moved *= descent
            reach = _row_dots(moved, descent)
            left += moved
        clipped = clip_tile(tile, left, self.right_t, limit, sums.values, work, nonzeros)
        observed = shares[:, OBSERVED]
        shares[:, LIVE] = np.maximum(observed - nonzeros / tile.shape[1], self.plan.least_live * observed)
        return clipped


def _row_dots(a: Array, b: Array) -> Array:
    """The inner products of the rows of ``a`` with those of ``b``, as a column."""
    return np.asarray(np.einsum("ij,ij->i", a, b)[:, None])


def _longest(share: float, taken: Array, reach: Array, curved: Array) -> Array:
    """For each row, 1/c = t⟨p, g⟩/⟨p, g − g⁺⟩ = ``taken``·``reach``/``curved``, at most ``share``."""
    allowed = np.full_like(taken, share)
    np.divide(taken * reach, curved, out=allowed, where=share * curved > taken * reach)
    return allowed
