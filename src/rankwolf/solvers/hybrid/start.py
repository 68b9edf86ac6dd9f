"""Where a run begins: with the factor of a sample of the rows, or at the top of the path."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from rankwolf.data import InMemory, Source
from rankwolf.oracles.nuclear import orthonormal_against
from rankwolf.problem import Problem, Share
from rankwolf.solvers.base import Start
from rankwolf.solvers.hybrid.path import advance, begin, relative_gap
from rankwolf.solvers.hybrid.settings import HybridSettings
from rankwolf.solvers.hybrid.state import HybridState
from rankwolf.solvers.hybrid.step import diagonalized


def start(
    problem: Problem, source: Source, rng: np.random.Generator, settings: HybridSettings
) -> HybridState:
    """A state with V from a rough solution on a sample of the rows; where rows are few, L = 0 at the top of the path.

    Noise of standard deviation σ in m rows and n columns has the norm σ(√m + √n). So λ_L for a sample of c rows is
    smaller by the factor (√c + √n)/(√m + √n), which keeps as much noise out of L. The singular values of L are smaller
    in the sample by √(c/m), a smaller factor: the sample's rank is at most that of the whole. V, which has the square
    roots of the singular values, is multiplied by (m/c)^¼.
    """
    most = source.workspace.most_bytes
    room = inf if most is None else most / source.dtype.itemsize
    (m, n), count = source.shape, settings.samples(source.shape, room)
    if count is None:
        return begin(problem, source, rng, settings)
    sample = InMemory(source.sample(count, rng), None, source.n_threads, transposed=False)
    share = Share(
        rows=count / m,
        noise=(count**0.5 + n**0.5) / (m**0.5 + n**0.5),
        norm=sample.summary.norm / source.summary.norm if source.summary.norm > 0.0 else 1.0,
    )
    with_probes = replace(settings, probe_share=settings.sample_probe_share)
    small = solve_roughly(problem.on_sample(share), sample, rng, with_probes)
    dtype, weights = source.dtype, problem.from_sample(small.level.weights, share)
    right = (small.right * (m / count) ** 0.25).astype(dtype)
    return HybridState.at(source, weights, right, small.basis.astype(dtype), rng)


def solve_roughly(
    problem: Problem, source: Source, rng: np.random.Generator, settings: HybridSettings
) -> HybridState:
    """The state after going down the path until the relative gap of the problem itself, by the Ritz bound, is small."""
    state = begin(problem, source, rng, settings)
    for _ in range(settings.sample_passes):
        advance(problem, source, state, settings)
        if relative_gap(problem, state) <= settings.sample_gap:
            break
    return state


def start_from(
    given: Start, problem: Problem, source: Source, rng: np.random.Generator, settings: HybridSettings
) -> HybridState:
    """The state at an earlier L.

    Its weights are one level below those at which that L was optimal, or the likely ones of this problem's optimum,
    whichever are larger. Where neither is known, ``warm_share`` stands for the former.
    """
    likely = problem.likely_price(source.shape, source.summary.norm)
    known = given.lambda_L or (0.0 if likely else settings.warm_share * source.summary.norm)
    weights = problem.top(max(known / settings.path_step, likely), max(source.shape))
    right, rotation = diagonalized(given.right)
    leading = np.linalg.qr(right)[0]
    n, r = right.shape
    count = min(max(settings.least_probes, int(settings.probe_share * r)), n - min(r, n))
    fresh = orthonormal_against(rng.standard_normal((n, count)), leading, rng)
    basis = np.hstack([leading, fresh]).astype(source.dtype)
    state = HybridState.at(source, weights, right.astype(source.dtype), basis, rng)
    if given.left is not None:
        state.rows, state.left_map = given.left, rotation.astype(source.dtype)
    return state
