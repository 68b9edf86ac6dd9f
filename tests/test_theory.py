"""The paper's algorithms line by line, and its theorems with the constants that it proves."""

from __future__ import annotations

from functools import cache
from itertools import islice

import numpy as np
import pytest
import reference

import rankwolf as rw
from rankwolf.data import InMemory
from rankwolf.problem import Constrained, Penalized
from rankwolf.solvers import Fista, FrankWolfe, FrankWolfeProjection, FrankWolfeThresholding, Ista

SHAPES = [(40, 25, 1.0), (25, 40, 1.0), (40, 25, 0.7), (25, 40, 0.6)]
EXACT = {"oracle_tol": 1e-15, "oracle_products": 100}


class Run:
    """A solver taken step by step, its iterates as dense arrays that lie as the user's matrix does."""

    def __init__(self, solver, problem, M, seen, dtype=np.float64, seed=0):
        self.solver, self.problem = solver, problem
        self.source = InMemory(M.astype(dtype), None if seen.all() else seen, 1)
        self.state = solver.init(problem, self.source, np.random.default_rng(seed))

    def step(self):
        self.state = self.solver.step(self.problem, self.source, self.state)
        return self.solver.report(self.problem, self.state)

    def user(self, array):
        return array.T if self.source.transposed else array

    def pair(self):
        solution = self.solver.solution(self.problem, self.source, self.state)
        L = self.user(np.asarray(solution.low_rank, dtype=np.float64))
        if solution.sparse is not None:
            return L, self.user(solution.sparse.toarray())
        D = np.nan_to_num(self.source.read_user_rows(0, L.shape[0]) - L)
        return L, reference.soft(D, solution.threshold)


def close(actual, expected, tolerance=1e-9):
    scale = max(float(np.max(np.abs(expected))), 1e-12)
    return float(np.max(np.abs(np.asarray(actual) - expected))) <= tolerance * scale


def weights_and_radii(M, seen, delta=0.05):
    lambdas = reference.weights_for(M, seen, delta)
    L0 = np.where(seen, M, 0.0)
    return lambdas, (0.3 * reference.nuclear_norm(L0), 0.2 * float(np.abs(L0).sum()))


@pytest.mark.parametrize(("m", "n", "observed"), SHAPES)
@pytest.mark.parametrize("name", ["algorithm_3", "algorithm_4", "algorithm_5", "algorithm_6"])
def test_frank_wolfe_methods_follow_the_paper_line_by_line(name, m, n, observed):
    M, seen = reference.corrupted(m, m, n, observed=observed)
    lambdas, radii = weights_and_radii(M, seen)
    solver, problem = {
        "algorithm_3": (FrankWolfe(**EXACT), Constrained(*radii)),
        "algorithm_4": (FrankWolfeProjection(**EXACT), Constrained(*radii)),
        "algorithm_5": (FrankWolfe(**EXACT), Penalized(*lambdas)),
        "algorithm_6": (FrankWolfeThresholding(**EXACT), Penalized(*lambdas)),
    }[name]
    parameters = lambdas if isinstance(problem, Penalized) else radii
    run = Run(solver, problem, M, seen)
    for k, x in enumerate(islice(getattr(reference, name)(M, seen, *parameters), 35)):
        report = run.step()
        L, S = run.pair()
        assert close(L, x.L), f"L of iteration {k + 1}"
        assert close(S, x.S), f"S of iteration {k + 1}"
        expected = (
            reference.epigraph_objective(M, seen, x, lambdas)
            if isinstance(problem, Penalized)
            else reference.misfit(M, seen, x.L, x.S)
        )
        assert report.objective == pytest.approx(expected, rel=1e-10)
        assert report.step_size == pytest.approx(x.steps[0], rel=1e-8, abs=1e-12)
        if name == "algorithm_6" and np.any(x.half.S):
            assert report.sparse_step_size == pytest.approx(x.steps[1], rel=1e-6, abs=1e-9)
        if k > 0 or name != "algorithm_4":
            assert report.surrogate_gap == pytest.approx(x.surrogate_gap, rel=1e-8, abs=1e-8 * expected)
        assert report.nonzeros == np.count_nonzero(x.S)


@pytest.mark.parametrize("factors", [(1.0, 40.0), (40.0, 1.0), (8.0, 8.0)])
def test_plain_frank_wolfe_follows_the_paper_where_a_vertex_is_zero(factors):
    """Lines 5 to 14 of Algorithm 5: weights so strong that one part, or now and then both, stand still."""
    M, seen = reference.corrupted(4, 30, 20, observed=0.8)
    lambdas = reference.weights_for(M, seen, 0.05)
    lambdas = factors[0] * lambdas[0], factors[1] * lambdas[1]
    run = Run(FrankWolfe(**EXACT), Penalized(*lambdas), M, seen)
    for x in islice(reference.algorithm_5(M, seen, *lambdas), 40):
        run.step()
        L, S = run.pair()
        assert close(L, x.L, 1e-8)
        assert close(S, x.S, 1e-8)
        assert run.state.t_L == pytest.approx(x.t_L, rel=1e-9)
        assert run.state.t_S == pytest.approx(x.t_S, rel=1e-9)


@pytest.mark.parametrize("delta", [0.15, 0.25, 0.4])
def test_fw_t_follows_the_paper_where_the_oracle_says_stop(delta):
    """With strong weights ‖G‖₂ comes down to λ_L, and V_L = 0 from time to time: the other branch of line 5."""
    M, seen = reference.corrupted(3, 30, 20, observed=0.8)
    lambdas = reference.weights_for(M, seen, delta)
    run = Run(FrankWolfeThresholding(**EXACT), Penalized(*lambdas), M, seen)
    zeros, near = 0, 0
    for x in islice(reference.algorithm_6(M, seen, *lambdas), 60):
        run.step()
        L, S = run.pair()
        assert close(L, x.L, 1e-7)
        assert close(S, x.S, 1e-7)
        ratio = np.linalg.norm(reference.gradient(M, seen, x.L, x.S), 2) / lambdas[0]
        zeros, near = zeros + (ratio <= 1.0), near + (1.0 < ratio < 1.01)
    assert zeros > 0
    assert near > 0


@pytest.mark.doubts("iteration limit", "most of it is noise")
def test_after_a_rise_fista_goes_down_again_if_it_restarts():
    """Without momentum a step minimises a majorant. As printed, Algorithm 8 rises many times in a row."""
    M, seen = reference.corrupted(0, 40, 25, observed=0.6)
    rises = {}
    for restart in (True, False):
        settings = {"method": Fista(restart=restart), "tol": 0.0, "max_iter": 150, "rng": 0}
        fit = rw.decompose(M, observed=seen, delta=0.02, **settings)
        objectives = np.array([record.objective for record in fit.history])
        rises[restart] = np.diff(objectives) > 1e-12 * objectives[1:]
    assert rises[True].any()
    assert not np.any(rises[True][1:] & rises[True][:-1])
    assert np.any(rises[False][1:] & rises[False][:-1])


@pytest.mark.parametrize(("m", "n", "observed"), SHAPES)
@pytest.mark.parametrize(
    ("name", "solver"),
    [("algorithm_7", Ista()), ("algorithm_8", Fista(restart=False))],
)
def test_proximal_methods_follow_the_paper_line_by_line(name, solver, m, n, observed):
    M, seen = reference.corrupted(n, m, n, observed=observed)
    lambdas, _ = weights_and_radii(M, seen)
    run = Run(solver, Penalized(*lambdas), M, seen)
    for k, x in enumerate(islice(getattr(reference, name)(M, seen, *lambdas), 35)):
        report = run.step()
        assert close(run.pair()[0], x.L), f"L of iteration {k + 1}"
        assert close(run.user(run.state.sparse), x.S), f"S of iteration {k + 1}"
        assert report.objective == pytest.approx(reference.objective(M, seen, x.L, x.S, lambdas), rel=1e-10)
        assert report.rank == np.linalg.matrix_rank(x.L, tol=1e-9 * max(np.linalg.norm(x.L), 1e-300))


@pytest.mark.parametrize("observed", [1.0, 0.6])
@pytest.mark.parametrize(("name", "solver"), [("algorithm_7", Ista()), ("algorithm_8", Fista())])
def test_the_partial_svd_as_it_is_set_changes_nothing_that_counts(name, solver, observed):
    """A subspace is left once its values stand still: the objective is the paper's to 1e-5, at every iterate."""
    M, seen = reference.corrupted(5, 80, 60, observed=observed)
    lambdas = reference.weights_for(M, seen, 0.05)
    run = Run(solver, Penalized(*lambdas), M, seen)
    for x in islice(getattr(reference, name)(M, seen, *lambdas), 30):
        assert run.step().objective == pytest.approx(
            reference.objective(M, seen, x.L, x.S, lambdas), rel=1e-5
        )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("m", "n", "observed"), SHAPES)
def test_fw_t_descends_through_both_half_steps(m, n, observed, dtype):
    """Lemma 6, with the solver's own α, β and an inexact oracle: g(x^{k+1}) ≤ g(x^{k+½}) ≤ g(x^k)."""
    M, seen = reference.corrupted(m + n, m, n, observed=observed)
    M = M.astype(dtype).astype(np.float64)
    lambdas, _ = weights_and_radii(M, seen)
    run = Run(FrankWolfeThresholding(), Penalized(*lambdas), M, seen, dtype)
    slack = 1e-12 if dtype == np.float64 else 3e-6
    old = reference.Iterate(np.zeros(M.shape), np.zeros(M.shape))
    for k in range(80):
        V_S = reference.penalized_vertex(
            reference.gradient(M, seen, old.L, old.S), lambdas,
            (np.inf, reference.epigraph_objective(M, seen, old, lambdas) / lambdas[1]),
        )[2:] if k == 0 else (0.0, 0.0)  # fmt: skip
        report = run.step()
        L, S = run.pair()
        beta = report.sparse_step_size
        half = reference.Iterate(
            L, (1 - beta) * old.S + beta * V_S[0], run.state.t_L, (1 - beta) * old.t_S + beta * V_S[1]
        )
        new = reference.Iterate(L, S, run.state.t_L, float(np.abs(S).sum()))
        values = [reference.epigraph_objective(M, seen, x, lambdas) for x in (new, half, old)]
        assert values[0] <= values[1] * (1 + slack)
        assert values[1] <= values[2] * (1 + slack)
        assert reference.nuclear_norm(L) <= run.state.t_L * (1 + slack)
        old = new


@pytest.mark.parametrize("problem_of", ["radii", "weights"])
@pytest.mark.parametrize("observed", [1.0, 0.7])
def test_exact_line_search_is_exact(problem_of, observed):
    """``step="line-search"`` is never worse than any point of a grid on the segment, nor than 2/(k + 2)."""
    M, seen = reference.corrupted(3, 30, 20, observed=observed)
    lambdas, radii = weights_and_radii(M, seen)
    problem = Constrained(*radii) if problem_of == "radii" else Penalized(*lambdas)
    run = Run(FrankWolfe(step="line-search", **EXACT), problem, M, seen)
    start = reference.misfit(M, seen, np.zeros(M.shape), np.zeros(M.shape))
    bounds = radii if problem_of == "radii" else (start / lambdas[0], start / lambdas[1])
    prices = (0.0, 0.0) if problem_of == "radii" else lambdas
    x = reference.Iterate(np.zeros(M.shape), np.zeros(M.shape))
    for k in range(30):
        vertex = reference.penalized_vertex(reference.gradient(M, seen, x.L, x.S), prices, bounds)

        def along(gamma, x=x, v=vertex):
            point = reference.Iterate(
                (1 - gamma) * x.L + gamma * v[0], (1 - gamma) * x.S + gamma * v[2],
                (1 - gamma) * x.t_L + gamma * v[1], (1 - gamma) * x.t_S + gamma * v[3],
            )  # fmt: skip
            return point, reference.epigraph_objective(M, seen, point, prices)

        gamma = run.step().step_size
        point, value = along(gamma)
        others = [along(g)[1] for g in (0.0, 2.0 / (k + 2.0), *np.linspace(0.0, 1.0, 21))]
        others += [along(g)[1] for g in np.clip(gamma * np.array([0.9, 0.99, 1.01, 1.1]), 0.0, 1.0)]
        assert value <= min(others) * (1 + 1e-12)
        L, S = run.pair()
        assert close(L, point.L, 1e-8)
        assert close(S, point.S, 1e-8)
        x = point


def bites(bound, start, lower):
    """Whether a bound on the distance says something: whoever stays at L = S = 0 is further away than this."""
    return bound < 0.8 * (start - lower)


@cache
def constrained_instance(observed):
    """Radii so small that the bounds of the theorems are below the distance at the start, well within 120 steps."""
    M, seen = reference.corrupted(11, 30, 20, observed=observed)
    L0 = np.where(seen, M, 0.0)
    radii = 0.1 * reference.nuclear_norm(L0), 0.01 * float(np.abs(L0).sum())
    return M, seen, radii, *reference.constrained_optimum(M, seen, *radii, steps=120)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("observed", [1.0, 0.7])
@pytest.mark.parametrize("solver", [FrankWolfe, FrankWolfeProjection])
def test_radii_rate_gap_and_feasibility(solver, observed, exact):
    """Theorems 1, 2 and 3: l(x^k) − l* ≤ 16(τ_L² + τ_S²)/(k+2), min d(x^k) ≤ 48(…)/(K+2); every iterate is feasible."""
    M, seen, (tau_L, tau_S), lower, upper = constrained_instance(observed)
    assert upper - lower <= 1e-3 * upper
    run = Run(solver(**(EXACT if exact else {})), Constrained(tau_L, tau_S), M, seen)
    squares, smallest_gap = tau_L**2 + tau_S**2, np.inf
    start = last = 0.5 * float(np.sum(M[seen] ** 2))
    for k in range(1, 121):
        report = run.step()
        assert report.objective - lower <= 16.0 * squares / (k + 2)
        if k > 1:  # the report is about x^{k−1}
            assert report.surrogate_gap >= last - upper - 1e-9 * upper, "d bounds the distance to the optimum"
            smallest_gap = min(smallest_gap, report.surrogate_gap)
            assert smallest_gap <= 48.0 * squares / (k - 1 + 2)
        last = report.objective
        L, S = run.pair()
        assert reference.nuclear_norm(L) <= tau_L * (1 + 1e-10)
        assert np.abs(S).sum() <= tau_S * (1 + 1e-10)
        assert not np.any(S[~seen])
    assert bites(16.0 * squares / (k + 2), start, lower)
    assert bites(48.0 * squares / (k + 1), start, lower)


def one_part(part):
    """M of which one part has nearly everything, and weights that leave the other one at zero.

    The bounds U_L and U_S of equation (4.8) are small then, and so are the constants of the theorems.
    """
    rng = np.random.default_rng(12)
    u, v = np.linalg.qr(rng.standard_normal((12, 1)))[0], np.linalg.qr(rng.standard_normal((8, 1)))[0]
    M = 0.05 * rng.standard_normal((12, 8))
    if part == "L":
        M, lambdas = M + 10.0 * u @ v.T, (5.0, 100.0)
    else:
        M[3, 4], lambdas = 10.0, (100.0, 5.0)
    return M, np.ones(M.shape, bool), lambdas


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("part", ["L", "S"])
def test_weights_rate_of_plain_frank_wolfe(part, exact):
    """Corollary 5: g(x^k) − g* ≤ 16(U_L² + U_S²)/(k + 2)."""
    M, seen, lambdas = one_part(part)
    lower, upper, _ = reference.optimum(M, seen, lambdas)
    start = 0.5 * float(np.sum(M[seen] ** 2))
    bounds = start / lambdas[0], start / lambdas[1]
    run = Run(FrankWolfe(**(EXACT if exact else {})), Penalized(*lambdas), M, seen)
    last, constant = start, 16.0 * (bounds[0] ** 2 + bounds[1] ** 2)
    for k in range(1, 251):
        report = run.step()
        assert report.objective - lower <= constant / (k + 2)
        assert report.surrogate_gap >= last - upper - 1e-9 * upper
        last = report.objective
        L, S = run.pair()
        assert reference.nuclear_norm(L) <= run.state.t_L * (1 + 1e-10) <= bounds[0] * (1 + 1e-9)
        assert np.abs(S).sum() <= run.state.t_S * (1 + 1e-10) <= bounds[1] * (1 + 1e-9)
    assert bites(constant / (k + 2), start, lower)


def follow_fw_t(M, seen, lambdas, exact, steps=150):
    """(lower, upper, best, g(x⁰) to g(x^K), d(x⁰) to d(x^{K−1}), the longest L and S on the way)."""
    lower, upper, best = reference.optimum(M, seen, lambdas, tol=1e-7)
    start = 0.5 * float(np.sum(M[seen] ** 2))
    run = Run(FrankWolfeThresholding(**(EXACT if exact else {})), Penalized(*lambdas), M, seen)
    objectives, gaps, r_L, r_S = [start], [], 0.0, 0.0
    for _ in range(steps):
        report = run.step()
        L, S = run.pair()
        objectives.append(report.objective)
        gaps.append(report.surrogate_gap)
        r_L, r_S = max(r_L, float(np.linalg.norm(L))), max(r_S, float(np.linalg.norm(S)))
    return lower, upper, best, np.array(objectives), np.array(gaps), (r_L, r_S)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("m", "n", "observed"), SHAPES)
def test_fw_t_rate_and_bounds(m, n, observed, exact):
    """Theorem 7, and U_L ≥ t_L*, U_S ≥ t_S* along the way.

    The proof of Theorem 7 asks of r_L and r_S only that the iterates' Frobenius norms stay below them: the largest norm
    seen is a smaller constant than the paper's r*, and so a stricter test.
    """
    M, seen = reference.corrupted(13, m, n, observed=observed)
    lambda_L, lambda_S = reference.weights_for(M, seen, 0.25)
    lambdas = lambda_L, 3.0 * lambda_S
    lower, upper, best, values, d, (r_L, r_S) = follow_fw_t(M, seen, lambdas, exact)
    assert best.t_L > 0.0 and best.t_S > 0.0
    assert np.all(values[1:] / lambdas[0] >= best.t_L)
    assert np.all(values[1:] / lambdas[1] >= best.t_S)
    constant = 4 * (best.t_L + r_L) ** 2 + 4 * (best.t_S + r_S) ** 2
    assert np.all(values - lower <= constant / (np.arange(values.size) + 2))
    assert bites(constant / (values.size + 1), values[0], lower)
    assert np.all(np.diff(values) <= 1e-12 * values[:-1])
    assert np.all(d >= values[:-1] - upper - 1e-9 * upper), "d[k] belongs to x^k"


@pytest.mark.parametrize("part", ["L", "S"])
def test_fw_t_surrogate_gap(part):
    """Theorem 8: the smallest d(x^k) so far is at most 48(U_L² + U_S²)/(k + 2)."""
    M, seen, lambdas = one_part(part)
    *_, values, d, _ = follow_fw_t(M, seen, lambdas, exact=False, steps=250)
    constant = 48.0 * values[0] ** 2 * (lambdas[0] ** -2 + lambdas[1] ** -2)
    assert np.all(np.minimum.accumulate(d[1:]) <= constant / (np.arange(1, d.size) + 2))
    assert constant / (d.size + 1) < d[0], "d at L = S = 0 is larger than what the theorem allows in the end"


@pytest.mark.parametrize("solver", [FrankWolfe(), FrankWolfe(step="line-search"), FrankWolfeProjection()])
def test_radii_are_kept_in_single_precision(solver):
    M, seen = reference.corrupted(14, 60, 40, observed=0.8)
    _, (tau_L, tau_S) = weights_and_radii(M, seen)
    run = Run(solver, Constrained(tau_L, tau_S), M, seen, np.float32)
    for _ in range(60):
        run.step()
        L, S = run.pair()
        assert reference.nuclear_norm(L) <= tau_L * (1 + 1e-5)
        assert np.abs(S).sum() <= tau_S * (1 + 1e-5)
