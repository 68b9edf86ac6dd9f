"""The hybrid solver: the same optimum as everybody else's, from any start, downhill, proved."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import reference
from PIL import Image
from test_optimum import CASES, SLACK, instance, run, weights_optimum

import rankwolf as rw
from rankwolf.data import InMemory
from rankwolf.problem import Penalized
from rankwolf.solvers import Hybrid, Path
from rankwolf.solvers.base import WithSettings
from rankwolf.solvers.hybrid import HybridSettings, HybridState
from rankwolf.solvers.path import PathSettings, Settled, looks_exact
from rankwolf.weights.paper import paper_weights


@pytest.mark.parametrize(("solver", "name"), [(Hybrid, "momentum"), (Path, "level")])
def test_a_solver_keeps_only_what_differs_from_its_settings(solver, name):
    """A checkpoint compares ``vars(solver)``."""
    assert isinstance(solver(), WithSettings) and vars(solver()) == {"changes": {}}
    changed = solver(**{name: 0.25})
    assert vars(changed) == {"changes": {name: 0.25}}
    assert changed.settings == replace(solver().settings, **{name: 0.25}) != solver().settings
    with pytest.raises(TypeError, match="unknown"):
        solver(unknown=1)


def scene(seed, m=90, n=40, rank=3, dtype=np.float64, observed=1.0):
    M, seen = reference.corrupted(seed, m, n, rank=rank, observed=observed)
    return M.astype(dtype), seen


@pytest.mark.parametrize("case", CASES)
def test_it_agrees_with_cvxpy(case):
    M, seen, weights = instance(*case)
    fit = run(M, seen, lambdas=weights, method="hybrid", tol=1e-7, max_iter=20_000)
    best = weights_optimum(*case)
    assert fit.status is rw.Status.GAP_REACHED
    assert abs(fit.objective - best) <= SLACK * best
    assert fit.gap >= fit.objective - best - SLACK * best


@pytest.mark.parametrize("block", range(10))
def test_a_hundred_seeds_agree_with_exact_fista(block):
    for seed in range(10 * block, 10 * block + 10):
        M, _ = reference.corrupted(seed, 24, 15, rank=2, observed=1.0)
        ours = rw.decompose(M, delta=0.05, method="hybrid", tol=1e-7, max_iter=20_000, rng=seed, n_threads=1)
        theirs = rw.decompose(M, delta=0.05, method="fista", tol=1e-7, max_iter=20_000, rng=0, n_threads=1)
        assert ours.status is theirs.status is rw.Status.GAP_REACHED
        assert ours.objective == pytest.approx(theirs.objective, rel=1e-6)


@pytest.mark.parametrize("observed", [1.0, 0.5])
def test_careful_passes_never_raise_the_objective(observed):
    """Without momentum and long steps a pass minimises a majorant: each one is accepted, and none is made twice."""
    M, seen = scene(1, observed=observed)
    source = InMemory(M, seen, 1)
    problem = Penalized(*paper_weights(source, 0.02))
    solver = Hybrid(momentum=0.0, path_start=0.0)
    state = solver.init(problem, source, np.random.default_rng(0))
    objectives = []
    for _ in range(30):
        passes, state.bold = source.passes, False
        state = solver.step(problem, source, state)
        assert source.passes == passes + 1
        L = np.asarray(source.as_user_sees(source.low_rank(state.evaluated.left, state.evaluated.right)))
        S = np.where(seen, reference.soft(np.where(seen, M, 0.0) - L, problem.lambda_S), 0.0)
        objectives.append(reference.objective(M, seen, L, S, problem.pair))
        assert objectives[-1] == pytest.approx(state.evaluated.objective, rel=1e-9)
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(objectives))
    assert objectives[-1] < (1 - 1e-6) * objectives[0]


def without_noise(n, rank, corrupted, seed=0):
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n))
    hit = rng.random((n, n)) < corrupted
    return L, L + np.where(hit, rng.uniform(-10.0, 10.0, (n, n)) * np.abs(L).mean(), 0.0)


@pytest.mark.parametrize(("rank", "corrupted"), [(3, 0.1), (15, 0.05), (15, 0.1)])
def test_small_weights_are_reached_from_above_with_the_rank_from_below(rank, corrupted):
    """δ = 1e-5 from nothing: weights that fall before the point has followed would leave a rank in the hundreds."""
    L, M = without_noise(300, rank, corrupted)
    ranks = []
    fit = rw.decompose(M, delta=1e-5, rng=0, callback=lambda record: ranks.append(record.rank))
    assert fit.status is rw.Status.GAP_REACHED
    assert fit.low_rank.rank == rank
    assert max(ranks) <= 1.1 * rank
    assert np.linalg.norm(np.asarray(fit.low_rank) - L) <= 2e-4 * np.linalg.norm(L)


def test_passes_grow_with_the_logarithm_of_the_weights():
    _, M = without_noise(300, 5, 0.1)
    passes = [rw.decompose(M, delta=delta, method="hybrid", rng=0).passes for delta in (1e-3, 1e-5, 1e-7)]
    assert passes[2] <= passes[0] + 30
    assert passes[2] - passes[1] <= passes[1] - passes[0] + 5


@pytest.mark.doubts("low-rank part is zero", "iteration limit")
def test_a_run_that_ends_on_the_path_says_what_it_has():
    """A limit before the weights are reached: the pair, its objective and its gap are of the problem asked for."""
    _, M = without_noise(60, 3, 0.05)
    seen = np.ones(M.shape, bool)
    for iterations in (1, 2, 3, 5):
        fit = rw.decompose(M, delta=1e-4, method="hybrid", rng=0, max_iter=iterations)
        assert fit.status is rw.Status.ITERATION_LIMIT
        value = reference.objective(M, seen, np.asarray(fit.low_rank), np.asarray(fit.sparse), fit.lambdas)
        assert fit.objective == pytest.approx(value, rel=1e-9)
        best = rw.decompose(M, delta=1e-4, rng=0, tol=1e-6).objective
        assert fit.gap >= value - best * (1 + 1e-6)


def test_a_start_without_the_right_directions_still_ends_at_the_global_optimum():
    """V orthogonal to the data's row space, and probes too: Frank-Wolfe's directions have to be found."""
    M, _ = scene(2)
    problem, source = Penalized(4.0, 0.5), InMemory(M, None, 1)
    best = rw.decompose(M, lambdas=(4.0, 0.5), method="fista", tol=1e-8, max_iter=20_000).objective
    right = np.linalg.svd(M)[2]
    wrong, probes = right[-3:].T * 2.0, right[-11:].T
    solver, rng = Hybrid(), np.random.default_rng(0)
    state = HybridState.at(source, problem, np.ascontiguousarray(wrong), np.ascontiguousarray(probes), rng)
    for _ in range(400):
        state = solver.step(problem, source, state)
    assert state.best == pytest.approx(best, rel=1e-7)


def test_eight_digits_in_double_and_four_in_single_precision():
    M, _ = scene(3)
    assert rw.decompose(M, delta=0.02, method="hybrid", tol=1e-8, rng=0).status is rw.Status.GAP_REACHED
    single = rw.decompose(M.astype(np.float32), delta=0.02, method="hybrid", tol=1e-4, rng=0)
    assert single.status is rw.Status.GAP_REACHED
    assert single.low_rank.dtype == np.float32


def test_more_than_single_precision_can_give_is_computed_in_double():
    M, _ = scene(3, dtype=np.float32)
    fit = rw.decompose(M, delta=0.02, method="hybrid", tol=1e-12, rng=0)
    assert fit.status is rw.Status.GAP_REACHED
    assert fit.relative_gap <= 1e-12


@pytest.mark.doubts
def test_auto_takes_passes_for_large_data_and_splitting_for_small_weights():
    M, _ = scene(4, m=3000, n=300)
    assert rw.decompose(M, delta=0.02, max_iter=3).method == "hybrid"
    small, _ = scene(4)
    assert rw.decompose(small, delta=1e-6).method == "splitting"
    assert rw.decompose(small, radii=(5.0, 5.0)).method == "splitting"


def test_a_run_that_stalls_goes_on_as_splitting():
    """Small weights on a wide matrix, begun with the hybrid: its L and residual are where splitting starts."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 60)) + rng.standard_normal((400, 60))
    problem, source = Penalized(*paper_weights(InMemory(M, None, 1), 1e-4)), InMemory(M, None, 1)
    solver, generator = rw.solvers.Auto(), np.random.default_rng(0)
    state = solver.init(problem, source, generator)
    state.at_work, state.inner, state.limit = "hybrid", Hybrid().init(problem, source, generator), 5
    objectives, stages = [], []
    for _ in range(30):
        state = solver.step(problem, source, state)
        report = solver.report(problem, state)
        objectives.append(report.objective)
        stages.append(report.stage)
    assert stages == [0] * 5 + [1] * 25
    assert solver.method_name(state) == "splitting after a stall"
    assert objectives[-1] <= objectives[4] * (1 + 1e-9)


def test_the_sample_start_is_used_on_tall_data_and_ends_at_the_same_optimum():
    """With 20 columns a sample has 6553 rows, and it is worth while where that is at most two thirds of them."""
    M, seen = scene(5, m=12_000, n=20, observed=0.7)
    assert HybridSettings().samples(M.shape) is not None
    fit, again, without = (
        rw.decompose(M, observed=seen, delta=0.02, rng=seed, method=Hybrid(**settings))
        for seed, settings in ((0, {}), (7, {}), (0, {"sample_rows": np.inf}))
    )
    assert max(fit.passes, again.passes) <= 0.7 * without.passes
    for other in (again, without):
        assert fit.objective == pytest.approx(other.objective, rel=1e-3)


def test_same_seed_same_bytes_whatever_the_threads():
    M, seen = scene(6, m=4000, n=100, dtype=np.float32, observed=0.8)
    fits = [
        rw.decompose(M, observed=seen, delta=0.02, tol=1e-2, rng=3, n_threads=threads)
        for threads in (1, 2, 2)
    ]
    assert fits[0].low_rank.u.tobytes() == fits[1].low_rank.u.tobytes() == fits[2].low_rank.u.tobytes()


@pytest.mark.doubts("sparse part is zero", "iteration limit")
def test_the_state_is_small():
    """uint8 in, nothing of the matrix's size as float32 on the way: tracemalloc sees NumPy's allocations."""
    rng = np.random.default_rng(0)
    background = rng.integers(40, 200, (1, 20_000))
    frames = (background + rng.integers(0, 3, (800, 20_000))).astype(np.uint8)
    rw.decompose(frames[:50, :500], max_iter=2)
    tracemalloc.start()
    fit = rw.decompose(frames, delta=1e-3, tol=1e-2, rng=0, n_threads=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fit.low_rank.rank <= 8
    assert peak < frames.size


@pytest.mark.doubts("low-rank part is zero", "sparse part is zero")
def test_a_long_step_that_overshoots_is_taken_back():
    """One observed entry: the live share says nothing about the curvature, and the steps are far too long."""
    X = np.full((30, 20), np.nan)
    X[3, 4] = 2.0
    fit = rw.decompose(X, rng=0, tol=1e-6, method="hybrid")
    assert fit.status is rw.Status.GAP_REACHED


def test_an_interrupt_ends_a_run_between_tiles():
    code = """
    import numpy as np, rankwolf as rw
    M = np.random.default_rng(0).standard_normal((20000, 200)).astype(np.float32)
    rw.decompose(M[:100], max_iter=1)
    rw.decompose(M, delta=1e-3, tol=1e-12, max_iter=100000, callback=lambda record: print("running", flush=True))
    """
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode != 0
        assert "KeyboardInterrupt" in errors


@pytest.mark.realdata
def test_faces_in_a_dozen_passes(data_folder):
    images = [
        np.asarray(Image.open(path)).ravel() for path in sorted((data_folder / "faces/yaleB01").glob("*.pgm"))
    ]
    fit = rw.decompose(np.stack(images), delta=0.01, tol=1e-3, rng=0)
    assert fit.status is rw.Status.GAP_REACHED
    assert fit.passes <= 12
    assert fit.objective == pytest.approx(3.927e8, rel=2e-3)


@pytest.mark.parametrize(("short", "exact"), [(10.0, False), (0.1, True)])
def test_directions_of_the_size_of_the_weights_do_not_count_where_the_end_of_the_path_is_judged(short, exact):
    """Before: at 4000 x 4000, rank 200, 30 % wrong, the rank was 758 on the path, and the end was never tried."""
    before = Settled(Penalized(4.0, 0.4), 1.0, 1.0, 1.0, nonzeros=12_000)
    sums = SimpleNamespace(s_norm=1.0, g_squared=1.0, nonzeros=12_000)
    point = SimpleNamespace(weights=Penalized(1.0, 0.1), nuclear_norm=1.0, sums=sums)
    walk = SimpleNamespace(evaluated=point, observed=40_000)
    state, source = SimpleNamespace(points=[before], walk=walk), SimpleNamespace(shape=(200, 200))
    singular = np.concatenate([np.full(10, 50.0), np.full(60, short)])
    assert looks_exact(source, state, singular, PathSettings()) is exact
